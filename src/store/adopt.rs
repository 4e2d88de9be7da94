//! Moves a conversation from a former key to the key of its chat's messages. Former keys come from Hermes' own
//! handoffs, and from the time before Slack's keys named the workspace. The chat's next message causes the move, once.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::features::{self, Feature};
use super::routing::{entry, live_row, session_of};
use super::{Store, StoreError, binding, chat_columns, earlier};
use crate::clock;
use crate::domain::{ChatType, FormerChat, FormerKey, Session, Source};
use crate::store::handoff_log::Changed;

impl Store {
    /// Whether the Hermes of this file puts the workspace into Slack's keys.
    pub fn keys_name_workspaces(&self) -> Result<bool, StoreError> {
        // Both came with the same version of Hermes.
        self.look(|c| features::has(c, Feature::DisplayKind))
    }

    /// Whether the chat behind this key has a routing entry.
    pub async fn has_entry(&self, key: &str) -> Result<bool, StoreError> {
        let scope = &self.inner.scope;
        if self.look(|c| entry(c, scope, key))?.is_some() {
            return Ok(true);
        }
        Ok(self.mirrored(key).await.is_some())
    }

    /// Moves the conversation under one of the former keys to the chat's own key. Returns its session and its former
    /// key. `None` if there is no such conversation, or if the chat has one under its own key.
    pub async fn adopt_conversation(
        &self,
        key: &str,
        source: &Source,
        former: &[FormerKey],
    ) -> Result<Option<(String, String)>, StoreError> {
        for former in former {
            let scope = &self.inner.scope;
            let mirrored = self.mirrored(&former.key).await.map(|e| e.to_string());
            if mirrored.is_none() && self.look(|c| entry(c, scope, &former.key))?.is_none() {
                continue;
            }
            let (key, source, of) = (key.to_owned(), source.clone(), former.clone());
            let adopted = self
                .change(move |c, changed| {
                    adopt(c, changed, &key, &source, &of, mirrored.as_deref())
                })
                .await?;
            if let Some(session_id) = adopted {
                return Ok(Some((session_id, former.key.clone())));
            }
        }
        Ok(None)
    }
}

fn adopt(
    c: &Connection,
    changed: &mut Changed<'_>,
    key: &str,
    source: &Source,
    former: &FormerKey,
    mirrored: Option<&str>,
) -> Result<Option<String>, StoreError> {
    let left = c
        .prepare_cached("SELECT 1 FROM hermesd_left WHERE session_key = ?1")?
        .exists([key])?;
    if left || entry(c, changed.scope, key)?.is_some() {
        return Ok(None);
    }
    let before = entry(c, changed.scope, &former.key)?.or_else(|| mirrored.map(str::to_owned));
    let Some(before) = before else {
        return Ok(None);
    };
    let session = live_row(c, session_of(&before))?;
    let Some(session) = session.filter(|session| may_move(session, source, former, &before)) else {
        return Ok(None);
    };
    let Ok(Value::Object(mut moved)) = serde_json::from_str(&before) else {
        return Ok(None);
    };
    let (now, origin) = (clock::now(), binding::origin(Some(&before), source));
    let rows = chat_columns::rows_to_bind(c, &session.id)?;
    chat_columns::give(c, &rows, key, source, &origin)?;
    moved.insert("session_key".into(), key.into());
    moved.insert("session_id".into(), session.id.as_str().into());
    moved.insert("updated_at".into(), clock::iso_local(now).into());
    moved.insert("platform".into(), source.platform.as_str().into());
    moved.insert("chat_type".into(), source.chat_type.as_str().into());
    moved.insert("origin".into(), origin);
    c.execute(
        "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4)",
        params![changed.scope, key, Value::Object(moved).to_string(), now],
    )?;
    earlier::release(c, changed.scope, &former.key)?;
    c.execute(
        "UPDATE hermesd_handoffs INDEXED BY hermesd_handoffs_session SET session_key = ?3
         WHERE session_id = ?1 AND session_key = ?2",
        [&session.id, &former.key, key],
    )?;
    changed.keys.extend([former.key.clone(), key.to_owned()]);
    Ok(Some(session.id))
}

/// Whether the entry's conversation is still open and belongs to this chat.
fn may_move(session: &Session, source: &Source, former: &FormerKey, entry: &str) -> bool {
    if !earlier::is_at(session, &former.key) || earlier::is_closed(session) {
        return false;
    }
    // A key without a workspace may belong to another workspace. The id of a private chat is unique.
    if former.made != FormerChat::WithoutWorkspace || source.chat_type == ChatType::Dm {
        return true;
    }
    let entry = serde_json::from_str::<Value>(entry).ok();
    let origin = entry.and_then(|entry| Source::from_origin(entry.get("origin")?));
    origin.is_some_and(|origin| origin.scope_id == source.scope_id)
}
