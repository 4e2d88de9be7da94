//! Stores the turn that a session is in. The person's words are in the transcript from its beginning. The streamed
//! part of the answer is stored here, so that a crash loses no more than its last moment.
//!
//! Some agents write the rows of a turn themselves. Then the words are stored here, with the number of rows before
//! them. At the end only missing rows are written. It is a number and not an id, because such agents may also rewrite
//! earlier rows under other ids.
//!
//! The row of an ended turn stays. It distinguishes our own unanswered words from words that another program is about
//! to answer.

use rusqlite::{Connection, OptionalExtension, params};

use super::features::{self, Feature};
use super::messages::{self, NewMessage};
use super::turn_leases::{self, Hold};
use super::{Store, StoreError, chat_columns, lenient, lineage, sessions};
use crate::clock;
use crate::domain::transcript::{Content, Role};
use crate::domain::{Reply, TranscriptWriter, Usage};

/// The `finish_reason` of an interrupted reply.
pub const INTERRUPTED: &str = "interrupted";

/// How a turn begins.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnStart {
    /// Ask the agent. Contains the row of the words, if the daemon wrote it.
    Ask(Option<i64>),
    /// An earlier daemon has asked the agent. Contains the answer as far as the agent has written it.
    Asked(Option<String>),
}

impl TurnStart {
    /// The row of the words. The agent gets the transcript before it.
    pub fn row(&self) -> Option<i64> {
        match self {
            TurnStart::Ask(row) => *row,
            TurnStart::Asked(_) => None,
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub enum TurnEnd {
    Answered(Reply),
    /// Contains the text that was streamed.
    CutOff(String),
}

impl Store {
    /// Stores the person's words and reopens the session.
    pub async fn begin_turn(
        &self,
        session_id: &str,
        text: &str,
        transcript_writer: TranscriptWriter,
    ) -> Result<TurnStart, StoreError> {
        let words = NewMessage::text(Role::User, text);
        let (session_id, turn) = (session_id.to_owned(), self.turn.clone());
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            turn_leases::take(c, &session_id, turn.as_deref())?;
            sessions::reopen(c, &session_id)?;
            begin(c, &session_id, &words, transcript_writer)
        })
        .await
    }

    /// Stores the streamed text, in case the daemon dies.
    pub async fn keep_partial(&self, session_id: &str, partial: String) -> Result<(), StoreError> {
        let (session_id, turn) = (session_id.to_owned(), self.turn.clone());
        self.change_unflushed(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            turn_leases::check(c, &session_id, turn.as_deref())?;
            c.prepare_cached(
                "UPDATE hermesd_turns SET partial = ?2 WHERE session_id = ?1 AND running = 1",
            )?
            .execute([&session_id, &partial])?;
            Ok(())
        })
        .await
    }

    /// Writes the reply, or its streamed part, to the transcript. A turn that has ended stays as it is. Returns the
    /// tip of the session, because compression may have split it during the turn. [`StoreError::TurnLost`] if the turn
    /// has ended without writing anything.
    pub async fn end_turn(&self, session_id: &str, how: TurnEnd) -> Result<String, StoreError> {
        let (session_id, turn) = (session_id.to_owned(), self.turn.clone());
        let ended = self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let kept = end_held(c, &session_id, &how, turn.as_deref())?;
            Ok((session_id, kept))
        });
        let (session_id, kept) = ended.await?;
        self.turn_over();
        kept.then_some(session_id).ok_or(StoreError::TurnLost)
    }

    /// Ends the turn of an earlier daemon with its stored part. False if there is none.
    pub async fn end_left_turn(&self, session_id: &str) -> Result<bool, StoreError> {
        let session_id = session_id.to_owned();
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let Some(turn) = running(c, &session_id)? else {
                return Ok(false);
            };
            if continued_elsewhere(c, &session_id, &turn)? {
                return abandon(c, &session_id).map(|()| true);
            }
            let partial = TurnEnd::CutOff(turn.partial.unwrap_or_default());
            end(c, &session_id, &partial).map(|ended| ended.is_some())
        })
        .await
    }
}

