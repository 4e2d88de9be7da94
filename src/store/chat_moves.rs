//! Moves everything of a chat to its new id, for example when a group becomes a supergroup.

use rusqlite::{Connection, params};
use serde_json::Value;

use super::routing::entry;
use super::{Store, StoreError, lenient};
use crate::clock;
use crate::domain::Source;
use crate::store::handoff_log::Changed;

/// Precedes the old id in `hermesd_cursors`. The value of that row is the new id.
const MOVED: &str = "moved:";

/// A chat's change of id.
struct Move {
    platform: String,
    from: String,
    to: String,
}

impl Store {
    /// Moves conversations, bindings, unanswered messages and unsent replies of a chat to its new id. The move is
    /// recorded too, for settings that name the old id. Safe to repeat. False if the move was known.
    pub async fn move_chat(
        &self,
        platform: &str,
        from: &str,
        to: &str,
    ) -> Result<bool, StoreError> {
        let moved = Move {
            platform: platform.to_owned(),
            from: from.to_owned(),
            to: to.to_owned(),
        };
        self.change(move |c, changed| {
            let account = format!("{MOVED}{}", moved.from);
            let known = c
                .prepare_cached(
                    "SELECT 1 FROM hermesd_cursors WHERE platform = ?1 AND account = ?2 AND value = ?3",
                )?
                .exists([&moved.platform, &account, &moved.to])?;
            c.prepare_cached(
                "INSERT INTO hermesd_cursors (platform, account, value, at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (platform, account) DO UPDATE SET value = ?3, at = ?4",
            )?
            .execute(params![
                moved.platform,
                account,
                moved.to,
                clock::now()
            ])?;
            sessions(c, changed, &moved)?;
            left(c, &moved)?;
            waiting(c, &moved)?;
            unsent(c, &moved)?;
            Ok(!known)
        })
        .await
    }

    /// The chats of a platform that have moved: old and new id.
    pub async fn moved_chats(&self, platform: &str) -> Result<Vec<(String, String)>, StoreError> {
        let platform = platform.to_owned();
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT substr(account, length(?2) + 1), value FROM hermesd_cursors
                 WHERE platform = ?1 AND substr(account, 1, length(?2)) = ?2",
            )?;
            let rows = statement.query_map(params![platform, MOVED], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }
}

impl Move {
    /// The new key of a conversation in the chat. `None` if the key belongs to another chat.
    fn key(&self, key: &str) -> Option<String> {
        let mut parts: Vec<&str> = key.split(':').collect();
        let is_of_chat = parts.get(2) == Some(&self.platform.as_str())
            && parts.get(4) == Some(&self.from.as_str());
        let id = parts.get_mut(4).filter(|_| is_of_chat)?;
        *id = &self.to;
        Some(parts.join(":"))
    }

    /// The new source of a message in the chat. `None` if the source is of another chat.
    fn source(&self, origin: &str) -> Option<String> {
        let mut origin: Value = serde_json::from_str(origin).ok()?;
        let source = Source::from_origin(&origin)?;
        if source.platform != self.platform || source.chat_id.as_deref() != Some(&self.from) {
            return None;
        }
        origin["chat_id"] = Value::from(self.to.as_str());
        Some(origin.to_string())
    }
}

