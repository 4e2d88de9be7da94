//! Moves a session away from its chat, to the terminal or to another chat. Releasing the old chat, the note to it and
//! the new binding are one commit.

use rusqlite::{Connection, OptionalExtension, params};

use super::binding::{self, Displaced};
use super::chat_columns::{self, CHAT_COLUMNS};
use super::earlier::{self, Earlier};
use super::{
    Delivery, DeliveryExtra, NewDelivery, Store, StoreError, deliveries, ended_chats, inbound,
    lenient, lineage, routing, sessions,
};
use crate::clock;
use crate::domain::{NOWHERE, Session, Source, TERMINAL, TERMINAL_SOURCES, farewell};
use crate::store::handoff_log::Changed;

/// Begins the send key of the note to a chat that its session has left.
const FAREWELL: &str = "left:";

/// Begins the send key of the reply to a message. The message's row follows.
pub const REPLY: &str = "inbound:";

/// The session that left a chat, and where it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Left {
    pub session_id: String,
    /// A platform, or [`TERMINAL`].
    pub went_to: String,
}

/// A chat that a session has left, and the note to send there.
#[derive(Debug, Clone, PartialEq)]
pub struct Departure {
    pub from: Source,
    pub note: Delivery,
}

impl Delivery {
    /// Whether it is the first message of a reply, which may have several.
    pub fn is_first_piece(&self) -> bool {
        match self.send_key.rsplit_once(':') {
            Some((_, piece)) => piece.parse::<usize>().map_or(true, |piece| piece == 0),
            None => true,
        }
    }

    /// The id of the person's message that it answers.
    pub fn answers(&self) -> Option<&str> {
        let is_reply = self.send_key.starts_with(REPLY);
        self.source.message_id.as_deref().filter(|_| is_reply)
    }

    /// Whether it is the note to a chat that its session has left.
    pub fn is_farewell(&self) -> bool {
        self.send_key.starts_with(FAREWELL)
    }
}

impl Store {
    /// Brings a session back to the terminal. `None` if no chat was on it.
    pub async fn take_home(&self, session_id: &str) -> Result<Option<Departure>, StoreError> {
        let (id, mirrored) = (session_id.to_owned(), self.mirrored_of(session_id).await?);
        self.change(move |c, changed| {
            let id = lineage::settle(c, changed, &id)?;
            let session = free_to_move(c, &id)?;
            let departure = depart(c, changed, &session, TERMINAL, mirrored.as_deref())?;
            clear_chat_columns(c, &id)?;
            ended_chats::found_in_terminal(c, &id)?;
            if departure.is_some() {
                // The session was on a chat, so it does not wait for an earlier terminal any more.
                c.execute(
                    "DELETE FROM hermesd_terminals WHERE session_id = ?1 AND left_because IS NOT NULL",
                    [&id],
                )?;
            }
            sessions::reopen(c, &id)?;
            Ok(departure)
        })
        .await
    }

    /// Binds the chat behind `key` to a session, wherever the session was before.
    pub async fn take_to_chat(
        &self,
        session_id: &str,
        key: &str,
        source: &Source,
    ) -> Result<Option<Departure>, StoreError> {
        let (id, key, source) = (session_id.to_owned(), key.to_owned(), source.clone());
        let left_behind = self.mirrored_of(session_id).await?;
        let displaced = self.mirrored(&key).await.map(|e| e.to_string());
        self.change(move |c, changed| {
            let id = lineage::settle(c, changed, &id)?;
            let session = free_to_move(c, &id)?;
            let elsewhere = session.session_key.as_deref() != Some(key.as_str());
            let departure = match elsewhere {
                true => depart(
                    c,
                    changed,
                    &session,
                    &source.platform,
                    left_behind.as_deref(),
                )?,
                false => None,
            };
            binding::bind(c, changed.scope, &key, &id, &source, displaced.as_deref())?;
            changed.keys.push(key.clone());
            Ok(departure)
        })
        .await
    }

