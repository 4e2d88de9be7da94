//! Maintains Hermes' trigram index when the source of a session changes. The index leaves out sessions of some
//! sources, and its triggers check the source only when a message is inserted or deleted.

use rusqlite::{Connection, OptionalExtension};

use super::{StoreError, lenient};

/// Sources of sessions that the index leaves out.
const LEFT_OUT: [&str; 2] = ["cron", "subagent"];

/// The rows of a session that belong to the index. If Hermes is rebuilding the index, it adds the others.
const INDEXED: &str = "likelihood(session_id = ?1, 0.000001) AND role <> 'tool'
   AND (+id > COALESCE((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = 'fts_rebuild_high_water'), -1)
     OR +id <= COALESCE((SELECT CAST(value AS INTEGER) FROM state_meta WHERE key = 'fts_rebuild_progress'), -1))
   AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?1 AND json_valid(model_config)
                     AND json_extract(model_config, '$._delegate_from') IS NOT NULL)";

/// Adds or removes the messages of a session whose source has changed, in the open transaction.
pub(super) fn source_changed(
    c: &Connection,
    session_id: &str,
    before: Option<&str>,
    after: Option<&str>,
) -> Result<(), StoreError> {
    let left_out = |source: Option<&str>| source.is_some_and(|source| LEFT_OUT.contains(&source));
    if left_out(before) == left_out(after) || !depends_on_source(c)? {
        return Ok(());
    }
    let sql = match left_out(after) {
        true => format!(
            "INSERT INTO messages_fts_trigram (messages_fts_trigram, rowid, content, tool_name)
             SELECT 'delete', id, content, tool_name FROM messages WHERE {INDEXED}"
        ),
        false => format!(
            "INSERT INTO messages_fts_trigram (rowid, content, tool_name)
             SELECT id, content, tool_name FROM messages WHERE {INDEXED}"
        ),
    };
    c.execute(&sql, [session_id])?;
    Ok(())
}

/// Whether the index is in use and depends on sources. A detached index has no triggers and is left alone.
fn depends_on_source(c: &Connection) -> Result<bool, StoreError> {
    let trigger = c
        .query_row(
            "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'messages_fts_trigram_insert'",
            [],
            |row| lenient::text(row, 0),
        )
        .optional()?;
    Ok(trigger
        .flatten()
        .is_some_and(|sql| sql.contains("FROM sessions")))
}
