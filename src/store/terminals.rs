//! The sessions that terminals are on. A row stands from the opening until the session is finalised: one that a dead
//! daemon left is finalised at the next start.

use rusqlite::{Connection, params};

use super::sessions::COLUMNS;
use super::{Store, StoreError, agents, lenient, sessions};
use crate::clock;
use crate::session::{Session, TERMINAL_SOURCES};

/// How many sessions are looked at for what "the recent one" may mean.
const CANDIDATES: i64 = 50;
/// What counts as recent.
const RECENT: f64 = 24.0 * 3600.0;

/// A session that somebody may mean who names none.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub session: Session,
    /// When something was last said in it.
    pub active_at: f64,
    pub recent: bool,
}

impl Store {
    /// A terminal is on this session now; it is open again, whatever ended it before.
    pub async fn open_terminal(
        &self,
        session_id: &str,
        tty: Option<&str>,
    ) -> Result<(), StoreError> {
        let (id, tty) = (session_id.to_owned(), tty.map(str::to_owned));
        self.write(move |c| {
            sessions::reopen(c, &id)?;
            open(c, &id, tty.as_deref())
        })
        .await
    }

    /// A new session, with its terminal and the agent that was chosen for it.
    pub async fn create_terminal_session(
        &self,
        id: &str,
        title: Option<&str>,
        model: Option<&str>,
        agent: Option<&str>,
        tty: Option<&str>,
    ) -> Result<(), StoreError> {
        let (id, model) = (id.to_owned(), model.map(str::to_owned));
        let (title, tty) = (title.map(str::to_owned), tty.map(str::to_owned));
        let agent = agent.map(str::to_owned);
        self.write(move |c| {
            if let Some(title) = &title {
                sessions::check_title(c, title, &id)?;
            }
            c.execute(
                "INSERT INTO sessions (id, source, title, model, started_at) VALUES (?1, 'cli', ?2, ?3, ?4)",
                params![id, title, model, clock::now()],
            )?;
            if let Some(agent) = &agent {
                agents::remember(c, &id, agent)?;
            }
            open(c, &id, tty.as_deref())
        })
        .await
    }

    /// The terminal has left: its session ends, unless a chat owns it by now or somebody has ended it before. Returns
    /// whether it has ended by this.
    pub async fn close_terminal(&self, session_id: &str, reason: &str) -> Result<bool, StoreError> {
        let (id, reason) = (session_id.to_owned(), reason.to_owned());
        self.write(move |c| {
            c.execute("DELETE FROM hermesd_terminals WHERE session_id = ?1", [&id])?;
            let ended = c.execute(
                &format!(
                    "UPDATE sessions SET ended_at = ?2, end_reason = ?3
                     WHERE id = ?1 AND ended_at IS NULL AND source IN ({sources})",
                    sources = terminal_sources()
                ),
                params![id, clock::now(), reason],
            )?;
            Ok(ended == 1)
        })
        .await
    }

    /// Sessions whose terminal belonged to a daemon that is no more.
    pub async fn open_terminals(&self) -> Result<Vec<String>, StoreError> {
        self.read(|c| {
            let mut statement = c.prepare_cached("SELECT session_id FROM hermesd_terminals")?;
            let ids = statement.query_map([], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// The live sessions of one terminal.
    pub async fn sessions_of_tty(&self, tty: &str) -> Result<Vec<Session>, StoreError> {
        let tty = tty.to_owned();
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT t.session_id FROM hermesd_terminals t JOIN sessions s ON s.id = t.session_id
                 WHERE t.tty = ?1 AND s.ended_at IS NULL ORDER BY t.opened_at DESC",
            )?;
            let ids = statement.query_map([&tty], |row| row.get::<_, String>(0))?;
            let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
            sessions::by_ids(c, &ids)
        })
        .await
    }

    /// The terminal session that something was last said in.
    pub async fn last_terminal_session(&self) -> Result<Option<Session>, StoreError> {
        self.read(|c| {
            let sql = format!(
                "SELECT {COLUMNS} FROM sessions WHERE +source IN ({sources}) AND archived = 0
                   AND COALESCE(end_reason, '') <> 'compression'
                 ORDER BY started_at DESC LIMIT {CANDIDATES}",
                sources = terminal_sources()
            );
            let mut last: Option<(f64, Session)> = None;
            for session in sessions::collect(c, &sql, [])? {
                let at = last_said(c, &session.id)?.unwrap_or(session.started_at);
                if last.as_ref().is_none_or(|(before, _)| at > *before) {
                    last = Some((at, session));
                }
            }
            Ok(last.map(|(_, session)| session))
        })
        .await
    }

    /// Terminal sessions that have not ended, and those that have ended lately; the last active first.
    pub async fn terminal_candidates(&self) -> Result<Vec<Candidate>, StoreError> {
        self.read(|c| {
            let now = clock::now();
            // The plus keeps SQLite from sorting every terminal session there ever was by way of the index on source.
            let of_terminals = format!("+source IN ({}) AND archived = 0", terminal_sources());
            let live = format!(
                "SELECT {COLUMNS} FROM sessions WHERE ended_at IS NULL AND {of_terminals}
                 ORDER BY started_at DESC LIMIT {CANDIDATES}"
            );
            let ended = format!(
                "SELECT {COLUMNS} FROM sessions
                 WHERE end_reason IN ('cli_close', 'agent_close', 'tui_close') AND ended_at >= {since}
                   AND {of_terminals}
                 ORDER BY ended_at DESC LIMIT {CANDIDATES}",
                since = now - RECENT
            );
            let mut found = Vec::new();
            for sql in [live, ended] {
                for session in sessions::collect(c, &sql, [])? {
                    let active_at = last_said(c, &session.id)?.unwrap_or(session.started_at);
                    found.push(Candidate {
                        recent: now - active_at < RECENT,
                        session,
                        active_at,
                    });
                }
            }
            found.sort_by(|a, b| b.active_at.total_cmp(&a.active_at));
            Ok(found)
        })
        .await
    }
}

fn terminal_sources() -> String {
    TERMINAL_SOURCES.map(|s| format!("'{s}'")).join(", ")
}

fn open(c: &Connection, id: &str, tty: Option<&str>) -> Result<(), StoreError> {
    c.execute(
        "INSERT INTO hermesd_terminals (session_id, tty, opened_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (session_id) DO UPDATE SET tty = ?2, opened_at = ?3",
        params![id, tty, clock::now()],
    )?;
    Ok(())
}

fn last_said(c: &Connection, id: &str) -> Result<Option<f64>, StoreError> {
    let mut statement =
        c.prepare_cached("SELECT max(timestamp) FROM messages WHERE session_id = ?1")?;
    Ok(statement.query_row([id], |row| lenient::seconds(row, 0))?)
}
