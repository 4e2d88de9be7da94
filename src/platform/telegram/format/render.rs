//! From the events of the parser to text with marks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::link::Link;
use super::page::{Code, Marks, Page};
use super::table::Table;

/// Deeper lists are not indented any further: there the indentation would outgrow the text.
const DEEPEST: usize = 8;

const RULE: &str = "———";

pub(super) fn page(markdown: &str) -> Page {
    let mut page = Renderer::new(markdown).render();
    if page.is_blank() || page.length() > super::longest_of(markdown) {
        page = Page::default();
        page.push(markdown, Marks::default());
        page.trim_start();
        page.trim_end();
    }
    page
}

#[derive(Default)]
struct Renderer<'a> {
    source: &'a str,
    page: Page,
    /// Whether the line has begun; else it begins with the next text, behind `gap` line ends.
    in_line: bool,
    gap: usize,
    lists: Vec<List>,
    /// The marker of an item that has no text yet.
    marker: Option<String>,
    quote: Option<Quote>,
    quotes: usize,
    bold: usize,
    italic: usize,
    struck: usize,
    link: Option<Link>,
    links_within: usize,
    /// Code or raw HTML, which is shown as it is when it is complete.
    literal: Option<String>,
    language: Option<Rc<str>>,
    table: Option<Table<'a>>,
}

struct List {
    next_number: Option<u64>,
}

/// Telegram has no quotes within quotes: only the outermost counts.
struct Quote {
    id: usize,
    depth: usize,
    /// How many lists it stands in.
    lists: usize,
}

impl<'a> Renderer<'a> {
    fn new(source: &'a str) -> Renderer<'a> {
        Renderer {
            source,
            ..Renderer::default()
        }
    }

    fn render(mut self) -> Page {
        let options =
            Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
        let mut events = Parser::new_ext(self.source, options).into_offset_iter();
        let definitions = events.reference_definitions().iter();
        let mut unused: BTreeMap<usize, Range<usize>> = definitions
            .map(|(_, definition)| (definition.span.start, definition.span.clone()))
            .collect();
        while let Some((event, range)) = events.next() {
            if let Event::Start(Tag::Link { id, .. } | Tag::Image { id, .. }) = &event
                && let Some(definition) = events.reference_definitions().get(id)
            {
                unused.remove(&definition.span.start);
            }
            self.show(event, range);
        }
        self.show_definitions(unused.into_values());
        self.page.trim_start();
        self.page.trim_end();
        self.page
    }

    fn show(&mut self, event: Event<'a>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Code(text) => self.code(&text),
            Event::SoftBreak | Event::HardBreak => self.text("\n"),
            Event::Rule => {
                self.break_block();
                self.text(RULE);
                self.break_block();
            }
            Event::TaskListMarker(is_done) => self.mark_task(if is_done { "☑" } else { "☐" }),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
        }
    }

