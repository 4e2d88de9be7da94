//! Renders the Markdown of a reply as rows of a terminal, word by word while it arrives. This file handles blocks,
//! `inline` the marks within a line, and `rows` wrapping and styles.
//!
//! The text is fed one character at a time, so the result does not depend on how the text was cut into pieces.

mod inline;
mod rows;
#[cfg(test)]
mod tests;

use anstyle::Style;

use super::visible;
use inline::{CODE, Inline};
use rows::Rows;

/// The most bytes of a link, word or line start that are held back. A longer one is shown as it is.
const HELD: usize = 2000;

const PLAIN: Style = Style::new();
const FAINT: Style = Style::new().dimmed();

pub(super) struct Markdown {
    rows: Rows,
    inline: Inline,
    line: Line,
    head: Head,
    fence: Option<Fence>,
    after_blank: bool,
}

/// The state of the source line.
#[derive(Clone, Copy)]
enum Line {
    /// The kind of block depends on the next characters.
    Start,
    /// After the marker of a block, where spaces are ignored.
    Lead,
    Text,
    /// Shown as it is.
    Raw(Style),
}

/// The start of a source line. It is held back until the kind of block is known.
#[derive(Default)]
struct Head {
    quotes: usize,
    spaces: usize,
    text: String,
}

#[derive(Clone, Copy)]
struct Fence {
    marker: char,
    length: usize,
    quotes: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Block {
    Heading,
    Item,
    Table,
    Text,
}

impl Markdown {
    /// Without `colour` there are no escape sequences, and code keeps its backticks.
    pub(super) fn new(width: usize, colour: bool) -> Markdown {
        Markdown {
            rows: Rows::new(width, colour),
            inline: Inline::default(),
            line: Line::Start,
            head: Head::default(),
            fence: None,
            after_blank: false,
        }
    }

    /// Returns the text to write to the terminal now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        for c in piece.chars() {
            match c {
                '\t' => (0..4).for_each(|_| self.feed(' ')),
                '\n' => self.end_line(),
                // A model must not control the terminal. This also makes \r\n a plain line end.
                c if visible::steers(c) => {}
                c => self.feed(c),
            }
        }
        std::mem::take(&mut self.rows.out)
    }

    /// Returns the rest, with a line end if the last line has none, and resets the value.
    pub(super) fn finish(&mut self) -> String {
        let shown = !matches!(self.line, Line::Start);
        if shown || self.head.quotes > 0 || !self.head.text.is_empty() {
            self.end_line();
        }
        let rest = std::mem::take(&mut self.rows.out);
        *self = Markdown::new(self.rows.width, self.rows.colour);
        rest
    }

    /// Changes the width of the rows that are not written yet.
    pub(super) fn resize(&mut self, width: usize) {
        self.rows.resize(width);
    }

    fn feed(&mut self, c: char) {
        match self.line {
            Line::Start => self.feed_start(c),
            Line::Lead => self.feed_lead(c),
            Line::Text => self.inline.feed(c, &mut self.rows),
            Line::Raw(style) => self.rows.raw(c, style),
        }
    }

    fn feed_start(&mut self, c: char) {
        if self.head.text.is_empty() {
            match c {
                ' ' => return self.head.spaces += 1,
                '>' if self.fence.is_none_or(|f| self.head.quotes < f.quotes) => {
                    return self.head.enter_quote();
                }
                _ => self.leave_fence_of_quote(),
            }
        }
        self.head.text.push(c);
        let too_long = self.head.text.len() >= HELD;
        match self.fence {
            Some(fence) if too_long || !fence.may_be_closed_by(&self.head.text) => {
                self.start_code();
            }
            Some(_) => {}
            None => match Block::of(&self.head.text) {
                Some(block) => self.start_block(block),
                None if too_long => self.start_block(Block::Text),
                None => {}
            },
        }
    }

    /// Code may start after the marker of an item. If it were taken for text, its end would look like the start of
    /// code.
    fn feed_lead(&mut self, c: char) {
        if c == ' ' && self.head.text.is_empty() {
            return;
        }
        self.head.text.push(c);
        let text = &self.head.text;
        let may_be_fence = text.starts_with(['`', '~']) && Block::of(text).is_none();
        if !may_be_fence || text.len() >= HELD {
            self.replay_as(Line::Text);
        }
    }

    /// The end of a quote also ends the code in it.
    fn leave_fence_of_quote(&mut self) {
        self.fence = self.fence.filter(|f| f.quotes <= self.head.quotes);
    }

    fn start_block(&mut self, block: Block) {
        let (quotes, indent) = (self.head.quotes, self.head.indent());
        let base = if quotes > 0 { FAINT } else { PLAIN };
        self.inline.start_line(base);
        match block {
            Block::Heading => {
                self.rows.start(quotes, indent, indent);
                self.inline.start_line(base.bold());
                self.head.text.clear();
                self.line = Line::Lead;
            }
            Block::Item => {
                let text = std::mem::take(&mut self.head.text);
                let marker = text.trim_end().replace(['-', '*', '+'], "•");
                let hang = indent + marker.chars().count() + 1;
                self.rows.start(quotes, indent, hang);
                marker.chars().for_each(|c| self.rows.add(c, base));
                self.rows.space(base);
                self.line = Line::Lead;
            }
            Block::Table => {
                self.rows.start(quotes, 0, 0);
                self.rows.raw_spaces(indent);
                self.replay_as(Line::Raw(base));
            }
            Block::Text => {
                self.rows.start(quotes, indent, indent);
                self.replay_as(Line::Text);
            }
        }
    }

    fn start_code(&mut self) {
        self.rows.start(self.head.quotes, 0, 0);
        self.rows.raw_spaces(2 + self.head.indent());
        self.replay_as(Line::Raw(CODE));
    }

    fn replay_as(&mut self, line: Line) {
        self.line = line;
        let text = std::mem::take(&mut self.head.text);
        text.chars().for_each(|c| self.feed(c));
    }

    fn end_line(&mut self) {
        let mut is_blank = false;
        match self.line {
            Line::Start => {
                self.leave_fence_of_quote();
                let is_empty = self.head.text.is_empty();
                is_blank = is_empty && self.head.quotes == 0 && self.fence.is_none();
                self.end_start();
            }
            Line::Lead => self.end_lead(),
            Line::Text | Line::Raw(_) => {}
        }
        self.inline.end_line(&mut self.rows);
        if !(is_blank && self.after_blank) {
            self.rows.end();
        }
        self.after_blank = is_blank;
        self.head = Head::default();
        self.line = Line::Start;
    }

    /// Handles a line that ended before its kind was known. All of it is in the head.
    fn end_start(&mut self) {
        let (quotes, indent) = (self.head.quotes, self.head.indent());
        let opened = Fence::opened_by(&self.head);
        match self.fence {
            _ if self.head.text.is_empty() => self.rows.start(quotes, 0, 0),
            Some(fence) if fence.is_closed_by(&self.head.text) => {
                self.rows.start(quotes, indent, 0);
                self.show_fence(None);
            }
            Some(_) => self.start_code(),
            None if opened.is_some() => {
                self.rows.start(quotes, indent, 0);
                self.show_fence(opened);
            }
            None if is_rule(&self.head.text) => {
                self.rows.start(quotes, 0, 0);
                self.rows.rule("");
            }
            None => self.start_block(Block::Text),
        }
    }

    fn end_lead(&mut self) {
        match Fence::opened_by(&self.head) {
            Some(fence) => {
                self.rows.place_all();
                self.show_fence(Some(fence));
            }
            None => self.replay_as(Line::Text),
        }
    }

    /// Shows a thin line with the language. Without colour it shows the fence itself, because a line alone would not
    /// look like code.
    fn show_fence(&mut self, fence: Option<Fence>) {
        self.fence = fence;
        let text = self.head.text.trim_end();
        if self.rows.colour {
            self.rows.rule(text.trim_start_matches(['`', '~']).trim());
        } else {
            self.rows.write(text, FAINT);
        }
    }
}

