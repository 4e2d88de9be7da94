//! Appends rows to `messages` as Hermes does, and loads transcripts.

use rusqlite::{Connection, Row, params};
use serde_json::Value;

use super::features::{self, Feature};
use super::{Store, StoreError, chat_columns, lenient, sessions};
use crate::clock;
use crate::domain::Reply;
use crate::domain::Session;
use crate::domain::transcript::{Content, Message, Role, Transcript};

/// A transcript up to this size is read in place, because waking another thread would take longer.
const SHORT: i64 = 100;
const SHORT_BYTES: i64 = 256 << 10;
/// How much of one column of a message is read. No model accepts more, and a row of hundreds of megabytes must not
/// fill the memory.
const LONGEST: usize = 16 << 20;

/// Hermes' `display_kind` for a program's message to the agent.
const NOTICE: &str = "internal_notification";

/// A row to append.
#[derive(Debug, Clone)]
pub struct NewMessage {
    pub role: Role,
    pub content: Content,
    pub tool_calls: Vec<Value>,
    pub tool_call_id: Option<String>,
    pub tool_name: Option<String>,
    pub finish_reason: Option<String>,
    pub reasoning: Option<String>,
    pub platform_message_id: Option<String>,
    /// Hermes' kind for a row that is not a person's words. Dropped if the file has no such column.
    pub display_kind: Option<&'static str>,
}

impl NewMessage {
    pub fn text(role: Role, text: &str) -> NewMessage {
        NewMessage {
            role,
            content: Content::Text(text.to_owned()),
            tool_calls: Vec::new(),
            tool_call_id: None,
            tool_name: None,
            finish_reason: None,
            reasoning: None,
            platform_message_id: None,
            display_kind: None,
        }
    }

    /// A message of the daemon to the agent.
    pub fn notice(text: &str) -> NewMessage {
        NewMessage {
            display_kind: Some(NOTICE),
            ..NewMessage::text(Role::User, text)
        }
    }

    /// A finished reply of the model.
    pub fn reply(text: &str) -> NewMessage {
        NewMessage {
            finish_reason: Some("stop".into()),
            ..NewMessage::text(Role::Assistant, text)
        }
    }

    /// The same, with the model's reasoning.
    pub fn answer(reply: &Reply) -> NewMessage {
        NewMessage {
            reasoning: reply.reasoning.clone(),
            finish_reason: reply.finish_reason.clone().or_else(|| Some("stop".into())),
            ..NewMessage::text(Role::Assistant, &reply.text)
        }
    }
}

impl Store {
    pub async fn append(
        &self,
        session_id: &str,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<i64>, StoreError> {
        let session_id = session_id.to_owned();
        self.write(move |c| append(c, &sessions::tip(c, &session_id)?, &messages))
            .await
    }

    /// Everything that an agent needs before a turn: the tip of the session, and its messages before `row`.
    pub async fn briefing(
        &self,
        session_id: &str,
        row: Option<i64>,
    ) -> Result<Option<(Session, Transcript)>, StoreError> {
        let before = row.unwrap_or(i64::MAX);
        let session = self.look(|c| {
            let mut session = sessions::by_id(c, &sessions::tip(c, session_id)?)?;
            if let Some(session) = &mut session {
                session.system_prompt = sessions::system_prompt(c, &session.id)?;
                session.cwd = sessions::cwd_of(c, &session.id)?;
            }
            Ok(session)
        })?;
        let Some(session) = session else {
            return Ok(None);
        };
        let id = session.id.clone();
        let transcript = if self.look(|c| is_short(c, &id, before))? {
            self.look(|c| transcript(c, &id, before, LONGEST))?
        } else {
            self.read(move |c| transcript(c, &id, before, LONGEST))
                .await?
        };
        Ok(Some((session, transcript)))
    }

    /// The live rows of one session, in order. Columns of many megabytes are cut.
    pub async fn transcript(&self, session_id: &str) -> Result<Transcript, StoreError> {
        self.with_transcript(session_id, |transcript| transcript)
            .await
    }

    /// Applies `make` to the transcript, on the thread that reads it.
    pub async fn with_transcript<T: Send + 'static>(
        &self,
        session_id: &str,
        make: impl FnOnce(Transcript) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let session_id = session_id.to_owned();
        self.read(move |c| Ok(make(transcript(c, &session_id, i64::MAX, LONGEST)?)))
            .await
    }

    /// The same with no column cut.
    pub async fn whole_transcript(&self, session_id: &str) -> Result<Transcript, StoreError> {
        let session_id = session_id.to_owned();
        self.read(move |c| transcript(c, &session_id, i64::MAX, usize::MAX))
            .await
    }
}

/// Collects the messages of a transaction. One statement at its end inserts them into `messages`, because each such
/// statement makes both full-text indexes flush, which costs more than everything else.
pub(super) const STAGE: &str = "PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE said (id INTEGER PRIMARY KEY, session_id, role, content, tool_calls, tool_call_id, tool_name, finish_reason,
                        reasoning, platform_message_id, timestamp, display_kind);";

