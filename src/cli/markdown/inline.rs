//! Renders the marks within a line of Markdown: bold, italic, strikethrough, code, links, escapes. The parent module
//! decides about blocks, and `rows` about wrapping.
//!
//! Words are shown while they arrive, so a mark takes effect before its end is seen. Only two things are held back: a
//! run of markers until the next character, and a link until its bracket closes.

use anstyle::{AnsiColor, Color, Effects, Style};

use super::HELD;
use super::rows::Rows;

pub(super) const CODE: Style = AnsiColor::Cyan.on_default();

/// The effects that a run of markers turns on, and an equal run turns off.
const BOLD: usize = 0;
const ITALIC: usize = 1;
const STRUCK: usize = 2;
const EFFECTS: [Effects; 3] = [Effects::BOLD, Effects::ITALIC, Effects::STRIKETHROUGH];

#[derive(Default)]
pub(super) struct Inline {
    base: Style,
    /// For each effect, the marker that turned it on. Only the same marker turns it off.
    opened: [Option<char>; 3],
    /// The number of backticks that opened the code. Zero outside of code.
    code: usize,
    /// Equal markers in a row. Their meaning depends on the next character.
    run: Option<(char, usize)>,
    escaped: bool,
    link: Option<Link>,
    previous: Option<char>,
}

impl Inline {
    pub(super) fn start_line(&mut self, base: Style) {
        *self = Inline {
            base,
            ..Inline::default()
        };
    }

    pub(super) fn feed(&mut self, c: char, rows: &mut Rows) {
        let Some(mut link) = self.link.take() else {
            return self.text(c, true, rows);
        };
        match link.feed(c) {
            Progress::Open => self.link = Some(link),
            Progress::Closed => self.show_link(&link, rows),
            Progress::NoLink => {
                self.show_as_text(&link.raw, rows);
                self.text(c, true, rows);
            }
        }
    }

    /// Ends all marks. No mark continues on the next source line.
    pub(super) fn end_line(&mut self, rows: &mut Rows) {
        if let Some(link) = self.link.take() {
            self.show_as_text(&link.raw, rows);
        }
        if self.escaped {
            self.show('\\', rows);
        }
        self.settle_run(None, rows);
        self.start_line(Style::new());
    }

    fn text(&mut self, c: char, links: bool, rows: &mut Rows) {
        if std::mem::take(&mut self.escaped) {
            if c.is_ascii_punctuation() {
                return self.show(c, rows);
            }
            self.show('\\', rows);
        }
        match &mut self.run {
            Some((marker, count)) if *marker == c => return *count += 1,
            _ => self.settle_run(Some(c), rows),
        }
        match c {
            '`' => self.run = Some((c, 1)),
            _ if self.code > 0 => self.show(c, rows),
            '*' | '_' | '~' => self.run = Some((c, 1)),
            '\\' => self.escaped = true,
            '[' if links => self.link = Some(Link::default()),
            _ => self.show(c, rows),
        }
    }

    fn show(&mut self, c: char, rows: &mut Rows) {
        let style = self.style();
        match c {
            ' ' => rows.space(style),
            _ => rows.add(c, style),
        }
        self.previous = Some(c);
    }

    fn show_times(&mut self, c: char, count: usize, rows: &mut Rows) {
        (0..count).for_each(|_| self.show(c, rows));
    }

    fn style(&self) -> Style {
        if self.code > 0 {
            return self.base.fg_color(Some(Color::Ansi(AnsiColor::Cyan)));
        }
        let open = EFFECTS.iter().zip(self.opened);
        open.filter(|(_, marker)| marker.is_some())
            .fold(self.base, |style, (effect, _)| style | *effect)
    }

    fn settle_run(&mut self, next: Option<char>, rows: &mut Rows) {
        let Some((marker, count)) = self.run.take() else {
            return;
        };
        match (marker, count) {
            ('`', _) => self.toggle_code(count, next, rows),
            ('~', 2) => self.toggle(&[STRUCK], marker, next, rows),
            ('*' | '_', 1) => self.toggle(&[ITALIC], marker, next, rows),
            ('*' | '_', 2) => self.toggle(&[BOLD], marker, next, rows),
            ('*' | '_', 3) => self.toggle(&[BOLD, ITALIC], marker, next, rows),
            _ => self.show_times(marker, count, rows),
        }
        self.previous = Some(marker);
    }

