//! Stores which session a chat is on: in rows of `gateway_routing`, and in the older file `sessions/sessions.json`.
//!
//! The table is authoritative. The file is read for keys that the table lacks, and changes are mirrored to it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, OptionalExtension};
use serde_json::{Map, Value};

use super::binding::bind;
use super::sessions::NewSession;
use super::{Store, StoreError, earlier, lenient, sessions};
use crate::clock;
use crate::domain::{Session, Source};
use crate::store::handoff_log::Changed;

/// The session that a chat is on now.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub session_id: String,
    /// The session was created for this chat.
    pub fresh: bool,
}

/// The keys that `sessions.json` does not have yet, and the lock for writing it.
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

impl Store {
    /// The session in a chat's routing entry.
    pub async fn bound_session(&self, key: &str) -> Result<Option<String>, StoreError> {
        let (scope, wanted) = (self.scope(), key.to_owned());
        let entry = self.read(move |c| entry(c, &scope, &wanted)).await?;
        let entry = match entry {
            Some(text) => serde_json::from_str(&text).ok(),
            None => self.mirrored(key).await,
        };
        Ok(entry.as_ref().and_then(named))
    }

    /// The chats of a platform that have a routing entry, the latest first, up to a limit.
    pub async fn bound_chats(
        &self,
        platform: &str,
        most: usize,
    ) -> Result<Vec<Source>, StoreError> {
        let (scope, platform) = (self.scope(), platform.to_owned());
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT entry_json FROM gateway_routing WHERE scope = ?1 ORDER BY updated_at DESC",
            )?;
            let entries = statement.query_map([scope], |row| row.get::<_, String>(0))?;
            let mut chats = Vec::new();
            for entry in entries {
                let entry: Option<Value> = serde_json::from_str(&entry?).ok();
                let origin = entry.as_ref().and_then(|entry| entry.get("origin"));
                let source = origin.and_then(Source::from_origin);
                chats.extend(source.filter(|source| source.platform == platform));
                if chats.len() >= most {
                    break;
                }
            }
            Ok(chats)
        })
        .await
    }

    /// The tip of the session that a chat is on. `None` if it is on none, or if the session does not exist.
    pub async fn live_session(&self, key: &str) -> Result<Option<String>, StoreError> {
        match self.bound_session(key).await? {
            Some(id) => self.read(move |c| live(c, Some(id))).await,
            None => Ok(None),
        }
    }

    /// Binds a chat without an existing session to a new one. If the chat got a session meanwhile, returns that one.
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

    /// Binds a chat to a new session and ends the one before. Returns the ids of both.
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
            let before = live_row(c, before.or_else(|| mirrored.clone()))?;
            // A session that is moving to another chat continues there.
            let before = before.filter(|session| earlier::is_at(session, &key));
            let before = before.map(|session| session.id);
            if let Some(id) = &before {
                sessions::end_at_boundary(c, id, "session_reset")?;
            }
            let id = fresh(c, changed, &key, &source)?;
            Ok((before, id))
        })
        .await
    }

    /// The entry in `sessions.json`, for keys that the table lacks.
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

    /// Copies one key from the table to `sessions.json`, if the file exists. An error is only logged, because the
    /// table is authoritative.
    pub(super) async fn mirror(&self, key: &str) {
        let path = self.mirror_path();
        if !path.exists() {
            return;
        }
        let mirror = &self.inner.mirror;
        mirror.locked(|changed| changed.insert(key.to_owned()));
        // Concurrent bindings share one rewrite: the first task writes the keys of all that wait.
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
            tracing::warn!(error, "cannot update sessions.json from the routing table");
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

/// Creates a session for a chat and binds the chat to it.
fn fresh(
    c: &Connection,
    changed: &mut Changed<'_>,
    key: &str,
    source: &Source,
) -> Result<String, StoreError> {
    let new = NewSession {
        id: &clock::session_id(clock::now()),
        source: &source.platform,
        title: None,
        model: None,
        cwd: None,
        profile: source.profile.as_deref().unwrap_or(changed.profile),
    };
    let id = sessions::create(c, &new)?;
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

/// The tip of a session, if it exists.
pub(super) fn live(c: &Connection, id: Option<String>) -> Result<Option<String>, StoreError> {
    Ok(live_row(c, id)?.map(|session| session.id))
}

/// The row of a session's tip.
pub(super) fn live_row(c: &Connection, id: Option<String>) -> Result<Option<Session>, StoreError> {
    let Some(id) = id else { return Ok(None) };
    sessions::by_id(c, &sessions::tip(c, &id)?)
}
