//! Retracts rows from a live transcript: those of a failed handoff, and the last turn before a retry.

use rusqlite::{Connection, OptionalExtension, params};

use super::features::{self, Feature};
use super::messages::{self, NewMessage};
use super::{StoreError, lenient, turns};
use crate::domain::Reply;
use crate::domain::transcript::Content;

/// The rows of a handoff's notice and reply, for retracting them.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Said {
    rows: Vec<i64>,
    /// The text of the first row, by which a copy of it is found.
    #[serde(default)]
    notice: Option<String>,
    /// Whether the counters were NULL before.
    #[serde(default)]
    no_message_count: bool,
    #[serde(default)]
    no_api_call_count: bool,
}

impl Said {
    pub(super) fn of(rows: Vec<i64>, notice: &str) -> Said {
        Said {
            rows,
            notice: Some(notice.to_owned()),
            ..Said::default()
        }
    }

    /// Parses the journal's column. Older rows have only the row ids.
    pub(super) fn parse(text: &str) -> Option<Said> {
        let rows = |text| {
            serde_json::from_str(text).map(|rows| Said {
                rows,
                ..Said::default()
            })
        };
        serde_json::from_str(text).or_else(|_| rows(text)).ok()
    }
}

/// Appends a notice to the agent and its answer.
pub(super) fn say(
    c: &Connection,
    session_id: &str,
    notice: &str,
    reply: &Reply,
) -> Result<Said, StoreError> {
    let mut said = c
        .prepare_cached(
            "SELECT message_count IS NULL, api_call_count IS NULL FROM sessions WHERE id = ?1",
        )?
        .query_row([session_id], |row| {
            Ok(Said {
                rows: Vec::new(),
                notice: Some(notice.to_owned()),
                no_message_count: row.get(0)?,
                no_api_call_count: row.get(1)?,
            })
        })?;
    let rows = [NewMessage::notice(notice), NewMessage::answer(reply)];
    said.rows = messages::append(c, session_id, &rows)?;
    messages::count_model_call(c, session_id)?;
    Ok(said)
}

/// Marks the rows inactive and corrects the counters, as a rewind does. If a compaction has replaced rows by copies,
/// the copies are retracted too. False if a compaction left no copy: then its summary may contain the words.
pub(super) fn retract(c: &Connection, session_id: &str, said: &Said) -> Result<bool, StoreError> {
    let mut rows = said.rows.clone();
    let mut complete = true;
    if replaced(c, session_id, said)? {
        let copies = match &said.notice {
            Some(notice) => turns::rows_from(c, session_id, notice)?,
            None => Vec::new(),
        };
        complete = !copies.is_empty();
        rows.extend(copies);
    }
    deactivate(c, session_id, &rows, said)?;
    Ok(complete)
}

/// The same for rows that were just looked up.
pub(super) fn retract_rows(
    c: &Connection,
    session_id: &str,
    rows: &[i64],
) -> Result<(), StoreError> {
    deactivate(c, session_id, rows, &Said::default())
}

/// Whether a compaction, or an agent that rewrites its rows, has replaced some of these rows.
fn replaced(c: &Connection, session_id: &str, said: &Said) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT COALESCE(compacted, 0) <> 0 FROM messages WHERE id = ?1 AND session_id = ?2",
    )?;
    for row in &said.rows {
        let compacted = statement
            .query_row(params![row, session_id], |row| row.get(0))
            .optional()?;
        if compacted.unwrap_or(true) {
            return Ok(true);
        }
    }
    // The agent wrote the rows, and they were not found at the end of the turn.
    Ok(said.rows.is_empty() && said.notice.is_some())
}

fn deactivate(
    c: &Connection,
    session_id: &str,
    rows: &[i64],
    said: &Said,
) -> Result<(), StoreError> {
    let mut taken = 0;
    for row in rows {
        taken += c.execute(
            "UPDATE messages SET active = 0 WHERE id = ?1 AND session_id = ?2 AND active = 1",
            params![row, session_id],
        )?;
    }
    c.execute(
        "UPDATE sessions SET
           message_count = CASE WHEN ?3 AND COALESCE(message_count, 0) <= ?2 THEN NULL
                                ELSE MAX(0, COALESCE(message_count, 0) - ?2) END,
           api_call_count = CASE WHEN ?4 AND COALESCE(api_call_count, 0) <= 1 THEN NULL
                                 ELSE MAX(0, COALESCE(api_call_count, 0) - 1) END
         WHERE id = ?1",
        params![
            session_id,
            taken as i64,
            said.no_message_count,
            said.no_api_call_count
        ],
    )?;
    Ok(())
}

/// Texts that identify Hermes' summaries of a compacted conversation.
const SUMMARY_MARKS: [&str; 2] = ["[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:"];

/// Marks the last words of a person and all later rows inactive, as a rewind does. Returns the words. `None` if there
/// are none, or if a summary is among these rows.
pub(super) fn rewind_last(c: &Connection, session_id: &str) -> Result<Option<String>, StoreError> {
    let person = match features::has(c, Feature::DisplayKind)? {
        true => "role = 'user' AND COALESCE(display_kind, '') = ''",
        false => "role = 'user'",
    };
    let last: Option<(i64, Option<String>)> = c
        .prepare_cached(&format!(
            "SELECT id, content FROM messages
             WHERE session_id = ?1 AND active = 1 AND {person} ORDER BY id DESC LIMIT 1"
        ))?
        .query_row([session_id], |row| {
            Ok((row.get(0)?, lenient::text(row, 1)?))
        })
        .optional()?;
    let Some((from, words)) = last else {
        return Ok(None);
    };
    let summary = c
        .prepare_cached(
            "SELECT 1 FROM messages WHERE likelihood(session_id = ?1, 0.000001) AND +id >= ?2 AND active = 1
               AND (instr(content, ?3) > 0 OR instr(content, ?4) > 0)",
        )?
        .exists(params![
            session_id,
            from,
            SUMMARY_MARKS[0],
            SUMMARY_MARKS[1]
        ])?;
    if summary {
        return Ok(None);
    }
    let taken = c.execute(
        "UPDATE messages SET active = 0 WHERE likelihood(session_id = ?1, 0.000001) AND +id >= ?2 AND active = 1",
        params![session_id, from],
    )?;
    c.execute(
        "UPDATE sessions SET rewind_count = COALESCE(rewind_count, 0) + 1,
                message_count = MAX(0, COALESCE(message_count, 0) - ?2) WHERE id = ?1",
        params![session_id, taken as i64],
    )?;
    let words = words.map(|words| Content::decode(words).plain());
    Ok(Some(words.unwrap_or_default()))
}
