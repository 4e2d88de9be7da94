//! Loads the tokenizer of Hermes' index for Chinese, Japanese and Korean, a library that Hermes builds. A file with
//! that index refuses messages from a program without the tokenizer. If it is not safe to load, the index is disabled
//! with Hermes' own remedy.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::Uid;
use rusqlite::{Connection, LoadExtensionGuard};

use super::{StoreError, fulltext, schema};
use crate::journal_ids;

const TABLE: &str = "messages_fts_cjk";

/// Makes messages writable in a file with that index. Needs an open write transaction.
pub(super) fn provide(c: &Connection, library: Option<&Path>) -> Result<(), StoreError> {
    if !fulltext::triggers(c)?
        .iter()
        .any(|name| name.starts_with(TABLE))
        || is_known(c)
    {
        return Ok(());
    }
    let loaded = match library {
        Some(library) => load(c, library),
        None => Err("sessions.cjk_fts is off".to_owned()),
    };
    let missing = match loaded {
        Ok(()) if is_known(c) => return Ok(()),
        Ok(()) => "the library has no tokenizer cjk_unicode61".to_owned(),
        Err(reason) => reason,
    };
    tracing::warn!(
        message_id = journal_ids::CJK_INDEX_OFF,
        "index for Chinese, Japanese and Korean disabled, because its tokenizer cannot be loaded ({missing}); \
         search uses the other indexes; to rebuild this one, run `hermes sessions optimize-storage`"
    );
    fulltext::detach_cjk(c)
}

/// Whether such an index exists and is disabled.
pub(super) fn is_off(c: &Connection) -> Result<bool, StoreError> {
    Ok(schema::table_exists(c, TABLE)?
        && fulltext::meta(c, "fts_cjk_stale")?.is_some_and(|stale| stale == "1"))
}

/// Whether the tokenizer is registered. SQLite looks it up when a query first needs it.
fn is_known(c: &Connection) -> bool {
    let query = format!("SELECT 1 FROM {TABLE} WHERE {TABLE} MATCH 'x'");
    let asked = c.prepare(&query).and_then(|mut s| s.exists([]));
    // SQLite has no error code for this.
    !asked.is_err_and(|error| error.to_string().contains("no such tokenizer"))
}

fn load(c: &Connection, library: &Path) -> Result<(), String> {
    let resolved = library
        .canonicalize()
        .map_err(|e| format!("{}: {e}", library.display()))?;
    trusted(&resolved)?;
    enable_and_load(c, &resolved).map_err(|e| e.to_string())
}

/// Checks that only the owner and root can change the library or replace it, because it runs in our process.
fn trusted(library: &Path) -> Result<(), String> {
    for path in library.ancestors() {
        let facts = path
            .metadata()
            .map_err(|e| format!("{}: {e}", path.display()))?;
        let owner = Uid::from_raw(facts.uid());
        if !owner.is_root() && owner != Uid::effective() {
            return Err(format!("{} belongs to another user", path.display()));
        }
        // In a sticky directory such as /tmp, users can replace only their own files.
        let sticky = facts.is_dir() && facts.mode() & 0o1000 != 0;
        if facts.mode() & 0o022 != 0 && !sticky {
            return Err(format!("{} can be changed by other users", path.display()));
        }
    }
    Ok(())
}

/// The one place with unsafe code: loading a library runs its code.
#[allow(unsafe_code)]
fn enable_and_load(c: &Connection, library: &Path) -> rusqlite::Result<()> {
    // SAFETY: the user of this process, or root, has installed the library for this purpose, and no other user can
    // change it. Foreign SQL cannot load anything: the guard disables loading again when it is dropped, and no SQL
    // runs meanwhile.
    unsafe {
        let _guard = LoadExtensionGuard::new(c)?;
        c.load_extension(library, None::<&str>)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_library_that_others_can_change_is_not_trusted() {
        let home = tempfile::tempdir().expect("a directory");
        let directory = home.path().canonicalize().expect("a path").join("lib");
        std::fs::create_dir(&directory).expect("a directory");
        let library = directory.join("libfts5_cjk.so");
        std::fs::write(&library, "").expect("a file");
        let mode = |path: &Path, mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(path, permissions).expect("a mode");
        };
        mode(&directory, 0o755);
        mode(&library, 0o644);
        assert_eq!(trusted(&library), Ok(()));
        mode(&library, 0o664);
        assert!(trusted(&library).is_err());
        mode(&library, 0o644);
        mode(&directory, 0o777);
        assert!(trusted(&library).is_err());
        if Uid::effective().is_root() {
            mode(&directory, 0o755);
            let stranger = Some(Uid::from_raw(65534));
            nix::unistd::chown(&library, stranger, None).expect("an owner");
            assert!(trusted(&library).is_err());
        }
    }
}
