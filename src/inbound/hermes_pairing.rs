//! People whom Hermes has let in. It keeps them in files of its own, one a platform, in one of two places.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The directories in the home.
const PLACES: [&str; 2] = ["pairing", "platforms/pairing"];
/// What stands behind the platform in a file's name.
const ENDING: &str = "-approved.json";

/// Somebody whom Hermes has let in.
#[derive(Debug, Clone, PartialEq)]
pub struct HermesPerson {
    pub platform: String,
    pub user_id: String,
    pub user_name: Option<String>,
    pub approved_at: f64,
}

/// The ids of all whom Hermes has let in on a platform.
pub(super) fn ids(home: &Path, platform: &str) -> Vec<String> {
    let people = files_of(home, platform).filter_map(|path| read(&path));
    people.flatten().map(|(id, _)| id).collect()
}

/// Everybody whom Hermes has let in, each once.
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

/// Takes a person out of Hermes' files. False: they are in none.
pub fn revoke(home: &Path, platform: &str, user: &str) -> io::Result<bool> {
    let mut gone = false;
    for path in files_of(home, platform) {
        let Some(mut people) = read(&path) else {
            continue;
        };
        if people.shift_remove(user).is_some() {
            replace(&path, &people)?;
            gone = true;
        }
    }
    Ok(gone)
}

fn files_of(home: &Path, platform: &str) -> impl Iterator<Item = PathBuf> {
    let name = format!("{platform}{ENDING}");
    // A name that leads elsewhere is no platform's.
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

/// Whole or not at all, with the mode that it had. A file that is a link stays one.
fn replace(path: &Path, people: &Map<String, Value>) -> io::Result<()> {
    let path = path.canonicalize()?;
    let before = path.metadata()?;
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(serde_json::to_string_pretty(people)?.as_bytes())?;
    file.as_file().set_permissions(before.permissions())?;
    // Only root can give a file away; for others the owner is the same already.
    let owned = (before.uid(), before.gid());
    let _ = std::os::unix::fs::chown(file.path(), Some(owned.0), Some(owned.1));
    file.as_file().sync_all()?;
    file.persist(&path)?;
    Ok(())
}
