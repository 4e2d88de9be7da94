//! Files that a person attaches to a message. They are saved to disk before they get here. The transcript names their
//! paths in words.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Limits for names and paths that are shown, in characters.
const LONGEST_NAME: usize = 100;
const LONGEST_PATH: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    Image,
    Voice,
    Audio,
    Video,
    File,
}

impl FileKind {
    /// The name on the wire and in prompts for agents.
    pub fn as_str(self) -> &'static str {
        match self {
            FileKind::Image => "image",
            FileKind::Voice => "voice",
            FileKind::Audio => "audio",
            FileKind::Video => "video",
            FileKind::File => "file",
        }
    }

    /// The name for people.
    pub fn in_words(self) -> &'static str {
        match self {
            FileKind::Voice => "voice message",
            other => other.as_str(),
        }
    }
}

/// An attached file, saved to disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub kind: FileKind,
    pub path: PathBuf,
    /// The sender's name for the file. It is untrusted: show [`Attachment::shown_name`] instead.
    pub name: String,
    /// The type that the platform declares. It may be wrong.
    pub mime: Option<String>,
}

impl Attachment {
    /// The name in one short line, without control characters. Falls back to the saved file's name, then to the kind.
    pub fn shown_name(&self) -> String {
        let own = self.path.file_name().unwrap_or_default().to_string_lossy();
        [self.name.as_str(), &own, self.kind.as_str()]
            .into_iter()
            .map(|name| one_line(name, LONGEST_NAME))
            .find(|name| !name.is_empty())
            .unwrap_or_default()
    }

    /// The declared type in lower case, without parameters.
    pub fn declared_type(&self) -> Option<String> {
        let mime = self.mime.as_deref()?.split(';').next()?;
        let mime = one_line(mime, LONGEST_NAME).to_ascii_lowercase();
        Some(mime).filter(|mime| mime.contains('/'))
    }

    fn line(&self) -> String {
        let (kind, path) = (self.kind.in_words(), self.path.to_string_lossy());
        let path = one_line(&path, LONGEST_PATH);
        match self.kind {
            // Apps generate the names of these, so the names say nothing.
            FileKind::Image | FileKind::Voice | FileKind::Video => format!("[{kind}: {path}]"),
            FileKind::Audio | FileKind::File => {
                format!(
                    "[{kind} \"{}\": {path}]",
                    self.shown_name().replace('"', "'")
                )
            }
        }
    }
}

/// The person's text with one line per attachment, for the transcript and for agents that accept only text.
pub fn in_words(text: &str, attachments: &[Attachment]) -> String {
    if attachments.is_empty() {
        return text.to_owned();
    }
    let words = Some(text.trim_end().to_owned()).filter(|text| !text.is_empty());
    let lines = attachments.iter().map(Attachment::line);
    words
        .into_iter()
        .chain(lines)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Makes untrusted text fit into one line: no line breaks, no control characters, no direction marks.
pub(crate) fn one_line(text: &str, longest: usize) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let text = text.replace(steers, " ");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(longest) {
        None => words,
        Some(_) => {
            let short: String = words.chars().take(longest - 1).collect();
            format!("{short}…")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(kind: FileKind, name: &str) -> Attachment {
        Attachment {
            kind,
            path: PathBuf::from("/home/u/.hermes/files/1"),
            name: name.into(),
            mime: None,
        }
    }

    #[test]
    fn each_attachment_is_a_line_behind_the_words() {
        let all = [
            sent(FileKind::Image, "photo.jpg"),
            sent(FileKind::Voice, ""),
            sent(FileKind::File, "report.pdf"),
            sent(FileKind::Audio, ""),
            sent(FileKind::Video, "v.mp4"),
        ];
        let lines = "[image: /home/u/.hermes/files/1]\n\
                     [voice message: /home/u/.hermes/files/1]\n\
                     [file \"report.pdf\": /home/u/.hermes/files/1]\n\
                     [audio \"1\": /home/u/.hermes/files/1]\n\
                     [video: /home/u/.hermes/files/1]";
        assert_eq!(in_words("Look:\n", &all), format!("Look:\n{lines}"));
        assert_eq!(in_words(" \n", &all), lines);
        assert_eq!(in_words(" as it was \n", &[]), " as it was \n");
    }

    #[test]
    fn a_name_stays_in_its_line_and_in_its_quotes() {
        let name = "a\"]\n\u{1b}[31m\u{202e}fdp.\r\nexe\u{2028}b\u{85}c";
        assert_eq!(
            in_words("", &[sent(FileKind::File, name)]),
            "[file \"a'] [31m fdp. exe b c\": /home/u/.hermes/files/1]"
        );
        let long = sent(FileKind::File, &"ü".repeat(5000)).shown_name();
        assert_eq!(long.chars().count(), LONGEST_NAME);
        assert!(long.ends_with('…'));
        let exact = "x".repeat(LONGEST_NAME);
        assert_eq!(sent(FileKind::File, &exact).shown_name(), exact);
    }

    #[test]
    fn a_path_cannot_break_its_line_either() {
        let odd = Attachment {
            path: PathBuf::from(format!("/tmp/a\nb{}", "x".repeat(9000))),
            ..sent(FileKind::Image, "")
        };
        let words = in_words("", std::slice::from_ref(&odd));
        assert_eq!(words.lines().count(), 1);
        assert!(words.chars().count() < LONGEST_PATH + 20);
    }

    #[test]
    fn a_declared_type_is_taken_without_its_parameters() {
        let declared = |mime: &str| {
            let mime = Some(mime.to_owned());
            Attachment {
                mime,
                ..sent(FileKind::File, "")
            }
            .declared_type()
        };
        let plain = Some("text/plain".to_owned());
        assert_eq!(declared("Text/Plain; charset=utf-8"), plain);
        assert_eq!(declared("nonsense"), None);
    }

    #[test]
    fn it_is_kept_and_read_again() {
        let voice = sent(FileKind::Voice, "v.ogg");
        let json = serde_json::to_string(&voice).unwrap();
        assert!(json.contains(r#""kind":"voice""#), "{json}");
        assert_eq!(serde_json::from_str::<Attachment>(&json).unwrap(), voice);
        let without = r#"{"kind":"file","path":"/a","name":"a"}"#;
        assert_eq!(
            serde_json::from_str::<Attachment>(without).unwrap().mime,
            None
        );
    }

    proptest! {
        /// Any name yields exactly one line without control characters.
        #[test]
        fn no_name_gets_out_of_its_line(names in prop::collection::vec(".*", 1..5), other in "(?s).*") {
            let mut all: Vec<Attachment> = names.iter().map(|name| sent(FileKind::File, name)).collect();
            all.push(sent(FileKind::Audio, &other));
            let words = in_words("hello", &all);
            prop_assert_eq!(words.lines().count(), all.len() + 1);
            prop_assert!(words.chars().all(|c| c == '\n' || !c.is_control()));
            prop_assert!(words.chars().count() < 6 + all.len() * (LONGEST_NAME + 60));
        }
    }
}
