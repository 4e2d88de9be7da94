//! Splits styled text into lines, for formats in which a line is the largest unit.

use super::styled::{Code, Run, is_blank};

#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// The numbers of the quotes around it, from the outside in.
    pub(super) quotes: &'a [usize],
    pub(super) content: Content<'a>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Content<'a> {
    /// One line, which is empty between paragraphs.
    Text(Vec<Run>),
    /// A whole block, which may have many lines.
    Code {
        language: Option<&'a str>,
        text: &'a str,
    },
}

impl<'a> Line<'a> {
    fn empty(quotes: &'a [usize]) -> Line<'a> {
        Line {
            quotes,
            content: Content::Text(Vec::new()),
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        matches!(&self.content, Content::Text(runs) if is_blank(runs))
    }
}

pub(super) fn lines(runs: &[Run]) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut line: Option<Line> = None;
    for run in runs {
        let quotes = run.style.quotes.as_slice();
        if let Some(Code::Block { language }) = &run.style.code {
            lines.extend(line.replace(Line {
                quotes,
                content: Content::Code {
                    language: language.as_deref(),
                    text: &run.text,
                },
            }));
            continue;
        }
        for (at, text) in run.text.split('\n').enumerate() {
            if at > 0 {
                lines.push(line.take().unwrap_or_else(|| Line::empty(quotes)));
            }
            if text.is_empty() {
                continue;
            }
            let part = Run {
                text: text.to_owned(),
                style: run.style.clone(),
            };
            match &mut line {
                Some(Line {
                    content: Content::Text(parts),
                    ..
                }) => parts.push(part),
                other => lines.extend(other.replace(Line {
                    quotes,
                    content: Content::Text(vec![part]),
                })),
            }
        }
    }
    lines.extend(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::super::styled::{Runs, Style};
    use super::*;

    fn shape(lines: &[Line]) -> Vec<String> {
        let shape = lines.iter().map(|line| {
            let text = match &line.content {
                Content::Text(runs) => runs.iter().map(|run| run.text.as_str()).collect(),
                Content::Code { text, .. } => format!("`{text}`"),
            };
            format!("{:?} {text}", line.quotes)
        });
        shape.collect()
    }

    #[test]
    fn line_ends_belong_to_lines_and_code_is_one() {
        let quoted = Style {
            quotes: vec![7],
            ..Style::default()
        };
        let bold = Style {
            bold: true,
            ..Style::default()
        };
        let code = Style {
            code: Some(Code::Block { language: None }),
            ..Style::default()
        };
        let mut runs = Runs::default();
        for (text, style) in [
            ("a", &Style::default()),
            ("b\nc", &bold),
            ("\n", &Style::default()),
            ("x\ny", &code),
            ("\n\n", &Style::default()),
            ("q\n\nr", &quoted),
        ] {
            runs.push(text, style.clone());
        }
        assert_eq!(
            shape(&lines(&runs.0)),
            [
                "[] ab",
                "[] c",
                "[] `x\ny`",
                "[] ",
                "[7] q",
                "[7] ",
                "[7] r"
            ]
        );
        assert!(lines(&[]).is_empty());
    }
}
