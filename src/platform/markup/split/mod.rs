//! Cuts long Markdown into pieces that fit into chat messages.

mod fences;
mod fit;
#[cfg(test)]
mod tests;

use fences::{Fence, Reader, dedented, indentation};
pub use fit::{MessageLimit, split_for};
use unicode_segmentation::UnicodeSegmentation;

use super::Measure;

/// The smallest limit. A smaller one might have no room beside the fences of code.
const SHORTEST: usize = 64;

/// How long a piece may be.
#[derive(Debug, Clone, Copy)]
struct Limit {
    longest: usize,
    measure: Measure,
}

impl Limit {
    fn length(self, text: &str) -> usize {
        self.measure.length(text)
    }

    fn fits(self, text: &str) -> bool {
        self.measure.fits(text, self.longest)
    }

    fn start_of(self, text: &str) -> &str {
        self.measure.start_of(text, self.longest)
    }
}

/// Cuts the text into pieces that are at most `longest` in the given measure. The cut is at the best of these places:
/// between paragraphs or lines if that fills a third of the piece, outside of code rather than within it, between
/// words, between characters as people see them. A heading stays with the text that follows it, if it can. A text that
/// fits stays as it is.
///
/// A piece that ends within code closes the code, and the next piece opens it again with the same line, unless the code
/// is in a quote. Only white space at a cut is lost, which includes the indentation of code in a list. A fence that the
/// source leaves open stays open in the last piece.
pub fn split(markdown: &str, longest: usize, measure: Measure) -> Vec<String> {
    let limit = Limit {
        longest: longest.max(SHORTEST),
        measure,
    };
    if markdown.trim().is_empty() {
        return Vec::new();
    }
    if limit.fits(markdown) {
        return vec![markdown.to_owned()];
    }
    let mut pieces = Vec::new();
    let mut rest = from_first_line(markdown.trim_end());
    let mut open = None;
    while !rest.is_empty() {
        let mut piece = Piece::new(open, limit);
        let cut = piece.fill(rest);
        rest = behind_cut(&rest[cut.taken..], cut.open);
        if let Some(text) = piece.finish(&cut) {
            pieces.push(text);
        }
        open = cut.open.map(Fence::reopened);
        if let Some(behind) = behind_closing(rest, open, limit) {
            rest = behind_cut(behind, None);
            open = None;
        }
    }
    pieces
}

/// A piece while it is filled, with the best places for its end.
struct Piece<'a> {
    limit: Limit,
    text: String,
    length: usize,
    /// The length of the line that reopens code, at the start of the text.
    lead: usize,
    reader: Reader<'a>,
    has_content: bool,
    after_heading: bool,
    ends: [Option<Cut<'a>>; 4],
    last_line: Option<Cut<'a>>,
}

#[derive(Clone, Copy)]
struct Cut<'a> {
    /// The part of the piece's text that stays.
    kept: usize,
    /// The part of the source that it covers.
    taken: usize,
    /// The code that the cut goes through.
    open: Option<Fence<'a>>,
}

