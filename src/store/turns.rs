//! The turn that a session is in. The person's words stand in the transcript when it begins; what the agent has streamed
//! since stands here, so that whatever ends the daemon costs no more than the last moment of it.
//!
//! Some agents write the rows of a turn themselves. Then the words stand here, with the number of rows before them, and at
//! the end only what is missing is written: nothing is lost, and nothing stands twice. The number, because such agents may
//! also write the rows before anew, under other ids.
//!
//! A row stays behind when its turn has ended: it tells our own unanswered words from those that another program is
//! about to answer.

use rusqlite::{Connection, OptionalExtension, params};

use super::features::{self, Feature};
use super::messages::{self, NewMessage};
use super::turn_leases::{self, Hold};
use super::{Store, StoreError, chat_columns, lenient, lineage, sessions};
use crate::clock;
use crate::domain::transcript::{Content, Role};
use crate::domain::{Reply, TranscriptWriter, Usage};

/// How a reply that was cut off is marked in the transcript.
pub const INTERRUPTED: &str = "interrupted";

/// How a turn begins.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnStart {
    /// The agent is to be asked; the row of the words, if we wrote it.
    Ask(Option<i64>),
    /// A daemon that is no more has asked already, and the agent has written this much of its answer.
    Asked(Option<String>),
}

impl TurnStart {
    /// Where the transcript ends that the agent is given.
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
    /// With what had been streamed by then.
    CutOff(String),
}

impl Store {
    /// The person's words are kept, and the session is open again, whatever ended it before.
    pub async fn begin_turn(
        &self,
        session_id: &str,
        text: &str,
        scribe: TranscriptWriter,
    ) -> Result<TurnStart, StoreError> {
        let words = NewMessage::text(Role::User, text);
        let (session_id, turn) = (session_id.to_owned(), self.turn.clone());
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            turn_leases::take(c, &session_id, turn.as_deref())?;
            sessions::reopen(c, &session_id)?;
            begin(c, &session_id, &words, scribe)
        })
        .await
    }

    /// What has been streamed so far, in case nobody lives to tell the end.
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

    /// The reply, or what there is of it, takes its place in the transcript. Done once: a turn that has ended stays as it
    /// is. Returns the session in which the conversation goes on: compression may have split it during the turn.
    /// [`StoreError::TurnLost`]: the turn has ended, and its end is not in the transcript.
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

    /// Ends the turn that a daemon which is no more was in, with what was kept of it. False: there was none.
    pub async fn end_left_turn(&self, session_id: &str) -> Result<bool, StoreError> {
        let session_id = session_id.to_owned();
        self.change(move |c, changed| {
            let session_id = lineage::settle(c, changed, &session_id)?;
            let Some(turn) = running(c, &session_id)? else {
                return Ok(false);
            };
            if went_on(c, &session_id, &turn)? {
                return abandon(c, &session_id).map(|()| true);
            }
            let partial = TurnEnd::CutOff(turn.partial.unwrap_or_default());
            end(c, &session_id, &partial).map(|ended| ended.is_some())
        })
        .await
    }
}

/// Whether a turn of ours is in progress whose rows, and lease, are the agent's.
pub(super) fn is_left_to_agent(c: &Connection, session_id: &str) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT 1 FROM hermesd_turns WHERE session_id = ?1 AND running = 1 AND words IS NOT NULL",
    )?;
    Ok(statement.exists([session_id])?)
}

/// A turn in progress.
pub(super) struct Running {
    /// The words and the number of rows before them, when the agent writes them.
    words: Option<(String, i64)>,
    partial: Option<String>,
}

