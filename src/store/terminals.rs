//! Stores which sessions terminals are attached to. A row exists until its session is finalised. The next start
//! finalises rows of a dead daemon. If a terminal leaves during a handoff, its session is finalised when the handoff
//! ends.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::messages::NewMessage;
use super::session_names::with_first_words;
use super::sessions::{COLUMNS, NewSession};
use super::{Store, StoreError, TurnStart, agents, lenient, lineage, sessions, turn_leases, turns};
use crate::clock;
use crate::domain::TranscriptWriter;
use crate::domain::transcript::Role;
use crate::domain::{Session, TERMINAL_SOURCES};
use crate::store::handoff_log;

/// How many sessions are considered for a request that names none.
const CANDIDATES: i64 = 50;
/// The age up to which a session counts as recent, in seconds.
const RECENT: f64 = 24.0 * 3600.0;

/// A session that a request without a name may mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub session: Session,
    /// The time of its last message.
    pub active_at: f64,
    pub recent: bool,
}

/// The result of typing a message in a terminal.
#[derive(Debug, Clone, PartialEq)]
pub enum TypedMessage {
    /// The turn has begun in this session, which may be another row of the same conversation.
    Begun(String, TurnStart),
    /// The session is on a chat of this platform.
    OnChat(String),
    /// The session does not exist any more.
    Deleted,
}

/// A terminal whose session is not finalised.
#[derive(Debug, Clone, PartialEq)]
pub struct Terminal {
    pub session_id: String,
    /// Set if it left during a handoff: the reason, and whether that interrupted an answer.
    pub left: Option<(String, bool)>,
    /// A handoff of its session is in flight.
    pub in_flight: bool,
    /// The journal's id of that handoff, if it has one.
    pub handoff: Option<i64>,
}

/// The directory of a terminal that opens a session.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkingDirectory {
    /// Absolute.
    pub path: String,
    /// A session that has another directory moves here.
    pub moves: bool,
}

/// The values of a new session with its terminal.
#[derive(Debug, Clone, Default)]
pub struct NewTerminalSession {
    pub id: String,
    pub title: Option<String>,
    pub model: Option<String>,
    /// The agent that answers, if the terminal names one.
    pub agent: Option<String>,
    pub tty: Option<String>,
    pub cwd: Option<String>,
}

const TERMINAL_COLUMNS: &str = "session_id, left_because, interrupted";

fn terminal(row: &Row<'_>) -> rusqlite::Result<Terminal> {
    let because: Option<String> = row.get(1)?;
    Ok(Terminal {
        session_id: row.get(0)?,
        left: because.zip(row.get(2)?),
        in_flight: false,
        handoff: None,
    })
}

impl Terminal {
    fn looked_up(mut self, c: &Connection) -> Result<Terminal, StoreError> {
        for id in lineage::lineage(c, &sessions::tip(c, &self.session_id)?)? {
            self.in_flight |= in_flight(c, &id)?;
            let handoff = handoff_log::in_flight(c, &id)?.map(|handoff| handoff.id);
            self.handoff = self.handoff.or(handoff);
        }
        Ok(self)
    }
}

impl Store {
    /// Attaches a terminal to a session and reopens the session. Returns its tip.
    pub async fn open_terminal(
        &self,
        session_id: &str,
        tty: Option<&str>,
        cwd: Option<WorkingDirectory>,
    ) -> Result<String, StoreError> {
        let (id, tty) = (session_id.to_owned(), tty.map(str::to_owned));
        self.change(move |c, changed| {
            let id = lineage::settle(c, changed, &id)?;
            sessions::reopen(c, &id)?;
            if let Some(cwd) = &cwd {
                sessions::work_in(c, &id, &cwd.path, cwd.moves)?;
            }
            open(c, &id, tty.as_deref())?;
            Ok(id)
        })
        .await
    }

    /// Creates a session with its terminal and its agent.
    pub async fn create_terminal_session(&self, new: NewTerminalSession) -> Result<(), StoreError> {
        let profile = self.profile();
        self.write(move |c| {
            if let Some(title) = &new.title {
                sessions::check_title(c, title, &new.id)?;
            }
            let row = NewSession {
                id: &new.id,
                source: "cli",
                title: new.title.as_deref(),
                model: new.model.as_deref(),
                cwd: new.cwd.as_deref(),
                profile: &profile,
            };
            sessions::create(c, &row)?;
            if let Some(agent) = &new.agent {
                agents::remember(c, &new.id, agent)?;
            }
            open(c, &new.id, new.tty.as_deref())
        })
        .await
    }

    /// Begins a turn with a typed message, if the session still exists.
    pub async fn begin_terminal_turn(
        &self,
        session_id: &str,
        text: &str,
        transcript_writer: TranscriptWriter,
    ) -> Result<TypedMessage, StoreError> {
        let words = NewMessage::text(Role::User, text);
        let (id, turn) = (session_id.to_owned(), self.turn.clone());
        self.change(move |c, changed| {
            let id = lineage::settle(c, changed, &id)?;
            let Some(session) = sessions::by_id(c, &id)? else {
                return Ok(TypedMessage::Deleted);
            };
            if !TERMINAL_SOURCES.contains(&session.source.as_str()) {
                return Ok(TypedMessage::OnChat(session.source));
            }
            turn_leases::take(c, &id, turn.as_deref())?;
            sessions::reopen(c, &id)?;
            let begun = turns::begin(c, &id, &words, transcript_writer)?;
            Ok(TypedMessage::Begun(id, begun))
        })
        .await
    }