/// Appends rows and increments the session's counters, as Hermes does. Returns the ids of the rows.
pub(super) fn append(
    c: &Connection,
    session_id: &str,
    messages: &[NewMessage],
) -> Result<Vec<i64>, StoreError> {
    let rows = messages
        .iter()
        .map(|message| stage(c, session_id, message))
        .collect::<Result<Vec<i64>, StoreError>>()?;
    let tool_calls: usize = messages.iter().map(|m| m.tool_calls.len()).sum();
    let mut bump = c.prepare_cached(
        "UPDATE sessions SET message_count = COALESCE(message_count, 0) + ?2,
                tool_call_count = CASE WHEN ?3 > 0 THEN COALESCE(tool_call_count, 0) + ?3 ELSE tool_call_count END
         WHERE id = ?1",
    )?;
    bump.execute(params![session_id, rows.len() as i64, tool_calls as i64])?;
    chat_columns::touch(c, session_id, clock::now())?;
    Ok(rows)
}

pub(super) fn append_one(
    c: &Connection,
    session_id: &str,
    message: NewMessage,
) -> Result<i64, StoreError> {
    let row = append(c, session_id, &[message])?.pop();
    row.ok_or(StoreError::Closed)
}

/// Stages a message under its final id. No other program writes before this transaction ends.
fn stage(c: &Connection, session_id: &str, message: &NewMessage) -> Result<i64, StoreError> {
    let tool_calls = (!message.tool_calls.is_empty())
        .then(|| Value::from(message.tool_calls.clone()).to_string());
    let display_kind = match message.display_kind {
        Some(kind) if features::has(c, Feature::DisplayKind)? => Some(kind),
        _ => None,
    };
    let mut insert = c.prepare_cached(
        "INSERT INTO said (id, session_id, role, content, tool_calls, tool_call_id, tool_name, finish_reason,
                           reasoning, platform_message_id, timestamp, display_kind)
         VALUES (1 + COALESCE((SELECT MAX(id) FROM said),
                              MAX(COALESCE((SELECT MAX(id) FROM messages), 0),
                                  COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0))),
                 ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    Ok(insert.insert(params![
        session_id,
        message.role.as_str(),
        message.content.encode(),
        tool_calls,
        message.tool_call_id,
        message.tool_name,
        message.finish_reason,
        message.reasoning,
        message.platform_message_id,
        clock::now(),
        display_kind,
    ])?)
}

/// Inserts the staged messages, at the end of every transaction.
pub(super) fn insert_staged(c: &Connection) -> Result<(), StoreError> {
    let mut said = c.prepare_cached("SELECT MAX(display_kind IS NOT NULL) FROM said")?;
    let sql = match said.query_row([], |row| row.get::<_, Option<bool>>(0))? {
        None => return Ok(()),
        Some(false) => {
            "INSERT INTO messages (id, session_id, role, content, tool_calls, tool_call_id, tool_name, finish_reason,
                                   reasoning, platform_message_id, timestamp, active)
             SELECT id, session_id, role, content, tool_calls, tool_call_id, tool_name, finish_reason, reasoning,
                    platform_message_id, timestamp, 1 FROM said ORDER BY id"
        }
        // Not every file has this column.
        Some(true) => {
            "INSERT INTO messages (id, session_id, role, content, tool_calls, tool_call_id, tool_name, finish_reason,
                                   reasoning, platform_message_id, timestamp, display_kind, active)
             SELECT id, session_id, role, content, tool_calls, tool_call_id, tool_name, finish_reason, reasoning,
                    platform_message_id, timestamp, display_kind, 1 FROM said ORDER BY id"
        }
    };
    c.prepare_cached(sql)?.execute([])?;
    c.prepare_cached("DELETE FROM said")?.execute([])?;
    Ok(())
}

/// The number of a session's inserted rows, live or not.
pub(super) fn count(c: &Connection, session_id: &str) -> Result<i64, StoreError> {
    let mut statement = c.prepare_cached("SELECT count(*) FROM messages WHERE session_id = ?1")?;
    Ok(statement.query_row([session_id], |row| row.get(0))?)
}

/// The newest inserted row of a session. Zero if it has none.
pub(super) fn last_row(c: &Connection, session_id: &str) -> Result<i64, StoreError> {
    let mut statement =
        c.prepare_cached("SELECT COALESCE(MAX(id), 0) FROM messages WHERE session_id = ?1")?;
    Ok(statement.query_row([session_id], |row| row.get(0))?)
}

/// Counts a call of a model. Hermes takes a session without one for an abandoned session.
pub(super) fn count_model_call(c: &Connection, session_id: &str) -> Result<(), StoreError> {
    c.prepare_cached(
        "UPDATE sessions SET api_call_count = COALESCE(api_call_count, 0) + 1 WHERE id = ?1",
    )?
    .execute([session_id])?;
    Ok(())
}

