//! Reads the files that a person attached, for agents that accept more than text. A file that cannot be read or is too
//! large is skipped: the message names it anyway, and the turn continues.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::AsyncReadExt;

use crate::domain::{Attachment, FileKind};

/// The size limit of a file.
const LARGEST: u64 = 5 << 20;
/// The limit of pictures per message.
pub(super) const MOST_IMAGES: usize = 10;
/// The size limit of a text file.
const LONGEST_TEXT: usize = 64 << 10;

/// The whole file. `None` if it cannot be read, is empty or is too large.
pub(super) async fn content(attachment: &Attachment) -> Option<Vec<u8>> {
    if size(attachment).await? > LARGEST {
        tracing::info!(file = ?attachment.path, "attachment too large for the agent");
        return None;
    }
    match read(&attachment.path).await {
        Ok(bytes) => Some(bytes).filter(|bytes| !bytes.is_empty()),
        Err(error) => unread(attachment, &error),
    }
}

/// `None` if the path is gone or not a regular file.
pub(super) async fn size(attachment: &Attachment) -> Option<u64> {
    match tokio::fs::metadata(&attachment.path).await {
        Ok(file) if file.is_file() => Some(file.len()),
        // Opening a pipe could block forever.
        Ok(_) => unread(attachment, &io::Error::other("not a regular file")),
        Err(error) => unread(attachment, &error),
    }
}

async fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = tokio::fs::File::open(path).await?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn unread<T>(attachment: &Attachment, error: &io::Error) -> Option<T> {
    let file = &attachment.path;
    tracing::warn!(%error, ?file, "attachment cannot be read, agent gets only its description");
    None
}

pub(super) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The type of a picture that models accept. The first bytes take precedence over the declared type, because vendors
/// check them.
pub(super) fn image_type(attachment: &Attachment, bytes: &[u8]) -> Option<&'static str> {
    if !matches!(attachment.kind, FileKind::Image | FileKind::File) {
        return None;
    }
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ if is_riff(bytes, b"WEBP") => Some("image/webp"),
        _ => ["image/png", "image/jpeg", "image/gif", "image/webp"]
            .into_iter()
            .find(|known| attachment.declared_type().as_deref() == Some(*known)),
    }
}

pub(super) fn audio_type(attachment: &Attachment, bytes: &[u8]) -> Option<String> {
    if !matches!(attachment.kind, FileKind::Voice | FileKind::Audio) {
        return None;
    }
    let known = match bytes {
        [b'O', b'g', b'g', b'S', ..] => "audio/ogg",
        [b'f', b'L', b'a', b'C', ..] => "audio/flac",
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => "audio/mpeg",
        _ if is_riff(bytes, b"WAVE") => "audio/wav",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "audio/mp4",
        _ => {
            let declared = attachment.declared_type();
            return declared.filter(|declared| declared.starts_with("audio/"));
        }
    };
    Some(known.to_owned())
}

fn is_riff(bytes: &[u8], of: &[u8; 4]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(of)
}