    /// Redirects a delivery from a thread that is gone to another chat, behind a notice. Releases the thread behind
    /// `key` from the session if all its messages are answered. If a note has told of the end of the thread, the
    /// delivery gets `reference` instead of the notice.
    pub async fn redirect_delivery(
        &self,
        delivery: &Delivery,
        to: &Source,
        key: &str,
        session_id: &str,
        (notice, reference): (&str, &str),
    ) -> Result<Delivery, StoreError> {
        let (key, session_id) = (key.to_owned(), session_id.to_owned());
        let (notice, reference) = (notice.to_owned(), reference.to_owned());
        let (delivery, to) = (delivery.clone(), to.clone());
        self.change(move |c, changed| {
            let before = match ended_chats::note_place(c, &delivery.source.platform, &key)? {
                Some(_) => &reference,
                None => &notice,
            };
            let mut redirected = delivery.clone();
            redirected.source = to.clone();
            redirected.text = format!("{before}\n\n{}", delivery.text)
                .trim_start()
                .to_owned();
            redirected.extra.replaces = None;
            redirected.state = super::DeliveryState::Pending;
            redirected.started_at = None;
            let entry = routing::entry(c, changed.scope, &key)?;
            let bound = entry.as_deref().and_then(routing::session_of);
            let bound = routing::live(c, bound)?;
            if let Some(bound) = &bound
                && Some(bound) == routing::live(c, Some(session_id.clone()))?.as_ref()
            {
                // So that the end of the thread is not told a second time.
                remember_left(c, &key, bound, NOWHERE)?;
                if !inbound::waits(c, &key)? {
                    earlier::release(c, changed.scope, &key)?;
                    changed.keys.push(key.clone());
                }
            }
            deliveries::redirect(c, &redirected)?;
            Ok(redirected)
        })
        .await
    }

    /// The session that left a chat, if the chat is on none now.
    pub async fn left(&self, key: &str) -> Result<Option<Left>, StoreError> {
        let key = key.to_owned();
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT session_id, went_to FROM hermesd_left WHERE session_key = ?1",
            )?;
            let left = statement.query_row([&key], |row| {
                Ok(Left {
                    session_id: row.get(0)?,
                    went_to: row.get(1)?,
                })
            });
            Ok(left.optional()?)
        })
        .await
    }

    /// Sessions that were handed off and are still on their chat, the newest handoff first.
    pub async fn sessions_on_chats(&self, limit: usize) -> Result<Vec<Session>, StoreError> {
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT DISTINCT s.id FROM hermesd_handoffs h JOIN sessions s ON s.id = h.session_id
                 WHERE h.state = 'completed' AND s.session_key = h.session_key AND s.archived = 0
                 ORDER BY h.id DESC LIMIT ?1",
            )?;
            let ids = statement.query_map([limit as i64], |row| lenient::name(row, 0))?;
            let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
            sessions::tips(c, &ids)
        })
        .await
    }

    /// The entry in `sessions.json` of the chat that a session is on.
    async fn mirrored_of(&self, session_id: &str) -> Result<Option<String>, StoreError> {
        let key = self.look(|c| {
            for id in lineage::lineage(c, &sessions::tip(c, session_id)?)? {
                let key = sessions::by_id(c, &id)?.and_then(|session| session.session_key);
                if key.is_some() {
                    return Ok(key);
                }
            }
            Ok(None)
        })?;
        Ok(match key {
            Some(key) => self.mirrored(&key).await.map(|entry| entry.to_string()),
            None => None,
        })
    }
}

/// Refuses a session with a handoff in flight, because the handoff moves it.
fn free_to_move(c: &Connection, id: &str) -> Result<Session, StoreError> {
    let session = sessions::by_id(c, id)?;
    let session =
        session.ok_or_else(|| StoreError::Conflict(format!("there is no session {id}")))?;
    match session.handoff_state.as_deref() {
        Some(state @ ("pending" | "running")) => Err(StoreError::Conflict(format!(
            "a handoff of {id} is {state}"
        ))),
        _ => Ok(session),
    }
}

/// Releases the chat in the session's row, if it is still on this session.
fn depart(
    c: &Connection,
    changed: &mut Changed<'_>,
    session: &Session,
    went_to: &str,
    mirrored: Option<&str>,
) -> Result<Option<Departure>, StoreError> {
    match &session.session_key {
        Some(key) => depart_from(c, changed, &session.id, key, went_to, mirrored),
        None => Ok(None),
    }
}

