//! Stores messages from chats from their acceptance until they are answered.
//!
//! The table is the queue. A message is acknowledged to the adapter when its row is committed. A repeated message is a
//! duplicate. A restart resumes unanswered messages. A row is `received`, then `running` (its words are in the
//! transcript and the agent works on it), then `answered` or `failed`.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::messages::NewMessage;
use super::{
    Delivery, NewDelivery, Store, StoreError, TurnEnd, TurnStart, deliveries, ended_chats, lineage,
    retract, sessions, turn_leases, turns,
};
use crate::clock;
use crate::domain::RemoteFile;
use crate::domain::TranscriptWriter;
use crate::domain::transcript::Role;
use crate::domain::{Attachment, ChatType, Source, in_words};

#[derive(Debug, Clone, PartialEq)]
pub struct Inbound {
    pub id: i64,
    pub session_key: String,
    pub source: Source,
    /// The platform's id of the message.
    pub message_id: String,
    pub text: String,
    pub files: Files,
    pub draft: Draft,
}

/// A message from an adapter.
#[derive(Debug, Clone, Default)]
pub struct NewInbound {
    pub message_id: String,
    pub text: String,
    pub files: Vec<RemoteFile>,
}

/// The files of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// Still on the platform's server.
    Remote(Vec<RemoteFile>),
    /// Saved in the home. The text of the message names them.
    Saved(Vec<Attachment>),
}

/// Begins the column of a preview that is being sent. No platform has such an id.
const SENDING: &str = "sending since ";

/// The preview of an answer in the chat.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Draft {
    #[default]
    None,
    /// It is being sent, or was when a daemon died: since when, in seconds since 1970. Earlier versions did not say.
    Sending(Option<f64>),
    /// It is this message.
    Shown(String),
}

impl Draft {
    fn column(&self) -> Option<String> {
        match self {
            Draft::None => None,
            Draft::Sending(None) => Some(String::new()),
            Draft::Sending(Some(since)) => Some(format!("{SENDING}{since}")),
            Draft::Shown(id) => Some(id.clone()),
        }
    }

    fn read(column: Option<String>) -> Draft {
        match column {
            None => Draft::None,
            Some(text) if text.is_empty() => Draft::Sending(None),
            Some(text) => match text.strip_prefix(SENDING) {
                Some(since) => Draft::Sending(since.parse().ok()),
                None => Draft::Shown(text),
            },
        }
    }
}

impl Store {
    /// Stores a message of a chat. `None` if it is a duplicate.
    pub async fn accept_inbound(
        &self,
        key: &str,
        source: &Source,
        new: NewInbound,
    ) -> Result<Option<Inbound>, StoreError> {
        let (key, source) = (key.to_owned(), source.clone());
        self.write(move |c| accept(c, &key, &source, &new)).await
    }