/// Whether a transcript is short, in messages and in bytes. Does not read the texts.
fn is_short(c: &Connection, session_id: &str, before: i64) -> Result<bool, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT count(*) <= ?3 AND COALESCE(sum(bytes), 0) <= ?4 FROM
           (SELECT COALESCE(octet_length(content), 0) + COALESCE(octet_length(api_content), 0)
                 + COALESCE(octet_length(tool_calls), 0) + COALESCE(octet_length(reasoning), 0)
                 + COALESCE(octet_length(reasoning_content), 0) + COALESCE(octet_length(reasoning_details), 0) AS bytes
            FROM messages WHERE likelihood(session_id = ?1, 0.000001) AND active = 1 AND +id < ?2 LIMIT ?3 + 1)",
    )?;
    let of = params![session_id, before, SHORT, SHORT_BYTES];
    Ok(statement.query_row(of, |row| row.get(0))?)
}

/// Loads a transcript. Content longer than `longest` bytes is cut. Other columns of that length are left out.
fn transcript(
    c: &Connection,
    session_id: &str,
    before: i64,
    longest: usize,
) -> Result<Transcript, StoreError> {
    let display = match features::has(c, Feature::DisplayKind)? {
        true => "display_kind, display_metadata",
        false => "NULL, NULL",
    };
    // `octet_length` does not read the text, and a text that is too long is not read either.
    let mut statement = c.prepare_cached(&format!(
        "SELECT id, role,
                CASE WHEN octet_length(content) > ?3 THEN NULL ELSE content END,
                CASE WHEN octet_length(api_content) > ?3 THEN NULL ELSE api_content END,
                tool_call_id, tool_name,
                CASE WHEN octet_length(tool_calls) > ?3 THEN NULL ELSE tool_calls END,
                finish_reason,
                CASE WHEN octet_length(reasoning) > ?3 THEN NULL ELSE reasoning END,
                CASE WHEN octet_length(reasoning_content) > ?3 THEN NULL ELSE reasoning_content END,
                CASE WHEN octet_length(reasoning_details) > ?3 THEN NULL ELSE reasoning_details END,
                timestamp,
                CASE WHEN octet_length(content) > ?3 THEN octet_length(content) END, {display}
         FROM messages WHERE likelihood(session_id = ?1, 0.000001) AND active = 1 AND +id < ?2 ORDER BY +id"
    ))?;
    let most = i64::try_from(longest).unwrap_or(i64::MAX);
    let rows = statement.query(params![session_id, before, most])?;
    let rows = lenient::readable(rows, "messages", |row| {
        let Some(mut message) = message(row)? else {
            return Ok(None);
        };
        if let Some(bytes) = row.get::<_, Option<i64>>(12)? {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            message.content = Some(beginning(c, message.id, bytes, longest)?);
        }
        Ok(Some(message))
    })?;
    Ok(Transcript::from_rows(rows.into_iter().flatten().collect()))
}

/// The first bytes of a content that is too long, without reading the rest.
fn beginning(c: &Connection, id: i64, bytes: usize, longest: usize) -> rusqlite::Result<Content> {
    let blob = c.blob_open(rusqlite::MAIN_DB, "messages", "content", id, true)?;
    let mut first = vec![0; longest];
    let read = blob.read_at(&mut first, 0)?;
    let text = String::from_utf8_lossy(&first[..read]);
    Ok(Content::cut(&text, bytes.saturating_sub(read)))
}

/// `None` for a role that no model knows. Such rows are notes of other programs.
fn message(row: &Row<'_>) -> rusqlite::Result<Option<Message>> {
    let text = |at: usize| lenient::text(row, at);
    let Some(role) = Role::parse(&text(1)?.unwrap_or_default()) else {
        return Ok(None);
    };
    let json = |at: usize| -> rusqlite::Result<Option<Value>> {
        Ok(text(at)?.and_then(|text| serde_json::from_str(&text).ok()))
    };
    let tool_calls = match json(6)? {
        Some(Value::Array(calls)) => calls,
        _ => Vec::new(),
    };
    Ok(Some(Message {
        id: row.get(0)?,
        role,
        content: text(2)?.map(Content::decode),
        api_content: text(3)?.filter(|t| !t.is_empty()),
        tool_call_id: text(4)?,
        tool_name: text(5)?,
        tool_calls,
        finish_reason: text(7)?,
        reasoning: text(8)?,
        reasoning_content: text(9)?,
        reasoning_details: json(10)?,
        timestamp: lenient::seconds(row, 11)?.unwrap_or_default(),
        display_kind: text(13)?.filter(|kind| !kind.is_empty()),
        model_only: json(14)?.is_some_and(|metadata| metadata["model_only"] == Value::Bool(true)),
    }))
}
