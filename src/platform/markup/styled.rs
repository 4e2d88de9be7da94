//! Text with styles: the form between Markdown and the format of a vendor.

use std::sync::Arc;

use super::Measure;

/// A writer shows at most twice the length of the source and this much more.
pub(super) const SLACK: usize = 64;

/// Markdown after parsing. Headings, lists, tables and rules are laid out as text. A writer turns it into the format of
/// a vendor.
#[derive(Debug, Clone)]
pub struct StyledText {
    pub(super) source: String,
    pub(super) runs: Runs,
}

/// The style of a part of a text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Style {
    /// The numbers of the quotes around it, from the outside in. Two quotes in a row have different numbers.
    pub(super) quotes: Vec<usize>,
    pub(super) link: Option<Link>,
    /// The level of the heading that it belongs to, from 1 to 6.
    pub(super) heading: Option<u8>,
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) strikethrough: bool,
    pub(super) code: Option<Code>,
    /// The text is the bullet or the number of a list's item.
    pub(super) list_marker: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Code {
    Inline,
    Block { language: Option<Arc<str>> },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Link {
    /// Two links in a row have different numbers.
    pub(super) number: usize,
    pub(super) target: Arc<str>,
    pub(super) part: LinkPart,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LinkPart {
    Label,
    /// The target in parentheses after the label, for platforms that do not open the link.
    Address,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    pub(super) text: String,
    pub(super) style: Style,
}

/// The abilities of a vendor's format.
pub(super) struct Dialect {
    /// Whether a link with this target and this label can be opened. The target of any other link is shown as text.
    pub(super) opens: fn(target: &str, label: &str) -> bool,
    /// Whether inline code can be a link. Where it cannot, a link does not look like code.
    pub(super) code_in_links: bool,
    /// The deepest level of headings that the vendor has. Deeper headings are bold.
    pub(super) heading_levels: u8,
}

impl StyledText {
    /// The text as a dialect can express it, without blank lines at both ends.
    ///
    /// A text that would show nothing stays as its source. So does a text that would be longer than twice its source
    /// and [`SLACK`]. Texts grow when a table pads its cells, a list indents its lines or counts to numbers with more
    /// digits, blocks get blank lines between them, or many links show the same target.
    pub(super) fn in_dialect(&self, dialect: &Dialect) -> Vec<Run> {
        let mut runs = Runs::default();
        let number = |run: &Run| run.style.link.as_ref().map(|link| link.number);
        for group in self.runs.0.chunk_by(|a, b| number(a) == number(b)) {
            let opens = opens(group, dialect);
            for run in group.iter().filter(|run| !opens || !run.is_address()) {
                runs.push(&run.text, run.style.in_dialect(dialect, opens));
            }
        }
        runs.trim();
        let length = |text: &str| Measure::Utf16.length(text);
        let longest = 2 * length(&self.source) + SLACK;
        let shown: usize = runs.0.iter().map(|run| length(&run.text)).sum();
        if is_blank(&runs.0) || shown > longest {
            runs = Runs::default();
            runs.push(&self.source, Style::default());
            runs.trim();
        }
        runs.0
    }
}

fn opens(group: &[Run], dialect: &Dialect) -> bool {
    let Some(link) = &group[0].style.link else {
        return false;
    };
    let labels = group.iter().filter(|run| !run.is_address());
    let label: String = labels.map(|run| run.text.as_str()).collect();
    (dialect.opens)(&link.target, label.trim())
}

/// Whether the target begins with one of these schemes.
pub(super) fn has_scheme(target: &str, schemes: &[&str]) -> bool {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    schemes.iter().any(|s| s.eq_ignore_ascii_case(scheme))
}

pub(super) fn is_blank(runs: &[Run]) -> bool {
    runs.iter().all(|run| run.text.trim().is_empty())
}

impl Run {
    fn is_address(&self) -> bool {
        let link = self.style.link.as_ref();
        link.is_some_and(|link| link.part == LinkPart::Address)
    }
}

impl Style {
    fn in_dialect(&self, dialect: &Dialect, opens: bool) -> Style {
        let mut style = self.clone();
        if !opens {
            style.link = None;
        } else if !dialect.code_in_links {
            style.code = None;
        }
        if style.heading.is_some_and(|l| l > dialect.heading_levels) {
            style.heading = None;
            style.bold = true;
        }
        style
    }
}

/// Adjacent runs have different styles.
#[derive(Debug, Clone, Default)]
pub(super) struct Runs(pub(super) Vec<Run>);

impl Runs {
    pub(super) fn push(&mut self, text: &str, style: Style) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.0.push(Run {
                text: text.to_owned(),
                style,
            }),
        }
    }

    pub(super) fn trim_end(&mut self) {
        while let Some(last) = self.0.last_mut() {
            last.text.truncate(last.text.trim_end().len());
            if !last.text.is_empty() {
                return;
            }
            self.0.pop();
        }
    }

    fn trim(&mut self) {
        self.trim_start();
        self.trim_end();
    }

    /// Removes blank lines. The indentation of the first line stays.
    fn trim_start(&mut self) {
        let blank = self.0.iter().take_while(|run| run.text.trim().is_empty());
        self.0.drain(..blank.count());
        if let Some(first) = self.0.first_mut() {
            let white = first.text.len() - first.text.trim_start().len();
            let line = first.text[..white].rfind('\n').map_or(0, |at| at + 1);
            first.text.drain(..line);
        }
    }
}