    /// Applies an edit of a message. False if its turn has begun or it is a command.
    pub async fn change_inbound(
        &self,
        key: &str,
        message_id: &str,
        text: &str,
    ) -> Result<bool, StoreError> {
        let (key, id, text) = (key.to_owned(), message_id.to_owned(), text.to_owned());
        self.write(move |c| {
            let waits = c
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM hermesd_inbound INDEXED BY hermesd_inbound_open
                     WHERE session_key = ?1 AND message_id = ?2 AND {OPEN} AND state = 'received' AND text NOT LIKE '/%'"
                ))?
                .query_row([&key, &id], inbound)
                .optional()?;
            let Some(waits) = waits else { return Ok(false) };
            let text = match &waits.files {
                Files::Saved(files) => in_words(&text, files),
                Files::Remote(_) => text.clone(),
            };
            c.prepare_cached("UPDATE hermesd_inbound SET text = ?2 WHERE id = ?1")?
                .execute(params![waits.id, text])?;
            Ok(true)
        })
        .await
    }

    /// Ends a message that was deleted before its turn began. Only the platform and the chat of `source` count. False if
    /// it does not wait.
    pub async fn withdraw_inbound(
        &self,
        source: &Source,
        message_id: &str,
    ) -> Result<bool, StoreError> {
        let (platform, chat) = (source.platform.clone(), source.chat_id.clone());
        let message_id = message_id.to_owned();
        self.write(move |c| {
            let mut statement = c.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hermesd_inbound INDEXED BY hermesd_inbound_open
                 WHERE platform = ?1 AND message_id = ?2 AND {OPEN} AND state = 'received'"
            ))?;
            let waiting = statement.query_map([&platform, &message_id], inbound)?;
            let waiting: Vec<Inbound> = waiting.collect::<Result<_, _>>()?;
            let mut ended =
                c.prepare_cached("UPDATE hermesd_inbound SET state = 'answered' WHERE id = ?1")?;
            let mut found = false;
            for message in waiting.iter().filter(|m| m.source.chat_id == chat) {
                found |= ended.execute([message.id])? == 1;
            }
            Ok(found)
        })
        .await
    }

    /// Records the saved files of a message, and its text with their names. `named` makes that text from the present
    /// text, because the person may have edited it meanwhile. `None` if its turn has begun.
    pub async fn files_saved(
        &self,
        id: i64,
        named: impl Fn(&str) -> String + Send + 'static,
        files: Vec<Attachment>,
    ) -> Result<Option<String>, StoreError> {
        let files = Files::Saved(files);
        self.write_unflushed(move |c| {
            let said: Option<String> = c
                .prepare_cached("SELECT text FROM hermesd_inbound WHERE id = ?1 AND state = 'received'")?
                .query_row([id], |row| row.get(0))
                .optional()?;
            let Some(said) = said else { return Ok(None) };
            let text = named(&said);
            c.execute(
                "UPDATE hermesd_inbound SET text = ?2, files = ?3 WHERE id = ?1 AND state = 'received'",
                params![id, text, serde_json::to_string(&files).ok()],
            )?;
            Ok(Some(text))
        })
        .await
    }

    /// Records the preview of the answer.
    pub async fn set_draft(&self, id: i64, draft: &Draft) -> Result<(), StoreError> {
        let (draft, about_to_send) = (draft.clone(), matches!(draft, Draft::Sending(_)));
        let set = move |c: &Connection| {
            c.prepare_cached("UPDATE hermesd_inbound SET draft = ?2 WHERE id = ?1")?
                .execute(params![id, draft.column()])?;
            Ok(())
        };
        // If this mark were lost after the send, the message would be repeated without saying so.
        match about_to_send {
            true => self.write(set).await,
            false => self.write_unflushed(set).await,
        }
    }

    /// Gives a retry command the words of the session's last turn, and retracts that turn from the transcript. `None`
    /// if there is no such turn.
    pub async fn retry_inbound(
        &self,
        id: i64,
        session_id: &str,
    ) -> Result<Option<Inbound>, StoreError> {
        let (session_id, turn) = (session_id.to_owned(), self.turn.clone());
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            turn_leases::take(c, &session_id, turn.as_deref())?;
            let Some(words) = retract::rewind_last(c, &session_id)? else {
                return Ok(None);
            };
            let mut update = c.prepare_cached(&format!(
                "UPDATE hermesd_inbound SET text = ?2 WHERE id = ?1 AND state = 'received' RETURNING {COLUMNS}"
            ))?;
            Ok(update.query_row(params![id, words], inbound).optional()?)
        })
        .await
    }

    /// Chat and id of all unanswered messages.
    pub async fn open_inbound(&self) -> Result<Vec<(String, i64)>, StoreError> {
        self.read(|c| {
            let mut statement = c.prepare_cached(&format!(
                "SELECT session_key, id FROM hermesd_inbound INDEXED BY hermesd_inbound_open WHERE {OPEN}"
            ))?;
            let rows = statement
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            Ok(rows)
        })
        .await
    }

    /// An unanswered message. `None` if it has been answered.
    pub fn inbound(&self, id: i64) -> Result<Option<Inbound>, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hermesd_inbound WHERE id = ?1 AND {OPEN}"
            ))?;
            Ok(statement.query_row([id], inbound).optional()?)
        })
    }

    /// The tip of the session whose transcript has the message's words, or that its chat was on when the chat ended.
    /// `None` if no transcript has them, and the message is not from before such an end.
    pub async fn session_of_inbound(&self, id: i64) -> Result<Option<String>, StoreError> {
        self.read(move |c| match begun(c, id)? {
            Some((_, session)) => sessions::tip(c, &session).map(Some),
            None => ended_chats::session_at_end(c, id),
        })
        .await
    }

    /// Begins the turn of a message: its words go to the transcript, once. A second call returns the same row, if the
    /// daemon writes the rows. `None` if it has been answered.
    pub async fn begin_inbound(
        &self,
        id: i64,
        session_id: &str,
        transcript_writer: TranscriptWriter,
    ) -> Result<Option<TurnStart>, StoreError> {
        let (session_id, turn) = (session_id.to_owned(), self.turn.clone());
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let open: Option<(String, String)> = c
                .prepare_cached(&format!(
                    "SELECT text, message_id FROM hermesd_inbound WHERE id = ?1 AND {OPEN}"
                ))?
                .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((text, platform_id)) = open else {
                return Ok(None);
            };
            turn_leases::take(c, &session_id, turn.as_deref())?;
            // If compression left the words in an earlier row of the lineage, they are repeated at the tip.
            let begun = begun(c, id)?.filter(|(_, session)| *session == session_id);
            let overtaken = match &begun {
                Some((row, _)) => turns::has_rows_behind(c, &session_id, *row)?,
                None => false,
            };
            if let Some((row, _)) = begun.as_ref().filter(|_| overtaken) {
                // Another program has had a turn since. The words move behind it, next to their answer.
                retract_words(c, &session_id, *row)?;
            } else if let Some((row, _)) = begun {
                // Another turn of this session may have ended since. This lets the end of this turn be written.
                turns::resume(c, &session_id, row)?;
                return Ok(Some(TurnStart::Ask(Some(row))));
            }
            let message = NewMessage {
                platform_message_id: Some(platform_id),
                ..NewMessage::text(Role::User, &text)
            };
            // The session is on this chat now, so its end no longer counts.
            sessions::reopen(c, &session_id)?;
            let begun = turns::begin(c, &session_id, &message, transcript_writer)?;
            c.prepare_cached(
                "UPDATE hermesd_inbound SET state = 'running', message_row = ?2 WHERE id = ?1",
            )?
            .execute(params![id, begun.row()])?;
            Ok(Some(begun))
        })
        .await
    }

    /// Ends an answered or stopped turn: reply, deliveries and the message's state in one transaction.
    pub async fn answer_inbound(
        &self,
        id: i64,
        session_id: &str,
        end: &TurnEnd,
        sends: Vec<NewDelivery>,
    ) -> Result<Vec<Delivery>, StoreError> {
        let (session_id, end) = (session_id.to_owned(), end.clone());
        let turn = self.turn.clone();
        let kept = self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let changed = c
                .prepare_cached("UPDATE hermesd_inbound SET state = 'answered' WHERE id = ?1 AND state = 'running'")?
                .execute([id])?;
            if changed == 0 {
                return Err(StoreError::Conflict(format!("message {id} is answered already")));
            }
            if !turns::end_held(c, &session_id, &end, turn.as_deref())? {
                return Err(StoreError::TurnLost);
            }
            sends.iter().map(|send| deliveries::insert(c, send)).collect()
        });
        let kept = kept.await?;
        self.turn_over();
        Ok(kept)
    }

    /// Ends a failed turn. The words and the partial answer stay in the transcript, and `sends` tells the person why.
    /// If the turn has lost its lease, no part of its answer is written.
    pub async fn fail_inbound(
        &self,
        id: i64,
        session_id: &str,
        reason: &str,
        partial: &str,
        sends: Vec<NewDelivery>,
    ) -> Result<Vec<Delivery>, StoreError> {
        let (session_id, reason) = (session_id.to_owned(), reason.to_owned());
        let (partial, turn) = (TurnEnd::CutOff(partial.to_owned()), self.turn.clone());
        let kept = self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            c.execute(
                "UPDATE hermesd_inbound SET state = 'failed', error = ?2 WHERE id = ?1",
                params![id, reason],
            )?;
            turns::end_held(c, &session_id, &partial, turn.as_deref())?;
            sends
                .iter()
                .map(|send| deliveries::insert(c, send))
                .collect()
        });
        let kept = kept.await?;
        self.turn_over();
        Ok(kept)
    }

    /// Ends a message that the daemon answers itself. Its words reach no transcript. Does nothing if it has ended.
    pub async fn dismiss_inbound(
        &self,
        id: i64,
        sends: Vec<NewDelivery>,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.write(move |c| {
            let changed = c.execute(
                &format!("UPDATE hermesd_inbound SET state = 'answered' WHERE id = ?1 AND {OPEN}"),
                [id],
            )?;
            let sends = sends.iter().filter(|_| changed == 1);
            sends.map(|send| deliveries::insert(c, send)).collect()
        })
        .await
    }
}