impl<'a> Piece<'a> {
    fn new(open: Option<Fence<'a>>, limit: Limit) -> Piece<'a> {
        let text = open.map_or(String::new(), |fence| format!("{}\n", fence.opening));
        Piece {
            limit,
            length: limit.length(&text),
            lead: text.len(),
            text,
            reader: Reader::starting_in(open),
            has_content: false,
            after_heading: false,
            ends: [None; 4],
            last_line: None,
        }
    }

    fn fill(&mut self, source: &'a str) -> Cut<'a> {
        let Limit { longest, measure } = self.limit;
        // One character more than fits, so a line that is cut off here does not fit.
        let window = measure.start_of(source, longest + measure.longest_character());
        let is_rest = window.len() == source.len();
        let is_last = is_rest && self.length + measure.length(source) <= longest;
        let mut next = 0;
        let mut end = 0;
        for whole in window.split_inclusive('\n') {
            let raw = whole.trim_end_matches('\n');
            let line = dedented(raw, self.reader.fence.map_or(0, |fence| fence.surplus));
            let start = next + raw.len() - line.len();
            let after = self.reader.after(line, self.limit);
            let needed = self.length + measure.length(line) + after.cost_of_closing(self.limit);
            let is_complete = is_rest || whole.len() > raw.len();
            if !is_last && (!is_complete || needed > longest) {
                let best = self.ends.into_iter().flatten().next();
                return best.unwrap_or_else(|| self.cut_line(line, start));
            }
            end = next + raw.len();
            next += whole.len();
            self.add_line(line, after, end);
        }
        Cut {
            kept: self.text.len(),
            taken: end,
            // Code that the source leaves open stays open.
            open: self.reader.fence.filter(|_| !is_rest),
        }
    }

    fn add_line(&mut self, line: &str, after: Reader<'a>, taken: usize) {
        let is_blank = line.trim().is_empty();
        let was_code = self.reader.fence.is_some();
        let is_code = after.fence.is_some();
        self.text.push_str(line);
        self.length += self.limit.length(line);
        self.has_content |= !is_blank && was_code == is_code;
        let cut = Cut {
            kept: self.text.len(),
            taken,
            open: after.fence,
        };
        let is_heading = !is_code && line.starts_with('#');
        self.after_heading = is_heading || (is_blank && self.after_heading);
        let opens = is_code && !was_code;
        if self.has_content && !opens {
            let rank = 2 * usize::from(is_code) + usize::from(!is_blank);
            if self.length >= self.limit.longest / 3 && !self.after_heading {
                self.ends[rank] = Some(cut);
            }
            self.last_line = Some(cut);
        }
        self.text.push('\n');
        self.length += 1;
        self.reader = after;
    }

    /// Cuts within the line that does not fit, because the piece has no good place between lines.
    fn cut_line(&mut self, line: &'a str, start: usize) -> Cut<'a> {
        let Limit { longest, measure } = self.limit;
        let mut room = longest.saturating_sub(self.length);
        loop {
            let part = measure.start_of(line, room);
            let end = match (last_word_end(line, part.len()), self.last_line) {
                (Some(end), _) => end,
                (None, Some(cut)) => return cut,
                (None, None) => last_character_end(line, part.len()),
            };
            let after = self.reader.after(&line[..end], self.limit);
            let needed =
                self.length + measure.length(&line[..end]) + after.cost_of_closing(self.limit);
            if needed <= longest || room == 0 {
                self.text.push_str(&line[..end]);
                return Cut {
                    kept: self.text.len(),
                    taken: start + end,
                    open: after.fence,
                };
            }
            room = room.saturating_sub(needed - longest);
        }
    }

    /// The text of the piece. `None`: it would show nothing.
    fn finish(self, cut: &Cut) -> Option<String> {
        let kept = self.text[..cut.kept].trim_end();
        if self.text[self.lead..cut.kept].trim().is_empty() {
            return None;
        }
        let closing = cut.open.map(|fence| fence.closing());
        Some(kept.to_owned() + closing.as_deref().unwrap_or_default())
    }
}

fn last_word_end(line: &str, within: usize) -> Option<usize> {
    let next = line[within..].chars().next().map(|c| (within, c));
    let mut ends = next.into_iter().chain(line[..within].char_indices().rev());
    let (end, _) = ends.find(|(at, c)| c.is_whitespace() && !starts_with_marks(&line[*at..]))?;
    (!line[..end].trim().is_empty()).then_some(end)
}

fn last_character_end(line: &str, within: usize) -> usize {
    let starts = line.grapheme_indices(true).map(|(at, _)| at);
    let fitting = starts.take_while(|at| *at <= within);
    let ends = fitting.filter(|at| *at > 0 && !starts_with_marks(&line[*at..]));
    ends.last().unwrap_or(within)
}

/// Whether the text begins with marks that would open or close code at the start of a piece.
fn starts_with_marks(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("```") || text.starts_with("~~~")
}

/// The beginning of the next piece. Indentation stays, unless it would turn the rest of a list into code. Before marks
/// it always stays, because without it they would open code.
fn behind_cut<'a>(rest: &'a str, open: Option<Fence>) -> &'a str {
    let text = rest.trim_start();
    let white = &rest[..rest.len() - text.len()];
    let Some(line_end) = white.rfind('\n') else {
        return text;
    };
    let line = &rest[line_end + 1..];
    if open.is_none() && indentation(line) > 3 && !starts_with_marks(text) {
        return text;
    }
    line
}

fn from_first_line(text: &str) -> &str {
    let white = &text[..text.len() - text.trim_start().len()];
    &text[white.rfind('\n').map_or(0, |at| at + 1)..]
}

/// The rest after the line that closes the code, if that line comes next. The piece before has already closed the code.
fn behind_closing<'a>(rest: &'a str, open: Option<Fence<'a>>, limit: Limit) -> Option<&'a str> {
    let fence = open?;
    let line = limit.start_of(rest).lines().next()?;
    let behind = &rest[line.len()..];
    let reader = Reader::starting_in(open).after(dedented(line, fence.surplus), limit);
    (reader.fence.is_none() && (behind.is_empty() || behind.starts_with(['\n', '\r'])))
        .then_some(behind)
}