/// Whether a turn of ours is in progress whose rows and lease the agent writes.
pub(super) fn is_left_to_agent(c: &Connection, session_id: &str) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT 1 FROM hermesd_turns WHERE session_id = ?1 AND running = 1 AND words IS NOT NULL",
    )?;
    Ok(statement.exists([session_id])?)
}

/// A turn in progress.
pub(super) struct Running {
    /// The words and the number of rows before them, if the agent writes the rows.
    words: Option<(String, i64)>,
    partial: Option<String>,
}

impl Running {
    /// Whether the agent writes the rows and the words contain `mark`.
    pub(super) fn has(&self, mark: &str) -> bool {
        let words = self.words.as_ref();
        words.is_some_and(|(words, _)| words.contains(mark))
    }
}

pub(super) fn running(c: &Connection, session_id: &str) -> Result<Option<Running>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT words, rows_before, partial FROM hermesd_turns WHERE session_id = ?1 AND running = 1",
    )?;
    let turn = statement.query_row([session_id], |row| {
        let words: Option<String> = row.get(0)?;
        Ok(Running {
            words: words.zip(row.get(1)?),
            partial: row.get(2)?,
        })
    });
    Ok(turn.optional()?)
}

pub(super) fn begin(
    c: &Connection,
    session_id: &str,
    words: &NewMessage,
    transcript_writer: TranscriptWriter,
) -> Result<TurnStart, StoreError> {
    if transcript_writer == TranscriptWriter::Agent
        && let Some(asked) = asked_before(c, session_id, &words.content.encode())?
    {
        return Ok(TurnStart::Asked(asked));
    }
    let (row, kept, written) = match transcript_writer {
        TranscriptWriter::Daemon => {
            let row = messages::append_one(c, session_id, words.clone())?;
            (row, None, Some(row))
        }
        TranscriptWriter::Agent => {
            // The agent may not know this column.
            chat_columns::touch(c, session_id, clock::now())?;
            let kept = (words.content.encode(), messages::count(c, session_id)?);
            (messages::last_row(c, session_id)?, Some(kept), None)
        }
    };
    let (words, rows_before) = kept.unzip();
    c.prepare_cached(
        "INSERT INTO hermesd_turns (session_id, message_row, running, words, rows_before) VALUES (?1, ?2, 1, ?3, ?4)
         ON CONFLICT (session_id) DO UPDATE
         SET message_row = ?2, running = 1, words = ?3, rows_before = ?4, partial = NULL",
    )?
    .execute(params![session_id, row, words, rows_before])?;
    Ok(TurnStart::Ask(written))
}

/// Continues a turn whose words are in the transcript.
pub(super) fn resume(c: &Connection, session_id: &str, row: i64) -> Result<(), StoreError> {
    c.prepare_cached(
        "INSERT INTO hermesd_turns (session_id, message_row, running) VALUES (?1, ?2, 1)
         ON CONFLICT (session_id) DO UPDATE SET message_row = ?2, running = 1, words = NULL, partial = NULL",
    )?
    .execute(params![session_id, row])?;
    Ok(())
}

/// Whether an earlier daemon gave these words to the agent, and what the agent has written.
fn asked_before(
    c: &Connection,
    session_id: &str,
    words: &str,
) -> Result<Option<Option<String>>, StoreError> {
    let turn = running(c, session_id)?.and_then(|turn| turn.words);
    let Some((_, before)) = turn.filter(|(asked, _)| asked == words) else {
        return Ok(None);
    };
    let written = Written::since(c, session_id, before)?;
    let rows = match written.own(words) {
        Some(own) => own,
        None if written.compacted => {
            return Ok(was_said(c, session_id, &written, words)?.then_some(None));
        }
        None => written.live(),
    };
    Ok(match rows.last() {
        None => None,
        Some(row) if row.role == "assistant" => Some(Some(row.text.clone())),
        Some(_) => Some(None),
    })
}

