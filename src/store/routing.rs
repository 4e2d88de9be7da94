//! Which session a chat is on: rows of `gateway_routing`, and the older mirror in `sessions/sessions.json`.
//!
//! The table is the truth. The file is read for keys that the table lacks, and where it exists it is kept in step.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value, json};

use super::journal::Changed;
use super::{Store, StoreError, lenient, sessions};
use crate::clock;
use crate::session::Source;

/// The session that a chat is on now.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub session_id: String,
    /// It was made for this.
    pub fresh: bool,
}

/// Everything that a binding changed, so that it can be put back.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Displaced {
    /// The entry that stood under the key.
    pub(super) entry: Option<String>,
    /// The session that was on the chat and that the binding ended: id, its `ended_at` and `end_reason` before.
    outgoing: Option<(String, Option<f64>, Option<String>)>,
    /// The columns of the incoming session before: those of [`CHAT_COLUMNS`], in order, and how it had ended.
    pub(super) incoming: Vec<Option<String>>,
    ended: (Option<f64>, Option<String>),
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

/// The keys that `sessions.json` has still to learn of, and the right to write it.
#[derive(Default)]
pub(super) struct Mirror {
    changed: Mutex<BTreeSet<String>>,
    writing: tokio::sync::Mutex<()>,
}

