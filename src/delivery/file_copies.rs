//! Copies files that wait to be sent. A reply may wait for hours, and its file may change meanwhile. The chat gets the
//! file as it was when the agent named it.

use std::collections::HashSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::delivery::Sendable;
use crate::private_files;

/// Relative to the home. Each copy has a directory of its own there, so that it keeps its name.
const DIRECTORY: &str = "outgoing";

/// Copies a file into the home. An error is part of a sentence for the person.
pub(super) fn copy(
    home: &Path,
    mut opened: Sendable,
    longest: u64,
    quota: u64,
) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("it cannot be copied ({error})");
    let all = home.join(DIRECTORY);
    private_files::directory(&all).map_err(failed)?;
    if size_of(&all) + opened.size > quota {
        return Err("too many files are waiting to be sent".into());
    }
    // Removed on an error.
    let own = tempfile::Builder::new()
        .prefix("")
        .rand_bytes(12)
        .tempdir_in(&all)
        .map_err(failed)?;
    let private = Permissions::from_mode(private_files::DIRECTORY);
    std::fs::set_permissions(own.path(), private).map_err(failed)?;
    let path = own.path().join(&opened.name);
    let mut file = private_files::new_file(&path).map_err(failed)?;
    opened.copy_to(&mut file, longest)?;
    file.sync_all().map_err(failed)?;
    let _ = own.keep();
    Ok(path)
}

/// Removes a copy that is no longer needed. Does nothing for other files.
pub(super) fn remove(home: &Path, file: &Path) {
    let all = home.join(DIRECTORY);
    if let Some(own) = file.parent()
        && own.parent() == Some(all.as_path())
    {
        let _ = std::fs::remove_dir_all(own);
    }
}

/// Removes copies from before `before` that no reply needs. A daemon that was killed leaves such copies.
pub(super) fn sweep(home: &Path, wanted: &HashSet<PathBuf>, before: SystemTime) -> usize {
    let Ok(entries) = std::fs::read_dir(home.join(DIRECTORY)) else {
        return 0;
    };
    let mut removed = 0;
    for entry in entries.flatten() {
        let own = entry.path();
        let is_wanted = wanted.iter().any(|file| file.parent() == Some(&own));
        let made = entry.metadata().and_then(|m| m.modified());
        let is_old = made.is_ok_and(|made| made < before);
        if !is_wanted && is_old && std::fs::remove_dir_all(&own).is_ok() {
            removed += 1;
        }
    }
    removed
}

fn size_of(all: &Path) -> u64 {
    let entries = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries(all)
        .flat_map(|own| entries(&own.path()).filter_map(|file| file.metadata().ok()))
        .map(|file| file.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::delivery::{SendRules, open_to_send};

    /// A home, and a file beside it that is open to be sent.
    fn opened() -> (tempfile::TempDir, Sendable) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out/a.txt");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "words").unwrap();
        let rules = SendRules {
            roots: &[place.path().join("out")],
            private: &[],
            longest: 100,
        };
        let opened = open_to_send(&path, &rules).unwrap();
        (place, opened)
    }

    #[test]
    fn a_copy_is_private_and_stays_as_it_was() {
        let (home, file) = opened();
        let copy = copy(home.path(), file, 100, 100).unwrap();
        std::fs::write(home.path().join("out/a.txt"), "other").unwrap();
        assert_eq!(std::fs::read_to_string(&copy).unwrap(), "words");
        assert_eq!(copy.file_name().unwrap(), "a.txt");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let own = copy.parent().unwrap();
        let modes = [mode(&copy), mode(own), mode(own.parent().unwrap())];
        assert_eq!(modes, [0o600, 0o700, 0o700]);
        remove(home.path(), &home.path().join("out/a.txt"));
        assert!(home.path().join("out/a.txt").exists(), "no copy of ours");
        remove(home.path(), &copy);
        assert!(!own.exists() && own.parent().unwrap().exists());
    }

    #[test]
    fn copies_have_a_quota() {
        let (home, file) = opened();
        copy(home.path(), file, 100, 8).unwrap();
        let (_place, file) = opened();
        let error = copy(home.path(), file, 100, 8).unwrap_err();
        assert_eq!(error, "too many files are waiting to be sent");
    }

    #[test]
    fn what_no_reply_waits_for_is_swept_away() {
        let (home, file) = opened();
        let wanted = copy(home.path(), file, 100, 100).unwrap();
        let (_place, file) = opened();
        let other = copy(home.path(), file, 100, 100).unwrap();
        let names = HashSet::from([wanted.clone()]);
        let (now, hour) = (SystemTime::now(), Duration::from_secs(3600));
        assert_eq!(sweep(home.path(), &names, now - hour), 0);
        assert_eq!(sweep(home.path(), &names, now + hour), 1);
        assert!(wanted.exists() && !other.exists());
    }
}
