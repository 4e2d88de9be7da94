//! The turn that a session is in. The person's words stand in the transcript when it begins; what the agent has streamed
//! since stands here, so that whatever ends the daemon costs no more than the last moment of it.
//!
//! A row stays behind when its turn has ended: it tells our own unanswered words from those that another program is
//! about to answer.

use rusqlite::{Connection, OptionalExtension, params};

use super::messages::{self, NewMessage};
use super::{Store, StoreError, sessions};
use crate::session::transcript::Role;

/// How a reply that was cut off is marked in the transcript.
pub const INTERRUPTED: &str = "interrupted";

/// How a turn ended.
#[derive(Debug, Clone)]
pub enum TurnEnd {
    Answered(String),
    /// With what had been streamed by then.
    CutOff(String),
}

impl Store {
    /// The person's words go into the transcript, and the session is open again, whatever ended it before.
    pub async fn begin_turn(&self, session_id: &str, text: &str) -> Result<i64, StoreError> {
        let (session_id, text) = (session_id.to_owned(), text.to_owned());
        self.write(move |c| {
            let row = messages::append_one(c, &session_id, NewMessage::text(Role::User, &text))?;
            sessions::reopen(c, &session_id)?;
            begin(c, &session_id, row)?;
            Ok(row)
        })
        .await
    }

    /// What has been streamed so far, in case nobody lives to tell the end.
    pub async fn keep_partial(&self, session_id: &str, partial: String) -> Result<(), StoreError> {
        let session_id = session_id.to_owned();
        self.write(move |c| {
            c.prepare_cached(
                "UPDATE hermesd_turns SET partial = ?2 WHERE session_id = ?1 AND running = 1",
            )?
            .execute([&session_id, &partial])?;
            Ok(())
        })
        .await
    }

    /// The reply, or what there is of it, takes its place in the transcript. Done once: a turn that has ended stays as it
    /// is.
    pub async fn end_turn(&self, session_id: &str, how: TurnEnd) -> Result<(), StoreError> {
        let session_id = session_id.to_owned();
        self.write(move |c| {
            if !end(c, &session_id)? {
                return Ok(());
            }
            conclude(c, &session_id, &how)
        })
        .await
    }

    /// Ends the turn that a daemon which is no more was in, with what was kept of it. False: there was none.
    pub async fn end_left_turn(&self, session_id: &str) -> Result<bool, StoreError> {
        let session_id = session_id.to_owned();
        self.write(move |c| {
            let partial: Option<Option<String>> = c
                .prepare_cached(
                    "SELECT partial FROM hermesd_turns WHERE session_id = ?1 AND running = 1",
                )?
                .query_row([&session_id], |row| row.get(0))
                .optional()?;
            let Some(partial) = partial else {
                return Ok(false);
            };
            end(c, &session_id)?;
            cut_off(c, &session_id, partial.as_deref().unwrap_or_default())?;
            Ok(true)
        })
        .await
    }
}

pub(super) fn begin(c: &Connection, session_id: &str, row: i64) -> Result<(), StoreError> {
    c.prepare_cached(
        "INSERT INTO hermesd_turns (session_id, message_row, running) VALUES (?1, ?2, 1)
         ON CONFLICT (session_id) DO UPDATE SET message_row = ?2, running = 1, partial = NULL",
    )?
    .execute(params![session_id, row])?;
    Ok(())
}

/// False: it had ended before.
pub(super) fn end(c: &Connection, session_id: &str) -> Result<bool, StoreError> {
    let ended = c
        .prepare_cached(
            "UPDATE hermesd_turns SET running = 0, partial = NULL WHERE session_id = ?1 AND running = 1",
        )?
        .execute([session_id])?;
    Ok(ended == 1)
}

/// The reply, or what there is of it, goes into the transcript.
pub(super) fn conclude(c: &Connection, session_id: &str, how: &TurnEnd) -> Result<(), StoreError> {
    match how {
        TurnEnd::Answered(reply) => {
            messages::append_one(c, session_id, NewMessage::reply(reply))?;
            messages::count_model_call(c, session_id)
        }
        TurnEnd::CutOff(partial) => cut_off(c, session_id, partial),
    }
}

/// Words that were never said leave no row.
fn cut_off(c: &Connection, session_id: &str, partial: &str) -> Result<(), StoreError> {
    if partial.trim().is_empty() {
        return Ok(());
    }
    let message = NewMessage {
        finish_reason: Some(INTERRUPTED.into()),
        ..NewMessage::text(Role::Assistant, partial)
    };
    messages::append_one(c, session_id, message)?;
    messages::count_model_call(c, session_id)
}

/// The words that began the last turn of ours in this session.
pub(super) fn last_words(c: &Connection, session_id: &str) -> Result<Option<i64>, StoreError> {
    let mut statement =
        c.prepare_cached("SELECT message_row FROM hermesd_turns WHERE session_id = ?1")?;
    Ok(statement
        .query_row([session_id], |row| row.get(0))
        .optional()?)
}