/// Restores the chat's earlier conversation, if it had one. Otherwise records that the session has left.
pub(super) fn depart_from(
    c: &Connection,
    changed: &mut Changed<'_>,
    session_id: &str,
    key: &str,
    went_to: &str,
    mirrored: Option<&str>,
) -> Result<Option<Departure>, StoreError> {
    let entry = routing::entry(c, changed.scope, key)?.or_else(|| mirrored.map(str::to_owned));
    let Some(entry) = entry else { return Ok(None) };
    if routing::live(c, routing::session_of(&entry))?.as_deref() != Some(session_id) {
        return Ok(None);
    }
    let origin = serde_json::from_str::<serde_json::Value>(&entry).ok();
    let Some(from) = origin.and_then(|entry| Source::from_origin(entry.get("origin")?)) else {
        return Ok(None);
    };
    let earlier = earlier_conversation(c, session_id, key)?;
    match &earlier {
        Some(displaced) => earlier::give_back(c, changed.scope, key, displaced)?,
        None => {
            earlier::release(c, changed.scope, key)?;
            remember_left(c, key, session_id, went_to)?;
        }
    }
    changed.keys.push(key.to_owned());
    let note = NewDelivery {
        send_key: format!("{FAREWELL}{key}:{}", clock::now()),
        source: from.clone(),
        session_id: session_id.to_owned(),
        handoff_id: None,
        text: farewell(&from.platform, went_to, earlier.is_some()),
        extra: DeliveryExtra::default(),
    };
    let note = deliveries::insert(c, &note)?;
    Ok(Some(Departure { from, note }))
}

/// Records where the session of a chat went. A message in that chat is answered with this.
pub(super) fn remember_left(
    c: &Connection,
    key: &str,
    session_id: &str,
    went_to: &str,
) -> Result<(), StoreError> {
    remember_left_at(c, key, session_id, went_to, clock::now())
}

pub(super) fn remember_left_at(
    c: &Connection,
    key: &str,
    session_id: &str,
    went_to: &str,
    at: f64,
) -> Result<(), StoreError> {
    c.execute(
        "INSERT INTO hermesd_left (session_key, session_id, went_to, at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session_key) DO UPDATE SET session_id = ?2, went_to = ?3, at = ?4",
        params![key, session_id, went_to, at],
    )?;
    Ok(())
}

/// The conversation that the session displaced in the chat, if it still belongs there.
fn earlier_conversation(
    c: &Connection,
    session_id: &str,
    key: &str,
) -> Result<Option<Displaced>, StoreError> {
    let displaced: Option<String> = c
        .prepare_cached(
            "SELECT displaced FROM hermesd_handoffs
             WHERE session_id = ?1 AND session_key = ?2 AND state = 'completed' ORDER BY id DESC LIMIT 1",
        )?
        .query_row([session_id, key], |row| row.get(0))
        .optional()?
        .flatten();
    let displaced = displaced.and_then(|text| serde_json::from_str::<Displaced>(&text).ok());
    let Some(displaced) = displaced else {
        return Ok(None);
    };
    Ok(match earlier::look(c, key, &displaced)? {
        Earlier::Here(id) if id != session_id => Some(displaced),
        _ => None,
    })
}

/// Clears the chat's columns in all rows of a conversation. Otherwise Hermes would bring the chat back to an earlier
/// row that still names it.
fn clear_chat_columns(c: &Connection, id: &str) -> Result<(), StoreError> {
    let at_home = |source: &str| TERMINAL_SOURCES.contains(&source);
    let mut columns = vec![None; CHAT_COLUMNS.len()];
    for row in lineage::lineage(c, id)? {
        let Some(session) = sessions::by_id(c, &row)? else {
            continue;
        };
        if at_home(&session.source) && session.session_key.is_none() {
            continue;
        }
        if columns[0].is_none() {
            columns[0] = Some(source_before(c, id)?);
        }
        chat_columns::write(c, &row, &columns, None)?;
    }
    Ok(())
}

/// The terminal source that a session had before it went to a chat. `cli` if it began in a chat.
fn source_before(c: &Connection, id: &str) -> Result<String, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT displaced FROM hermesd_handoffs
         WHERE session_id = ?1 AND state = 'completed' AND displaced IS NOT NULL ORDER BY id DESC",
    )?;
    let rows = statement.query_map([id], |row| row.get::<_, String>(0))?;
    for row in rows {
        let Ok(displaced) = serde_json::from_str::<Displaced>(&row?) else {
            continue;
        };
        let source = displaced.incoming.first().and_then(Option::as_deref);
        if let Some(source) = source.filter(|source| TERMINAL_SOURCES.contains(source)) {
            return Ok(source.to_owned());
        }
    }
    Ok("cli".to_owned())
}
