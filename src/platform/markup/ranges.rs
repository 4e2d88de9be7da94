//! Writes plain text with a list of styled ranges, as signal-cli accepts it.

use std::fmt;

use super::Measure;
use super::lines::{Content, lines};
use super::styled::{Dialect, Style, StyledText};

const DIALECT: Dialect = Dialect {
    opens: |_, _| false,
    code_in_links: true,
    heading_levels: 0,
};

/// Counted in UTF-16 code units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StyleRange {
    pub start: usize,
    pub length: usize,
    pub style: &'static str,
}

/// `start:length:STYLE`.
impl fmt::Display for StyleRange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}:{}", self.start, self.length, self.style)
    }
}

/// The text and its ranges in order. The styles are BOLD, ITALIC, STRIKETHROUGH and MONOSPACE. Ranges of one style do
/// not overlap. Headings are bold, links are `label (target)`, quoted lines begin with `> `.
pub fn write(text: &StyledText) -> (String, Vec<StyleRange>) {
    let runs = text.in_dialect(&DIALECT);
    let mut out = Output::default();
    for (at, line) in lines(&runs).iter().enumerate() {
        if at > 0 {
            out.push("\n", &[]);
        }
        match &line.content {
            Content::Code { text, .. } => out.push(text, &["MONOSPACE"]),
            Content::Text(runs) => {
                if !line.quotes.is_empty() {
                    out.push("> ", &[]);
                }
                for run in runs {
                    out.push(&run.text, &names(&run.style));
                }
            }
        }
    }
    (out.text, out.ranges)
}

fn names(style: &Style) -> Vec<&'static str> {
    let names = [
        (style.bold, "BOLD"),
        (style.italic, "ITALIC"),
        (style.strikethrough, "STRIKETHROUGH"),
        (style.code.is_some(), "MONOSPACE"),
    ];
    let names = names.into_iter().filter(|(has, _)| *has);
    names.map(|(_, name)| name).collect()
}

#[derive(Default)]
struct Output {
    text: String,
    length: usize,
    ranges: Vec<StyleRange>,
}

impl Output {
    /// A range that ends where the text begins grows.
    fn push(&mut self, text: &str, styles: &[&'static str]) {
        let start = self.length;
        let length = Measure::Utf16.length(text);
        self.text.push_str(text);
        self.length += length;
        for style in styles {
            let mut ranges = self.ranges.iter_mut().rev();
            match ranges.find(|range| range.style == *style) {
                Some(last) if last.start + last.length == start => last.length += length,
                _ => self.ranges.push(StyleRange {
                    start,
                    length,
                    style,
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parse;
    use super::super::samples::{letters, markdownish};
    use super::*;

    #[track_caller]
    fn shows(markdown: &str, text: &str, ranges: &[&str]) {
        let written = write(&parse(markdown));
        let written_ranges: Vec<String> = written.1.iter().map(ToString::to_string).collect();
        assert_eq!(
            (written.0.as_str(), written_ranges),
            (text, ranges.iter().map(|range| range.to_string()).collect()),
            "{markdown:?}"
        );
    }

    #[test]
    fn styles_become_ranges() {
        shows(
            "a **b** *i* ~~s~~ `c`",
            "a b i s c",
            &[
                "2:1:BOLD",
                "4:1:ITALIC",
                "6:1:STRIKETHROUGH",
                "8:1:MONOSPACE",
            ],
        );
        shows("# A *b*", "A b", &["0:3:BOLD", "2:1:ITALIC"]);
        shows("**a `b` c**", "a b c", &["0:5:BOLD", "2:1:MONOSPACE"]);
        shows("plain", "plain", &[]);
    }

    #[test]
    fn ranges_count_utf_16_code_units() {
        shows("🎉字é **🎉**", "🎉字é 🎉", &["5:2:BOLD"]);
    }

    #[test]
    fn blocks_are_text() {
        shows("- a\n  - **b**", "• a\n  ◦ b", &["8:1:BOLD"]);
        shows("> a\n> *b*", "> a\n> b", &["6:1:ITALIC"]);
        shows("```rs\na\n  b\n```\nc", "a\n  b\n\nc", &["0:5:MONOSPACE"]);
        shows("**a\nb**", "a\nb", &["0:1:BOLD", "2:1:BOLD"]);
    }

    #[test]
    fn links_show_where_they_lead() {
        shows(
            "[**a**](https://b) <https://c>",
            "a (https://b) https://c",
            &["0:1:BOLD"],
        );
        shows("<a@b.c> [`d`](e)", "a@b.c d (e)", &["6:1:MONOSPACE"]);
    }

    proptest! {
        #[test]
        fn ranges_are_within_the_text_and_apart(text in prop_oneof![markdownish(), any::<String>()]) {
            let styled = parse(&text);
            let expected: String = styled.in_dialect(&DIALECT).into_iter().map(|run| run.text).collect();
            let (text, ranges) = write(&styled);
            prop_assert_eq!(letters(&text), letters(&expected));
            let mut boundaries = vec![0];
            for c in text.chars() {
                boundaries.push(boundaries[boundaries.len() - 1] + c.len_utf16());
            }
            prop_assert!(ranges.is_sorted_by_key(|range| range.start));
            for (at, range) in ranges.iter().enumerate() {
                let end = range.start + range.length;
                prop_assert!(range.length > 0);
                prop_assert!(boundaries.binary_search(&range.start).is_ok(), "{}", range);
                prop_assert!(boundaries.binary_search(&end).is_ok(), "{}", range);
                for other in ranges[at + 1..].iter().filter(|other| other.style == range.style) {
                    prop_assert!(end <= other.start, "{} {}", range, other);
                }
            }
        }
    }
}
