//! The rooms of the crate and the direction of `use` between them. ARCHITECTURE.md shows the same picture.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What every room may name: modules that name nothing but each other.
const LEAVES: [&str; 15] = [
    "clock",
    "domain",
    "executable",
    "home_files",
    "journal_ids",
    "name_lookup",
    "panic_guard",
    "private_files",
    "process_identity",
    "ration",
    "reloadable",
    "safe_open",
    "shutdown",
    "testing",
    "visible_text",
];

/// Each room with the rooms that it may name, from the bottom to the top. A room names only rooms that stand above it in
/// this list, so the graph has no circle.
const ROOMS: [(&str, &[&str]); 20] = [
    ("protocol", &[]),
    ("client", &["protocol"]),
    ("config", &[]),
    ("events", &[]),
    ("hooks", &["config", "events"]),
    ("metrics", &[]),
    ("store", &["config", "metrics"]),
    ("sessions", &["store"]),
    ("agent", &["config", "store"]),
    ("platform", &["config", "events", "metrics", "store"]),
    (
        "turn",
        &["agent", "config", "events", "metrics", "sessions", "store"],
    ),
    (
        "delivery",
        &["config", "metrics", "platform", "store", "turn"],
    ),
    ("handoff", ROAD),
    ("inbound", ROAD),
    ("terminal", ROAD),
    (
        "views",
        &[
            "events", "inbound", "platform", "protocol", "sessions", "store",
        ],
    ),
    (
        "control",
        &[
            "agent", "config", "delivery", "events", "handoff", "inbound", "metrics", "platform",
            "protocol", "sessions", "store", "terminal", "turn", "views",
        ],
    ),
    (
        "daemon",
        &[
            "agent", "config", "control", "delivery", "events", "handoff", "hooks", "inbound",
            "metrics", "platform", "protocol", "store", "terminal", "turn", "views",
        ],
    ),
    (
        "cli",
        &[
            "client", "config", "handoff", "metrics", "platform", "protocol", "sessions", "store",
            "views",
        ],
    ),
    (
        "manual",
        &["cli", "config", "daemon", "platform", "protocol"],
    ),
];

/// A handoff, a chat and a terminal: three roads, and none names another.
const ROAD: &[&str] = &[
    "agent", "config", "delivery", "events", "metrics", "platform", "sessions", "store", "turn",
];

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The room that a source file belongs to; `None` for the root and the programs.
fn room_of(path: &Path) -> Option<String> {
    let below = path
        .strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .expect("a source");
    let first = below.iter().next()?.to_string_lossy();
    let room = first.strip_suffix(".rs").unwrap_or(&first);
    (!["lib", "bin"].contains(&room)).then(|| room.to_owned())
}

/// The rooms that a source names, also in a group: `crate::{store, turn}`.
fn named(text: &str) -> BTreeSet<String> {
    let mut rooms = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let names = match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default().to_owned(),
            None => rest.to_owned(),
        };
        let grouped = rest.starts_with('{');
        for name in names.split(',').take(if grouped { usize::MAX } else { 1 }) {
            let name = name.trim();
            let end = name.find(|c: char| !(c.is_ascii_lowercase() || c == '_'));
            let name = &name[..end.unwrap_or(name.len())];
            if !name.is_empty() {
                rooms.insert(name.to_owned());
            }
        }
    }
    rooms
}

#[test]
fn no_room_names_a_room_that_it_must_not_know() {
    let mut forbidden = Vec::new();
    for path in sources() {
        let Some(room) = room_of(&path) else { continue };
        let allowed: &[&str] = match ROOMS.iter().find(|(name, _)| *name == room) {
            Some((_, allowed)) => allowed,
            None => {
                assert!(
                    LEAVES.contains(&room.as_str()),
                    "{room} is not in the list of rooms"
                );
                &[]
            }
        };
        let text = std::fs::read_to_string(&path).expect("a readable source");
        for other in named(&text) {
            let known = other == room
                || LEAVES.contains(&other.as_str())
                || allowed.contains(&other.as_str());
            let is_room = ROOMS.iter().any(|(name, _)| *name == other);
            if is_room && !known {
                forbidden.push(format!("{} names {other}", path.display()));
            }
        }
    }
    assert!(forbidden.is_empty(), "forbidden:\n{}", forbidden.join("\n"));
}

#[test]
fn the_list_of_rooms_has_no_circle() {
    for (at, (room, allowed)) in ROOMS.iter().enumerate() {
        for other in *allowed {
            let place = ROOMS.iter().position(|(name, _)| name == other);
            assert!(
                place.is_some_and(|place| place < at),
                "{room} stands above {other}"
            );
        }
    }
}

#[test]
fn names_in_a_group_are_found() {
    let text = "use crate::{store::Store, turn};\nlet x = crate::agent::PROBE;";
    let rooms: Vec<String> = named(text).into_iter().collect();
    assert_eq!(rooms, ["agent", "store", "turn"]);
}
