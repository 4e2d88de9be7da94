//! A journal for the daemon to write to: its socket, and what arrives there, read as journald reads it.

use std::collections::BTreeMap;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::daemon::JOURNAL_IS_AT;
use super::{Home, until};

pub type Entry = BTreeMap<String, String>;

pub struct Journald {
    path: PathBuf,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Journald {
    /// `None`: no daemon can be given another journal here, and the test says that it was skipped.
    pub fn at(home: &Home) -> Option<Journald> {
        home.with_own_mounts("")?;
        let path = home.path().join("journal");
        std::fs::create_dir(&path).expect("a directory");
        let socket = UnixDatagram::bind(path.join("socket")).expect("a socket");
        let entries = Arc::<Mutex<Vec<Entry>>>::default();
        let written = entries.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            let mut datagram = vec![0; 1 << 20];
            while let Ok(size) = socket.recv(&mut datagram) {
                // An empty one only asks whether there is a journal.
                if size > 0 {
                    written.lock().unwrap().push(read(&datagram[..size]));
                }
            }
        });
        Some(Journald { path, entries })
    }

    /// The settings of a daemon that writes here, in a file system of its own where this is the journal.
    pub fn settings(&self) -> [(&str, &str); 2] {
        let path = self.path.to_str().expect("a plain path");
        [("HERMESD_LOG_TARGET", "journal"), (JOURNAL_IS_AT, path)]
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().unwrap().clone()
    }

    /// Waits for one with this id.
    pub fn until_told(&self, message_id: &str) -> Entry {
        until(message_id, || {
            let has = |entry: &Entry| entry.get("MESSAGE_ID").is_some_and(|id| id == message_id);
            self.entries().into_iter().find(has)
        })
    }
}

fn read(mut bytes: &[u8]) -> Entry {
    let mut fields = Entry::new();
    while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
        let line = std::str::from_utf8(&bytes[..end]).expect("text");
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => {
                bytes = &bytes[end + 1..];
                (name, value.to_owned())
            }
            None => {
                let (length, rest) = bytes[end + 1..].split_at(8);
                let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
                let (value, rest) = rest.split_at(usize::try_from(length).expect("a size"));
                assert_eq!(rest.first(), Some(&b'\n'));
                bytes = &rest[1..];
                (line, String::from_utf8(value.to_vec()).expect("text"))
            }
        };
        let proper = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        assert!(
            name.bytes().all(proper) && name.len() <= 64 && !name.starts_with('_'),
            "journald would drop {name}"
        );
        let old = fields.insert(name.to_owned(), value);
        assert_eq!(old, None, "{name} is there twice");
    }
    assert!(bytes.is_empty(), "half a field: {bytes:?}");
    fields
}