/// The rows that the agent has written in this turn, for retracting them. `None` if the agent has written rows and the
/// turn's words are not among them.
pub(super) fn rows_of_agent(
    c: &Connection,
    session_id: &str,
) -> Result<Option<Vec<i64>>, StoreError> {
    let Some((words, before)) = running(c, session_id)?.and_then(|turn| turn.words) else {
        return Ok(Some(Vec::new()));
    };
    let written = Written::since(c, session_id, before)?;
    Ok(match written.own(&words) {
        Some(own) => Some(own.iter().map(|row| row.id).collect()),
        None if !written.compacted && written.live().is_empty() => Some(Vec::new()),
        None => None,
    })
}

/// The live rows of the turn that began with these words, wherever it is: up to the next message of a person.
pub(super) fn rows_from(
    c: &Connection,
    session_id: &str,
    words: &str,
) -> Result<Vec<i64>, StoreError> {
    let written = Written::since(c, session_id, 0)?;
    let mut own = written.own(words).unwrap_or_default().into_iter();
    let first = own.next();
    let rest = own.take_while(|row| row.role != "user");
    Ok(first.into_iter().chain(rest).map(|row| row.id).collect())
}

/// A row behind the beginning of a turn.
struct WrittenRow {
    id: i64,
    role: String,
    text: String,
    live: bool,
}

/// The rows behind the beginning of a turn.
///
/// Not all of them belong to the turn. An agent that compacts the transcript makes all rows inactive, and appends a
/// summary with copies of rows. So the turn's rows are those from its own words onwards.
struct Written {
    rows: Vec<WrittenRow>,
    /// No earlier row is live any more.
    compacted: bool,
}

impl Written {
    fn since(c: &Connection, session_id: &str, before: i64) -> Result<Written, StoreError> {
        // If the agent has deleted rows, the number does not lead to the beginning any more.
        let fewer = messages::count(c, session_id)? < before;
        let before = if fewer { 0 } else { before };
        let live_before = c
            .prepare_cached(
                "SELECT 1 FROM (SELECT active FROM messages WHERE session_id = ?1 ORDER BY id LIMIT ?2)
                 WHERE active = 1",
            )?
            .exists(params![session_id, before])?;
        let mut statement = c.prepare_cached(
            "SELECT id, role, content, active = 1 FROM messages WHERE session_id = ?1
             ORDER BY id LIMIT -1 OFFSET ?2",
        )?;
        let rows = statement.query(params![session_id, before])?;
        let rows = lenient::readable(rows, "messages", |row| {
            let text = |at| Ok::<_, rusqlite::Error>(lenient::text(row, at)?.unwrap_or_default());
            Ok(WrittenRow {
                id: row.get(0)?,
                role: text(1)?,
                text: text(2)?,
                live: row.get::<_, Option<bool>>(3)?.unwrap_or_default(),
            })
        })?;
        Ok(Written {
            rows,
            compacted: fewer || (before > 0 && !live_before),
        })
    }

    fn live(&self) -> Vec<&WrittenRow> {
        self.rows.iter().filter(|row| row.live).collect()
    }

    /// The live rows from these words onwards. A row with more than the words counts only if nothing was compacted,
    /// because a compaction may put the words and its summary into one row.
    fn own(&self, words: &str) -> Option<Vec<&WrittenRow>> {
        let live = self.live();
        let words = plain(words);
        let user = |row: &WrittenRow| row.role == "user";
        let exact = live
            .iter()
            .rposition(|row| user(row) && plain(&row.text) == words);
        let around = || {
            let within = |row: &&WrittenRow| user(row) && plain(&row.text).contains(&words);
            live.iter().position(within).filter(|_| !self.compacted)
        };
        let from = exact.or_else(around)?;
        Some(live[from..].to_vec())
    }