/// Not answered yet.
const OPEN: &str = "state IN ('received', 'running')";

const COLUMNS: &str = "id, session_key, source, text, platform, message_id, files, draft";

pub(super) fn accept(
    c: &Connection,
    key: &str,
    source: &Source,
    new: &NewInbound,
) -> Result<Option<Inbound>, StoreError> {
    let files = Some(&new.files).filter(|files| !files.is_empty());
    let files = files.and_then(|files| serde_json::to_string(&Files::Remote(files.clone())).ok());
    let mut insert = c.prepare_cached(&format!(
        "INSERT INTO hermesd_inbound (platform, message_id, session_key, source, text, files, state, received_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'received', ?7)
         ON CONFLICT (platform, session_key, message_id) DO NOTHING RETURNING {COLUMNS}"
    ))?;
    let row = insert
        .query_row(
            params![
                source.platform,
                new.message_id,
                key,
                source.to_origin().to_string(),
                new.text,
                files,
                clock::now()
            ],
            inbound,
        )
        .optional()?;
    Ok(row)
}

/// Whether the chat behind `key` has an unanswered message.
pub(super) fn waits(c: &Connection, key: &str) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(&format!(
        "SELECT 1 FROM hermesd_inbound INDEXED BY hermesd_inbound_open WHERE session_key = ?1 AND {OPEN}"
    ))?;
    Ok(statement.exists([key])?)
}

