//! Decides which files may be sent to a chat. An agent reads text of strangers, who may persuade it to name any file.
//! So a file must be in an allowed directory, and its place, name and content must not be those of a secret.
//!
//! A file is opened once. The checks use the open file, because its name may lead elsewhere a moment later.

mod names;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::domain::attachment::one_line;
use crate::safe_open::{find, metadata, place_of, read};

/// The longest file name that a message shows, in characters.
const LONGEST_NAME: usize = 100;
/// The same text for a missing and a refused file, so that the chat does not learn which files exist here.
const REFUSED: &str = "it is not there, or may not be sent";
/// The number of bytes that are checked for the signature of a secret.
const BEGINNING: usize = 4096;

/// The directories that files may be sent from, and the largest size.
pub struct SendRules<'a> {
    pub roots: &'a [PathBuf],
    /// Directories with private files. A root allows files in such a directory only if the root is inside it.
    pub private: &'a [PathBuf],
    /// In bytes.
    pub longest: u64,
}

/// A file that may be sent, open for reading.
#[derive(Debug)]
pub struct Sendable {
    pub file: File,
    /// The name that the recipient sees.
    pub name: String,
    pub size: u64,
}

/// Why a file is not sent.
#[derive(Debug, PartialEq)]
enum FileRefusal {
    /// Logged. The chat gets only [`REFUSED`].
    Secret(String),
    /// Sent to the chat.
    Said(String),
}

impl FileRefusal {
    fn secret(why: impl ToString) -> FileRefusal {
        FileRefusal::Secret(why.to_string())
    }
}

/// Opens a file that may be sent. An error is a sentence for the person.
pub fn open_to_send(path: &Path, rules: &SendRules<'_>) -> Result<Sendable, String> {
    check(path, rules).map_err(|refusal| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = one_line(&name.to_string_lossy(), LONGEST_NAME);
        let why = match refusal {
            FileRefusal::Said(why) => why,
            FileRefusal::Secret(reason) => {
                tracing::warn!(path = %path.display(), reason, "file refused");
                REFUSED.to_owned()
            }
        };
        format!("{name} is not sent: {why}.")
    })
}

fn check(path: &Path, rules: &SendRules<'_>) -> Result<Sendable, FileRefusal> {
    let path = at_home(path).ok_or_else(|| {
        FileRefusal::Said("its path does not begin at the root or at your home".into())
    })?;
    let found = find(&path).map_err(FileRefusal::secret)?;
    let place = place_of(&found).map_err(FileRefusal::secret)?;
    check_place(&place, rules)?;
    let facts = metadata(&found).map_err(FileRefusal::secret)?;
    if facts.is_symlink() {
        return Err(FileRefusal::secret("it is a link"));
    }
    if !facts.is_file() {
        return Err(FileRefusal::Said("not a regular file".into()));
    }
    if facts.nlink() != 1 {
        return Err(FileRefusal::secret("it has more than one name"));
    }
    if facts.uid() != geteuid().as_raw() {
        return Err(FileRefusal::secret("it belongs to another user"));
    }
    match facts.len() {
        0 => return Err(FileRefusal::Said("it is empty".into())),
        size if size > rules.longest => return Err(too_large(rules.longest)),
        _ => {}
    }
    let file = read(&found).map_err(FileRefusal::secret)?;
    if holds_secrets(&file) {
        return Err(FileRefusal::secret("it is a key or a database"));
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    Ok(Sendable {
        file,
        name: name.replace(|c: char| c.is_control(), "_"),
        size: facts.len(),
    })
}

/// Replaces `~` with the person's home. `None`: the path is relative.
fn at_home(path: &Path) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(below) => std::env::home_dir().map(|home| home.join(below)),
        Err(_) => path.is_absolute().then(|| path.to_owned()),
    }
}

fn check_place(place: &Path, rules: &SendRules<'_>) -> Result<(), FileRefusal> {
    let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
        let paths = paths.iter();
        paths.filter_map(|path| path.canonicalize().ok()).collect()
    };
    let private = real(rules.private);
    let opens = |root: &Path| {
        let mut around = private.iter().filter(|private| place.starts_with(private));
        root != Path::new("/") && around.all(|around| root.starts_with(around) && root != around)
    };
    let roots = real(rules.roots);
    let below: Vec<&Path> = roots
        .iter()
        .filter(|root| opens(root))
        .filter_map(|root| place.strip_prefix(root).ok())
        .collect();
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    if below.is_empty() {
        Err(FileRefusal::secret(
            "it is outside of the directories that files are sent from",
        ))
    } else if below.iter().all(|below| names::is_hidden(below)) {
        Err(FileRefusal::secret("it is hidden"))
    } else if names::in_secret_directory(place) || names::is_secret(&name) {
        Err(FileRefusal::secret("its name is one of files with secrets"))
    } else {
        Ok(())
    }
}

/// Whether the file begins like a database, a key or a password store, whatever its name.
fn holds_secrets(file: &File) -> bool {
    let mut bytes = vec![0; BEGINNING];
    let read = file.read_at(&mut bytes, 0).unwrap_or_default();
    let bytes = &bytes[..read];
    let text = String::from_utf8_lossy(bytes);
    bytes.starts_with(b"SQLite format 3\0")
        || bytes.starts_with(b"\x03\xd9\xa2\x9a")
        || text.trim_start().starts_with("PuTTY-User-Key-File-")
        || (text.contains("-----BEGIN ") && text.contains(" PRIVATE KEY"))
}

impl Sendable {
    /// Copies the rest of the file. Fails if the file has become too large.
    pub fn copy_to(&mut self, to: &mut File, longest: u64) -> Result<u64, String> {
        let copied = std::io::copy(&mut (&mut self.file).take(longest + 1), to);
        match copied {
            Ok(size) if size > longest => Err(in_limit(longest)),
            Ok(size) => Ok(size),
            Err(error) => Err(format!("it cannot be copied ({error})")),
        }
    }
}

fn too_large(longest: u64) -> FileRefusal {
    FileRefusal::Said(in_limit(longest))
}

fn in_limit(longest: u64) -> String {
    let longest = in_words(longest);
    format!("it is larger than {longest}, the most that can be sent")
}

fn in_words(bytes: u64) -> String {
    match bytes {
        ..1000 => format!("{bytes} bytes"),
        1000..1_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests;
