//! Releases sessions from chats that have ended. The release and the note about it are one commit.
//!
//! `hermesd_left` then says that the session is nowhere. Messages that were accepted before the end are still answered
//! by the session, and their replies go where the note went.

use rusqlite::{Connection, OptionalExtension};
use serde_json::Value;

use super::handoff_log::{in_flight, is_taken};
use super::{
    Delivery, DeliveryExtra, NewDelivery, Store, StoreError, deliveries, earlier, moves, routing,
    sessions,
};
use crate::clock;
use crate::domain::{EndReason, EndedPlace, NOWHERE, Source, TERMINAL, ended_note};

/// Begins the send key of a note about chats that have ended.
const ENDED: &str = "ended:";

/// How long the notice of a redirected reply counts as the note about an end, in seconds.
const TOLD_FOR: f64 = 600.0;

/// A chat that is on a session.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundChat {
    pub key: String,
    pub source: Source,
    pub session_id: String,
    /// The handoff in flight that has bound it. It finds out itself that the chat has ended.
    pub handoff: Option<i64>,
}

/// The end of chats.
#[derive(Debug, Clone)]
pub struct ChatsEnd {
    pub platform: String,
    pub reason: EndReason,
    /// The platform's word for a thread.
    pub word: String,
    pub chats: Vec<BoundChat>,
    /// The chat that gets the note. `None`: there is none.
    pub tell: Option<Source>,
}

/// The chats that were still on their sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReleasedChats {
    pub chats: Vec<BoundChat>,
    /// `None`: no chat can get it, or a redirected reply has told it.
    pub note: Option<Delivery>,
}

impl Delivery {
    /// Whether it is the note about chats that have ended.
    pub fn is_end_note(&self) -> bool {
        self.send_key.starts_with(ENDED)
    }
}

impl Store {
    /// The chats in a place that are on a session.
    pub async fn chats_in(
        &self,
        platform: &str,
        place: &EndedPlace,
    ) -> Result<Vec<BoundChat>, StoreError> {
        let (scope, platform, place) = (self.scope(), platform.to_owned(), place.clone());
        self.read(move |c| {
            let entries = c
                .prepare_cached(
                    "SELECT session_key, entry_json FROM gateway_routing WHERE scope = ?1",
                )?
                .query_map([scope], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
                })?
                .collect::<Result<Vec<_>, _>>()?;
            let mut chats = Vec::new();
            for (key, entry) in entries {
                let origin = serde_json::from_str::<Value>(&entry).ok();
                let source = origin.and_then(|entry| Source::from_origin(entry.get("origin")?));
                let source = source.filter(|s| s.platform == platform && place.contains(s));
                let Some(source) = source else { continue };
                let Some(session_id) = routing::live(c, routing::session_of(&entry))? else {
                    continue;
                };
                let handoff = in_flight(c, &session_id)?.map(|row| row.id);
                chats.push(BoundChat {
                    handoff: handoff.filter(|_| is_taken(c, 0, &key).unwrap_or(false)),
                    key,
                    source,
                    session_id,
                });
            }
            Ok(chats)
        })
        .await
    }

    /// Releases the chats that are still on their sessions, and stores the note. Safe to repeat.
    pub async fn end_chats(&self, end: &ChatsEnd) -> Result<ReleasedChats, StoreError> {
        let end = end.clone();
        self.change(move |c, changed| {
            let at = clock::now();
            let (mut released, mut names) = (ReleasedChats::default(), Vec::new());
            for chat in &end.chats {
                let entry = routing::entry(c, changed.scope, &chat.key)?;
                let bound = routing::live_row(c, entry.as_deref().and_then(routing::session_of))?;
                let Some(session) = bound else { continue };
                let is_same =
                    routing::live(c, Some(chat.session_id.clone()))?.as_ref() == Some(&session.id);
                if !is_same || is_taken(c, 0, &chat.key)? {
                    continue;
                }
                let told = nowhere_since(c, &chat.key)?;
                earlier::release(c, changed.scope, &chat.key)?;
                moves::remember_left_at(c, &chat.key, &session.id, NOWHERE, at)?;
                changed.keys.push(chat.key.clone());
                if told.is_none_or(|told| at - told > TOLD_FOR) {
                    names.push(session.label().to_owned());
                }
                released.chats.push(BoundChat {
                    session_id: session.id,
                    ..chat.clone()
                });
            }
            if let (Some(to), Some(first), false) =
                (&end.tell, released.chats.first(), names.is_empty())
            {
                let note = NewDelivery {
                    send_key: note_key(&end.platform, at),
                    source: to.clone(),
                    session_id: first.session_id.clone(),
                    handoff_id: None,
                    text: ended_note(end.reason, &end.word, &names),
                    extra: DeliveryExtra::default(),
                };
                released.note = Some(deliveries::insert(c, &note)?);
            }
            Ok(released)
        })
        .await
    }

    /// Where the note about the end of the chat behind `key` went. `None`: it has not ended, or there was no note.
    pub async fn end_note_place(
        &self,
        platform: &str,
        key: &str,
    ) -> Result<Option<Source>, StoreError> {
        let (platform, key) = (platform.to_owned(), key.to_owned());
        self.read(move |c| note_place(c, &platform, &key)).await
    }
}