impl Running {
    /// Whether the agent writes its rows, and its words have `mark` in them.
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
    scribe: TranscriptWriter,
) -> Result<TurnStart, StoreError> {
    if scribe == TranscriptWriter::Agent
        && let Some(asked) = asked_before(c, session_id, &words.content.encode())?
    {
        return Ok(TurnStart::Asked(asked));
    }
    let (row, kept, written) = match scribe {
        TranscriptWriter::Daemon => {
            let row = messages::append_one(c, session_id, words.clone())?;
            (row, None, Some(row))
        }
        TranscriptWriter::Agent => {
            // An agent that writes the rows may not know of this column.
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

/// A turn whose words we wrote before goes on.
pub(super) fn take_up(c: &Connection, session_id: &str, row: i64) -> Result<(), StoreError> {
    c.prepare_cached(
        "INSERT INTO hermesd_turns (session_id, message_row, running) VALUES (?1, ?2, 1)
         ON CONFLICT (session_id) DO UPDATE SET message_row = ?2, running = 1, words = NULL, partial = NULL",
    )?
    .execute(params![session_id, row])?;
    Ok(())
}

/// Whether these very words were given to the agent before, and what it wrote of an answer.
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

/// The rows of a turn that the agent has written itself so far, for taking them back. `None`: the agent has written
/// something, and the turn's own words are not found in it.
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

/// The live rows of the turn that began with these words, wherever in the transcript it stands: up to the next words of a
/// person.
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

/// A row behind the place where a turn began.
struct WrittenRow {
    id: i64,
    role: String,
    text: String,
    live: bool,
}

/// What stands behind the place where a turn began.
///
/// Not all of it is the turn's: an agent that compacts the transcript makes all rows inactive and appends a summary, with copies
/// of the rows that it keeps. So the turn's rows are those from its own words onwards.
struct Written {
    rows: Vec<WrittenRow>,
    /// None of the rows before that place is live any more.
    compacted: bool,
}

impl Written {
    fn since(c: &Connection, session_id: &str, before: i64) -> Result<Written, StoreError> {
        // An agent that deletes rows leaves no place to count to.
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

    /// The live rows from these words onwards. A row that holds more than the words counts only where nothing was compacted: a
    /// compaction may put the words and its summary into one row.
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

    /// Whether these words stand there, live or not.
    fn has(&self, words: &str) -> bool {
        let words = plain(words);
        let mut rows = self.rows.iter();
        rows.any(|row| row.role == "user" && plain(&row.text) == words)
    }
}

/// Whether these words stand in a compacted transcript, or in the row that the agent has split the session from.
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

/// The turn that runs in this session goes on in another row, which compression has begun: its place there is not known.
pub(super) fn lose_place(c: &Connection, session_id: &str) -> Result<(), StoreError> {
    c.prepare_cached(
        "UPDATE hermesd_turns SET rows_before = ?2 WHERE session_id = ?1 AND words IS NOT NULL",
    )?
    .execute(params![session_id, i64::MAX])?;
    Ok(())
}

/// The words of a column, as they are compared.
fn plain(column: &str) -> String {
    Content::decode(column.to_owned()).plain().trim().to_owned()
}

/// Closes a turn, with its end in the transcript. Returns the rows that this took; `None`: it had ended before.
pub(super) fn end(
    c: &Connection,
    session_id: &str,
    how: &TurnEnd,
) -> Result<Option<Vec<i64>>, StoreError> {
    end_with(c, session_id, how, &NewMessage::text(Role::User, ""))
}

/// The same for a turn whose words were a notice of ours.
pub(super) fn end_notice(
    c: &Connection,
    session_id: &str,
    how: &TurnEnd,
) -> Result<Option<Vec<i64>>, StoreError> {
    end_with(c, session_id, how, &NewMessage::notice(""))
}

/// `words`: the row that the words of the turn get, if the agent has not written them.
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

/// Closes a turn under its lease, which is released by that. False: the lease is lost, and nothing was written.
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

/// Closes a turn without its end in the transcript.
fn abandon(c: &Connection, session_id: &str) -> Result<(), StoreError> {
    c.prepare_cached(
        "UPDATE hermesd_turns SET running = 0, partial = NULL, words = NULL WHERE session_id = ?1",
    )?
    .execute([session_id])?;
    Ok(())
}

/// Whether another program has gone on with the conversation since a daemon died in this turn.
fn went_on(c: &Connection, session_id: &str, turn: &Running) -> Result<bool, StoreError> {
    if turn_leases::held_by(c, session_id)?.is_some() {
        return Ok(true);
    }
    let words = last_words(c, session_id)?.filter(|_| turn.words.is_none());
    words.map_or(Ok(false), |row| has_rows_behind(c, session_id, row))
}

/// Whether another program has written behind this row of ours. Only files with turn leases can tell: each program writes in its
/// own turn there.
pub(super) fn has_rows_behind(
    c: &Connection,
    session_id: &str,
    row: i64,
) -> Result<bool, StoreError> {
    let has_leases = features::has(c, Feature::TurnLeases)?;
    Ok(has_leases && messages::last_row(c, session_id)? > row)
}

/// Writes what the agent that keeps the transcript has left out: most often nothing.
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
            "the agent left out rows of its turn; another program has a turn by now, so they are not written"
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

/// Whether a row holds this end of a turn. In a compacted transcript the last row may be an older answer.
fn is_end(text: &str, how: &TurnEnd) -> bool {
    match how {
        TurnEnd::Answered(reply) => plain(text) == reply.text.trim(),
        TurnEnd::CutOff(partial) => plain(text).contains(partial.trim()),
    }
}

/// The reply, or what there is of it, goes into the transcript. Words that were never said leave no row.
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
