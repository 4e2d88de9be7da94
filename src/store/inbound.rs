//! Messages from chats, kept from the moment they are accepted until they are answered.
//!
//! The table is the queue: an adapter's message is acknowledged when its row is committed, a message seen before is a
//! duplicate, and what a restart finds unanswered is taken up again. A row is `received`, then `running` (its words stand
//! in the transcript and the agent is at it), and in the end `answered` or `failed`.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::messages::NewMessage;
use super::{
    Delivery, NewDelivery, Store, StoreError, TurnEnd, TurnStart, deliveries, lineage, retract,
    sessions, turn_leases, turns,
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

/// A message as an adapter brings it.
#[derive(Debug, Clone, Default)]
pub struct NewInbound {
    pub message_id: String,
    pub text: String,
    pub files: Vec<RemoteFile>,
}

/// What came with a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// Still with the platform.
    Remote(Vec<RemoteFile>),
    /// In our home; the text of the message names them.
    Saved(Vec<Attachment>),
}

/// What the chat is shown of an answer while it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Draft {
    #[default]
    None,
    /// It is on its way, or was when a daemon died.
    Sending,
    /// This message.
    Shown(String),
}

impl Draft {
    fn column(&self) -> Option<&str> {
        match self {
            Draft::None => None,
            Draft::Sending => Some(""),
            Draft::Shown(id) => Some(id),
        }
    }
}

impl Store {
    /// Keeps a message of a chat. `None`: it was seen before.
    pub async fn accept_inbound(
        &self,
        key: &str,
        source: &Source,
        new: NewInbound,
    ) -> Result<Option<Inbound>, StoreError> {
        let (key, source) = (key.to_owned(), source.clone());
        self.write(move |c| accept(c, &key, &source, &new)).await
    }

    /// A person has changed a message. False: it is no longer only waiting.
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

    /// Its files are ours now, and its words name them: `named` makes those of what the message says by now, which may have
    /// been changed while its files were fetched. `None`: it is no longer only waiting.
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

    /// What the chat is shown of its answer.
    pub async fn set_draft(&self, id: i64, draft: &Draft) -> Result<(), StoreError> {
        let (draft, about_to_send) = (draft.clone(), *draft == Draft::Sending);
        let set = move |c: &Connection| {
            c.prepare_cached("UPDATE hermesd_inbound SET draft = ?2 WHERE id = ?1")?
                .execute(params![id, draft.column()])?;
            Ok(())
        };
        // A mark that is lost behind the message would let it be sent a second time without a word.
        match about_to_send {
            true => self.write(set).await,
            false => self.write_unflushed(set).await,
        }
    }

    /// Turns a wish to try again into the words that were last said in the session: those, and what came of them, are taken
    /// out of the transcript. `None`: nothing was said there.
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

    /// Chat and id of all that is accepted and not yet answered.
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

    /// A message that is still to be answered. `None`: it no longer is.
    pub fn inbound(&self, id: i64) -> Result<Option<Inbound>, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hermesd_inbound WHERE id = ?1 AND {OPEN}"
            ))?;
            Ok(statement.query_row([id], inbound).optional()?)
        })
    }

    /// The live end of the session in whose transcript its words stand. `None`: in none yet, or no longer.
    pub async fn session_of_inbound(&self, id: i64) -> Result<Option<String>, StoreError> {
        self.read(move |c| match begun(c, id)? {
            Some((_, session)) => sessions::tip(c, &session).map(Some),
            None => Ok(None),
        })
        .await
    }

    /// Its turn begins: the words go into the transcript. Done once; a second call returns the same row, if we write it.
    /// `None`: it has been answered, so there is nothing to begin.
    pub async fn begin_inbound(
        &self,
        id: i64,
        session_id: &str,
        scribe: TranscriptWriter,
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
            // Words that compression left behind in the row before are said again, or they would have no answer.
            let begun = begun(c, id)?.filter(|(_, session)| *session == session_id);
            let overtaken = match &begun {
                Some((row, _)) => turns::has_rows_behind(c, &session_id, *row)?,
                None => false,
            };
            if let Some((row, _)) = begun.as_ref().filter(|_| overtaken) {
                // Another program has had a turn since. The words are said again behind it, where their answer will stand.
                take_back(c, &session_id, *row)?;
            } else if let Some((row, _)) = begun {
                // Another turn of this session may have come and gone since: without this, its end would not be written.
                turns::take_up(c, &session_id, row)?;
                return Ok(Some(TurnStart::Ask(Some(row))));
            }
            let message = NewMessage {
                platform_message_id: Some(platform_id),
                ..NewMessage::text(Role::User, &text)
            };
            // The chat owns this session now, whatever ended it before.
            sessions::reopen(c, &session_id)?;
            let begun = turns::begin(c, &session_id, &message, scribe)?;
            c.prepare_cached(
                "UPDATE hermesd_inbound SET state = 'running', message_row = ?2 WHERE id = ?1",
            )?
            .execute(params![id, begun.row()])?;
            Ok(Some(begun))
        })
        .await
    }

    /// The agent has answered, or was stopped: reply, ledger rows and the end of the message, all at once.
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

    /// The turn failed: the words stay in the transcript with what there is of an answer, and the person is told why. A turn that
    /// has lost its lease leaves nothing of its answer.
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

    /// Answered by the house itself: its words reach no transcript. Nothing is sent when it was answered before.
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

/// Still to be answered.
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

/// Whether something was said in the chat behind `key` that is not answered yet.
pub(super) fn waits(c: &Connection, key: &str) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(&format!(
        "SELECT 1 FROM hermesd_inbound INDEXED BY hermesd_inbound_open WHERE session_key = ?1 AND {OPEN}"
    ))?;
    Ok(statement.exists([key])?)
}

/// Its row in the transcript and the session of that row. A row that went with its session counts as never written.
fn begun(c: &Connection, id: i64) -> Result<Option<(i64, String)>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT id, session_id FROM messages WHERE id = (SELECT message_row FROM hermesd_inbound WHERE id = ?1)",
    )?;
    Ok(statement
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Takes words without an answer out of the live transcript.
fn take_back(c: &Connection, session_id: &str, row: i64) -> Result<(), StoreError> {
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
        draft: match draft {
            None => Draft::None,
            Some(id) if id.is_empty() => Draft::Sending,
            Some(id) => Draft::Shown(id),
        },
    })
}
