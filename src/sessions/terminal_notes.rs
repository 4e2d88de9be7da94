//! Reads Hermes' notes about terminals: its CLI writes the session of each terminal to a file in `terminal-sessions/`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

/// A terminal, with the names that Hermes' CLI may use for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TerminalNames {
    /// File names such as `tty-dev-pts-3`, the best first.
    pub ids: Vec<String>,
    /// When the terminal was opened. An older note belongs to an earlier terminal of the same name.
    pub since: Option<f64>,
}

/// Hermes removes notes that are older than this, in seconds.
const OLDEST: f64 = 30.0 * 86_400.0;
/// Tolerance for coarse timestamps of file systems, in seconds.
const TOLERANCE: f64 = 2.0;
/// The largest file to read. A note has about a hundred bytes.
const LONGEST: u64 = 64 * 1024;
/// The number of names to look up at most.
const MOST: usize = 16;

/// The session ids from the notes about this terminal, the best first.
pub fn noted_sessions(home: &Path, terminal: &TerminalNames, now: f64) -> Vec<String> {
    let earliest = terminal.since.unwrap_or(0.0).max(now - OLDEST) - TOLERANCE;
    let ids = terminal.ids.iter().filter(|id| is_plain(id)).take(MOST);
    ids.filter_map(|id| noted(home, id, earliest)).collect()
}

/// Whether the id is a file name without a directory part. Temporary files begin with a dot.
fn is_plain(id: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !id.is_empty() && id.len() <= 255 && !id.starts_with('.') && id.chars().all(allowed)
}

fn noted(home: &Path, id: &str, earliest: f64) -> Option<String> {
    let mut file = File::open(home.join("terminal-sessions").join(id)).ok()?;
    let (found, owner) = (file.metadata().ok()?, std::fs::metadata(home).ok()?.uid());
    if !found.is_file() || found.uid() != owner || found.len() > LONGEST {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let note: Value = serde_json::from_str(&text).ok()?;
    let session = note["session_id"].as_str()?.trim();
    let fresh = note["ts"].as_f64()? >= earliest;
    (fresh && !session.is_empty()).then(|| session.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: f64 = 1_800_000_000.0;

    fn home_with(notes: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("terminal-sessions");
        std::fs::create_dir(&directory).unwrap();
        for (name, text) in notes {
            std::fs::write(directory.join(name), text).unwrap();
        }
        home
    }

    fn terminal(ids: &[&str], since: Option<f64>) -> TerminalNames {
        TerminalNames {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            since,
        }
    }

    fn note(session: &str, at: f64) -> String {
        format!(r#"{{"session_id": "{session}", "cwd": "/tmp", "ts": {at}}}"#)
    }

    #[test]
    fn notes_are_read_in_the_order_of_the_names() {
        let home = home_with(&[
            ("tty-dev-pts-3", &note("a", NOW - 5.0)),
            ("tmux_pane--1", &note("b", NOW - 5.0)),
        ]);
        let noted =
            |ids: &[&str]| noted_sessions(home.path(), &terminal(ids, Some(NOW - 60.0)), NOW);
        assert_eq!(noted(&["tty-dev-pts-3", "tmux_pane--1"]), ["a", "b"]);
        assert_eq!(noted(&["tty-dev-pts-4", "tmux_pane--1"]), ["b"]);
        assert_eq!(noted(&[]), Vec::<String>::new());
    }

    #[test]
    fn a_note_of_an_earlier_terminal_or_of_long_ago_does_not_count() {
        let home = home_with(&[("tty-dev-pts-3", &note("a", NOW - 100.0))]);
        let noted = |since: Option<f64>, now: f64| {
            !noted_sessions(home.path(), &terminal(&["tty-dev-pts-3"], since), now).is_empty()
        };
        assert!(noted(None, NOW));
        assert!(noted(Some(NOW - 100.0), NOW));
        assert!(!noted(Some(NOW - 50.0), NOW), "the terminal is younger");
        assert!(!noted(None, NOW + 31.0 * 86_400.0), "a month ago");
    }

    #[test]
    fn odd_names_and_files_are_passed_over() {
        let home = home_with(&[
            ("broken", "{oops"),
            ("empty", r#"{"session_id": " ", "ts": 1800000000}"#),
            ("timeless", r#"{"session_id": "a"}"#),
            (".hidden", &note("a", NOW)),
        ]);
        std::fs::write(home.path().join("outside"), note("a", NOW)).unwrap();
        let all = terminal(
            &["broken", "empty", "timeless", ".hidden", "../outside", ""],
            None,
        );
        assert_eq!(noted_sessions(home.path(), &all, NOW), Vec::<String>::new());
    }
}
