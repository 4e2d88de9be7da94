//! Builds the rows of a terminal: wraps by columns, and adds indents, bars and styles.

use std::fmt::Write;

use anstyle::Style;
use unicode_width::UnicodeWidthChar;

use super::inline::is_wide;
use super::{FAINT, HELD, PLAIN};

const NARROWEST: usize = 20;
const LONGEST_RULE: usize = 40;

/// The rows of a source line. A word is held back until its end, because only then it is known whether it fits into the
/// row. Spaces are held back until a word follows, so that no row ends with them.
pub(super) struct Rows {
    pub(super) width: usize,
    pub(super) colour: bool,
    pub(super) out: String,
    /// The present style of the terminal.
    shown: Style,
    quotes: usize,
    /// The indent of the continuation rows.
    hang: usize,
    /// The first column after bars and indent.
    start: usize,
    column: usize,
    spaces: (usize, Style),
    pub(super) word: Vec<(char, Style)>,
    word_columns: usize,
}

impl Rows {
    pub(super) fn new(width: usize, colour: bool) -> Rows {
        Rows {
            width: width.max(NARROWEST),
            colour,
            out: String::new(),
            shown: PLAIN,
            quotes: 0,
            hang: 0,
            start: 0,
            column: 0,
            spaces: (0, PLAIN),
            word: Vec::new(),
            word_columns: 0,
        }
    }

    pub(super) fn has_colour(&self) -> bool {
        self.colour
    }

    pub(super) fn resize(&mut self, width: usize) {
        self.width = width.max(NARROWEST);
        self.word_columns = 0;
        let held = std::mem::take(&mut self.word);
        held.into_iter().for_each(|(c, style)| self.add(c, style));
    }

    pub(super) fn start(&mut self, quotes: usize, indent: usize, hang: usize) {
        self.quotes = quotes;
        self.hang = hang;
        self.start_row(indent);
    }

    /// Bars and indent take at most half of the row, whatever the source says.
    fn start_row(&mut self, indent: usize) {
        let bars = self.quotes.min(self.width / 4);
        let indent = indent.min(self.width / 2 - 2 * bars);
        (0..bars).for_each(|_| self.write("│ ", FAINT));
        self.raw_spaces(indent);
        self.start = 2 * bars + indent;
        self.column = self.start;
        self.spaces = (0, PLAIN);
    }

    fn new_row(&mut self) {
        self.break_row();
        self.start_row(self.hang);
    }

    /// Closes the style, because something else may be printed between two rows.
    fn break_row(&mut self) {
        self.paint(PLAIN);
        self.out.push('\n');
    }

    pub(super) fn end(&mut self) {
        self.place_word();
        self.break_row();
        self.start = 0;
        self.column = 0;
        self.spaces = (0, PLAIN);
    }

    pub(super) fn space(&mut self, style: Style) {
        self.place_word();
        self.spaces = (self.spaces.0 + 1, style);
    }

    pub(super) fn add(&mut self, c: char, style: Style) {
        if self.may_break_before(c) || self.word.len() >= HELD {
            self.place_word();
        }
        if self.overflows_with(c) {
            if self.column > self.start {
                self.new_row();
            }
            self.spaces = (0, PLAIN);
        }
        if self.overflows_with(c) {
            self.place_word();
            self.new_row();
        }
        self.word.push((c, style));
        self.word_columns += columns(c);
    }

    fn overflows_with(&self, c: char) -> bool {
        self.column + self.spaces.0 + self.word_columns + columns(c) > self.width
    }

    /// Scripts of wide letters have no spaces between their words.
    fn may_break_before(&self, c: char) -> bool {
        let last = self.word.last();
        last.is_some_and(|(last, _)| c.is_alphanumeric() && (is_wide(c) || is_wide(*last)))
    }

    fn place_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let (count, style) = std::mem::replace(&mut self.spaces, (0, PLAIN));
        self.write(&" ".repeat(count), style);
        self.column += count + std::mem::take(&mut self.word_columns);
        let word = std::mem::take(&mut self.word);
        word.into_iter().for_each(|(c, style)| self.raw(c, style));
    }

    /// Places the held word and the spaces after it. Call it before raw text.
    pub(super) fn place_all(&mut self) {
        self.place_word();
        let (count, style) = std::mem::replace(&mut self.spaces, (0, PLAIN));
        self.write(&" ".repeat(count), style);
        self.column += count;
    }

    /// Draws a thin line with a label. A label that is longer than the line is not cut.
    pub(super) fn rule(&mut self, label: &str) {
        let room = self.width.saturating_sub(self.column).min(LONGEST_RULE);
        let start = match label {
            "" => String::new(),
            label => format!("── {label} "),
        };
        let rest = room.saturating_sub(start.chars().map(columns).sum());
        self.write(&(start + &"─".repeat(rest)), FAINT);
    }

    pub(super) fn raw_spaces(&mut self, count: usize) {
        self.write(&" ".repeat(count), PLAIN);
    }

    pub(super) fn raw(&mut self, c: char, style: Style) {
        self.paint(style);
        self.out.push(c);
    }

    pub(super) fn write(&mut self, text: &str, style: Style) {
        if !text.is_empty() {
            self.paint(style);
            self.out.push_str(text);
        }
    }

    fn paint(&mut self, style: Style) {
        if self.colour && style != self.shown {
            // Writing to a String cannot fail.
            let _ = write!(self.out, "{:#}{style}", self.shown);
            self.shown = style;
        }
    }
}

/// The columns of a character, at least as many as a terminal uses. The two selectors make the narrow character before
/// them wide. Joined emoji, which some terminals show as one, count as several.
fn columns(c: char) -> usize {
    match c {
        '\u{fe01}' | '\u{fe0f}' => 1,
        c => c.width().unwrap_or_default(),
    }
}