/// Moves the conversations of the chat and their bindings. A binding that the new id already has is newer and stays.
fn sessions(c: &Connection, changed: &mut Changed<'_>, moved: &Move) -> Result<(), StoreError> {
    let rows = c
        .prepare_cached(
            "SELECT id, session_key, origin_json FROM sessions WHERE source = ?1 AND chat_id = ?2",
        )?
        .query_map([&moved.platform, &moved.from], |row| {
            let text = |column| lenient::text(row, column);
            Ok((text(0)?, text(1)?, text(2)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    for (id, key, origin) in rows {
        let new_key = key.as_deref().and_then(|key| moved.key(key));
        let new_origin = origin.as_deref().and_then(|origin| moved.source(origin));
        c.prepare_cached(
            "UPDATE sessions SET chat_id = ?2, session_key = ?3, origin_json = ?4 WHERE id = ?1",
        )?
        .execute(params![
            id,
            moved.to,
            new_key.as_ref().or(key.as_ref()),
            new_origin.or(origin)
        ])?;
        if let (Some(old), Some(new)) = (key, new_key) {
            binding(c, changed, &old, &new, moved)?;
        }
    }
    Ok(())
}

fn binding(
    c: &Connection,
    changed: &mut Changed<'_>,
    old: &str,
    new: &str,
    moved: &Move,
) -> Result<(), StoreError> {
    let Some(before) = entry(c, changed.scope, old)? else {
        return Ok(());
    };
    let mut after: Value = serde_json::from_str(&before).unwrap_or_default();
    if after.is_object() {
        after["session_key"] = Value::from(new);
        if let Some(origin) = after.get_mut("origin").filter(|origin| origin.is_object()) {
            origin["chat_id"] = Value::from(moved.to.as_str());
        }
        c.prepare_cached(
            "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (scope, session_key) DO NOTHING",
        )?
        .execute(params![changed.scope, new, after.to_string(), clock::now()])?;
    }
    c.prepare_cached("DELETE FROM gateway_routing WHERE scope = ?1 AND session_key = ?2")?
        .execute([changed.scope, old])?;
    changed.keys.extend([old.to_owned(), new.to_owned()]);
    Ok(())
}

/// Moves the records of sessions that have left the chat.
fn left(c: &Connection, moved: &Move) -> Result<(), StoreError> {
    let keys = c
        .prepare_cached("SELECT session_key FROM hermesd_left")?
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    for key in keys {
        if let Some(new) = moved.key(&key) {
            c.prepare_cached(
                "UPDATE OR IGNORE hermesd_left SET session_key = ?2 WHERE session_key = ?1",
            )?
            .execute([key, new])?;
        }
    }
    Ok(())
}

/// Moves unanswered messages. Their message ids are only valid in the old chat, so they get its id as a suffix.
fn waiting(c: &Connection, moved: &Move) -> Result<(), StoreError> {
    let rows = c
        .prepare_cached(
            "SELECT id, session_key, source FROM hermesd_inbound INDEXED BY hermesd_inbound_open
             WHERE state IN ('received', 'running')",
        )?
        .query_map([], |row| {
            Ok((
                row.get(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, String>(2)?,
            ))
        })?
        .collect::<Result<Vec<(i64, String, String)>, _>>()?;
    for (id, key, source) in rows {
        if let (Some(key), Some(source)) = (moved.key(&key), moved.source(&source)) {
            c.prepare_cached(
                "UPDATE hermesd_inbound SET session_key = ?2, source = ?3, message_id = message_id || '@' || ?4 WHERE id = ?1",
            )?
            .execute(params![id, key, source, moved.from])?;
        }
    }
    Ok(())
}

fn unsent(c: &Connection, moved: &Move) -> Result<(), StoreError> {
    let rows = c
        .prepare_cached(
            "SELECT id, source FROM hermesd_deliveries INDEXED BY hermesd_deliveries_open
             WHERE state IN ('pending', 'sending')",
        )?
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?
        .collect::<Result<Vec<(i64, String)>, _>>()?;
    for (id, source) in rows {
        if let Some(source) = moved.source(&source) {
            c.prepare_cached("UPDATE hermesd_deliveries SET source = ?2 WHERE id = ?1")?
                .execute(params![id, source])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_the_chat_change() {
        let moved = Move {
            platform: "telegram".into(),
            from: "-40".into(),
            to: "-1004".into(),
        };
        for (key, new) in [
            (
                "agent:main:telegram:group:-40",
                Some("agent:main:telegram:group:-1004"),
            ),
            (
                "agent:work:telegram:group:-40:7",
                Some("agent:work:telegram:group:-1004:7"),
            ),
            ("agent:main:telegram:group:-401", None),
            ("agent:main:telegram:group:-4:-40", None),
            ("agent:main:signal:group:-40", None),
            ("-40", None),
        ] {
            assert_eq!(moved.key(key).as_deref(), new, "{key}");
        }
    }
}
