//! Lays out tables as aligned columns of text.

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

use super::Measure;

const BETWEEN: &str = " │ ";

#[derive(Debug)]
pub(super) struct Table<'a> {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<String>>,
    source: &'a str,
}

impl<'a> Table<'a> {
    pub(super) fn new(alignments: Vec<Alignment>, source: &'a str) -> Table<'a> {
        Table {
            alignments,
            rows: Vec::new(),
            source,
        }
    }

    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn start_cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(String::new());
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        let cell = self.rows.last_mut().and_then(|row| row.last_mut());
        if let Some(cell) = cell {
            cell.extend(text.chars().map(|c| if c == '\n' { ' ' } else { c }));
        }
    }

    /// One long cell widens every row. A table that would be more than twice as long as its source stays as its source.
    pub(super) fn text(&self) -> String {
        self.aligned(2 * Measure::Utf16.length(self.source))
            .unwrap_or_else(|| self.source.to_owned())
    }

    fn aligned(&self, longest: usize) -> Option<String> {
        let mut widths = vec![0; self.alignments.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let mut text = String::new();
        let mut units = 0;
        for (at, row) in self.rows.iter().enumerate() {
            let mut line = self.aligned_row(row, &widths) + "\n";
            if at == 0 {
                let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                line += &lines.join("─┼─");
                line.push('\n');
            }
            units += Measure::Utf16.length(&line);
            if units > longest {
                return None;
            }
            text += &line;
        }
        Some(text)
    }

    fn aligned_row(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).zip(&self.alignments);
        let padded = cells.map(|((cell, width), alignment)| {
            let space = width.saturating_sub(cell.width());
            let before = match alignment {
                Alignment::Right => space,
                Alignment::Center => space / 2,
                Alignment::Left | Alignment::None => 0,
            };
            " ".repeat(before) + cell + &" ".repeat(space - before)
        });
        let padded: Vec<String> = padded.collect();
        padded.join(BETWEEN).trim_end().to_owned()
    }
}
