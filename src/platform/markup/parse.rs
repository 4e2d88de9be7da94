//! Parses Markdown into styled text.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::styled::{Code, Link, LinkPart, Runs, Style, StyledText};
use super::table::Table;

/// Deeper lists get no more indentation and deeper quotes no numbers. Both would outgrow the text.
const DEEPEST: usize = 8;

const RULE: &str = "———";

/// Parses Markdown, complete or not. Images are links. Raw HTML is text.
pub fn parse(markdown: &str) -> StyledText {
    StyledText {
        source: markdown.to_owned(),
        runs: Layout::new(markdown).read(),
    }
}

/// Lays the events of the parser out as text.
#[derive(Default)]
struct Layout<'a> {
    source: &'a str,
    runs: Runs,
    /// Whether the line has text. The first text of a line comes after `gap` line ends.
    in_line: bool,
    gap: usize,
    lists: Vec<List>,
    /// The marker of an item that has no text yet.
    marker: Option<String>,
    quotes: Vec<Quote>,
    quotes_so_far: usize,
    heading: Option<u8>,
    bold: usize,
    italic: usize,
    strikethrough: usize,
    link: Option<OpenLink>,
    links_within: usize,
    links_so_far: usize,
    /// Code or raw HTML, which becomes text when it is complete.
    literal: Option<String>,
    language: Option<Arc<str>>,
    table: Option<Table<'a>>,
}

struct List {
    next_number: Option<u64>,
}

struct Quote {
    number: usize,
    /// How many lists it is in.
    lists: usize,
}

struct OpenLink {
    number: usize,
    target: Arc<str>,
    /// The text so far.
    label: String,
}

impl<'a> Layout<'a> {
    fn new(source: &'a str) -> Layout<'a> {
        Layout {
            source,
            ..Layout::default()
        }
    }

    fn read(mut self) -> Runs {
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
        self.runs
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
            // A list with paragraphs has blank lines between its items.
            Tag::Paragraph => self.break_lines(2),
            Tag::Heading { level, .. } => {
                self.break_block();
                self.heading = Some(level as u8);
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
            Tag::Strikethrough => self.strikethrough += 1,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.start_link(&dest_url),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.break_block(),
            TagEnd::Heading(_) => {
                self.heading = None;
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
            TagEnd::Strikethrough => self.strikethrough -= 1,
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn style(&self) -> Style {
        Style {
            link: self.link.as_ref().map(|link| Link {
                number: link.number,
                target: link.target.clone(),
                part: LinkPart::Label,
            }),
            heading: self.heading,
            bold: self.bold > 0,
            italic: self.italic > 0,
            strikethrough: self.strikethrough > 0,
            ..self.style_of_block()
        }
    }

    fn style_of_block(&self) -> Style {
        let quotes = self.quotes.iter().take(DEEPEST);
        Style {
            quotes: quotes.map(|quote| quote.number).collect(),
            ..Style::default()
        }
    }

    fn text(&mut self, text: &str) {
        self.push_text(text, self.style());
    }

    fn code(&mut self, text: &str) {
        let style = Style {
            code: Some(Code::Inline),
            ..self.style()
        };
        self.push_text(text, style);
    }

    fn push_text(&mut self, text: &str, style: Style) {
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
            self.runs.push(&text.replace('\n', &line_end), style);
        }
    }

    /// Code is not indented, so that you can copy it.
    fn block_of_code(&mut self, text: &str, language: Option<Arc<str>>) {
        let text = without_blank_ends(text);
        if !text.is_empty() {
            self.show_marker();
            self.end_lines();
            let style = Style {
                code: Some(Code::Block { language }),
                ..self.style_of_block()
            };
            self.runs.push(text, style);
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

    /// Writes the pending line ends. They belong to the quotes that continue after them.
    fn end_lines(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        let mut style = self.style_of_block();
        if let Some(last) = self.runs.0.last() {
            let pairs = style.quotes.iter().zip(&last.style.quotes);
            let common = pairs.take_while(|(a, b)| a == b).count();
            style.quotes.truncate(common);
            self.runs.push(&"\n".repeat(gap), style);
        }
    }

    fn begin_line(&mut self) {
        if self.in_line {
            return;
        }
        self.end_lines();
        let style = self.style_of_block();
        match self.marker.take() {
            Some(marker) => {
                let lead = indentation(self.levels().saturating_sub(1));
                self.runs.push(&lead, style.clone());
                let style = Style {
                    list_marker: true,
                    ..style
                };
                self.runs.push(&format!("{marker} "), style);
            }
            None => self.runs.push(&indentation(self.levels()), style),
        }
        self.in_line = true;
    }

    /// The number of lists within the outermost quote.
    fn levels(&self) -> usize {
        let outside = self.quotes.first().map_or(0, |quote| quote.lists);
        self.lists.len() - outside
    }

    /// A marker whose item begins with no text has a line of its own.
    fn show_marker(&mut self) {
        if self.marker.is_some() {
            self.begin_line();
            self.runs.trim_end();
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
        self.quotes_so_far += 1;
        self.quotes.push(Quote {
            number: self.quotes_so_far,
            lists: self.lists.len(),
        });
    }

    fn end_quote(&mut self) {
        self.quotes.pop();
        self.break_block();
    }

    /// If a link contains an image, or an image a link, the outer one gives the target.
    fn start_link(&mut self, target: &str) {
        if self.link.is_some() {
            self.links_within += 1;
            return;
        }
        self.links_so_far += 1;
        self.link = Some(OpenLink {
            number: self.links_so_far,
            target: target.into(),
            label: String::new(),
        });
    }

    fn end_link(&mut self) {
        if self.links_within > 0 {
            self.links_within -= 1;
            return;
        }
        let style = self.style();
        let Some(link) = &self.link else { return };
        let target = link.target.clone();
        let label = link.label.trim();
        let is_shown = label == &*target || target.strip_prefix("mailto:") == Some(label);
        if label.is_empty() {
            self.push_text(&target, style);
        } else if !is_shown && !target.is_empty() {
            let link = style.link.map(|link| Link {
                part: LinkPart::Address,
                ..link
            });
            self.push_text(&format!(" ({target})"), Style { link, ..style });
        }
        self.link = None;
    }

    /// Shows definitions that no link uses, since links in an earlier piece may use them.
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

/// The first word after the fence, if it can be the name of a language.
fn language(kind: &CodeBlockKind) -> Option<Arc<str>> {
    let CodeBlockKind::Fenced(info) = kind else {
        return None;
    };
    let is_part = |c: char| c.is_alphanumeric() || "+-#._".contains(c);
    let word: &str = info.split(|c| !is_part(c)).next().unwrap_or_default();
    (!word.is_empty()).then(|| word.into())
}
