//! Locks Hermes' `gateway.lock`, which a running gateway holds too.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::home_files::GATEWAY_LOCK as LOCK;

/// The names of a gateway's files begin with this.
pub(super) const PREFIX: &str = "gateway";

/// Hermes' lock file, locked by us. Hermes may unlink it at any time: it respects the record in the file, not the lock.
pub(super) struct GatewayLock {
    path: PathBuf,
    file: Flock<File>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    /// Another process holds the lock.
    #[error("another process holds it")]
    Held,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl GatewayLock {
    pub(super) fn take(home: &Path) -> Result<GatewayLock, LockError> {
        let path = home.join(LOCK);
        let file = lock(&path)?;
        Ok(GatewayLock { path, file })
    }

    /// Whether the locked file is still the one in the home.
    pub(super) fn is_in_place(&self) -> bool {
        let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
        let there = std::fs::metadata(&self.path).map(identity);
        let held = self.file.metadata().map(identity);
        matches!((there, held), (Ok(there), Ok(held)) if there == held)
    }

    /// Locks the file that is in the home now.
    pub(super) fn take_again(&mut self) -> Result<(), LockError> {
        self.file = lock(&self.path)?;
        Ok(())
    }
}

fn lock(path: &Path) -> Result<Flock<File>, LockError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| LockError::Held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_that_was_exchanged_is_noticed_and_can_be_taken_again() {
        let home = tempfile::tempdir().unwrap();
        let mut lock = GatewayLock::take(home.path()).unwrap();
        assert!(lock.is_in_place());
        std::fs::remove_file(home.path().join(LOCK)).unwrap();
        assert!(!lock.is_in_place());
        let other = GatewayLock::take(home.path()).unwrap();
        assert!(!lock.is_in_place());
        assert!(matches!(lock.take_again(), Err(LockError::Held)));
        drop(other);
        lock.take_again().unwrap();
        assert!(lock.is_in_place());
    }
}