impl Head {
    fn enter_quote(&mut self) {
        self.quotes += 1;
        self.spaces = 0;
    }

    /// The space after the marker of a quote belongs to the marker.
    fn indent(&self) -> usize {
        self.spaces.saturating_sub(usize::from(self.quotes > 0))
    }
}

impl Fence {
    fn opened_by(head: &Head) -> Option<Fence> {
        let marker = head.text.chars().next()?;
        let (length, info) = split_run(&head.text, marker);
        let opens = length >= 3 && matches!(marker, '`' | '~');
        // If more backticks follow, it is code within a line.
        (opens && (marker == '~' || !info.contains('`'))).then_some(Fence {
            marker,
            length,
            quotes: head.quotes,
        })
    }

    fn may_be_closed_by(&self, text: &str) -> bool {
        let (length, rest) = split_run(text, self.marker);
        length > 0 && rest.trim_end().is_empty()
    }

    fn is_closed_by(&self, text: &str) -> bool {
        self.may_be_closed_by(text) && split_run(text, self.marker).0 >= self.length
    }
}

impl Block {
    /// The block that starts with `head`. `None` while it is unknown, for fences and rules until the line ends.
    fn of(head: &str) -> Option<Block> {
        let first = head.chars().next()?;
        let (count, rest) = split_run(head, first);
        match first {
            '|' => Some(Block::Table),
            '#' => match rest.chars().next() {
                None if count <= 6 => None,
                Some(' ') if count <= 6 => Some(Block::Heading),
                _ => Some(Block::Text),
            },
            '-' | '*' | '+' if count == 1 && rest.starts_with(' ') => Some(Block::Item),
            '-' | '*' | '_' | '+' if rest.trim_end().is_empty() => None,
            '`' | '~' if rest.is_empty() => None,
            '`' if count >= 3 && !rest.contains('`') => None,
            '~' if count >= 3 => None,
            '0'..='9' => Block::of_number(head),
            _ => Some(Block::Text),
        }
    }

    fn of_number(head: &str) -> Option<Block> {
        let rest = head.trim_start_matches(|c: char| c.is_ascii_digit());
        match rest {
            // A longer number is more likely the end of a sentence than the number of an item.
            _ if head.len() - rest.len() > 4 => Some(Block::Text),
            "" | "." | ")" => None,
            ". " | ") " => Some(Block::Item),
            _ => Some(Block::Text),
        }
    }
}

fn is_rule(line: &str) -> bool {
    let marker = line.chars().next().unwrap_or_default();
    let (length, rest) = split_run(line, marker);
    matches!(marker, '-' | '*' | '_') && length >= 3 && rest.trim_end().is_empty()
}

/// The number of markers (of one byte) at the start, and the rest.
fn split_run(text: &str, marker: char) -> (usize, &str) {
    let rest = text.trim_start_matches(marker);
    (text.len() - rest.len(), rest)
}
