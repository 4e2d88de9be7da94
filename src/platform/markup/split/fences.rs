//! Finds where code begins and ends, so that a cut knows whether it goes through code. Reads each line as a Markdown
//! parser of the piece does.

use super::Limit;

/// Code that a piece leaves open. Its strings are slices of the source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fence<'a> {
    /// The line that reopens it, without the language if that is too long to be repeated.
    pub(super) opening: &'a str,
    marks: &'a str,
    /// The indentation of the line that closes it.
    indent: usize,
    /// The additional indentation of the source's lines, compared to those of the piece.
    pub(super) surplus: usize,
}

impl<'a> Fence<'a> {
    /// Marks longer than an eighth of a piece are no fence, because they would leave no room for the code.
    fn opened_by(line: &'a str, limit: Limit) -> Option<Fence<'a>> {
        let text = line.trim_start_matches(' ');
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = text.trim_start_matches(mark);
        let marks = &text[..text.len() - info.len()];
        // If more backticks follow, it is code within a line.
        let is_within_line = mark == '`' && info.contains('`');
        if is_within_line || !(3..=limit.longest / 8).contains(&marks.len()) {
            return None;
        }
        let whole = line.trim_end();
        Some(Fence {
            opening: if limit.measure.fits(whole, limit.longest / 4) {
                whole
            } else {
                marks
            },
            marks,
            indent: 0,
            surplus: 0,
        })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let blank: &[char] = &[' ', '\t', '\r'];
        let text = line.trim_matches(blank);
        text.starts_with(self.marks) && text.trim_start_matches(&self.marks[..1]).is_empty()
    }

    /// The same code in the next piece, which does not contain the list around it.
    pub(super) fn reopened(self) -> Fence<'a> {
        Fence {
            indent: 0,
            surplus: self.surplus + self.indent,
            ..self
        }
    }

    pub(super) fn closing(&self) -> String {
        format!("\n{}{}", " ".repeat(self.indent), self.marks)
    }
}

/// The state of the parser after the lines of a piece so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reader<'a> {
    pub(super) fence: Option<Fence<'a>>,
    /// The column where the text of the list's item begins. Code of the item has the same indentation.
    offset: usize,
    after_blank: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn starting_in(fence: Option<Fence<'a>>) -> Reader<'a> {
        Reader {
            fence,
            ..Reader::default()
        }
    }

    pub(super) fn after(mut self, line: &'a str, limit: Limit) -> Reader<'a> {
        let indent = indentation(line);
        let could_fence = indent <= self.offset + 3;
        if line.trim().is_empty() {
            self.after_blank = true;
        } else if let Some(fence) = self.fence {
            self.fence = (!could_fence || !fence.is_closed_by(line)).then_some(fence);
        } else {
            if self.after_blank {
                self.offset = self.offset.min(indent);
                self.after_blank = false;
            }
            if could_fence {
                self.begin_block(line, limit);
            }
        }
        self
    }

    /// Opens code, also after the marker of an item.
    fn begin_block(&mut self, line: &'a str, limit: Limit) {
        let indent = indentation(line);
        let mut text = dedented(line, self.offset);
        let mut offset = self.offset.min(indent);
        while let Some(behind) = behind_marker(text) {
            offset += text.len() - behind.len();
            self.offset = offset;
            text = behind;
        }
        let fence = Fence::opened_by(text, limit).filter(|_| offset <= limit.longest / 8);
        if let Some(fence) = fence {
            self.offset = offset;
            self.fence = Some(Fence {
                indent: offset,
                ..fence
            });
        }
    }

    pub(super) fn cost_of_closing(&self, limit: Limit) -> usize {
        self.fence.map_or(0, |fence| limit.length(&fence.closing()))
    }
}

fn behind_marker(text: &str) -> Option<&str> {
    let text = text.trim_start_matches(' ');
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let behind = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        1..=9 => text[digits..].strip_prefix(['.', ')'])?,
        _ => return None,
    };
    behind
        .starts_with(' ')
        .then(|| behind.trim_start_matches(' '))
}

/// The indentation in columns.
pub(super) fn indentation(line: &str) -> usize {
    let lead = line.chars().take_while(|c| matches!(c, ' ' | '\t'));
    lead.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// The line without up to `columns` of its indentation.
pub(super) fn dedented(line: &str, columns: usize) -> &str {
    let mut left = columns;
    line.trim_start_matches(|c| {
        let goes = left > 0 && matches!(c, ' ' | '\t');
        left = left.saturating_sub(if c == '\t' { 4 } else { 1 });
        goes
    })
}