    /// Whether a row has exactly these words, live or not.
    fn has(&self, words: &str) -> bool {
        let words = plain(words);
        let mut rows = self.rows.iter();
        rows.any(|row| row.role == "user" && plain(&row.text) == words)
    }
}

/// Whether these words are in a compacted transcript, or in the row from which the agent has split the session.
fn was_said(
    c: &Connection,
    session_id: &str,
    written: &Written,
    words: &str,
) -> Result<bool, StoreError> {
    let parent = lineage::ancestors(c, session_id)?.into_iter().next();
    Ok(match parent {
        _ if written.has(words) => true,
        Some(parent) => Written::since(c, &parent, 0)?.has(words),
        None => false,
    })
}

/// Forgets where the running turn began, because compression continues it in another row.
pub(super) fn forget_start(c: &Connection, session_id: &str) -> Result<(), StoreError> {
    c.prepare_cached(
        "UPDATE hermesd_turns SET rows_before = ?2 WHERE session_id = ?1 AND words IS NOT NULL",
    )?
    .execute(params![session_id, i64::MAX])?;
    Ok(())
}

/// The text of a column, for comparing.
fn plain(column: &str) -> String {
    Content::decode(column.to_owned()).plain().trim().to_owned()
}

/// Ends a turn in the transcript. Returns the rows that this wrote. `None` if the turn had ended before.
pub(super) fn end(
    c: &Connection,
    session_id: &str,
    how: &TurnEnd,
) -> Result<Option<Vec<i64>>, StoreError> {
    end_with(c, session_id, how, &NewMessage::text(Role::User, ""))
}

/// The same for a turn whose words were a notice.
pub(super) fn end_notice(
    c: &Connection,
    session_id: &str,
    how: &TurnEnd,
) -> Result<Option<Vec<i64>>, StoreError> {
    end_with(c, session_id, how, &NewMessage::notice(""))
}

/// `words` is the row for the turn's words, if the agent has not written them.
fn end_with(
    c: &Connection,
    session_id: &str,
    how: &TurnEnd,
    words: &NewMessage,
) -> Result<Option<Vec<i64>>, StoreError> {
    let Some(turn) = running(c, session_id)? else {
        return Ok(None);
    };
    let rows = match &turn.words {
        Some((text, before)) => {
            let words = NewMessage {
                content: Content::decode(text.clone()),
                ..words.clone()
            };
            chat_columns::touch(c, session_id, clock::now())?;
            complete(c, session_id, *before, words, how)?
        }
        None => conclude(c, session_id, how)?.into_iter().collect(),
    };
    c.prepare_cached(
        "UPDATE hermesd_turns SET running = 0, partial = NULL, words = NULL, message_row = MAX(message_row, ?2)
         WHERE session_id = ?1",
    )?
    .execute(params![session_id, messages::last_row(c, session_id)?])?;
    Ok(Some(rows))
}

/// Ends a turn and releases its lease. False if the lease is lost. Then nothing is written.
pub(super) fn end_held(
    c: &Connection,
    session_id: &str,
    how: &TurnEnd,
    turn: Option<&Hold>,
) -> Result<bool, StoreError> {
    match turn_leases::check(c, session_id, turn) {
        Err(StoreError::TurnLost) => return abandon(c, session_id).map(|()| false),
        checked => checked?,
    }
    end(c, session_id, how)?;
    turn_leases::release(c, session_id, turn)?;
    Ok(true)
}

/// Ends a turn without writing to the transcript.
fn abandon(c: &Connection, session_id: &str) -> Result<(), StoreError> {
    c.prepare_cached(
        "UPDATE hermesd_turns SET running = 0, partial = NULL, words = NULL WHERE session_id = ?1",
    )?
    .execute([session_id])?;
    Ok(())
}

/// Whether another program has continued the conversation since a daemon died in this turn.
fn continued_elsewhere(
    c: &Connection,
    session_id: &str,
    turn: &Running,
) -> Result<bool, StoreError> {
    if turn_leases::held_by(c, session_id)?.is_some() {
        return Ok(true);
    }
    let words = last_words(c, session_id)?.filter(|_| turn.words.is_none());
    words.map_or(Ok(false), |row| has_rows_behind(c, session_id, row))
}

