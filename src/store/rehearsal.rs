//! Rehearses our writes on Hermes' tables and undoes them. This shows whether a file can be served, whatever its
//! schema version: a new column may be mandatory, a trigger may refuse a row, a tokenizer may be missing.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, ErrorCode, params};
use serde_json::json;

use super::messages::{self, NewMessage};
use super::sessions::{self, NewSession};
use super::{StoreError, binding, fulltext, retract, turn_leases};
use crate::clock;
use crate::domain::transcript::Role;
use crate::domain::{ChatType, Source};

/// A word that no message contains.
const WORD: &str = "hermesdrehearsesitswrites";
/// The scope and key of a chat that does not exist.
const NOWHERE: &str = "hermesd:rehearsal";
/// Hermes' triggers on the tables that we write. Others are logged.
const KNOWN_TRIGGERS: [&str; 13] = [
    "messages_fts_insert",
    "messages_fts_delete",
    "messages_fts_update",
    "messages_fts_trigram_insert",
    "messages_fts_trigram_delete",
    "messages_fts_trigram_update",
    "messages_fts_cjk_insert",
    "messages_fts_cjk_delete",
    "messages_fts_cjk_update",
    "messages_display_order_insert",
    "messages_display_identity_update",
    "messages_display_identity_delete",
    "messages_display_visibility_update",
];

/// Writes to Hermes' tables as the daemon does, and undoes it. Needs an open write transaction. A damaged full-text
/// index does not make a file unservable, because the writer can detach the index.
pub(super) fn rehearse(c: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let statement = Arc::<Mutex<String>>::default();
    let traced = statement.clone();
    c.trace_v2(
        TraceEventCodes::SQLITE_TRACE_STMT,
        Some(move |event: TraceEvent<'_>| {
            // Statements of triggers are traced as comments, and the index has statements of its own.
            if let (TraceEvent::Stmt(_, sql), Ok(mut last)) = (event, traced.lock())
                && !sql.starts_with("--")
                && !sql.contains("'main'.")
            {
                sql.clone_into(&mut last);
            }
        }),
    )?;
    let named = |error| {
        let sql = statement.lock().map(|sql| sql.clone()).unwrap_or_default();
        (error, sql)
    };
    let mut outcome = undone(c, |c| writes(c).map_err(named));
    if let Err((error, _)) = &outcome
        && error.may_be_the_index()
        && undone(c, |c| {
            fulltext::detach(c).and_then(|_| writes(c)).map_err(named)
        })
        .is_ok()
    {
        outcome = Ok(());
    }
    c.trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>)?;
    outcome.map_err(|(error, statement)| refusal(path, error, &statement))
}

/// Unknown triggers on the tables that we write. The file is served if the rehearsal passes.
pub(super) fn unknown_triggers(c: &Connection) -> Result<Vec<String>, StoreError> {
    let mut statement = c.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'trigger'
           AND tbl_name IN ('sessions', 'messages', 'gateway_routing', 'session_turn_leases')",
    )?;
    let names = statement.query_map([], |row| row.get(0))?;
    let mut names = names.collect::<Result<Vec<String>, _>>()?;
    names.retain(|name| !KNOWN_TRIGGERS.contains(&&**name));
    Ok(names)
}

type Failed = (StoreError, String);

fn undone(
    c: &Connection,
    work: impl FnOnce(&Connection) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let unnamed = |error: rusqlite::Error| (StoreError::from(error), String::new());
    c.execute_batch("SAVEPOINT rehearsal").map_err(unnamed)?;
    let outcome = work(c);
    // Some errors end the transaction.
    if !c.is_autocommit() {
        c.execute_batch("ROLLBACK TO rehearsal; RELEASE rehearsal")
            .map_err(unnamed)?;
    }
    outcome
}

fn writes(c: &Connection) -> Result<(), StoreError> {
    let id = create(c, Some(NOWHERE))?;
    let call =
        json!({"id": WORD, "type": "function", "function": {"name": WORD, "arguments": "{}"}});
    let asks = NewMessage {
        tool_calls: vec![call],
        ..NewMessage::text(Role::Assistant, "")
    };
    let result = NewMessage {
        tool_call_id: Some(WORD.into()),
        tool_name: Some(WORD.into()),
        ..NewMessage::text(Role::Tool, WORD)
    };
    let said = [
        NewMessage::text(Role::User, WORD),
        asks,
        result,
        NewMessage::reply(WORD),
    ];
    let rows = messages::append(c, &id, &said)?;
    messages::insert_staged(c)?;
    check_counters(c, &id, said.len())?;
    check_index(c, rows[0])?;
    retract::retract_rows(c, &id, &rows)?;
    for state in ["pending", "running", "completed", "failed"] {
        c.execute(
            "UPDATE sessions SET handoff_state = ?2, handoff_platform = 'local', handoff_error = NULL WHERE id = ?1",
            [&id, state],
        )?;
    }
    turn_leases::rehearse(c, &id)?;
    let chat = Source::new("local", ChatType::Dm, NOWHERE);
    binding::bind(c, NOWHERE, NOWHERE, &id, &chat, None)?;
    // Binding the second session ends the first.
    let next = create(c, None)?;
    binding::bind(c, NOWHERE, NOWHERE, &next, &chat, None)?;
    sessions::reopen(c, &id)?;
    c.execute(
        "DELETE FROM gateway_routing WHERE scope = ?1 AND session_key = ?1",
        [NOWHERE],
    )?;
    Ok(())
}

fn create(c: &Connection, title: Option<&str>) -> Result<String, StoreError> {
    let new = NewSession {
        id: &clock::session_id(clock::now()),
        source: "cli",
        title,
        model: None,
        cwd: None,
        profile: "default",
    };
    sessions::create(c, &new)
}

/// The program that appends a message counts it. A trigger that counts too would count twice.
fn check_counters(c: &Connection, id: &str, messages: usize) -> Result<(), StoreError> {
    let counted: (i64, i64) = c.query_row(
        "SELECT message_count, tool_call_count FROM sessions WHERE id = ?1",
        [id],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    match counted == (messages as i64, 1) {
        true => Ok(()),
        false => Err(StoreError::Conflict(
            "a trigger counts the messages of a session".into(),
        )),
    }
}

/// Checks that the index finds a new message, if triggers fill it.
fn check_index(c: &Connection, row: i64) -> Result<(), StoreError> {
    if !fulltext::is_filled(c)? {
        return Ok(());
    }
    let found = c
        .prepare("SELECT 1 FROM messages_fts WHERE messages_fts MATCH ?1 AND rowid = ?2")?
        .exists(params![WORD, row])?;
    match found {
        true => Ok(()),
        false => Err(StoreError::Conflict(
            "the full-text index does not accept a new message".into(),
        )),
    }
}

/// Converts an error to a refusal of the file. A transient error says nothing about the file, so it stays as it is.
fn refusal(path: &Path, error: StoreError, statement: &str) -> StoreError {
    let path = path.to_owned();
    match error {
        error if error.is_transient() => error,
        StoreError::Sqlite(inner) => match inner.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Sqlite(inner),
            _ => {
                let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                let why = format!("{inner}, in `{statement}`");
                StoreError::Unservable { path, why }
            }
        },
        StoreError::Conflict(why) => StoreError::Unservable { path, why },
        error => error,
    }
}