/// The content of a text file. Its type or name has to say that it is text, because other documents may look like text.
pub(super) fn text(attachment: &Attachment, bytes: Vec<u8>) -> Option<String> {
    if bytes.len() > LONGEST_TEXT || !is_meant_to_be_read(attachment) {
        return None;
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then(|| text.trim_start_matches('\u{feff}').to_owned())
}

fn is_meant_to_be_read(attachment: &Attachment) -> bool {
    if attachment.kind != FileKind::File {
        return false;
    }
    let declared = attachment.declared_type().unwrap_or_default();
    let suffix = declared.rsplit(['/', '+']).next().unwrap_or_default();
    let suffix = suffix.strip_prefix("x-").unwrap_or(suffix);
    let name = attachment.name.to_ascii_lowercase();
    let extension = name.rsplit('.').next().unwrap_or_default();
    declared.starts_with("text/") || TYPES.contains(&suffix) || EXTENSIONS.contains(&extension)
}

/// Subtypes of text formats whose type is not `text`.
const TYPES: [&str; 16] = [
    "ecmascript",
    "graphql",
    "httpd-php",
    "javascript",
    "json",
    "ndjson",
    "python",
    "sh",
    "shellscript",
    "sql",
    "subrip",
    "tex",
    "toml",
    "typescript",
    "xml",
    "yaml",
];

/// Extensions of text files that platforms have no type for. A file without a dot is compared by its whole name.
#[rustfmt::skip]
const EXTENSIONS: [&str; 93] = [
    "bash", "bat", "c", "cc", "cfg", "clj", "cmake", "conf", "cpp", "cs", "css", "csv", "dart", "diff", "dockerfile",
    "el", "erl", "ex", "exs", "fish", "fs", "go", "gradle", "graphql", "groovy", "h", "hcl", "hpp", "hs", "htm", "html",
    "ini", "java", "jl", "js", "json", "json5", "jsonl", "jsx", "kt", "kts", "less", "lisp", "lock", "log", "lua", "m",
    "makefile", "markdown", "md", "mjs", "ml", "ndjson", "nim", "nix", "org", "patch", "php", "pl", "properties",
    "proto", "ps1", "py", "pyi", "r", "rb", "rs", "rst", "sass", "scala", "scss", "sh", "sql", "srt", "svelte", "svg",
    "swift", "tex", "tf", "toml", "ts", "tsv", "tsx", "txt", "vim", "vtt", "vue", "xml", "yaml", "yml", "zig", "zsh",
    "vb",
];

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Enough bytes to be recognised as a picture.
    pub(in crate::agent) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";

    /// A temporary directory with files.
    pub(in crate::agent) struct Files(tempfile::TempDir);

    impl Files {
        pub(in crate::agent) fn new() -> Files {
            Files(tempfile::tempdir().unwrap())
        }

        pub(in crate::agent) fn sent(
            &self,
            kind: FileKind,
            name: &str,
            mime: Option<&str>,
            bytes: &[u8],
        ) -> Attachment {
            let path = self.0.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Attachment {
                kind,
                path,
                name: name.into(),
                mime: mime.map(str::to_owned),
            }
        }
    }

    fn named(kind: FileKind, name: &str, mime: &str) -> Attachment {
        Attachment {
            kind,
            path: PathBuf::from("/nowhere"),
            name: name.into(),
            mime: Some(mime.into()),
        }
    }

    #[test]
    fn the_first_bytes_say_what_a_picture_is_else_its_sender() {
        let webp = b"RIFF\x10\0\0\0WEBPVP8 ";
        for (bytes, declared, expected) in [
            (PNG, "image/webp", Some("image/png")),
            (&[0xff, 0xd8, 0xff, 0xe0], "", Some("image/jpeg")),
            (b"GIF89a..", "application/octet-stream", Some("image/gif")),
            (webp, "image/png", Some("image/webp")),
            (b"?", "Image/PNG; x=y", Some("image/png")),
            (b"?", "image/heic", None),
            (b"%PDF-1.7", "application/pdf", None),
        ] {
            for kind in [FileKind::Image, FileKind::File] {
                let found = image_type(&named(kind, "x", declared), bytes);
                assert_eq!(found, expected, "{declared}");
            }
        }
        assert_eq!(image_type(&named(FileKind::Video, "x", ""), PNG), None);
    }

    #[test]
    fn the_first_bytes_say_what_a_sound_is_else_its_sender() {
        for (bytes, declared, expected) in [
            (&b"OggS"[..], "application/octet-stream", Some("audio/ogg")),
            (&[0xff, 0xfb, 0x90], "", Some("audio/mpeg")),
            (b"ID3\x04", "", Some("audio/mpeg")),
            (b"RIFF\0\0\0\0WAVEfmt ", "", Some("audio/wav")),
            (b"fLaC", "", Some("audio/flac")),
            (b"\0\0\0\x20ftypM4A ", "", Some("audio/mp4")),
            (b"#!AMR", "audio/AMR", Some("audio/amr")),
            (b"?", "application/pdf", None),
        ] {
            for kind in [FileKind::Voice, FileKind::Audio] {
                let found = audio_type(&named(kind, "x", declared), bytes);
                assert_eq!(found.as_deref(), expected, "{declared}");
            }
        }
        assert_eq!(audio_type(&named(FileKind::File, "x", ""), b"OggS"), None);
    }

    #[test]
    fn only_what_is_meant_to_be_read_and_can_be_is_text() {
        let read = |name: &str, mime: &str, bytes: &[u8]| {
            text(&named(FileKind::File, name, mime), bytes.to_vec())
        };
        for (name, mime) in [
            ("a", "text/plain; charset=utf-8"),
            ("a", "application/json"),
            ("a", "application/ld+json"),
            ("a", "application/x-yaml"),
            ("Main.RS", "application/octet-stream"),
            ("Makefile", ""),
        ] {
            assert_eq!(
                read(name, mime, b"x").as_deref(),
                Some("x"),
                "{name} {mime}"
            );
        }
        for (name, mime) in [
            ("a.pdf", "application/pdf"),
            ("a", ""),
            ("a.docx", "application/octet-stream"),
        ] {
            assert_eq!(read(name, mime, b"x"), None, "{name} {mime}");
        }
        assert_eq!(
            read("a.md", "", "\u{feff}ä".as_bytes()).as_deref(),
            Some("ä")
        );
        assert_eq!(read("a.md", "", b"\xff\xfe"), None);
        assert_eq!(read("a.md", "", b"a\0b"), None);
        let long = vec![b'x'; LONGEST_TEXT];
        assert!(read("a.md", "", &long).is_some());
        assert_eq!(read("a.md", "", &[&long[..], b"x"].concat()), None);
        let voice = named(FileKind::Voice, "a.txt", "text/plain");
        assert_eq!(text(&voice, b"x".to_vec()), None);
    }

    #[tokio::test]
    async fn a_file_that_is_gone_or_none_or_empty_or_too_large_is_passed_over() {
        let files = Files::new();
        let largest = vec![0; usize::try_from(LARGEST).unwrap()];
        let fits = files.sent(FileKind::File, "fits", None, &largest);
        assert_eq!(content(&fits).await.map(|b| b.len()), Some(largest.len()));
        let large = files.sent(
            FileKind::File,
            "large",
            None,
            &[&largest[..], b"x"].concat(),
        );
        assert_eq!(content(&large).await, None);
        let empty = files.sent(FileKind::File, "empty", None, b"");
        assert_eq!(content(&empty).await, None);
        std::fs::remove_file(&fits.path).unwrap();
        assert_eq!(content(&fits).await, None);
        // Opening a pipe blocks until there is a writer.
        nix::unistd::mkfifo(&fits.path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(content(&fits).await, None);
    }
}
