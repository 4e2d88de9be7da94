//! The errors of the database, each with its remedy.

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
        "{path} is not a Hermes database ({why}): name another home with --home, or move the file away. \
         It was not changed"
    )]
    Foreign { path: PathBuf, why: String },
    #[error(
        "{path} is damaged ({why}): restore a backup, or recover it with sqlite3's .recover. It was not changed"
    )]
    Corrupt { path: PathBuf, why: String },
    #[error(
        "{path} cannot be written ({why}): check its owner and mode, and that the file system is not read-only"
    )]
    ReadOnly { path: PathBuf, why: String },
    #[error(
        "{path} was used by a later hermesd (its tables have version {found}, this hermesd knows up to {known}): \
         upgrade hermesd. The file was not changed"
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
    },
    #[error(
        "{path} cannot be served ({why}): upgrade hermesd. `hermesctl sessions` can read it. The file was not changed"
    )]
    Unservable { path: PathBuf, why: String },
    #[error(
        "the database was locked by another program for {0:?}: wait, or find the program with `fuser -v`"
    )]
    Busy(std::time::Duration),
    #[error("the disk is full: free some space. Nothing was changed")]
    Full,
    /// A compare-and-set found another state than expected.
    #[error("{0}")]
    Conflict(String),
    /// A turn cannot begin now.
    #[error("another program is at work in this conversation: {0}")]
    TurnHeld(HeldBy),
    /// A turn must not continue.
    #[error("another program has taken over this conversation")]
    TurnLost,
    #[error("cancelled")]
    Cancelled,
    #[error("database: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "{path} was replaced by another file: stop every program that uses it, remove {path}-wal and \
         {path}-shm, which belong to the old file, and start hermesd again", path = .0.display()
    )]
    Replaced(PathBuf),
    #[error("the database is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may succeed later without any repair.
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

    /// Whether a dead program left a transaction to roll back, which a read-only connection cannot do.
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

    /// Whether a damaged full-text index may be the cause. It reports corruption, a duplicate entry in its own tables,
    /// or that it cannot be opened.
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

    /// Converts errors of SQLite that have a text of their own here.
    pub(super) fn explained(self) -> StoreError {
        match self.code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            _ => self,
        }
    }
}