    /// Removes the terminal and ends its session, unless the session is on a chat or another program has ended it.
    /// Returns whether this ended it.
    pub async fn close_terminal(&self, session_id: &str, reason: &str) -> Result<bool, StoreError> {
        let (id, reason) = (session_id.to_owned(), reason.to_owned());
        self.change(move |c, changed| {
            let id = lineage::settle(c, changed, &id)?;
            c.execute("DELETE FROM hermesd_terminals WHERE session_id = ?1", [&id])?;
            let sources = terminal_sources();
            let sql = format!(
                "UPDATE sessions SET ended_at = ?2, end_reason = ?3
                 WHERE id = ?1 AND ended_at IS NULL AND source IN ({sources})"
            );
            let ended = c.execute(&sql, params![id, clock::now(), reason])?;
            Ok(ended == 1)
        })
        .await
    }

    /// Records that the terminal has left during a handoff. The end of the handoff decides whether the session ends.
    /// False if no handoff is in flight.
    pub async fn defer_close(
        &self,
        session_id: &str,
        reason: &str,
        interrupted: bool,
    ) -> Result<bool, StoreError> {
        let (id, reason) = (session_id.to_owned(), reason.to_owned());
        self.change(move |c, changed| {
            let id = lineage::settle(c, changed, &id)?;
            if !in_flight(c, &id)? {
                return Ok(false);
            }
            c.execute(
                "INSERT INTO hermesd_terminals (session_id, opened_at, left_because, interrupted) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (session_id) DO UPDATE SET left_because = ?3, interrupted = ?4",
                params![id, clock::now(), reason, interrupted],
            )?;
            Ok(true)
        })
        .await
    }

    /// The row of a session's terminal. `None` if it is finalised, or if no terminal was attached.
    pub fn terminal(&self, session_id: &str) -> Result<Option<Terminal>, StoreError> {
        self.look(|c| {
            let sql =
                format!("SELECT {TERMINAL_COLUMNS} FROM hermesd_terminals WHERE session_id = ?1");
            let mut statement = c.prepare_cached(&sql)?;
            for id in lineage::lineage(c, &sessions::tip(c, session_id)?)? {
                if let Some(terminal) = statement.query_row([id], terminal).optional()? {
                    return terminal.looked_up(c).map(Some);
                }
            }
            Ok(None)
        })
    }

    /// All terminals that are not finalised. At a start they are those of an earlier daemon.
    pub async fn open_terminals(&self) -> Result<Vec<Terminal>, StoreError> {
        self.read(|c| {
            let sql = format!("SELECT {TERMINAL_COLUMNS} FROM hermesd_terminals");
            let mut statement = c.prepare_cached(&sql)?;
            let rows = statement.query_map([], terminal)?;
            rows.map(|row| row?.looked_up(c)).collect()
        })
        .await
    }

    /// The live sessions of one terminal device.
    pub async fn sessions_of_tty(&self, tty: &str) -> Result<Vec<Session>, StoreError> {
        let tty = tty.to_owned();
        self.read(move |c| {
            let mut statement = c.prepare_cached(
                "SELECT session_id FROM hermesd_terminals
                 WHERE tty = ?1 AND left_because IS NULL ORDER BY opened_at DESC",
            )?;
            let ids = statement.query_map([&tty], |row| row.get::<_, String>(0))?;
            let ids: Vec<String> = ids.collect::<Result<_, _>>()?;
            let mut live = sessions::tips(c, &ids)?;
            live.retain(|session| session.ended_at.is_none());
            Ok(live)
        })
        .await
    }

    /// The terminal session with the last message.
    pub async fn last_terminal_session(&self) -> Result<Option<Session>, StoreError> {
        self.read(last).await
    }

    /// The same, for a caller that does not wait.
    pub fn find_last_terminal_session(&self) -> Result<Option<Session>, StoreError> {
        self.look(last)
    }

    /// Terminal sessions that are live or ended recently, the last active first.
    pub async fn terminal_candidates(&self) -> Result<Vec<Candidate>, StoreError> {
        self.read(|c| {
            let now = clock::now();
            // The plus keeps SQLite from using the index on source, which would sort all terminal sessions.
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
                    let session = with_first_words(c, session)?;
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

/// The terminal session that was active last.
fn last(c: &Connection) -> Result<Option<Session>, StoreError> {
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
    last.map(|(_, session)| with_first_words(c, session))
        .transpose()
}

fn terminal_sources() -> String {
    TERMINAL_SOURCES.map(|s| format!("'{s}'")).join(", ")
}

fn open(c: &Connection, id: &str, tty: Option<&str>) -> Result<(), StoreError> {
    c.execute(
        "INSERT INTO hermesd_terminals (session_id, tty, opened_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (session_id) DO UPDATE SET tty = ?2, opened_at = ?3, left_because = NULL, interrupted = 0",
        params![id, tty, clock::now()],
    )?;
    Ok(())
}

/// Whether a handoff of a session is pending or running, in its row or in the journal.
fn in_flight(c: &Connection, session_id: &str) -> Result<bool, StoreError> {
    let session = sessions::by_id(c, session_id)?;
    let state = session.and_then(|session| session.handoff_state);
    let by_row = matches!(state.as_deref(), Some("pending" | "running"));
    Ok(by_row || handoff_log::in_flight(c, session_id)?.is_some())
}

fn last_said(c: &Connection, id: &str) -> Result<Option<f64>, StoreError> {
    let mut statement =
        c.prepare_cached("SELECT max(timestamp) FROM messages WHERE session_id = ?1")?;
    Ok(statement.query_row([id], |row| lenient::seconds(row, 0))?)
}