    fn start(&mut self, tag: Tag<'a>, range: Range<usize>) {
        match tag {
            // Where there are paragraphs within a list, the source has blank lines there.
            Tag::Paragraph => self.break_lines(2),
            Tag::Heading { .. } => {
                self.break_block();
                self.bold += 1;
            }
            Tag::BlockQuote(_) => self.start_quote(),
            Tag::CodeBlock(kind) => {
                self.break_block();
                self.literal = Some(String::new());
                self.language = language(&kind);
            }
            Tag::HtmlBlock => {
                self.break_block();
                self.literal = Some(String::new());
            }
            Tag::List(next_number) => {
                self.show_marker();
                self.break_block();
                self.lists.push(List { next_number });
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => {
                self.break_block();
                self.table = Some(Table::new(alignments, &self.source[range]));
            }
            Tag::TableHead | Tag::TableRow => {
                self.table.iter_mut().for_each(Table::start_row);
            }
            Tag::TableCell => self.table.iter_mut().for_each(Table::start_cell),
            Tag::Emphasis => self.italic += 1,
            Tag::Strong => self.bold += 1,
            Tag::Strikethrough => self.struck += 1,
            Tag::Link {
                link_type,
                dest_url,
                ..
            }
            | Tag::Image {
                link_type,
                dest_url,
                ..
            } => self.start_link(link_type, &dest_url),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.break_block(),
            TagEnd::Heading(_) => {
                self.bold -= 1;
                self.break_block();
            }
            TagEnd::BlockQuote(_) => self.end_quote(),
            TagEnd::CodeBlock => {
                let code = self.literal.take().unwrap_or_default();
                let language = self.language.take();
                self.block_of_code(&code, language);
            }
            TagEnd::HtmlBlock => {
                let html = self.literal.take().unwrap_or_default();
                self.text(without_blank_ends(&html));
                self.break_block();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.break_block();
            }
            TagEnd::Item => {
                self.show_marker();
                self.break_lines(1);
            }
            TagEnd::Table => {
                let text = self.table.take().map(|table| table.text());
                self.block_of_code(&text.unwrap_or_default(), None);
            }
            TagEnd::Emphasis => self.italic -= 1,
            TagEnd::Strong => self.bold -= 1,
            TagEnd::Strikethrough => self.struck -= 1,
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn marks(&self) -> Marks {
        let link = self.link.as_ref().filter(|link| link.opens);
        Marks {
            quote: self.quote.as_ref().map(|quote| quote.id),
            link: link.map(|link| link.target.clone()),
            bold: self.bold > 0,
            italic: self.italic > 0,
            struck: self.struck > 0,
            code: None,
        }
    }

    fn marks_of_block(&self) -> Marks {
        Marks {
            quote: self.quote.as_ref().map(|quote| quote.id),
            ..Marks::default()
        }
    }

    fn text(&mut self, text: &str) {
        self.marked(text, self.marks());
    }

    /// A link is worth more than the look of code, and Telegram has no both.
    fn code(&mut self, text: &str) {
        let mut marks = self.marks();
        if marks.link.is_none() {
            marks.code = Some(Code::Inline);
        }
        self.marked(text, marks);
    }

    fn marked(&mut self, text: &str, marks: Marks) {
        if let Some(link) = &mut self.link {
            link.label.push_str(text);
        }
        if let Some(literal) = &mut self.literal {
            literal.push_str(text);
        } else if let Some(table) = &mut self.table {
            table.push(text);
        } else if !text.is_empty() {
            self.begin_line();
            let line_end = format!("\n{}", indentation(self.levels()));
            self.page.push(&text.replace('\n', &line_end), marks);
        }
    }

    /// Code is not indented, as it is there to be copied.
    fn block_of_code(&mut self, text: &str, language: Option<Rc<str>>) {
        let text = without_blank_ends(text);
        if !text.is_empty() {
            self.show_marker();
            self.end_lines();
            let marks = Marks {
                code: Some(Code::Block { language }),
                ..self.marks_of_block()
            };
            self.page.push(text, marks);
            self.in_line = true;
        }
        self.break_block();
    }

    fn break_block(&mut self) {
        self.break_lines(if self.lists.is_empty() { 2 } else { 1 });
    }

    fn break_lines(&mut self, lines: usize) {
        self.in_line = false;
        self.gap = self.gap.max(lines);
    }

    /// The line ends that were asked for. They belong to a quote only if it goes on behind them.
    fn end_lines(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if !self.page.is_empty() {
            let mut marks = self.marks_of_block();
            marks.quote = marks
                .quote
                .filter(|_| marks.quote == self.page.last_quote());
            self.page.push(&"\n".repeat(gap), marks);
        }
    }

    fn begin_line(&mut self) {
        if self.in_line {
            return;
        }
        self.end_lines();
        let lead = match self.marker.take() {
            Some(marker) => format!("{}{marker} ", indentation(self.levels().saturating_sub(1))),
            None => indentation(self.levels()),
        };
        self.page.push(&lead, self.marks_of_block());
        self.in_line = true;
    }

    fn levels(&self) -> usize {
        let outside = self.quote.as_ref().map_or(0, |quote| quote.lists);
        self.lists.len() - outside
    }

    /// A marker whose item begins with no text has a line of its own.
    fn show_marker(&mut self) {
        if self.marker.is_some() {
            self.begin_line();
            self.page.trim_end();
            self.break_lines(1);
        }
    }

    fn start_item(&mut self) {
        self.break_lines(1);
        let depth = self.levels();
        let Some(list) = self.lists.last_mut() else {
            return;
        };
        self.marker = Some(match &mut list.next_number {
            Some(number) => {
                let marker = format!("{number}.");
                *number = number.saturating_add(1);
                marker
            }
            None if depth % 2 == 1 => "•".to_owned(),
            None => "◦".to_owned(),
        });
    }

    fn mark_task(&mut self, mark: &str) {
        self.marker = match self.marker.take() {
            Some(number) if number.ends_with('.') => Some(format!("{number} {mark}")),
            _ => Some(mark.to_owned()),
        };
    }

    fn start_quote(&mut self) {
        self.show_marker();
        self.break_block();
        match &mut self.quote {
            Some(quote) => quote.depth += 1,
            None => {
                self.quotes += 1;
                self.quote = Some(Quote {
                    id: self.quotes,
                    depth: 1,
                    lists: self.lists.len(),
                });
            }
        }
    }

    fn end_quote(&mut self) {
        if let Some(quote) = &mut self.quote {
            quote.depth -= 1;
            if quote.depth == 0 {
                self.quote = None;
            }
        }
        self.break_block();
    }

    /// An image that is a link, or the other way round, leads where the outer one does.
    fn start_link(&mut self, kind: LinkType, target: &str) {
        if self.link.is_some() {
            self.links_within += 1;
            return;
        }
        self.link = Some(Link::new(kind, target, self.table.is_none()));
    }

    fn end_link(&mut self) {
        if self.links_within > 0 {
            self.links_within -= 1;
            return;
        }
        if let Some(missing) = self.link.as_ref().and_then(Link::missing) {
            self.text(&missing);
        }
        self.link = None;
    }

    /// Definitions that no link uses may be those of links in an earlier piece.
    fn show_definitions(&mut self, spans: impl Iterator<Item = Range<usize>>) {
        self.break_lines(2);
        for span in spans {
            self.text(self.source[span].trim());
            self.break_lines(1);
        }
    }
}

fn indentation(levels: usize) -> String {
    "  ".repeat(levels.min(DEEPEST))
}

fn without_blank_ends(text: &str) -> &str {
    let text = text.trim_end();
    let white = text.len() - text.trim_start().len();
    let first_line = text[..white].rfind('\n').map_or(0, |at| at + 1);
    &text[first_line..]
}

/// The first word behind the fence, unless it is no name of a language.
fn language(kind: &CodeBlockKind) -> Option<Rc<str>> {
    let CodeBlockKind::Fenced(info) = kind else {
        return None;
    };
    let is_part = |c: char| c.is_alphanumeric() || "+-#._".contains(c);
    let word: &str = info.split(|c| !is_part(c)).next().unwrap_or_default();
    (!word.is_empty()).then(|| word.into())
}
