//! Binds a chat to a session. [`super::earlier`] undoes a binding.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value, json};

use super::chat_columns::{self, RowBefore};
use super::routing::{entry, live_row, session_of};
use super::{StoreError, earlier, lenient, sessions};
use crate::clock;
use crate::domain::Source;

/// Everything that a binding changed, for undoing it.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Displaced {
    /// The routing entry that the key had.
    pub(super) entry: Option<String>,
    /// The session that the binding ended: its id, and its former `ended_at` and `end_reason`.
    pub(super) outgoing: Option<(String, Option<f64>, Option<String>)>,
    /// The former columns of the incoming session: those of `CHAT_COLUMNS`, in order, and how it had ended.
    pub(super) incoming: Vec<Option<String>>,
    pub(super) ended: (Option<f64>, Option<String>),
    /// The session that had left the chat and where it went, if the chat was on none.
    #[serde(default)]
    pub(super) left: Option<(String, String)>,
    /// All former rows of the conversation, with the incoming session's row. Empty in older journals.
    #[serde(default)]
    pub(super) rows: Vec<RowBefore>,
}

impl Displaced {
    /// The key of the chat that the incoming session was on.
    pub(super) fn key_before(&self) -> Option<String> {
        chat_columns::key_in(&self.incoming).map(str::to_owned)
    }
}

/// End reasons that mean only that a program exited. The conversation stays open.
pub(super) const SOFT_ENDS: &str =
    "('agent_close', 'ws_orphan_reap', 'superseded_by_resume', 'startup_orphan_reap')";

/// Binds the chat behind `key` to `session_id`. The outgoing session ends. The incoming session is reopened and gets
/// the chat's columns. Returns the former state.
pub(super) fn bind(
    c: &Connection,
    scope: &str,
    key: &str,
    session_id: &str,
    source: &Source,
    mirrored: Option<&str>,
) -> Result<Displaced, StoreError> {
    let now = clock::now();
    let before = entry(c, scope, key)?.or_else(|| mirrored.map(str::to_owned));
    let outgoing = match live_row(c, before.as_deref().and_then(session_of))? {
        // A session that is moving to another chat continues there.
        Some(session) if session.id != session_id && earlier::is_at(&session, key) => {
            end_switched(c, &session.id)?
        }
        _ => None,
    };

    let rows = chat_columns::rows_to_bind(c, session_id)?;
    let ended = c
        .prepare_cached("SELECT ended_at, end_reason FROM sessions WHERE id = ?1")?
        .query_row([session_id], |row| {
            Ok((lenient::seconds(row, 0)?, lenient::text(row, 1)?))
        })?;
    let origin = origin(before.as_deref(), source);
    chat_columns::give(c, &rows, key, source, &origin)?;
    chat_columns::touch(c, session_id, now)?;
    if ended != (None, None) {
        sessions::reopen(c, session_id)?;
    }
    let left = c
        .prepare_cached(
            "DELETE FROM hermesd_left WHERE session_key = ?1 RETURNING session_id, went_to",
        )?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let entry_json = new_entry(before.as_deref(), key, session_id, source, origin, now).to_string();
    c.prepare_cached(
        "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (scope, session_key) DO UPDATE SET entry_json = excluded.entry_json, updated_at = excluded.updated_at",
    )?
    .execute(params![scope, key, entry_json, now])?;
    Ok(Displaced {
        entry: before,
        outgoing,
        incoming: rows
            .first()
            .map(|row| row.columns.clone())
            .unwrap_or_default(),
        ended,
        left,
        rows,
    })
}

/// Ends the session that leaves the chat, unless it was closed for a reason of its own. Returns its former state.
#[allow(clippy::type_complexity)] // it is the field's own type
fn end_switched(
    c: &Connection,
    id: &str,
) -> Result<Option<(String, Option<f64>, Option<String>)>, StoreError> {
    let before = c
        .prepare_cached("SELECT ended_at, end_reason FROM sessions WHERE id = ?1")?
        .query_row([id], |row| {
            Ok((
                id.to_owned(),
                lenient::seconds(row, 0)?,
                lenient::text(row, 1)?,
            ))
        })
        .optional()?;
    let ended = sessions::end_at_boundary(c, id, "session_switch")?;
    Ok(before.filter(|_| ended))
}

/// Fields of an entry that belong to its session. Hermes writes a new entry when the session changes.
const OF_ONE_SESSION: [&str; 5] = [
    "active_turn_token",
    "active_turn_started_at",
    "prev_session_id",
    "model_override",
    "metadata",
];

/// The entry as Hermes writes it after a switch, with counters and flags reset. Unknown fields stay.
fn new_entry(
    before: Option<&str>,
    key: &str,
    session_id: &str,
    source: &Source,
    origin: Value,
    now: f64,
) -> Value {
    let mut entry: Map<String, Value> = before
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    if entry.get("session_id").and_then(Value::as_str) != Some(session_id) {
        entry.retain(|name, _| {
            !OF_ONE_SESSION.contains(&name.as_str()) && !name.starts_with("resume_")
        });
    }
    let stamp = clock::iso_local(now);
    let fields = json!({
        "session_key": key,
        "session_id": session_id,
        "created_at": stamp,
        "updated_at": stamp,
        "display_name": source.chat_name,
        "platform": source.platform,
        "chat_type": source.chat_type.as_str(),
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "total_tokens": 0,
        "last_prompt_tokens": 0,
        "estimated_cost_usd": 0.0,
        "cost_status": "unknown",
        "expiry_finalized": false,
        "suspended": false,
        "resume_pending": false,
        "resume_reason": null,
        "last_resume_marked_at": null,
        "is_fresh_reset": false,
        "was_auto_reset": false,
        "auto_reset_reason": null,
        "reset_had_activity": false,
    });
    if let Value::Object(fields) = fields {
        entry.extend(fields);
    }
    entry.insert("origin".into(), origin);
    Value::Object(entry)
}

/// Merges the source into the entry's former origin, because Hermes records more about a chat than a message says.
pub(super) fn origin(before: Option<&str>, source: &Source) -> Value {
    let before = before.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut merged: Map<String, Value> = before
        .and_then(|entry| entry.get("origin")?.as_object().cloned())
        .unwrap_or_default();
    if let Value::Object(now) = source.to_origin() {
        merged.extend(now);
    }
    Value::Object(merged)
}
