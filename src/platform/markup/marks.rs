//! Nests marks, for formats that put marks around words: Slack, WhatsApp and Discord.

use super::styled::{Run, Style, is_blank};

/// A character without width. It separates a mark from a letter, or two backticks from a third.
pub(super) const ZERO_WIDTH_SPACE: char = '\u{200b}';

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mark<'a> {
    Bold,
    Italic,
    Strikethrough,
    Code,
    Link(&'a str),
}

pub(super) const LEVELS: usize = 5;

/// The characters beside a text with a mark, on the same line and within the same outer mark.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Neighbours {
    pub(super) before: Option<char>,
    pub(super) after: Option<char>,
}

impl Neighbours {
    pub(super) fn any(self, is_so: impl Fn(char) -> bool) -> bool {
        self.before.is_some_and(&is_so) || self.after.is_some_and(&is_so)
    }
}

/// The marks of a vendor.
pub(super) trait Marks {
    /// The marks that a style has, from the outside in. That of code is the last.
    fn marks(style: &Style) -> [Option<Mark<'_>>; LEVELS];

    /// Writes text without a mark of its own.
    fn text(text: &str) -> String;

    /// Puts a mark around `text`, which has no white space at its ends. Code is still raw text, any other text is
    /// written.
    fn wrap(mark: Mark, text: &str, beside: Neighbours) -> String;
}

/// Writes one line. White space at the ends of a marked text moves outside of its marks, as vendors require.
pub(super) fn write<M: Marks>(runs: &[Run]) -> String {
    write_level::<M>(runs, 0, Neighbours::default())
}

fn write_level<M: Marks>(runs: &[Run], level: usize, beside: Neighbours) -> String {
    if level == LEVELS {
        return runs.iter().map(|run| M::text(&run.text)).collect();
    }
    let has_same_mark = |a: &Run, b: &Run| mark::<M>(a, level) == mark::<M>(b, level);
    let groups: Vec<&[Run]> = runs.chunk_by(has_same_mark).collect();
    let mut out = String::new();
    for (at, group) in groups.iter().enumerate() {
        let next = groups
            .get(at + 1)
            .and_then(|next| next[0].text.chars().next());
        let beside = Neighbours {
            before: out.chars().next_back().or(beside.before),
            after: next.or(beside.after),
        };
        match mark::<M>(&group[0], level).filter(|_| !is_blank(group)) {
            Some(Mark::Code) => {
                let code: String = group.iter().map(|run| run.text.as_str()).collect();
                push_marked::<M>(Mark::Code, &code, beside, &mut out);
            }
            Some(mark) => {
                let text = write_level::<M>(group, level + 1, Neighbours::default());
                push_marked::<M>(mark, &text, beside, &mut out);
            }
            None => out += &write_level::<M>(group, level + 1, beside),
        }
    }
    out
}

fn mark<M: Marks>(run: &Run, level: usize) -> Option<Mark<'_>> {
    M::marks(&run.style)[level]
}

fn push_marked<M: Marks>(mark: Mark, text: &str, beside: Neighbours, out: &mut String) {
    let (start, rest) = text.split_at(text.len() - text.trim_start().len());
    let (text, end) = rest.split_at(rest.trim_end().len());
    let beside = Neighbours {
        before: start.chars().next_back().or(beside.before),
        after: end.chars().next().or(beside.after),
    };
    out.push_str(start);
    out.push_str(&M::wrap(mark, text, beside));
    out.push_str(end);
}

/// Code with at most so many backticks in a row. More would end it too early, and there is no other way to write them.
pub(super) fn break_backticks(code: &str, longest: usize) -> String {
    let mut out = String::new();
    let mut row = 0;
    for c in code.chars() {
        row = if c == '`' { row + 1 } else { 0 };
        if row > longest {
            out.push(ZERO_WIDTH_SPACE);
            row = 1;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backticks_in_a_row_are_broken() {
        assert_eq!(break_backticks("a`b``c", 2), "a`b``c");
        assert_eq!(break_backticks("```` `", 2), "``\u{200b}`` `");
        assert_eq!(break_backticks("`````", 2), "``\u{200b}``\u{200b}`");
        assert_eq!(break_backticks("``", 1), "`\u{200b}`");
    }
}
