//! Restores a chat's earlier conversation when a session leaves the chat, or when a binding is undone.
//!
//! A binding displaces the conversation that the chat was on. That conversation may move, end or vanish before the
//! chat is free again. The chat gets it back only if it still belongs there.

use rusqlite::{Connection, OptionalExtension, params};

use super::binding::Displaced;
use super::routing::{entry, live, live_row, session_of};
use super::{StoreError, chat_columns, lineage, moves};
use crate::clock;
use crate::domain::TERMINAL;
use crate::domain::{Session, TERMINAL_SOURCES};

/// End reasons that close no conversation: a program exited, or the chat switched to another session.
const NO_BOUNDARY: [&str; 7] = [
    "session_switch",
    "agent_close",
    "ws_orphan_reap",
    "superseded_by_resume",
    "startup_orphan_reap",
    "cli_close",
    "tui_close",
];

/// The present state of the conversation that a binding displaced.
#[derive(Debug, PartialEq)]
pub(super) enum Earlier {
    /// The chat was on no conversation.
    None,
    /// The row of its session does not exist.
    Gone,
    /// It still belongs to the chat.
    Here(String),
    /// Its session has moved to a terminal or to another chat.
    Elsewhere { session_id: String, went_to: String },
    /// It was closed since.
    Closed,
}

/// Looks up the conversation that a binding of the chat behind `key` displaced.
pub(super) fn look(
    c: &Connection,
    key: &str,
    displaced: &Displaced,
) -> Result<Earlier, StoreError> {
    let Some(entry) = displaced.entry.as_deref() else {
        return Ok(Earlier::None);
    };
    let Some(session) = live_row(c, session_of(entry))? else {
        return Ok(Earlier::Gone);
    };
    if !belongs(c, &session, key)? {
        let at_home = TERMINAL_SOURCES.contains(&session.source.as_str());
        return Ok(Earlier::Elsewhere {
            session_id: session.id,
            went_to: if at_home {
                TERMINAL.to_owned()
            } else {
                session.source
            },
        });
    }
    match displaced.outgoing {
        Some(_) if is_closed(&session) => Ok(Earlier::Closed),
        _ => Ok(Earlier::Here(session.id)),
    }
}

/// Whether a session belongs to the chat behind `key`, whose entry names it. A session that is moving to another chat
/// belongs to its old chat until the handoff ends.
fn belongs(c: &Connection, session: &Session, key: &str) -> Result<bool, StoreError> {
    if is_at(session, key) {
        return Ok(true);
    }
    let displaced: Option<String> = c
        .prepare_cached(
            "SELECT displaced FROM hermesd_handoffs INDEXED BY hermesd_handoffs_in_flight
             WHERE session_id = ?1 AND state IN ('pending', 'running') AND state = 'running'",
        )?
        .query_row([&session.id], |row| row.get(0))
        .optional()?
        .flatten();
    let displaced = displaced.and_then(|text| serde_json::from_str::<Displaced>(&text).ok());
    Ok(displaced.and_then(|d| d.key_before()).as_deref() == Some(key))
}

/// Whether the row of such a session is on the chat. Older programs write no key to the row.
pub(super) fn is_at(session: &Session, key: &str) -> bool {
    match &session.session_key {
        Some(own) => own == key,
        None => !TERMINAL_SOURCES.contains(&session.source.as_str()),
    }
}

/// Whether the session's end closed the conversation.
pub(super) fn is_closed(session: &Session) -> bool {
    let reason = session.end_reason.as_deref();
    reason.is_some_and(|reason| !NO_BOUNDARY.contains(&reason))
}

/// Undoes a binding. The session loses the chat's columns, also if the chat has another session by now.
pub(super) fn unbind(
    c: &Connection,
    scope: &str,
    key: &str,
    session_id: &str,
    displaced: &Displaced,
) -> Result<(), StoreError> {
    let bound = entry(c, scope, key)?.as_deref().and_then(session_of);
    if live(c, bound)?.as_deref() == Some(session_id) {
        match look(c, key, displaced)? {
            Earlier::Here(_) | Earlier::Gone => give_back(c, scope, key, displaced)?,
            Earlier::Closed => release(c, scope, key)?,
            Earlier::None => {
                release(c, scope, key)?;
                if let Some((session, went_to)) = &displaced.left {
                    moves::remember_left(c, key, session, went_to)?;
                }
            }
            Earlier::Elsewhere {
                session_id,
                went_to,
            } => {
                release(c, scope, key)?;
                moves::remember_left(c, key, &session_id, &went_to)?;
            }
        }
    }
    let mut restored = false;
    for id in lineage::lineage(c, session_id)? {
        let row = displaced.rows.iter().find(|row| row.id == id);
        let columns = row.map_or(&displaced.incoming, |row| &row.columns);
        let changed = chat_columns::write(c, &id, columns, Some(key))?;
        restored |= changed && id == session_id;
        if let (true, Some(row)) = (changed, row) {
            chat_columns::restore_activity(c, &id, row.active_at)?;
        }
    }
    if restored && !is_back(c, scope, session_id, displaced)? {
        // The first end of a session stays, so an end that another program wrote meanwhile is not overwritten.
        // `session_switch` is the exception: it only means that the chat has another session.
        c.execute(
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3
             WHERE id = ?1 AND (ended_at IS NULL OR end_reason = 'session_switch')",
            params![session_id, displaced.ended.0, displaced.ended.1],
        )?;
    }
    Ok(())
}

/// Whether the session is on its former chat again, which had displaced it.
fn is_back(
    c: &Connection,
    scope: &str,
    session_id: &str,
    displaced: &Displaced,
) -> Result<bool, StoreError> {
    let Some(key) = displaced.key_before() else {
        return Ok(false);
    };
    let bound = entry(c, scope, &key)?.as_deref().and_then(session_of);
    Ok(live(c, bound)?.as_deref() == Some(session_id)
        && displaced.ended.1.as_deref() == Some("session_switch"))
}

/// Removes the binding of the chat behind `key`.
pub(super) fn release(c: &Connection, scope: &str, key: &str) -> Result<(), StoreError> {
    c.execute(
        "DELETE FROM gateway_routing WHERE scope = ?1 AND session_key = ?2",
        [scope, key],
    )?;
    Ok(())
}

/// Gives the chat back to its former session.
pub(super) fn give_back(
    c: &Connection,
    scope: &str,
    key: &str,
    displaced: &Displaced,
) -> Result<(), StoreError> {
    c.execute(
        "UPDATE gateway_routing SET entry_json = ?3, updated_at = ?4 WHERE scope = ?1 AND session_key = ?2",
        params![scope, key, displaced.entry, clock::now()],
    )?;
    if let Some((id, ended_at, end_reason)) = &displaced.outgoing {
        c.execute(
            "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 AND end_reason = 'session_switch'",
            params![id, ended_at, end_reason],
        )?;
    }
    Ok(())
}