impl Mirror {
    fn locked<T>(&self, work: impl FnOnce(&mut BTreeSet<String>) -> T) -> T {
        work(
            &mut self
                .changed
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
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
const SOFT_ENDS: &str = "('agent_close', 'ws_orphan_reap')";

impl Store {
    /// The session that a chat is on, by its key.
    pub async fn bound_session(&self, key: &str) -> Result<Option<String>, StoreError> {
        let (scope, wanted) = (self.scope(), key.to_owned());
        let entry = self.read(move |c| entry(c, &scope, &wanted)).await?;
        let entry = match entry {
            Some(text) => serde_json::from_str(&text).ok(),
            None => self.mirrored(key).await,
        };
        Ok(entry.as_ref().and_then(named))
    }

    /// The live end of the session that a chat is on. `None`: it is on none, or on one that is gone.
    pub async fn live_session(&self, key: &str) -> Result<Option<String>, StoreError> {
        match self.bound_session(key).await? {
            Some(id) => self.read(move |c| live(c, Some(id))).await,
            None => Ok(None),
        }
    }

    /// Puts a chat that has no session, or whose session is gone, on a new one. Somebody who was faster is respected.
    pub async fn bind_fresh_session(
        &self,
        key: &str,
        source: &Source,
    ) -> Result<Bound, StoreError> {
        let (bound, source) = (key.to_owned(), source.clone());
        self.change(move |c, changed| {
            let before = entry(c, changed.scope, &bound)?;
            if let Some(live) = live(c, before.as_deref().and_then(session_of))? {
                return Ok(Bound {
                    session_id: live,
                    fresh: false,
                });
            }
            let session_id = fresh(c, changed, &bound, &source)?;
            Ok(Bound {
                session_id,
                fresh: true,
            })
        })
        .await
    }

    /// Puts a chat on a new session. The one that it was on ends for good; its id is returned with the new one's.
    pub async fn start_anew(
        &self,
        key: &str,
        source: &Source,
    ) -> Result<(Option<String>, String), StoreError> {
        let mirrored = self.mirrored(key).await.as_ref().and_then(named);
        let (key, source) = (key.to_owned(), source.clone());
        self.change(move |c, changed| {
            let before = entry(c, changed.scope, &key)?;
            let before = before.as_deref().and_then(session_of);
            let before = live(c, before.or_else(|| mirrored.clone()))?;
            if let Some(id) = &before {
                c.execute(
                    &format!(
                        "UPDATE sessions SET ended_at = ?2, end_reason = 'session_reset'
                         WHERE id = ?1 AND (ended_at IS NULL OR end_reason IN {SOFT_ENDS})"
                    ),
                    params![id, clock::now()],
                )?;
            }
            let id = fresh(c, changed, &key, &source)?;
            Ok((before, id))
        })
        .await
    }

    /// The entry of the older file, for keys that the table lacks.
    pub(super) async fn mirrored(&self, key: &str) -> Option<Value> {
        let (path, key) = (self.mirror_path(), key.to_owned());
        if !path.exists() {
            return None;
        }
        tokio::task::spawn_blocking(move || read_mirror(&path).ok()??.get(&key).cloned())
            .await
            .ok()?
    }

    fn mirror_path(&self) -> PathBuf {
        Path::new(&self.inner.scope).join("sessions.json")
    }

    /// Brings `sessions.json` in step with the table for one key, where the file exists. A fault there is logged and
    /// nothing more: the table is the truth, and no conversation hangs on the mirror.
    pub(super) async fn mirror(&self, key: &str) {
        let path = self.mirror_path();
        if !path.exists() {
            return;
        }
        let mirror = &self.inner.mirror;
        mirror.locked(|changed| changed.insert(key.to_owned()));
        // Many bindings at once share one rewrite: whoever gets here first does it for all that wait.
        let _writing = mirror.writing.lock().await;
        let keys = mirror.locked(std::mem::take);
        if keys.is_empty() {
            return;
        }
        let scope = self.scope();
        let outcome = self
            .read(move |c| {
                let entries = keys
                    .into_iter()
                    .map(|key| Ok((entry(c, &scope, &key)?, key)));
                entries.collect::<Result<Vec<_>, StoreError>>()
            })
            .await
            .map_err(|e| e.to_string());
        let outcome = match outcome {
            Ok(entries) => tokio::task::spawn_blocking(move || rewrite_mirror(&path, entries))
                .await
                .map_err(|e| e.to_string())
                .and_then(|r| r.map_err(|e| e.to_string())),
            Err(e) => Err(e),
        };
        if let Err(error) = outcome {
            tracing::warn!(
                error,
                "sessions.json could not be kept in step with the routing table"
            );
        }
    }
}

fn read_mirror(path: &Path) -> std::io::Result<Option<Map<String, Value>>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(serde_json::from_str(&text)?)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn rewrite_mirror(path: &Path, entries: Vec<(Option<String>, String)>) -> std::io::Result<()> {
    let Some(mut all) = read_mirror(path)? else {
        return Ok(());
    };
    for (entry, key) in entries {
        match entry.map(|text| serde_json::from_str(&text)) {
            Some(Ok(value)) => {
                all.insert(key, value);
            }
            _ => {
                all.shift_remove(&key);
            }
        }
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(serde_json::to_string_pretty(&all)?.as_bytes())?;
    file.as_file()
        .set_permissions(path.metadata()?.permissions())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Makes a session for a chat and puts the chat on it.
fn fresh(
    c: &Connection,
    changed: &mut Changed<'_>,
    key: &str,
    source: &Source,
) -> Result<String, StoreError> {
    let id = sessions::create(c, &source.platform, None, None)?;
    bind(c, changed.scope, key, &id, source, None)?;
    changed.keys.push(key.to_owned());
    Ok(id)
}

pub(super) fn entry(c: &Connection, scope: &str, key: &str) -> Result<Option<String>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT entry_json FROM gateway_routing WHERE scope = ?1 AND session_key = ?2",
    )?;
    Ok(statement
        .query_row([scope, key], |row| lenient::text(row, 0))
        .optional()?
        .flatten())
}

/// The session that a routing entry names.
pub(super) fn session_of(entry: &str) -> Option<String> {
    named(&serde_json::from_str(entry).ok()?)
}

fn named(entry: &Value) -> Option<String> {
    entry.get("session_id")?.as_str().map(str::to_owned)
}

/// The live end of a session, if it exists.
pub(super) fn live(c: &Connection, id: Option<String>) -> Result<Option<String>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    let tip = sessions::tip(c, &id)?;
    Ok(sessions::by_id(c, &tip)?.map(|session| session.id))
}

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
    let outgoing = before
        .as_deref()
        .and_then(session_of)
        .filter(|outgoing| outgoing != session_id);
    let outgoing = outgoing
        .map(|id| end_switched(c, &id, now))
        .transpose()?
        .flatten();

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
    let origin = source.to_origin();
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
    // Whoever writes there is heard again.
    c.prepare_cached("DELETE FROM hermesd_left WHERE session_key = ?1")?
        .execute([key])?;
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
    let mut merged: Map<String, Value> = entry
        .get("origin")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    if let Value::Object(origin) = origin {
        merged.extend(origin);
    }
    entry.insert("origin".into(), Value::Object(merged));
    Value::Object(entry)
}

/// Undoes [`bind`]. A chat that has moved on meanwhile is left there; the session that it left behind still loses the
/// chat's columns.
pub(super) fn unbind(
    c: &Connection,
    scope: &str,
    key: &str,
    session_id: &str,
    displaced: &Displaced,
) -> Result<(), StoreError> {
    let bound = entry(c, scope, key)?.as_deref().and_then(session_of);
    if bound.as_deref() == Some(session_id) {
        free(c, scope, key, displaced)?;
    }
    let assignments: Vec<String> = CHAT_COLUMNS
        .iter()
        .enumerate()
        .map(|(i, name)| format!("{name} = ?{}", i + 3))
        .collect();
    let assignments = assignments.join(", ");
    let sql = format!("UPDATE sessions SET {assignments} WHERE id = ?1 AND session_key = ?2");
    let mut values: Vec<Option<String>> = vec![Some(session_id.to_owned()), Some(key.to_owned())];
    values.extend(displaced.incoming.iter().cloned());
    let restored = c.execute(&sql, rusqlite::params_from_iter(values))?;
    if restored == 1 {
        // Ending is first-writer-wins: whoever closed it meanwhile keeps the word.
        c.execute(
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 AND ended_at IS NULL",
            params![session_id, displaced.ended.0, displaced.ended.1],
        )?;
    }
    Ok(())
}

/// Gives the chat back to the session that was on it before.
pub(super) fn free(
    c: &Connection,
    scope: &str,
    key: &str,
    displaced: &Displaced,
) -> Result<(), StoreError> {
    match &displaced.entry {
        Some(text) => c.execute(
            "UPDATE gateway_routing SET entry_json = ?3, updated_at = ?4 WHERE scope = ?1 AND session_key = ?2",
            params![scope, key, text, clock::now()],
        )?,
        None => c.execute("DELETE FROM gateway_routing WHERE scope = ?1 AND session_key = ?2", [scope, key])?,
    };
    if let Some((id, ended_at, end_reason)) = &displaced.outgoing {
        c.execute(
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 AND end_reason = 'session_switch'",
            params![id, ended_at, end_reason],
        )?;
    }
    Ok(())
}
