//! Opening `state.db`: look first, without writing, and refuse what is not ours to touch; then add what is missing.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::schema::{self, NEWEST_TESTED_SCHEMA, OWN_SCHEMA_VERSION};
use super::{StoreError, features, messages};
use crate::private;

/// How long locks of other programs are waited for, at each step of opening.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The daemon: make the file when there is none.
    Create,
    /// A client without a daemon: the file has to be there already.
    Existing,
}

/// How a database is opened, beside what the file itself says.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Whether a file that does not exist yet gets a write-ahead log. An existing file keeps its journal mode.
    pub create_in_wal: bool,
    /// Hermes' name for the profile that the home is. `None`: the default one.
    pub profile: Option<String>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            create_in_wal: true,
            profile: None,
        }
    }
}

pub(super) fn open(
    path: &Path,
    mode: OpenMode,
    _options: &StoreOptions,
) -> Result<Connection, StoreError> {
    let exists = path.try_exists().unwrap_or(true);
    if exists && path.metadata().is_ok_and(|m| m.len() > 0) {
        inspect(path)?;
    } else if mode == OpenMode::Existing {
        return Err(StoreError::Missing {
            path: path.to_owned(),
        });
    } else {
        create(path).map_err(|e| StoreError::ReadOnly {
            path: path.to_owned(),
            why: e.to_string(),
        })?;
    }
    let connection = connect(path, mode).map_err(|e| explain(path, e))?;
    flush_log(path);
    Ok(connection)
}

/// A program that was killed may have written commits that are not on the disk yet. We act on what they say from now on, so
/// they have to be as durable as our own.
fn flush_log(path: &Path) {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if let Err(error) = std::fs::File::open(&log).and_then(|file| file.sync_data()) {
        tracing::debug!(%error, "the log of the database was not flushed");
    }
}

/// Makes an empty file. It holds conversations: it is for its owner alone, and so is a home that is made for it. SQLite gives
/// the files beside it the same mode.
fn create(path: &Path) -> std::io::Result<()> {
    if let Some(home) = path.parent() {
        private::directory(home)?;
    }
    match private::new_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Reads the schema through a read-only connection and decides whether this file is one we may write to.
fn inspect(path: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let look = || -> Result<Option<StoreError>, StoreError> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(schema::objection(&connection, path)?.or(newer(&connection, path)?))
    };
    match look() {
        Ok(None) => Ok(()),
        Ok(Some(objection)) => Err(objection),
        Err(e) => Err(explain(path, e)),
    }
}

/// Tables of ours that a later hermesd has made. Hermes' own number says little about its columns, so it is only logged.
fn newer(connection: &Connection, path: &Path) -> Result<Option<StoreError>, StoreError> {
    let version = |table: &str| -> Result<Option<i64>, StoreError> {
        if !schema::table_exists(connection, table)? {
            return Ok(None);
        }
        let sql = format!("SELECT version FROM {table} LIMIT 1");
        Ok(connection
            .query_row(&sql, [], |row| row.get(0))
            .optional()?)
    };
    if let Some(found) = version("schema_version")?
        && found > NEWEST_TESTED_SCHEMA
    {
        tracing::info!("schema {found} is newer than tested ({NEWEST_TESTED_SCHEMA})");
    }
    let own = version("hermesd_schema")?;
    Ok(own
        .filter(|found| *found > OWN_SCHEMA_VERSION)
        .map(|found| StoreError::Newer {
            path: path.to_owned(),
            found,
            known: OWN_SCHEMA_VERSION,
        }))
}

fn connect(path: &Path, mode: OpenMode) -> Result<Connection, StoreError> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if mode == OpenMode::Create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(StoreError::ReadOnly {
            path: path.to_owned(),
            why: "opened read-only".into(),
        });
    }
    // Write-ahead logging lets other programs read while we write; with it, NORMAL keeps every commit across a crash
    // of any process. The writer asks for more where a commit has to survive a power cut.
    let journal: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    tracing::debug!(journal, "database opened");
    connection.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 16777216;",
    )?;
    stable_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(128);
    schema::bring_up(&connection)?;
    connection.execute_batch(messages::STAGE)?;
    connection.execute_batch(features::MEMORY)?;
    // From here on the writer retries with jitter itself.
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

/// The database by its name, and by its device and inode as it was opened.
#[derive(Clone)]
pub(super) struct File {
    pub(super) path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl File {
    pub(super) fn new(path: PathBuf) -> File {
        File {
            identity: identity(&path),
            path,
        }
    }

    pub(super) fn is_replaced(&self) -> bool {
        identity(&self.path) != self.identity
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().map(|m| (m.dev(), m.ino())).ok()
}

/// A second connection to a database that is open already.
pub(super) fn beside(path: &Path) -> Result<Connection, StoreError> {
    // Read-write at the file level, so that SQLite can recover the log of a program that died.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    stable_plans(&connection)?;
    connection.execute_batch(features::MEMORY)?;
    Ok(connection)
}

/// Plans that do not hang on bound values: else SQLite compiles our statements anew for every row it is asked about.
pub(super) fn stable_plans(connection: &Connection) -> Result<(), StoreError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn explain(path: &Path, error: StoreError) -> StoreError {
    let StoreError::Sqlite(inner) = &error else {
        return error;
    };
    let why = inner.to_string();
    let path = path.to_owned();
    match inner.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::Foreign {
            path,
            why: "not an SQLite file".into(),
        },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { path, why },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(PATIENCE),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly { path, why }
        }
        _ => error.explained(),
    }
}
