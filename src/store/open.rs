//! Opens `state.db`: inspects the file without writing, refuses foreign files, then adds missing parts of the schema.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::schema::{self, NEWEST_TESTED_SCHEMA, OWN_SCHEMA_VERSION};
use super::{StoreError, features, messages, rehearsal, tokenizer};
use crate::config::StoreOptions;
use crate::private_files;

/// How long each step of opening waits for locks of other programs.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The daemon: creates the file if there is none.
    Create,
    /// A client without a daemon: the file has to exist.
    Existing,
}

/// How SQLite stores an unfinished transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalMode {
    /// In a write-ahead log. Readers and the writer do not wait for each other.
    Wal,
    /// In a rollback journal beside the database. A commit waits for readers, and readers wait for a commit.
    Rollback,
}

/// A database that is ready for writing.
pub(super) struct OpenedDatabase {
    pub(super) connection: Connection,
    pub(super) journal: JournalMode,
    /// The cookie of the rehearsed schema. `None` if the first write has to rehearse.
    pub(super) rehearsed: Option<i64>,
}

pub(super) fn open(
    path: &Path,
    mode: OpenMode,
    options: &StoreOptions,
) -> Result<OpenedDatabase, StoreError> {
    let exists = path.try_exists().unwrap_or(true);
    let fresh = !(exists && path.metadata().is_ok_and(|m| m.len() > 0));
    if !fresh {
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
    let opened = connect(path, mode, options, fresh).map_err(|e| explain(path, e))?;
    flush_log(path);
    Ok(opened)
}

/// Flushes the log, because a killed program may have left commits that are not on the disk yet. We act on them, so
/// they have to be as durable as our own.
fn flush_log(path: &Path) {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if let Err(error) = std::fs::File::open(&log).and_then(|file| file.sync_data()) {
        tracing::debug!(%error, "cannot flush the log of the database");
    }
}

/// Creates an empty file, and its home if necessary, for the owner alone, because it holds conversations. SQLite gives
/// the files beside it the same mode.
fn create(path: &Path) -> std::io::Result<()> {
    if let Some(home) = path.parent() {
        private_files::directory(home)?;
    }
    match private_files::new_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Reads the schema and decides whether we may write to this file. The connection is read-only, unless a dead program
/// has left a journal to roll back: SQLite reads such a file only after the rollback.
fn inspect(path: &Path) -> Result<(), StoreError> {
    let look = |flags: OpenFlags| -> Result<Option<StoreError>, StoreError> {
        let connection =
            Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(schema::objection(&connection, path)?.or(newer(&connection, path)?))
    };
    let outcome = match look(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        Err(error) if error.needs_recovery() => look(OpenFlags::SQLITE_OPEN_READ_WRITE),
        outcome => outcome,
    };
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(objection)) => Err(objection),
        Err(e) => Err(explain(path, e)),
    }
}

/// Refuses our own tables of a later hermesd. A newer schema of Hermes is only logged, because its number says little.
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

fn connect(
    path: &Path,
    mode: OpenMode,
    options: &StoreOptions,
    fresh: bool,
) -> Result<OpenedDatabase, StoreError> {
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if mode == OpenMode::Create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(StoreError::ReadOnly {
            path: path.to_owned(),
            why: "opened read-only".into(),
        });
    }
    let journal = follow_journal(&connection, fresh && options.create_in_wal)?;
    connection.execute_batch("PRAGMA foreign_keys = ON")?;
    stable_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(128);
    connection.execute_batch(messages::STAGE)?;
    connection.execute_batch(features::MEMORY)?;
    let rehearsed = prepare(&mut connection, path, mode, options)?;
    // From here on the writer retries with jitter.
    connection.busy_timeout(Duration::ZERO)?;
    Ok(OpenedDatabase {
        connection,
        journal,
        rehearsed,
    })
}

/// Keeps the journal mode of the file. Hermes avoids write-ahead logging if its own SQLite has faults with it, and a
/// change would be permanent. Only a file that we create gets a log.
fn follow_journal(c: &Connection, turn_on_wal: bool) -> Result<JournalMode, StoreError> {
    let pragma = match turn_on_wal {
        true => "PRAGMA journal_mode = WAL",
        false => "PRAGMA journal_mode",
    };
    let mode: String = c.query_row(pragma, [], |row| row.get(0))?;
    tracing::debug!(mode, "database opened");
    if mode != "wal" {
        // A rollback journal needs FULL to survive a power cut. Automatic checkpoints stay on, because another program
        // may turn on the log later.
        c.execute_batch("PRAGMA synchronous = FULL")?;
        return Ok(JournalMode::Rollback);
    }
    // With a log, NORMAL keeps every commit if a process crashes. The writer asks for FULL if a commit has to survive
    // a power cut.
    c.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 16777216;",
    )?;
    Ok(JournalMode::Wal)
}

/// The journal mode of a file that is only read.
pub(super) fn journal_of(path: &Path) -> Result<JournalMode, StoreError> {
    let connection = beside(path)?;
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    Ok(match &*mode {
        "wal" => JournalMode::Wal,
        _ => JournalMode::Rollback,
    })
}

/// Adds missing parts and rehearses our writes in one transaction, so a file that cannot be served stays as it is. A
/// client does neither if nothing is missing. Its first write rehearses.
fn prepare(
    c: &mut Connection,
    path: &Path,
    mode: OpenMode,
    options: &StoreOptions,
) -> Result<Option<i64>, StoreError> {
    if mode == OpenMode::Existing && schema::is_complete(c)? {
        return Ok(None);
    }
    c.execute_batch("BEGIN IMMEDIATE")?;
    match make_servable(c, path, options).and_then(|()| Ok(c.execute_batch("COMMIT")?)) {
        Ok(()) => Ok(Some(cookie(c)?)),
        Err(error) => {
            // Some errors end the transaction.
            if !c.is_autocommit() {
                c.execute_batch("ROLLBACK")?;
            }
            Err(error)
        }
    }
}

/// Adds missing parts, loads the tokenizer and rehearses our writes. Needs an open write transaction, which must be
/// rolled back if this fails.
pub(super) fn make_servable(
    c: &mut Connection,
    path: &Path,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    schema::bring_up(c)?;
    tokenizer::provide(c, options.cjk_library.as_deref())?;
    let unknown = rehearsal::unknown_triggers(c)?;
    if !unknown.is_empty() {
        let triggers = unknown.join(", ");
        tracing::info!(triggers, "database has unknown triggers");
    }
    rehearsal::rehearse(c, path)
}

/// The schema cookie, which changes with the schema.
pub(super) fn cookie(c: &Connection) -> Result<i64, StoreError> {
    let mut statement = c.prepare_cached("PRAGMA schema_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// The path of the database, and the device and inode of the opened file.
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

/// A further connection to an open database.
pub(super) fn beside(path: &Path) -> Result<Connection, StoreError> {
    // Read-write at the file level, so that SQLite can recover the log of a dead program.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    stable_plans(&connection)?;
    connection.execute_batch(features::MEMORY)?;
    Ok(connection)
}

/// Makes plans independent of bound values. Otherwise SQLite compiles a statement again for new values.
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
