//! Finds handed-off sessions whose place in a chat without threads another handoff takes.

use rusqlite::{Connection, OptionalExtension};

use super::binding::Displaced;
use super::handoff_log::Changed;
use super::{
    Delivery, DeliveryExtra, NewDelivery, Store, StoreError, deliveries, lineage, routing, sessions,
};
use crate::domain::{HomeChannel, Session, Source, ThreadOutcome, replaced};

/// How many of the newest handoffs are looked at.
const LOOKED_AT: i64 = 1000;

/// A session that another one replaced in its chat, and the note to that chat.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced {
    pub session_id: String,
    pub note: Delivery,
}

impl Store {
    /// The other session that was handed off to this chat itself, not to a thread in it, and is there now.
    pub async fn handed_off_there(
        &self,
        platform: &str,
        chat_id: &str,
        session_id: &str,
    ) -> Result<Option<Session>, StoreError> {
        let (platform, chat_id) = (platform.to_owned(), chat_id.to_owned());
        let (scope, session_id) = (self.scope(), session_id.to_owned());
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT home, thread, session_key, platform, state FROM hermesd_handoffs
                 ORDER BY id DESC LIMIT ?1",
            )?;
            let rows = statement.query_map([LOOKED_AT], |row| {
                let text = |at: usize| row.get::<_, Option<String>>(at);
                let is_of = text(3)?.as_ref() == Some(&platform);
                let is_there = is_of && text(4)?.as_deref() == Some("completed");
                Ok((text(0)?, text(1)?, text(2)?.filter(|_| is_there)))
            })?;
            for row in rows {
                let (Some(home), Some(thread), Some(key)) = row? else {
                    continue;
                };
                let home = serde_json::from_str::<HomeChannel>(&home);
                let thread = serde_json::from_str::<ThreadOutcome>(&thread);
                if !home.is_ok_and(|home| home.chat_id == chat_id)
                    || !matches!(thread, Ok(ThreadOutcome::Chat { .. }))
                {
                    continue;
                }
                let entry = routing::entry(c, &scope, &key)?;
                let there = routing::live_row(c, entry.as_deref().and_then(routing::session_of))?;
                let there = there.filter(|there| there.session_key.as_ref() == Some(&key));
                if let Some(there) = there
                    && there.id != sessions::tip(c, &session_id)?
                    && was_handed_off(c, &there.id, &key)?
                {
                    return Ok(Some(there));
                }
            }
            Ok(None)
        })
        .await
    }
}

/// Stores the note about the session that a settled handoff has replaced, if that one was handed off too.
pub(super) fn note(
    c: &Connection,
    changed: &Changed<'_>,
    handoff: i64,
) -> Result<Option<Replaced>, StoreError> {
    let (key, displaced): (Option<String>, Option<String>) = c
        .prepare_cached("SELECT session_key, displaced FROM hermesd_handoffs WHERE id = ?1")?
        .query_row([handoff], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let displaced = displaced.and_then(|text| serde_json::from_str::<Displaced>(&text).ok());
    let outgoing = displaced.and_then(|displaced| displaced.outgoing);
    let (Some(key), Some((id, ..))) = (key, outgoing) else {
        return Ok(None);
    };
    if !was_handed_off(c, &id, &key)? {
        return Ok(None);
    }
    let Some(session) = sessions::by_id(c, &sessions::tip(c, &id)?)? else {
        return Ok(None);
    };
    let entry = routing::entry(c, changed.scope, &key)?;
    let entry = entry.and_then(|entry| serde_json::from_str::<serde_json::Value>(&entry).ok());
    let Some(source) = entry.and_then(|entry| Source::from_origin(entry.get("origin")?)) else {
        return Ok(None);
    };
    let note = NewDelivery {
        send_key: format!("replaced:{handoff}"),
        source,
        session_id: session.id.clone(),
        handoff_id: None,
        text: replaced(session.label(), &session.id),
        extra: DeliveryExtra::default(),
    };
    Ok(Some(Replaced {
        session_id: session.id,
        note: deliveries::insert(c, &note)?,
    }))
}

fn was_handed_off(c: &Connection, session_id: &str, key: &str) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT 1 FROM hermesd_handoffs INDEXED BY hermesd_handoffs_session
         WHERE session_id = ?1 AND session_key = ?2 AND state = 'completed'",
    )?;
    for id in lineage::lineage(c, session_id)? {
        if statement
            .query_row([&id, key], |_| Ok(()))
            .optional()?
            .is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}
