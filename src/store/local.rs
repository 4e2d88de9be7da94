//! Stores the chats of the embedded platform: threads and messages.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Inbound, NewInbound, Store, StoreError, inbound};
use crate::clock;
use crate::domain::Source;

#[derive(Debug, Clone, PartialEq)]
pub struct LocalThread {
    pub id: i64,
    pub chat_id: String,
    pub title: String,
    pub created_at: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LocalMessage {
    pub id: i64,
    pub chat_id: String,
    /// Empty for the chat itself.
    pub thread_id: String,
    /// `agent` or `user`.
    pub author: String,
    pub text: String,
    pub at: f64,
}

impl Store {
    /// Opens a thread. The same `open_key` returns the same thread again.
    pub async fn open_local_thread(
        &self,
        chat_id: &str,
        title: &str,
        open_key: &str,
    ) -> Result<i64, StoreError> {
        let (chat_id, title, open_key) =
            (chat_id.to_owned(), title.to_owned(), open_key.to_owned());
        self.write_unflushed(move |c| {
            let mut insert = c.prepare_cached(
                "INSERT INTO hermesd_local_threads (chat_id, title, open_key, created_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (open_key) DO NOTHING",
            )?;
            if insert.execute(params![chat_id, title, open_key, clock::now()])? == 1 {
                return Ok(c.last_insert_rowid());
            }
            let opened = "SELECT id FROM hermesd_local_threads WHERE open_key = ?1";
            Ok(c.query_row(opened, [&open_key], |row| row.get(0))?)
        })
        .await
    }

    pub async fn local_thread(&self, id: i64) -> Result<Option<LocalThread>, StoreError> {
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT id, chat_id, title, created_at FROM hermesd_local_threads WHERE id = ?1",
            )?;
            Ok(statement.query_row([id], thread).optional()?)
        })
        .await
    }

    pub async fn local_threads(&self, limit: usize) -> Result<Vec<LocalThread>, StoreError> {
        self.read(move |c| {
            let mut statement =
                c.prepare_cached("SELECT id, chat_id, title, created_at FROM hermesd_local_threads ORDER BY id DESC LIMIT ?1")?;
            let rows = statement.query_map([limit as i64], thread)?.collect::<Result<_, _>>()?;
            Ok(rows)
        })
        .await
    }

    /// Stores a message of the agent. The same `send_key` returns the same message again.
    pub async fn send_local(
        &self,
        source: &Source,
        text: &str,
        send_key: &str,
    ) -> Result<LocalMessage, StoreError> {
        let (source, text, send_key) = (source.clone(), text.to_owned(), send_key.to_owned());
        self.write_unflushed(move |c| {
            let new = insert(c, &source, "agent", &text, Some(&send_key))?;
            if let Some(message) = new {
                return Ok(message);
            }
            let sent = format!("SELECT {MESSAGE} FROM hermesd_local_messages WHERE send_key = ?1");
            Ok(c.query_row(&sent, [&send_key], message)?)
        })
        .await
    }

    /// Stores a message of the person and its row in the inbound queue, in one commit.
    pub async fn say_local(
        &self,
        key: &str,
        source: &Source,
        text: &str,
    ) -> Result<(LocalMessage, Inbound), StoreError> {
        let (key, source, text) = (key.to_owned(), source.clone(), text.to_owned());
        self.write(move |c| {
            let said = insert(c, &source, "user", &text, None)?;
            let said = said.ok_or(StoreError::Closed)?;
            let new = NewInbound {
                message_id: said.id.to_string(),
                text: text.clone(),
                files: Vec::new(),
            };
            let accepted = inbound::accept(c, &key, &source, &new)?;
            let accepted = accepted.ok_or_else(|| {
                StoreError::Conflict(format!("local message {} was accepted before", said.id))
            })?;
            Ok((said, accepted))
        })
        .await
    }

    /// The messages of a thread (or of the chat itself, with an empty id) after the message `after`.
    pub async fn local_messages(
        &self,
        chat_id: &str,
        thread_id: &str,
        after: i64,
        limit: usize,
    ) -> Result<Vec<LocalMessage>, StoreError> {
        let (chat_id, thread_id) = (chat_id.to_owned(), thread_id.to_owned());
        self.read(move |c| {
            // The newest `limit` messages, in ascending order.
            let mut statement = c.prepare_cached(&format!(
                "SELECT * FROM (SELECT {MESSAGE} FROM hermesd_local_messages INDEXED BY hermesd_local_messages_thread
                                WHERE chat_id = ?1 AND thread_id = ?2 AND id > ?3 ORDER BY id DESC LIMIT ?4) ORDER BY id"
            ))?;
            let rows = statement.query_map(params![chat_id, thread_id, after, limit as i64], message)?.collect::<Result<_, _>>()?;
            Ok(rows)
        })
        .await
    }
}

/// Inserts a message. `None` if its key exists already.
fn insert(
    c: &Connection,
    source: &Source,
    author: &str,
    text: &str,
    send_key: Option<&str>,
) -> Result<Option<LocalMessage>, StoreError> {
    let at = clock::now();
    let chat_id = source.chat_id.as_deref().unwrap_or_default();
    let thread_id = source.thread_id.as_deref().unwrap_or_default();
    let mut insert = c.prepare_cached(
        "INSERT INTO hermesd_local_messages (chat_id, thread_id, author, text, send_key, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (send_key) DO NOTHING",
    )?;
    let inserted = insert.execute(params![chat_id, thread_id, author, text, send_key, at])?;
    Ok((inserted == 1).then(|| LocalMessage {
        id: c.last_insert_rowid(),
        chat_id: chat_id.to_owned(),
        thread_id: thread_id.to_owned(),
        author: author.to_owned(),
        text: text.to_owned(),
        at,
    }))
}

const MESSAGE: &str = "id, chat_id, thread_id, author, text, at";

fn thread(row: &Row<'_>) -> rusqlite::Result<LocalThread> {
    Ok(LocalThread {
        id: row.get(0)?,
        chat_id: row.get(1)?,
        title: row.get(2)?,
        created_at: row.get(3)?,
    })
}

fn message(row: &Row<'_>) -> rusqlite::Result<LocalMessage> {
    Ok(LocalMessage {
        id: row.get(0)?,
        chat_id: row.get(1)?,
        thread_id: row.get(2)?,
        author: row.get(3)?,
        text: row.get(4)?,
        at: row.get(5)?,
    })
}
