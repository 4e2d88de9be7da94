//! Lays out tables by the cells of the terminal, and fits them to its width: long texts are cut, then the less important
//! columns go, and if that is not enough, each record is stacked.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The space between two columns.
const GAP: usize = 2;
/// A text is not cut to fewer cells than this.
const SHORTEST: usize = 20;

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    name: &'static str,
    /// Whether a long cell may be cut.
    long: bool,
    /// The column with the highest number goes first if the terminal is narrow. 0 stays.
    goes: u8,
}

impl Column {
    /// A column that is always whole.
    pub const fn whole(name: &'static str) -> Column {
        Column {
            name,
            long: false,
            goes: 0,
        }
    }

    /// A column of texts that may be cut.
    pub const fn text(name: &'static str) -> Column {
        Column {
            long: true,
            ..Column::whole(name)
        }
    }

    /// Leaves the column out on a narrow terminal, the highest number first.
    pub const fn goes(self, order: u8) -> Column {
        Column {
            goes: order,
            ..self
        }
    }
}

/// The lines of a table.
#[derive(Debug, PartialEq)]
pub(super) struct Layout {
    /// `None` if the records are stacked.
    pub(super) header: Option<String>,
    pub(super) lines: Vec<String>,
}

/// Lays out the rows. Without a width, nothing is cut.
pub(super) fn lay_out(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Layout {
    let natural: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = rows.iter().map(|row| row[at].width());
            cells.chain([column.name.width()]).max().unwrap_or_default()
        })
        .collect();
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let Some(width) = width else {
        return aligned(columns, rows, &shown, &natural);
    };
    loop {
        if let Some(widths) = fitted(columns, &shown, &natural, width) {
            return aligned(columns, rows, &shown, &widths);
        }
        let next = shown.iter().copied().filter(|at| columns[*at].goes > 0);
        match next.max_by_key(|at| columns[*at].goes) {
            Some(next) => shown.retain(|at| *at != next),
            None => return stacked(columns, rows, width),
        }
    }
}

/// The widths of the shown columns in `width` cells. `None` if they do not fit.
fn fitted(
    columns: &[Column],
    shown: &[usize],
    natural: &[usize],
    width: usize,
) -> Option<Vec<usize>> {
    let mut widths = natural.to_vec();
    let gaps = GAP * shown.len().saturating_sub(1);
    let total = |widths: &[usize]| shown.iter().map(|at| widths[*at]).sum::<usize>() + gaps;
    while total(&widths) > width {
        // The widest text gives a cell, so that long texts become alike.
        let longest = shown
            .iter()
            .copied()
            .filter(|at| columns[*at].long && widths[*at] > SHORTEST.max(columns[*at].name.width()))
            .max_by_key(|at| widths[*at])?;
        widths[longest] -= 1;
    }
    Some(widths)
}

fn aligned(columns: &[Column], rows: &[Vec<String>], shown: &[usize], widths: &[usize]) -> Layout {
    let line = |cell: &dyn Fn(usize) -> String| {
        let padded = shown.iter().map(|at| {
            let text = cut(&cell(*at), widths[*at]);
            let space = widths[*at].saturating_sub(text.width());
            format!("{text}{}", " ".repeat(space))
        });
        let line = padded.collect::<Vec<_>>().join(&" ".repeat(GAP));
        line.trim_end().to_owned()
    };
    Layout {
        header: Some(line(&|at| columns[at].name.to_owned())),
        lines: rows.iter().map(|row| line(&|at| row[at].clone())).collect(),
    }
}

/// One line for each cell that is not empty, and an empty line between two records.
fn stacked(columns: &[Column], rows: &[Vec<String>], width: usize) -> Layout {
    let names = columns.iter().map(|column| column.name.width());
    let indent = names.max().unwrap_or_default() + GAP;
    let mut lines = Vec::new();
    for row in rows {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        for (column, cell) in columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            let name = column.name.to_lowercase();
            let space = " ".repeat(indent - name.width());
            let shown = match column.long {
                true => cut(cell, width.saturating_sub(indent).max(1)),
                false => cell.clone(),
            };
            lines.push(format!("{name}{space}{shown}"));
        }
    }
    Layout {
        header: None,
        lines,
    }
}

/// The text in at most `width` cells, with an ellipsis if something is missing.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for grapheme in text.graphemes(true) {
        if kept.width() + grapheme.width() + 1 > width {
            break;
        }
        kept.push_str(grapheme);
    }
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::whole("ID"),
        Column::text("TITLE"),
        Column::whole("SOURCE").goes(1),
        Column::whole("STARTED").goes(2),
    ];

    fn rows(titles: &[&str]) -> Vec<Vec<String>> {
        let rows = titles
            .iter()
            .map(|title| ["20260131_081500_a1b2c3", title, "cli", "3 min ago"]);
        rows.map(|row| row.map(str::to_owned).to_vec()).collect()
    }

    /// The cell in which the text begins.
    fn place(line: &str, text: &str) -> usize {
        line[..line.find(text).expect(line)].width()
    }

    #[test]
    fn columns_are_measured_in_cells() {
        let laid = lay_out(
            &COLUMNS,
            &rows(&["日本語のセッション", "👩‍👩‍👧 family", "plain"]),
            None,
        );
        let places: Vec<usize> = laid.lines.iter().map(|l| place(l, "cli")).collect();
        assert_eq!(places, [44, 44, 44], "{laid:#?}");
        assert_eq!(place(&laid.header.unwrap(), "SOURCE"), 44);
    }

    #[test]
    fn a_long_title_is_cut_and_breaks_no_other_row() {
        let long = "A title that is much longer than everything else in this table, and goes on";
        let laid = lay_out(&COLUMNS, &rows(&[long, "short"]), Some(80));
        assert!(
            laid.lines.iter().all(|line| line.width() <= 80),
            "{laid:#?}"
        );
        assert!(laid.lines[0].contains("…  cli"), "{laid:#?}");
        assert_eq!(
            place(&laid.lines[0], "3 min"),
            place(&laid.lines[1], "3 min")
        );
        let whole = lay_out(&COLUMNS, &rows(&[long]), None);
        assert!(
            whole.lines[0].contains(long),
            "without a terminal nothing is cut"
        );
    }

    #[test]
    fn less_important_columns_go_and_then_records_are_stacked() {
        let laid = lay_out(&COLUMNS, &rows(&["A title that is long enough"]), Some(56));
        let header = laid.header.expect("a table");
        assert!(
            header.contains("SOURCE") && !header.contains("STARTED"),
            "{header}"
        );
        let laid = lay_out(
            &COLUMNS,
            &rows(&["One", "A title that is too long for it"]),
            Some(30),
        );
        assert_eq!(
            laid.lines,
            [
                "id       20260131_081500_a1b2c3",
                "title    One",
                "source   cli",
                "started  3 min ago",
                "",
                "id       20260131_081500_a1b2c3",
                "title    A title that is too…",
                "source   cli",
                "started  3 min ago",
            ]
        );
    }

    proptest! {
        #[test]
        fn a_cut_text_fits(text in "\\PC*", width in 1_usize..40) {
            prop_assert!(cut(&text, width).width() <= width);
        }

        #[test]
        fn no_row_is_wider_than_the_terminal(title in "\\PC*", width in 46_usize..200) {
            let laid = lay_out(&COLUMNS, &rows(&[&title, "other"]), Some(width));
            prop_assert!(laid.lines.iter().all(|line| line.width() <= width), "{:?}", laid);
        }
    }
}
