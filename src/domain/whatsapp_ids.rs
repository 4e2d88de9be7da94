//! Recognises the several ids of one WhatsApp user: a number, a JID with or without a device, and a LID. The bridge
//! records which ids belong together, in files of its session directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// More ids than one person has. It ends circular or endless mappings.
const MOST: usize = 32;

/// Looks ids up in the bridge's files. Without a home it only normalises their spelling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhatsAppIds {
    home: Option<PathBuf>,
}

impl WhatsAppIds {
    pub fn of_home(home: &Path) -> WhatsAppIds {
        WhatsAppIds {
            home: Some(home.to_owned()),
        }
    }

    /// The id that represents the person: the shortest one, and the smallest of those.
    pub fn canonical(&self, id: &str) -> String {
        canonical(id, |id| self.mapped(id))
    }

    /// Whether both ids belong to the same person.
    pub fn are_same(&self, one: &str, other: &str) -> bool {
        let of_one = aliases(one, |id| self.mapped(id));
        let of_other = aliases(other, |id| self.mapped(id));
        !of_one.is_disjoint(&of_other)
    }

    /// The ids in the two mapping files of an id.
    fn mapped(&self, id: &str) -> Vec<String> {
        let Some(directory) = self.directory() else {
            return Vec::new();
        };
        // The id becomes part of a file name.
        if !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Vec::new();
        }
        let names = [
            format!("lid-mapping-{id}.json"),
            format!("lid-mapping-{id}_reverse.json"),
        ];
        let read = |name: &String| {
            let text = std::fs::read_to_string(directory.join(name)).ok()?;
            match serde_json::from_str(&text).ok()? {
                Value::String(other) => Some(other),
                Value::Number(other) => Some(other.to_string()),
                _ => None,
            }
        };
        names.iter().filter_map(read).collect()
    }

    /// The bridge's session directory. The older location counts while it has files.
    fn directory(&self) -> Option<PathBuf> {
        let home = self.home.as_ref()?;
        let older = home.join("whatsapp/session");
        let has_content = std::fs::read_dir(&older).is_ok_and(|mut files| files.next().is_some());
        Some(match has_content {
            true => older,
            false => home.join("platforms/whatsapp/session"),
        })
    }
}

/// Implements [`WhatsAppIds::canonical`]. `mapped` returns the ids that an id maps to.
fn canonical(id: &str, mapped: impl Fn(&str) -> Vec<String>) -> String {
    let all = aliases(id, mapped);
    let shortest = all.into_iter().min_by_key(|alias| alias.chars().count());
    shortest.unwrap_or_default()
}

/// All ids of the person, without server and device.
fn aliases(id: &str, mapped: impl Fn(&str) -> Vec<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![bare(id)];
    while let Some(next) = left.pop() {
        if next.is_empty() || found.len() == MOST || !found.insert(next.clone()) {
            continue;
        }
        left.extend(mapped(&next).iter().map(|other| bare(other)));
    }
    found
}

/// The id without plus sign, device and server. A number may contain blanks, dots, dashes and brackets.
fn bare(id: &str) -> String {
    let id = id.trim();
    let id = id.strip_prefix('+').unwrap_or(id);
    let id = id.split(':').next().unwrap_or_default();
    let id = id.split('@').next().unwrap_or_default();
    let is_number = |c: char| c.is_ascii_digit() || " .-()".contains(c);
    if id.chars().all(is_number) {
        id.chars().filter(char::is_ascii_digit).collect()
    } else {
        id.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_number_is_one_id() {
        let ids = WhatsAppIds::default();
        for id in [
            "15551234567",
            " +15551234567",
            "+1 (555) 123-45.67",
            "15551234567@s.whatsapp.net",
            "15551234567:12@s.whatsapp.net",
        ] {
            assert_eq!(ids.canonical(id), "15551234567", "{id}");
        }
        assert!(!ids.are_same("15551234567", "15551234568"));
        assert!(!ids.are_same("", "@lid"), "nothing is nobody's id");
    }

    #[test]
    fn the_shortest_id_wins_then_the_smallest_and_circles_end() {
        let circle = |id: &str| match id {
            "333" => vec!["22@lid".to_owned()],
            "22" => vec!["11@lid".to_owned(), "333".to_owned()],
            "11" => vec!["22".to_owned()],
            _ => Vec::new(),
        };
        for id in ["333@s.whatsapp.net", "22", "11@lid"] {
            assert_eq!(canonical(id, circle), "11", "{id}");
        }
        let endless = |id: &str| vec![format!("{id}9")];
        assert_eq!(canonical("1", endless), "1");
    }

    #[test]
    fn an_id_does_not_lead_out_of_the_directory() {
        let home = tempfile::tempdir().unwrap();
        let session = home.path().join("platforms/whatsapp/session");
        std::fs::create_dir_all(session.join("lid-mapping-x")).unwrap();
        std::fs::write(session.join("secret.json"), "\"15551234567\"").unwrap();
        let ids = WhatsAppIds::of_home(home.path());
        assert_eq!(ids.canonical("x/../secret"), "x/../secret");
    }
}