/// Whether another program has written behind this row. Only files with turn leases can show this, because there each
/// program writes in its own turn.
pub(super) fn has_rows_behind(
    c: &Connection,
    session_id: &str,
    row: i64,
) -> Result<bool, StoreError> {
    let has_leases = features::has(c, Feature::TurnLeases)?;
    Ok(has_leases && messages::last_row(c, session_id)? > row)
}

/// Writes the rows that the agent has left out of its turn, usually none.
fn complete(
    c: &Connection,
    session_id: &str,
    before: i64,
    words: NewMessage,
    how: &TurnEnd,
) -> Result<Vec<i64>, StoreError> {
    let written = Written::since(c, session_id, before)?;
    let live = written.live();
    let mut rows = Vec::new();
    let said = match written.compacted {
        true => was_said(c, session_id, &written, &words.content.encode())?,
        false => live.iter().any(|row| row.role == "user"),
    };
    let answered = live.last().is_some_and(|row| {
        row.role == "assistant" && (!written.compacted || is_end(&row.text, how))
    });
    if !(said && answered) && turn_leases::held_by(c, session_id)?.is_some() {
        tracing::warn!(
            session = session_id,
            "agent left out rows of its turn; not writing them, because another program has a turn now"
        );
        return Ok(rows);
    }
    if !said {
        rows.push(messages::append_one(c, session_id, words)?);
    }
    if !answered {
        rows.extend(conclude(c, session_id, how)?);
    }
    Ok(rows)
}

/// Whether a row has this end of a turn. In a compacted transcript the last row may be an older answer.
fn is_end(text: &str, how: &TurnEnd) -> bool {
    match how {
        TurnEnd::Answered(reply) => plain(text) == reply.text.trim(),
        TurnEnd::CutOff(partial) => plain(text).contains(partial.trim()),
    }
}

/// Appends the reply or its streamed part to the transcript. An empty part leaves no row.
fn conclude(c: &Connection, session_id: &str, how: &TurnEnd) -> Result<Option<i64>, StoreError> {
    let message = match how {
        TurnEnd::Answered(reply) => NewMessage::answer(reply),
        TurnEnd::CutOff(partial) if partial.trim().is_empty() => return Ok(None),
        TurnEnd::CutOff(partial) => NewMessage {
            finish_reason: Some(INTERRUPTED.into()),
            ..NewMessage::text(Role::Assistant, partial)
        },
    };
    let row = messages::append_one(c, session_id, message)?;
    messages::count_model_call(c, session_id)?;
    if let TurnEnd::Answered(Reply {
        usage: Some(usage), ..
    }) = how
    {
        count(c, session_id, *usage)?;
    }
    Ok(Some(row))
}

pub(super) fn count(c: &Connection, session_id: &str, usage: Usage) -> Result<(), StoreError> {
    let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    c.prepare_cached(
        "UPDATE sessions SET input_tokens = COALESCE(input_tokens, 0) + ?2,
                output_tokens = COALESCE(output_tokens, 0) + ?3,
                cache_read_tokens = COALESCE(cache_read_tokens, 0) + ?4,
                reasoning_tokens = COALESCE(reasoning_tokens, 0) + ?5
         WHERE id = ?1",
    )?
    .execute(params![
        session_id,
        tokens(usage.input),
        tokens(usage.output),
        tokens(usage.cache_read),
        tokens(usage.reasoning)
    ])?;
    Ok(())
}

/// The last row that a turn of ours is known to have left in this session.
pub(super) fn last_words(c: &Connection, session_id: &str) -> Result<Option<i64>, StoreError> {
    let mut statement =
        c.prepare_cached("SELECT message_row FROM hermesd_turns WHERE session_id = ?1")?;
    Ok(statement
        .query_row([session_id], |row| row.get(0))
        .optional()?)
}
