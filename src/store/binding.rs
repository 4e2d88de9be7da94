//! Puts a chat on a session. `earlier` takes that back.

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value, json};

use super::routing::{entry, live_row, session_of};
use super::{StoreError, earlier, lenient, sessions};
use crate::clock;
use crate::session::Source;

/// Everything that a binding changed, so that it can be put back.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Displaced {
    /// The entry that stood under the key.
    pub(super) entry: Option<String>,
    /// The session that was on the chat and that the binding ended: id, its `ended_at` and `end_reason` before.
    pub(super) outgoing: Option<(String, Option<f64>, Option<String>)>,
    /// The columns of the incoming session before: those of [`CHAT_COLUMNS`], in order, and how it had ended.
    pub(super) incoming: Vec<Option<String>>,
    pub(super) ended: (Option<f64>, Option<String>),
    /// Where the chat's conversation had gone, if the chat was on none: its session and the place.
    #[serde(default)]
    pub(super) left: Option<(String, String)>,
}

impl Displaced {
    /// The key of the chat that the incoming session was on before.
    pub(super) fn key_before(&self) -> Option<String> {
        let column = CHAT_COLUMNS
            .iter()
            .position(|name| *name == "session_key")?;
        self.incoming.get(column)?.clone()
    }
}

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

/// Ends that mean only "the program went away", not that somebody closed the conversation.
pub(super) const SOFT_ENDS: &str = "('agent_close', 'ws_orphan_reap')";

/// Puts the chat behind `key` on `session_id`: the outgoing session ends, the incoming one is reopened and takes the
/// chat's columns. Returns what that displaced.
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
        // One that is on its way to another chat goes on there.
        Some(session) if session.id != session_id && earlier::is_at(&session, key) => {
            end_switched(c, &session.id, now)?
        }
        _ => None,
    };

    let columns = CHAT_COLUMNS.join(", ");
    let (incoming, ended) = c
        .prepare_cached(&format!(
            "SELECT {columns}, ended_at, end_reason FROM sessions WHERE id = ?1"
        ))?
        .query_row([session_id], |row| {
            let columns = (0..CHAT_COLUMNS.len())
                .map(|i| lenient::text(row, i))
                .collect::<Result<Vec<_>, _>>()?;
            Ok((
                columns,
                (
                    lenient::seconds(row, CHAT_COLUMNS.len())?,
                    lenient::text(row, CHAT_COLUMNS.len() + 1)?,
                ),
            ))
        })?;
    let origin = origin(before.as_deref(), source);
    c.prepare_cached(
        "UPDATE sessions SET source = ?2, user_id = ?3, session_key = ?4, chat_id = ?5, chat_type = ?6, thread_id = ?7,
                display_name = COALESCE(?8, display_name), origin_json = ?9
         WHERE id = ?1",
    )?
    .execute(params![
        session_id,
        source.platform,
        source.user_id,
        key,
        source.chat_id,
        source.chat_type.as_str(),
        source.thread_id,
        source.chat_name,
        origin.to_string(),
    ])?;
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
        incoming,
        ended,
        left,
    })
}

/// Ends the session that leaves the chat, unless it was closed for a reason of its own. Returns how it stood before.
#[allow(clippy::type_complexity)] // it is the field's own type
fn end_switched(
    c: &Connection,
    id: &str,
    now: f64,
) -> Result<Option<(String, Option<f64>, Option<String>)>, StoreError> {
    let before = c
        .prepare_cached(&format!(
            "SELECT ended_at, end_reason FROM sessions WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN {SOFT_ENDS})"
        ))?
        .query_row([id], |row| {
            Ok((id.to_owned(), lenient::seconds(row, 0)?, lenient::text(row, 1)?))
        })
        .optional()?;
    if before.is_some() {
        c.execute(
            "UPDATE sessions SET ended_at = ?2, end_reason = 'session_switch' WHERE id = ?1",
            params![id, now],
        )?;
    }
    Ok(before)
}

/// The entry as Hermes writes it after a switch: counters at zero, flags down. Keys that we do not know are kept.
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

/// The source as it is now, over what the entry said of it before: Hermes writes more of a chat than a message tells.
fn origin(before: Option<&str>, source: &Source) -> Value {
    let before = before.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut merged: Map<String, Value> = before
        .and_then(|entry| entry.get("origin")?.as_object().cloned())
        .unwrap_or_default();
    if let Value::Object(now) = source.to_origin() {
        merged.extend(now);
    }
    Value::Object(merged)
}
