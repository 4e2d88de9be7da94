//! Reads and revokes the pairings of Hermes. They are in files of Hermes, one per platform, in one of two directories.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The directories, relative to the home.
const PLACES: [&str; 2] = ["pairing", "platforms/pairing"];
/// Follows the platform in a file's name.
const ENDING: &str = "-approved.json";

/// A person with a pairing of Hermes.
#[derive(Debug, Clone, PartialEq)]
pub struct HermesPerson {
    pub platform: String,
    pub user_id: String,
    pub user_name: Option<String>,
    pub approved_at: f64,
}

/// The ids of all paired people of a platform.
pub(super) fn ids(home: &Path, platform: &str) -> Vec<String> {
    let people = files_of(home, platform).filter_map(|path| read(&path));
    people.flatten().map(|(id, _)| id).collect()
}

/// All paired people, each once.
pub fn list(home: &Path) -> Vec<HermesPerson> {
    let mut people: Vec<HermesPerson> = Vec::new();
    for platform in platforms(home) {
        for (user_id, entry) in files_of(home, &platform)
            .filter_map(|path| read(&path))
            .flatten()
        {
            let name = entry.get("user_name").and_then(Value::as_str);
            let approved_at = entry.get("approved_at").and_then(Value::as_f64);
            let person = HermesPerson {
                platform: platform.clone(),
                user_id,
                user_name: name.filter(|name| !name.is_empty()).map(str::to_owned),
                approved_at: approved_at.unwrap_or_default(),
            };
            let known = people
                .iter_mut()
                .find(|p| p.platform == platform && p.user_id == person.user_id);
            match known {
                Some(known) => known.user_name = known.user_name.take().or(person.user_name),
                None => people.push(person),
            }
        }
    }
    people
}

/// Removes a person from Hermes' files. False: no file has them.
pub fn revoke(home: &Path, platform: &str, user: &str) -> io::Result<bool> {
    let mut revoked = false;
    for path in files_of(home, platform) {
        let Some(mut people) = read(&path) else {
            continue;
        };
        if people.shift_remove(user).is_some() {
            replace(&path, &people)?;
            revoked = true;
        }
    }
    Ok(revoked)
}

fn files_of(home: &Path, platform: &str) -> impl Iterator<Item = PathBuf> {
    let name = format!("{platform}{ENDING}");
    // A name with a slash would lead to another directory.
    let places = PLACES.iter().filter(|_| !platform.contains('/'));
    let paths: Vec<PathBuf> = places.map(|place| home.join(place).join(&name)).collect();
    paths.into_iter()
}

fn platforms(home: &Path) -> std::collections::BTreeSet<String> {
    let entries = PLACES
        .iter()
        .filter_map(|place| std::fs::read_dir(home.join(place)).ok());
    let names = entries.flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(ENDING).map(str::to_owned)
    });
    names.collect()
}

fn read(path: &Path) -> Option<Map<String, Value>> {
    let text = std::fs::read_to_string(path).ok()?;
    serde_json::from_str(&text).ok()
}

/// Replaces the file atomically and preserves its mode. A link stays a link.
fn replace(path: &Path, people: &Map<String, Value>) -> io::Result<()> {
    let path = path.canonicalize()?;
    let before = path.metadata()?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(serde_json::to_string_pretty(people)?.as_bytes())?;
    file.as_file().set_permissions(before.permissions())?;
    // Only root can change the owner. For other users the owner is already the same.
    let owned = (before.uid(), before.gid());
    let _ = std::os::unix::fs::chown(file.path(), Some(owned.0), Some(owned.1));
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}
