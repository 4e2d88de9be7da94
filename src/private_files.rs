//! Creates directories and files for their owner alone. Sets the modes explicitly, so the umask does not matter.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{User, geteuid};

pub(crate) const DIRECTORY: u32 = 0o700;
pub(crate) const FILE: u32 = 0o600;

/// Creates a directory and its missing parents, each with mode 0700. An existing directory keeps its mode.
pub(crate) fn directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        directory(parent)?;
    }
    match DirBuilder::new().mode(DIRECTORY).create(path) {
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY)),
        // Another process created it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a file with mode 0600. Fails if the name exists, even as a link.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

/// The user's home directory, from the environment and from the user database.
pub(crate) fn home_of_person() -> impl Iterator<Item = PathBuf> {
    let listed = User::from_uid(geteuid()).ok().flatten();
    std::env::home_dir()
        .into_iter()
        .chain(listed.map(|user| user.dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_made_is_for_its_owner_and_what_is_there_stays() {
        let place = tempfile::tempdir().unwrap();
        let open = place.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        let deep = open.join("a/b");
        directory(&deep).unwrap();
        directory(&deep).unwrap();
        assert_eq!(
            [mode(&open), mode(&open.join("a")), mode(&deep)],
            [0o755, 0o700, 0o700]
        );
        let file = deep.join("file");
        new_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        let taken = new_file(&file).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert!(directory(&file.join("x")).is_err());
    }
}