/// The message's row in the transcript, and its session. `None` if the row was deleted with its session.
fn begun(c: &Connection, id: i64) -> Result<Option<(i64, String)>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT id, session_id FROM messages WHERE id = (SELECT message_row FROM hermesd_inbound WHERE id = ?1)",
    )?;
    Ok(statement
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Marks words without an answer inactive.
fn retract_words(c: &Connection, session_id: &str, row: i64) -> Result<(), StoreError> {
    let taken = c
        .prepare_cached("UPDATE messages SET active = 0 WHERE id = ?1 AND active = 1")?
        .execute([row])?;
    c.prepare_cached(
        "UPDATE sessions SET message_count = MAX(0, COALESCE(message_count, 0) - ?2) WHERE id = ?1",
    )?
    .execute(params![session_id, taken as i64])?;
    Ok(())
}

fn inbound(row: &Row<'_>) -> rusqlite::Result<Inbound> {
    let origin: String = row.get(2)?;
    let platform: String = row.get(4)?;
    let files: Option<String> = row.get(6)?;
    let files = files.and_then(|files| serde_json::from_str(&files).ok());
    let draft: Option<String> = row.get(7)?;
    let source = serde_json::from_str::<Value>(&origin)
        .ok()
        .and_then(|origin| Source::from_origin(&origin));
    Ok(Inbound {
        id: row.get(0)?,
        session_key: row.get(1)?,
        source: source.unwrap_or_else(|| Source::new(&platform, ChatType::Dm, "")),
        message_id: row.get(5)?,
        text: row.get(3)?,
        files: files.unwrap_or(Files::Saved(Vec::new())),
        draft: Draft::read(draft),
    })
}
