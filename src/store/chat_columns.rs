//! Reads and writes the columns of `sessions` that say which chat a row is on. All changes of a row's source happen
//! here, because one of Hermes' full-text indexes depends on it.

use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use serde_json::Value;

use super::features::{self, Feature};
use super::{StoreError, lenient, lineage, trigram};
use crate::domain::Source;

pub(super) const CHAT_COLUMNS: [&str; 8] = [
    "source",
    "user_id",
    "session_key",
    "chat_id",
    "chat_type",
    "thread_id",
    "display_name",
    "origin_json",
];

/// A row before a binding changed it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct RowBefore {
    pub(super) id: String,
    /// The values of [`CHAT_COLUMNS`], in order.
    pub(super) columns: Vec<Option<String>>,
    /// Its `last_activity_at`, if the file has that column.
    pub(super) active_at: Option<f64>,
}

/// The rows that a binding changes, the session's own first. Hermes binds the rows before the tip too since it has
/// `last_activity_at`.
pub(super) fn rows_to_bind(c: &Connection, session_id: &str) -> Result<Vec<RowBefore>, StoreError> {
    let has_activity = features::has(c, Feature::LastActivity)?;
    let ids = match has_activity {
        true => lineage::lineage(c, session_id)?,
        false => vec![session_id.to_owned()],
    };
    let columns = CHAT_COLUMNS.join(", ");
    let activity = match has_activity {
        true => "last_activity_at",
        false => "NULL",
    };
    let mut statement = c.prepare_cached(&format!(
        "SELECT {columns}, {activity} FROM sessions WHERE id = ?1"
    ))?;
    let mut rows = Vec::new();
    for id in ids {
        let row = statement.query_row([&id], |row| {
            Ok(RowBefore {
                id: id.clone(),
                columns: texts(row)?,
                active_at: lenient::seconds(row, CHAT_COLUMNS.len())?,
            })
        })?;
        rows.push(row);
    }
    Ok(rows)
}

/// The chat columns of one row. `None` if the row does not exist.
pub(super) fn read(c: &Connection, id: &str) -> Result<Option<Vec<Option<String>>>, StoreError> {
    let columns = CHAT_COLUMNS.join(", ");
    let mut statement =
        c.prepare_cached(&format!("SELECT {columns} FROM sessions WHERE id = ?1"))?;
    Ok(statement.query_row([id], texts).optional()?)
}

fn texts(row: &rusqlite::Row<'_>) -> rusqlite::Result<Vec<Option<String>>> {
    (0..CHAT_COLUMNS.len())
        .map(|at| lenient::text(row, at))
        .collect()
}

/// Writes a chat's columns to rows.
pub(super) fn give(
    c: &Connection,
    rows: &[RowBefore],
    key: &str,
    source: &Source,
    origin: &Value,
) -> Result<(), StoreError> {
    let mut update = c.prepare_cached(
        "UPDATE sessions SET source = ?2, user_id = ?3, session_key = ?4, chat_id = ?5, chat_type = ?6, thread_id = ?7,
                display_name = COALESCE(?8, display_name), origin_json = ?9
         WHERE id = ?1",
    )?;
    let origin = origin.to_string();
    for row in rows {
        update.execute(params![
            row.id,
            source.platform,
            source.user_id,
            key,
            source.chat_id,
            source.chat_type.as_str(),
            source.thread_id,
            source.chat_name,
            origin,
        ])?;
        let before = row.columns.first().and_then(Option::as_deref);
        trigram::source_changed(c, &row.id, before, Some(&source.platform))?;
    }
    Ok(())
}

/// Writes the chat columns of one row. With `only_at`, only if the row has that key. False if nothing changed.
pub(super) fn write(
    c: &Connection,
    id: &str,
    columns: &[Option<String>],
    only_at: Option<&str>,
) -> Result<bool, StoreError> {
    let before = match read(c, id)? {
        Some(before) if only_at.is_none() || key_in(&before) == only_at => before,
        _ => return Ok(false),
    };
    let assignments: Vec<String> = CHAT_COLUMNS
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{name} = ?{}", at + 2))
        .collect();
    let assignments = assignments.join(", ");
    let sql = format!("UPDATE sessions SET {assignments} WHERE id = ?1");
    let id_first = std::iter::once(Some(id.to_owned()));
    c.execute(
        &sql,
        params_from_iter(id_first.chain(columns.iter().cloned())),
    )?;
    let source = |columns: &[Option<String>]| columns.first().cloned().flatten();
    trigram::source_changed(
        c,
        id,
        source(&before).as_deref(),
        source(columns).as_deref(),
    )?;
    Ok(true)
}

/// The session key among the columns of a row.
pub(super) fn key_in(columns: &[Option<String>]) -> Option<&str> {
    let at = CHAT_COLUMNS
        .iter()
        .position(|name| *name == "session_key")?;
    columns.get(at)?.as_deref()
}

/// Restores `last_activity_at`.
pub(super) fn restore_activity(
    c: &Connection,
    id: &str,
    active_at: Option<f64>,
) -> Result<(), StoreError> {
    if features::has(c, Feature::LastActivity)? {
        c.execute(
            "UPDATE sessions SET last_activity_at = ?2 WHERE id = ?1",
            params![id, active_at],
        )?;
    }
    Ok(())
}

/// Sets `last_activity_at`, by which Hermes finds the session of a chat.
pub(super) fn touch(c: &Connection, id: &str, now: f64) -> Result<(), StoreError> {
    if features::has(c, Feature::LastActivity)? {
        c.prepare_cached(
            "UPDATE sessions SET last_activity_at = MAX(COALESCE(last_activity_at, 0), ?2) WHERE id = ?1",
        )?
        .execute(params![id, now])?;
    }
    Ok(())
}