    /// Without colour the backticks are shown, because nothing else marks the code.
    fn toggle_code(&mut self, count: usize, next: Option<char>, rows: &mut Rows) {
        let opens = self.code == 0 && next.is_some();
        let closes = self.code == count;
        if closes {
            self.code = 0;
        }
        if !rows.has_colour() || !(opens || closes) {
            self.show_times('`', count, rows);
        }
        if opens {
            self.code = count;
        }
    }

    fn toggle(&mut self, effects: &[usize], marker: char, next: Option<char>, rows: &mut Rows) {
        let before = self.previous;
        for &effect in effects {
            if self.opened[effect] == Some(marker) && closes(marker, before, next) {
                self.opened[effect] = None;
            } else if self.opened[effect].is_none() && opens(effect, before, next) {
                self.opened[effect] = Some(marker);
            } else {
                self.show_times(marker, if effect == ITALIC { 1 } else { 2 }, rows);
            }
        }
    }

    /// Shows text that turned out to be no link. It may contain other marks. It is not searched for links again, which
    /// would take quadratic time.
    fn show_as_text(&mut self, raw: &str, rows: &mut Rows) {
        raw.chars().for_each(|c| self.text(c, false, rows));
    }

    fn show_link(&mut self, link: &Link, rows: &mut Rows) {
        let Some((label, url)) = link.parts() else {
            return self.show_as_text(&link.raw, rows);
        };
        if label.is_empty() || label == url {
            return url.chars().for_each(|c| self.show(c, rows));
        }
        self.show_as_text(label, rows);
        self.settle_run(Some(']'), rows);
        let target = format!(" ({url})");
        target.chars().for_each(|c| self.show(c, rows));
    }
}

/// A character after a letter or within a path is no marker (`2*3`, `snake_case`, `a/_b`). Nor is one that begins a
/// pattern or list (`*.rs`, `**/x`, `f(*, a)`). An opening marker is not shown, so a wrong guess would lose it. Scripts
/// without spaces, which have wide letters, do have markers after letters.
fn opens(effect: usize, before: Option<char>, next: Option<char>) -> bool {
    let in_word = before.is_some_and(|c| c == '/' || c.is_alphanumeric() && !is_wide(c));
    let fits_behind = |c: char| match c {
        ',' | '/' | ')' => false,
        '.' => effect == BOLD,
        c => !c.is_whitespace(),
    };
    !in_word && next.is_some_and(fits_behind)
}

fn closes(marker: char, before: Option<char>, next: Option<char>) -> bool {
    let in_word = marker == '_' && next.is_some_and(|c| c.is_alphanumeric() && !is_wide(c));
    !in_word && before.is_some_and(|c| !c.is_whitespace())
}

pub(super) fn is_wide(c: char) -> bool {
    unicode_width::UnicodeWidthChar::width(c) == Some(2)
}

/// A possible link, until its end is known.
struct Link {
    raw: String,
    /// The position of the bracket after the label.
    label_end: Option<usize>,
    depth: usize,
    escaped: bool,
}

enum Progress {
    Open,
    Closed,
    NoLink,
}

impl Default for Link {
    fn default() -> Link {
        Link {
            raw: "[".to_owned(),
            label_end: None,
            depth: 1,
            escaped: false,
        }
    }
}

impl Link {
    /// Consumes `c`, unless it shows that this is no link.
    fn feed(&mut self, c: char) -> Progress {
        let at = self.raw.len();
        let after_label = self.label_end.is_some_and(|end| end + 1 == at);
        if at >= HELD || after_label && c != '(' {
            return Progress::NoLink;
        }
        self.raw.push(c);
        if std::mem::take(&mut self.escaped) {
            return Progress::Open;
        }
        match (c, self.label_end) {
            ('\\', _) => self.escaped = true,
            ('[', None) | ('(', Some(_)) => self.depth += 1,
            (']', None) | (')', Some(_)) => self.depth -= 1,
            _ => {}
        }
        match (self.depth, self.label_end) {
            (0, None) => self.label_end = Some(at),
            (0, Some(_)) => return Progress::Closed,
            _ => {}
        }
        Progress::Open
    }

    /// The label and the address without its title. `None` if the parentheses contain something else.
    fn parts(&self) -> Option<(&str, &str)> {
        let (label, target) = self.raw.split_at(self.label_end?);
        let label = label.strip_prefix('[')?;
        let target = target.strip_prefix("](")?.strip_suffix(')')?.trim();
        let (url, title) = target.split_once(' ').unwrap_or((target, "\""));
        let url = url.trim_start_matches('<').trim_end_matches('>');
        let is_link = !url.is_empty() && title.trim_start().starts_with(['"', '\'', '(']);
        is_link.then_some((label, url))
    }
}
