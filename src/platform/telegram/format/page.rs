//! Text with marks, as Telegram thinks of a message, and the HTML that says so.

use std::rc::Rc;

use crate::platform::markup::Measure;

/// What a stretch of text is. Tags are made of these at the end, which is why they are always closed and never cross.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Marks {
    /// Which quote it belongs to: two that follow each other are not one.
    pub(super) quote: Option<usize>,
    pub(super) link: Option<Rc<str>>,
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) struck: bool,
    pub(super) code: Option<Code>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Code {
    Inline,
    Block { language: Option<Rc<str>> },
}

#[derive(Debug, PartialEq)]
enum Tag<'a> {
    Quote(usize),
    Link(&'a str),
    Bold,
    Italic,
    Struck,
    Code(&'a Code),
}

/// From the outside in.
const LEVELS: usize = 6;

impl Marks {
    /// Code may stand in a quote, and in nothing else.
    fn tag(&self, level: usize) -> Option<Tag<'_>> {
        let is_text = self.code.is_none();
        match level {
            0 => self.quote.map(Tag::Quote),
            1 => self.link.as_deref().filter(|_| is_text).map(Tag::Link),
            2 => (self.bold && is_text).then_some(Tag::Bold),
            3 => (self.italic && is_text).then_some(Tag::Italic),
            4 => (self.struck && is_text).then_some(Tag::Struck),
            _ => self.code.as_ref().map(Tag::Code),
        }
    }
}

impl Tag<'_> {
    fn open(&self, out: &mut String) {
        match self {
            Tag::Quote(_) => out.push_str("<blockquote>"),
            Tag::Link(target) => {
                out.push_str("<a href=\"");
                escape(target, out);
                out.push_str("\">");
            }
            Tag::Bold => out.push_str("<b>"),
            Tag::Italic => out.push_str("<i>"),
            Tag::Struck => out.push_str("<s>"),
            Tag::Code(Code::Inline) => out.push_str("<code>"),
            Tag::Code(Code::Block { language: None }) => out.push_str("<pre>"),
            Tag::Code(Code::Block {
                language: Some(language),
            }) => {
                out.push_str("<pre><code class=\"language-");
                escape(language, out);
                out.push_str("\">");
            }
        }
    }

    fn close(&self) -> &'static str {
        match self {
            Tag::Quote(_) => "</blockquote>",
            Tag::Link(_) => "</a>",
            Tag::Bold => "</b>",
            Tag::Italic => "</i>",
            Tag::Struck => "</s>",
            Tag::Code(Code::Inline) => "</code>",
            Tag::Code(Code::Block { language: None }) => "</pre>",
            Tag::Code(Code::Block { language: Some(_) }) => "</code></pre>",
        }
    }
}

#[derive(Debug)]
struct Run {
    text: String,
    marks: Marks,
}

#[derive(Debug, Default)]
pub(super) struct Page {
    runs: Vec<Run>,
}

impl Page {
    pub(super) fn push(&mut self, text: &str, marks: Marks) {
        match self.runs.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.marks == marks => last.text.push_str(text),
            _ => self.runs.push(Run {
                text: text.to_owned(),
                marks,
            }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn is_blank(&self) -> bool {
        is_blank(&self.runs)
    }

    /// What Telegram counts: the text without tags.
    pub(super) fn length(&self) -> usize {
        self.runs
            .iter()
            .map(|run| Measure::Utf16.length(&run.text))
            .sum()
    }

    /// The quote that the text ends with.
    pub(super) fn last_quote(&self) -> Option<usize> {
        self.runs.last()?.marks.quote
    }

    pub(super) fn trim_end(&mut self) {
        while let Some(last) = self.runs.last_mut() {
            last.text.truncate(last.text.trim_end().len());
            if !last.text.is_empty() {
                return;
            }
            self.runs.pop();
        }
    }

    /// Blank lines go, indentation stays.
    pub(super) fn trim_start(&mut self) {
        let blank = self
            .runs
            .iter()
            .take_while(|run| run.text.trim().is_empty());
        self.runs.drain(..blank.count());
        if let Some(first) = self.runs.first_mut() {
            let white = first.text.len() - first.text.trim_start().len();
            let line = first.text[..white].rfind('\n').map_or(0, |at| at + 1);
            first.text.drain(..line);
        }
    }

    pub(super) fn html(&self) -> String {
        let mut out = String::new();
        write(&self.runs, 0, &mut out);
        out
    }
}

fn write(runs: &[Run], level: usize, out: &mut String) {
    if level == LEVELS {
        return runs.iter().for_each(|run| escape(&run.text, out));
    }
    for group in runs.chunk_by(|a, b| a.marks.tag(level) == b.marks.tag(level)) {
        match group[0].marks.tag(level).filter(|_| !is_blank(group)) {
            Some(tag) => {
                tag.open(out);
                write(group, level + 1, out);
                out.push_str(tag.close());
            }
            None => write(group, level + 1, out),
        }
    }
}

fn is_blank(runs: &[Run]) -> bool {
    runs.iter().all(|run| run.text.trim().is_empty())
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}