/// All chats of one end have the same time, so the time finds the note.
fn note_key(platform: &str, at: f64) -> String {
    format!("{ENDED}{platform}:{at}")
}

/// When the chat ended.
fn nowhere_since(c: &Connection, key: &str) -> Result<Option<f64>, StoreError> {
    let mut statement =
        c.prepare_cached("SELECT at FROM hermesd_left WHERE session_key = ?1 AND went_to = ?2")?;
    Ok(statement
        .query_row([key, NOWHERE], |row| row.get(0))
        .optional()?)
}

pub(super) fn note_place(
    c: &Connection,
    platform: &str,
    key: &str,
) -> Result<Option<Source>, StoreError> {
    let Some(at) = nowhere_since(c, key)? else {
        return Ok(None);
    };
    let origin: Option<String> = c
        .prepare_cached("SELECT source FROM hermesd_deliveries WHERE send_key = ?1")?
        .query_row([note_key(platform, at)], |row| row.get(0))
        .optional()?;
    let origin = origin.and_then(|origin| serde_json::from_str::<Value>(&origin).ok());
    Ok(origin.and_then(|origin| Source::from_origin(&origin)))
}

/// The session that a message's chat was on when the chat ended, if the message was accepted before.
pub(super) fn session_at_end(
    c: &Connection,
    inbound_id: i64,
) -> Result<Option<String>, StoreError> {
    let message: Option<(String, f64)> = c
        .prepare_cached("SELECT session_key, received_at FROM hermesd_inbound WHERE id = ?1")?
        .query_row([inbound_id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((key, received_at)) = message else {
        return Ok(None);
    };
    let left: Option<(String, f64)> = c
        .prepare_cached(
            "SELECT session_id, at FROM hermesd_left WHERE session_key = ?1 AND went_to = ?2",
        )?
        .query_row([&key, NOWHERE], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match left.filter(|(_, at)| received_at <= *at) {
        Some((session_id, _)) => {
            let tip = sessions::tip(c, &session_id)?;
            Ok(sessions::by_id(c, &tip)?.map(|session| session.id))
        }
        None => Ok(None),
    }
}

/// The session is in a terminal now, so the chats that it lost say so.
pub(super) fn found_in_terminal(c: &Connection, session_id: &str) -> Result<(), StoreError> {
    c.prepare_cached(
        "UPDATE hermesd_left SET went_to = ?2 WHERE session_id = ?1 AND went_to = ?3",
    )?
    .execute([session_id, TERMINAL, NOWHERE])?;
    Ok(())
}
