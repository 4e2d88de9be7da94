//! What can go wrong with the database, in the words of the person who has to mend it.

use std::path::PathBuf;

use rusqlite::ErrorCode;

use super::HeldBy;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "{path} does not exist: start hermesd (or Hermes) once, or name another home with --home"
    )]
    Missing { path: PathBuf },
    #[error(
        "{path} is not a Hermes database ({why}): name another home with --home, or move the file away; it was left untouched"
    )]
    Foreign { path: PathBuf, why: String },
    #[error(
        "{path} is damaged ({why}): restore a backup, or recover it with sqlite3's .recover; it was left untouched"
    )]
    Corrupt { path: PathBuf, why: String },
    #[error(
        "{path} cannot be written ({why}): check its owner and mode, and that the file system is not read-only"
    )]
    ReadOnly { path: PathBuf, why: String },
    #[error(
        "{path} was used by a later hermesd (its tables have version {found}, this hermesd knows up to {known}): \
         upgrade hermesd; the file was left untouched"
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "{path} cannot be served ({why}): upgrade hermesd. Its sessions can be read with `hermesctl sessions`; the file was left untouched"
    )]
    Unservable { path: PathBuf, why: String },
    #[error(
        "the database is locked by another program and stayed so for {0:?}: it is tried again, or find the program with `fuser -v`"
    )]
    Busy(std::time::Duration),
    #[error("the disk is full: free some space, nothing was changed")]
    Full,
    /// A compare-and-set found another state than the caller held.
    #[error("{0}")]
    Conflict(String),
    /// A turn cannot begin now.
    #[error("another program is at work in this conversation: {0}")]
    TurnHeld(HeldBy),
    /// A turn must not go on.
    #[error("another program has taken over this conversation")]
    TurnLost,
    #[error("cancelled")]
    Cancelled,
    #[error("database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "{path} is another file than the one that hermesd opened: stop every program that uses it, remove {path}-wal and \
         {path}-shm, which belong to the old file, and start hermesd again", path = .0.display()
    )]
    Replaced(PathBuf),
    #[error("the database is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Busy(_) | StoreError::Full)
            || self.code().is_some_and(|c| {
                matches!(
                    c,
                    ErrorCode::CannotOpen
                        | ErrorCode::OutOfMemory
                        | ErrorCode::FileLockingProtocolFailed
                        | ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                        | ErrorCode::DiskFull
                        | ErrorCode::SystemIoFailure
                )
            })
    }

    /// A program that died has left work to roll back, which a connection that only reads cannot do.
    pub(super) fn needs_recovery(&self) -> bool {
        let StoreError::Sqlite(rusqlite::Error::SqliteFailure(failure, _)) = self else {
            return false;
        };
        [
            rusqlite::ffi::SQLITE_READONLY_ROLLBACK,
            rusqlite::ffi::SQLITE_READONLY_RECOVERY,
            rusqlite::ffi::SQLITE_READONLY_CANTLOCK,
        ]
        .contains(&failure.extended_code)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.code()
            .is_some_and(|c| matches!(c, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// What a damaged full-text index may answer: that it is, that an entry of its own tables is there already, or that
    /// it cannot be opened.
    pub(super) fn may_be_the_index(&self) -> bool {
        let codes = [
            ErrorCode::DatabaseCorrupt,
            ErrorCode::ConstraintViolation,
            ErrorCode::Unknown,
        ];
        self.code().is_some_and(|code| codes.contains(&code))
    }

    pub(super) fn is_full(&self) -> bool {
        matches!(self, StoreError::Full) || self.code() == Some(ErrorCode::DiskFull)
    }

    fn code(&self) -> Option<ErrorCode> {
        match self {
            StoreError::Sqlite(e) => e.sqlite_error_code(),
            _ => None,
        }
    }

    /// Gives the errors that people meet their own words.
    pub(super) fn explained(self) -> StoreError {
        match self.code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            _ => self,
        }
    }
}
