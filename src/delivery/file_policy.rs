//! Which files may leave for a chat. An agent reads what strangers write, and may be talked into naming any file at all:
//! so only what lies where files to be sent belong, and nothing that is a secret by its place, its name or its kind.
//!
//! A file is opened once, and what was opened is judged: a name may lead elsewhere a moment later.

mod names;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::domain::attachment::one_line;
use crate::safe_open::{find, metadata, place_of, read};

/// The longest name that is shown of a file, in characters.
const LONGEST_NAME: usize = 100;
/// The same words whether it is missing or refused: the chat does not learn what is on this machine.
const REFUSED: &str = "it is not there, or may not be sent";
/// What is read of a file to see what it is.
const BEGINNING: usize = 4096;

/// Where files may be sent from, and how large they may be.
pub struct SendRules<'a> {
    pub roots: &'a [PathBuf],
    /// Directories with private files in them. A root has to lie inside of such a directory to open it.
    pub private: &'a [PathBuf],
    /// In bytes.
    pub longest: u64,
}

/// A file that may be sent, open for reading.
#[derive(Debug)]
pub struct Sendable {
    pub file: File,
    /// For the recipient.
    pub name: String,
    pub size: u64,
}

/// Why a file is not sent.
#[derive(Debug, PartialEq)]
enum Refusal {
    /// For the log alone.
    Secret(String),
    /// For the chat too.
    Said(String),
}

impl Refusal {
    fn secret(why: impl ToString) -> Refusal {
        Refusal::Secret(why.to_string())
    }
}

/// Opens a file that may be sent. An error is a sentence for the person.
pub fn open_to_send(path: &Path, rules: &SendRules<'_>) -> Result<Sendable, String> {
    check(path, rules).map_err(|refusal| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = one_line(&name.to_string_lossy(), LONGEST_NAME);
        let why = match refusal {
            Refusal::Said(why) => why,
            Refusal::Secret(reason) => {
                tracing::warn!(path = %path.display(), reason, "a file is not sent");
                REFUSED.to_owned()
            }
        };
        format!("{name} is not sent: {why}.")
    })
}

fn check(path: &Path, rules: &SendRules<'_>) -> Result<Sendable, Refusal> {
    let path = at_home(path).ok_or_else(|| {
        Refusal::Said("its path does not begin at the root or at your home".into())
    })?;
    let found = find(&path).map_err(Refusal::secret)?;
    let place = place_of(&found).map_err(Refusal::secret)?;
    check_place(&place, rules)?;
    let facts = metadata(&found).map_err(Refusal::secret)?;
    if facts.is_symlink() {
        return Err(Refusal::secret("it is a link"));
    }
    if !facts.is_file() {
        return Err(Refusal::Said("it is no file".into()));
    }
    if facts.nlink() != 1 {
        return Err(Refusal::secret("it has more than one name"));
    }
    if facts.uid() != geteuid().as_raw() {
        return Err(Refusal::secret("it belongs to another user"));
    }
    match facts.len() {
        0 => return Err(Refusal::Said("it is empty".into())),
        size if size > rules.longest => return Err(too_large(rules.longest)),
        _ => {}
    }
    let file = read(&found).map_err(Refusal::secret)?;
    if holds_secrets(&file) {
        return Err(Refusal::secret("it is a key or a database"));
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    Ok(Sendable {
        file,
        name: name.replace(|c: char| c.is_control(), "_"),
        size: facts.len(),
    })
}

/// With the home of the person in the place of `~`. `None`: it begins nowhere in particular.
fn at_home(path: &Path) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(below) => std::env::home_dir().map(|home| home.join(below)),
        Err(_) => path.is_absolute().then(|| path.to_owned()),
    }
}

fn check_place(place: &Path, rules: &SendRules<'_>) -> Result<(), Refusal> {
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
        Err(Refusal::secret(
            "it is outside of the directories that files are sent from",
        ))
    } else if below.iter().all(|below| names::is_hidden(below)) {
        Err(Refusal::secret("it is hidden"))
    } else if names::in_secret_directory(place) || names::is_secret(&name) {
        Err(Refusal::secret("its name is one of files with secrets"))
    } else {
        Ok(())
    }
}

/// Whether the file begins as databases, keys and password stores do, whatever it is called.
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
    /// Copies what is left of the file, and stops where it has grown too large.
    pub fn copy_to(&mut self, to: &mut File, longest: u64) -> Result<u64, String> {
        let copied = std::io::copy(&mut (&mut self.file).take(longest + 1), to);
        match copied {
            Ok(size) if size > longest => Err(in_limit(longest)),
            Ok(size) => Ok(size),
            Err(error) => Err(format!("it cannot be copied ({error})")),
        }
    }
}

fn too_large(longest: u64) -> Refusal {
    Refusal::Said(in_limit(longest))
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
