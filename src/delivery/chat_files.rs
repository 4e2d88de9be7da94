//! Stores the files of chats: one directory per chat, with an age limit and a quota for all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Relative to the home.
const DIRECTORY: &str = "files";
/// The longest name of a directory. A longer name becomes nested directories.
const LONGEST_NAME: usize = 200;

/// The directory of a chat. No two chats share one.
pub(crate) fn directory(home: &Path, platform: &str, chat: &str) -> PathBuf {
    let mut name = String::from("chat");
    for byte in chat.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' => name.push(char::from(byte)),
            other => name.push_str(&format!("={other:02x}")),
        }
    }
    let mut path = home.join(DIRECTORY).join(platform);
    // The name is ASCII, so it can be split anywhere.
    let mut rest = name.as_str();
    while rest.len() > LONGEST_NAME {
        let (first, more) = rest.split_at(LONGEST_NAME);
        // No name contains a `+`, so this is not the directory of another chat.
        path.push(format!("{first}+"));
        rest = more;
    }
    path.push(rest);
    path
}

/// Limits for the age and the total size of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) age: Option<Duration>,
    /// In bytes.
    pub(crate) quota: u64,
}

struct StoredFile {
    path: PathBuf,
    size: u64,
    at: SystemTime,
}

/// Removes files that are older than the limit. Above the quota, the chat with the most bytes loses its oldest files,
/// so one chat does not displace the files of others. Returns the number of removed files.
pub(crate) fn prune(home: &Path, limits: Limits) -> usize {
    let mut all = Vec::new();
    collect(&home.join(DIRECTORY), &mut all);
    let now = SystemTime::now();
    let too_old = |kept: &StoredFile| {
        let age = now.duration_since(kept.at).unwrap_or_default();
        limits.age.is_some_and(|limit| age > limit)
    };
    let mut removed = 0;
    let mut remove = |kept: &StoredFile| {
        if std::fs::remove_file(&kept.path).is_ok() {
            removed += 1;
        }
    };
    let mut chats: HashMap<PathBuf, Vec<StoredFile>> = HashMap::new();
    for kept in all {
        if too_old(&kept) {
            remove(&kept);
        } else if let Some(chat) = kept.path.parent() {
            chats.entry(chat.to_owned()).or_default().push(kept);
        }
    }
    for files in chats.values_mut() {
        // The oldest comes last, so that `pop` returns it.
        files.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| b.path.cmp(&a.path)));
    }
    let size = |files: &Vec<StoredFile>| files.iter().map(|kept| kept.size).sum::<u64>();
    let mut sizes: HashMap<PathBuf, u64> = chats
        .iter()
        .map(|(chat, files)| (chat.clone(), size(files)))
        .collect();
    let mut total: u64 = sizes.values().sum();
    while total > limits.quota {
        let Some((chat, held)) = sizes.iter_mut().max_by_key(|(_, held)| **held) else {
            break;
        };
        match chats.get_mut(chat).and_then(Vec::pop) {
            Some(oldest) => {
                remove(&oldest);
                *held -= oldest.size;
                total -= oldest.size;
            }
            None => break,
        }
    }
    removed
}

/// Collects all files below a directory. Ignores links.
fn collect(directory: &Path, into: &mut Vec<StoredFile>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(facts) = entry.metadata() else {
            continue;
        };
        if facts.is_dir() {
            collect(&entry.path(), into);
        } else if facts.is_file() {
            into.push(StoredFile {
                path: entry.path(),
                size: facts.len(),
                at: facts.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(home: &Path, chat: &str, name: &str, size: usize, age: u64) -> PathBuf {
        let directory = directory(home, "telegram", chat);
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join(name);
        std::fs::write(&path, vec![b'x'; size]).unwrap();
        let at = SystemTime::now() - Duration::from_secs(age);
        let opened = std::fs::File::options().write(true).open(&path).unwrap();
        opened.set_modified(at).unwrap();
        path
    }

    #[test]
    fn a_chat_with_a_long_name_is_not_inside_of_another() {
        let long = "x".repeat(LONGEST_NAME - 4);
        let (one, other) = (long.clone(), format!("{long}y"));
        let path = |chat: &str| directory(Path::new("/home"), "signal", chat);
        assert!(!path(&other).starts_with(path(&one)));
    }

    #[test]
    fn old_files_go() {
        let home = tempfile::tempdir().unwrap();
        let old = file(home.path(), "1", "old", 1, 5000);
        let new = file(home.path(), "1", "new", 1, 10);
        let quota = 100;
        let limits = |age| Limits { age, quota };
        assert_eq!(prune(home.path(), limits(None)), 0);
        let hour = Some(Duration::from_secs(3600));
        assert_eq!(prune(home.path(), limits(hour)), 1);
        assert!(new.exists() && !old.exists());
    }

    #[test]
    fn the_chat_that_holds_most_makes_room() {
        let home = tempfile::tempdir().unwrap();
        let quiet = file(home.path(), "1", "oldest of all", 30, 9000);
        let first = file(home.path(), "2", "first", 40, 500);
        let second = file(home.path(), "2", "second", 40, 400);
        let limits = Limits {
            age: None,
            quota: 100,
        };
        assert_eq!(prune(home.path(), limits), 1);
        assert!(quiet.exists() && second.exists() && !first.exists());
    }

    #[test]
    fn a_link_is_not_followed() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = other.path().join("precious");
        std::fs::write(&precious, "x").unwrap();
        std::fs::create_dir(home.path().join(DIRECTORY)).unwrap();
        std::os::unix::fs::symlink(other.path(), home.path().join("files/link")).unwrap();
        let limits = Limits {
            age: Some(Duration::ZERO),
            quota: 0,
        };
        assert_eq!(prune(home.path(), limits), 0);
        assert!(precious.exists());
    }

    proptest! {
        #[test]
        fn no_two_chats_share_a_directory(one in ".{0,300}", other in ".{0,300}") {
            let home = Path::new("/home");
            let path = |chat: &str| directory(home, "signal", chat);
            prop_assert_eq!(path(&one).starts_with(path(&other)), one == other);
            prop_assert!(path(&one).starts_with("/home/files/signal"));
            prop_assert!(path(&one).components().all(|c| c.as_os_str().len() <= LONGEST_NAME + 1));
        }
    }
}
