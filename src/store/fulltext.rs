//! Creates, detaches and rebuilds Hermes' full-text index of the messages.
//!
//! Triggers on `messages` fill the index, so a damaged index refuses every message. Then the triggers are dropped and
//! `fts_stale` is set (Hermes' own remedy), and the index is emptied. Messages are written without it. Hermes rebuilds
//! the index if the triggers are missing, which would fail with a damaged index.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::{OpenMode, Store, StoreError, lenient, open, schema};
use crate::config::StoreOptions;

/// The tables of the index and their options.
const TABLES: [(&str, &str); 2] = [
    ("messages_fts", ""),
    ("messages_fts_trigram", ", tokenize='trigram'"),
];

/// The remedy for a damaged index.
pub const REBUILD: &str = "stop hermesd and Hermes, and run `hermesd --rebuild-index`";

impl Store {
    /// Whether messages are written without the full-text index.
    pub async fn index_is_stale(&self) -> Result<bool, StoreError> {
        self.read(is_stale).await
    }

    /// Rebuilds the full-text index of a home. Returns the number of messages in it. Blocks. No other program should
    /// have the database open.
    pub fn rebuild_index(home: &Path, options: &StoreOptions) -> Result<i64, StoreError> {
        let path = home.join("state.db");
        let c = open::open(&path, OpenMode::Existing, options)?.connection;
        if meta(&c, "fts_storage_version")?.is_some_and(|version| version != "0") {
            return Err(StoreError::Conflict(
                "a newer Hermes made this full-text index: run `hermes sessions repair`".into(),
            ));
        }
        c.execute_batch("BEGIN IMMEDIATE")?;
        let built = rebuild(&c);
        c.execute_batch(if built.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        built
    }
}

/// Creates the tables and their triggers, with the names and the SQL that Hermes uses.
pub(super) fn create(c: &Connection) -> Result<(), StoreError> {
    for (table, options) in TABLES {
        let insert = format!(
            "INSERT INTO {table}(rowid, content) VALUES (new.id, {});",
            indexed("new")
        );
        let delete = format!("DELETE FROM {table} WHERE rowid = old.id;");
        c.execute_batch(&format!(
            "CREATE VIRTUAL TABLE {table} USING fts5(content{options});
             CREATE TRIGGER {table}_insert AFTER INSERT ON messages BEGIN {insert} END;
             CREATE TRIGGER {table}_delete AFTER DELETE ON messages BEGIN {delete} END;
             CREATE TRIGGER {table}_update AFTER UPDATE ON messages BEGIN {delete} {insert} END;"
        ))?;
    }
    Ok(())
}

/// The indexed text of a row of `messages`.
fn indexed(row: &str) -> String {
    let part = |column: &str| format!("COALESCE({row}.{column}, '')");
    format!(
        "{} || ' ' || {} || ' ' || {}",
        part("content"),
        part("tool_name"),
        part("tool_calls")
    )
}

/// Detaches the index from `messages`, in the open transaction. False if it was detached already.
pub(super) fn detach(c: &Connection) -> Result<bool, StoreError> {
    let triggers = triggers(c)?;
    for trigger in &triggers {
        let of_cjk = trigger.starts_with("messages_fts_cjk");
        mark_stale(c, if of_cjk { "fts_cjk_stale" } else { "fts_stale" })?;
        c.execute_batch(&format!("DROP TRIGGER \"{trigger}\""))?;
    }
    c.execute_batch("SAVEPOINT emptying")?;
    if TABLES.iter().any(|(table, _)| empty(c, table).is_err()) {
        // The damage is not only in the index. Messages can still be written.
        c.execute_batch("ROLLBACK TO emptying")?;
    }
    c.execute_batch("RELEASE emptying")?;
    Ok(!triggers.is_empty())
}

/// Makes an index like a new one without opening it, because a damaged one cannot be opened.
fn empty(c: &Connection, table: &str) -> Result<(), StoreError> {
    for part in ["data", "idx", "docsize", "content"] {
        let part = format!("{table}_{part}");
        if schema::table_exists(c, &part)? {
            c.execute_batch(&format!("DELETE FROM {part}"))?;
        }
    }
    if schema::table_exists(c, &format!("{table}_data"))? {
        c.execute_batch(&format!(
            "INSERT INTO {table}_data VALUES (1, x''), (10, x'00000000000000')"
        ))?;
    }
    Ok(())
}

/// Disables the index for Chinese, Japanese and Korean in the open transaction, as Hermes does without its tokenizer.
pub(super) fn detach_cjk(c: &Connection) -> Result<(), StoreError> {
    mark_stale(c, "fts_cjk_stale")?;
    for trigger in triggers(c)? {
        if trigger.starts_with("messages_fts_cjk") {
            c.execute_batch(&format!("DROP TRIGGER \"{trigger}\""))?;
        }
    }
    Ok(())
}

fn mark_stale(c: &Connection, key: &str) -> Result<(), StoreError> {
    c.execute(
        "INSERT INTO state_meta (key, value) VALUES (?1, '1') ON CONFLICT (key) DO UPDATE SET value = '1'",
        [key],
    )?;
    Ok(())
}

pub(super) fn triggers(c: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = c.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'messages' AND name GLOB 'messages_fts_*'",
    )?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Whether an integrity check found that an index differs from the messages.
pub(super) fn is_mismatch(problem: &str) -> bool {
    problem.starts_with("malformed inverted index for FTS5 table")
}

/// Whether messages contain NUL characters, as those with pictures do. Versions of SQLite index such texts
/// differently, so a check by another version than the index's finds a mismatch although nothing is wrong.
pub(super) fn has_nul(c: &Connection) -> Result<bool, StoreError> {
    let mut statement = c.prepare("SELECT 1 FROM messages WHERE instr(content, char(0)) > 0")?;
    Ok(statement.exists([])?)
}

/// Whether the index exists and lacks messages, because no trigger fills it.
pub(super) fn is_stale(c: &Connection) -> Result<bool, StoreError> {
    Ok(!is_filled(c)? && schema::table_exists(c, "messages_fts")?)
}

/// Whether a trigger puts new messages into the index.
pub(super) fn is_filled(c: &Connection) -> Result<bool, StoreError> {
    let triggers = triggers(c)?;
    Ok(triggers.iter().any(|name| name == "messages_fts_insert"))
}

pub(super) fn meta(c: &Connection, key: &str) -> Result<Option<String>, StoreError> {
    if !schema::table_exists(c, "state_meta")? {
        return Ok(None);
    }
    let value = c
        .query_row(
            "SELECT value FROM state_meta WHERE key = ?1",
            [key],
            |row| lenient::text(row, 0),
        )
        .optional()?;
    Ok(value.flatten())
}

fn rebuild(c: &Connection) -> Result<i64, StoreError> {
    for (table, _) in TABLES {
        c.execute_batch(&format!(
            "DROP TRIGGER IF EXISTS {table}_insert; DROP TRIGGER IF EXISTS {table}_delete;
             DROP TRIGGER IF EXISTS {table}_update; DROP TABLE IF EXISTS {table};"
        ))?;
    }
    create(c)?;
    for (table, _) in TABLES {
        let content = indexed("messages");
        c.execute_batch(&format!(
            "INSERT INTO {table}(rowid, content) SELECT id, {content} FROM messages"
        ))?;
    }
    c.execute_batch("DELETE FROM state_meta WHERE key = 'fts_stale'")?;
    Ok(c.query_row("SELECT count(*) FROM messages", [], |row| row.get(0))?)
}
