//! Temporary homes with a database to measure on: the sessions that are handed off, and what fills it up besides.

use std::path::PathBuf;
use std::time::Duration;

use hermesd::store::{OpenMode, Store};
use rusqlite::Connection;

use crate::{Outcome, Scale};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing but the sessions that are handed off.
    Small,
    ManySessions,
    ManyHandoffs,
    /// Grew from small to large across restarts. Its statistics are those of the small one.
    Grown,
}

impl Kind {
    pub(crate) const ALL: [Kind; 4] = [
        Kind::Small,
        Kind::ManySessions,
        Kind::ManyHandoffs,
        Kind::Grown,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Small => "small",
            Kind::ManySessions => "many sessions",
            Kind::ManyHandoffs => "many handoffs",
            Kind::Grown => "grown",
        }
    }
}

/// What sessions are kept for: each is handed off once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    Wait,
    Event,
    Foreign,
    BurstTold,
    BurstWaits,
}

impl Purpose {
    pub(crate) const ALL: [Purpose; 5] = [
        Purpose::Wait,
        Purpose::Event,
        Purpose::Foreign,
        Purpose::BurstTold,
        Purpose::BurstWaits,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Purpose::Wait => "wait",
            Purpose::Event => "event",
            Purpose::Foreign => "foreign",
            Purpose::BurstTold => "burst-told",
            Purpose::BurstWaits => "burst-waits",
        }
    }

    fn count(self, scale: &Scale) -> usize {
        match self {
            Purpose::Wait | Purpose::Event => scale.requests,
            Purpose::Foreign => scale.foreign,
            Purpose::BurstTold | Purpose::BurstWaits => scale.burst * scale.bursts,
        }
    }

    pub(crate) fn sessions(self, scale: &Scale) -> Vec<String> {
        let name = |n| format!("{}_{n:06}", self.prefix());
        (1..=self.count(scale)).map(name).collect()
    }
}

/// The session with the long transcript.
pub(crate) const LONG: &str = "long_000001";

/// Messages of each session that is handed off.
const HISTORY: usize = 4;

pub(crate) struct Home {
    directory: tempfile::TempDir,
}

impl Home {
    pub(crate) fn make(kind: Kind, scale: &Scale) -> Outcome<Home> {
        let home = Home {
            directory: tempfile::Builder::new()
                .prefix("hermesd-bench-")
                .tempdir()?,
        };
        std::fs::create_dir(home.path())?;
        // The schema is the daemon's own business.
        drop(Store::open(
            &home.path(),
            OpenMode::Create,
            &Default::default(),
        )?);
        if kind == Kind::Grown {
            home.begin_small()?;
        }
        let connection = home.sqlite()?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        match kind {
            Kind::Small => {}
            Kind::ManySessions => old_sessions(&connection, scale.sessions)?,
            Kind::ManyHandoffs => past_handoffs(&connection, scale.handoffs)?,
            Kind::Grown => {
                let sessions = scale.sessions / 10;
                old_sessions(&connection, sessions)?;
                histories(&connection, "id LIKE 'old\\_%' ESCAPE '\\'", 2)?;
            }
        }
        for purpose in Purpose::ALL {
            live_sessions(&connection, purpose.prefix(), purpose.count(scale))?;
        }
        histories(&connection, "source = 'cli' AND ended_at IS NULL", HISTORY)?;
        live_sessions(&connection, "long", 1)?;
        histories(&connection, &format!("id = '{LONG}'"), scale.messages)?;
        connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE);")?;
        if kind == Kind::Grown {
            drop(home.store()?);
        }
        Ok(home)
    }

    /// A few sessions, then statistics, as Hermes or a person makes them, then a restart.
    fn begin_small(&self) -> Outcome<()> {
        let connection = self.sqlite()?;
        live_sessions(&connection, "first", 3)?;
        histories(&connection, "id LIKE 'first%'", HISTORY)?;
        connection.execute_batch(
            "UPDATE sessions SET ended_at = started_at, end_reason = 'cli_close'; ANALYZE;",
        )?;
        drop(self.store()?);
        Ok(())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// Beside the home, not in it: hermesd watches its home, and would be woken by each of its own lines.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.path().join("hermesd.log")
    }

    pub(crate) fn store(&self) -> Outcome<Store> {
        Ok(Store::open(
            &self.path(),
            OpenMode::Existing,
            &Default::default(),
        )?)
    }

    /// A plain connection with SQLite's own defaults, as another program would have it.
    pub(crate) fn sqlite(&self) -> Outcome<Connection> {
        let connection = Connection::open(self.path().join("state.db"))?;
        connection.busy_timeout(Duration::from_secs(30))?;
        Ok(connection)
    }

    /// A fast wrong answer is none: fails unless every session of this purpose has been handed off.
    pub(crate) fn check_completed(&self, purpose: Purpose, scale: &Scale) -> Outcome<()> {
        let completed: i64 = self.sqlite()?.query_row(
            "SELECT count(*) FROM sessions WHERE handoff_state = 'completed' AND id LIKE ?1 || '\\_%' ESCAPE '\\'",
            [purpose.prefix()],
            |row| row.get(0),
        )?;
        let wanted = purpose.count(scale) as i64;
        if completed == wanted {
            Ok(())
        } else {
            Err(format!("{purpose:?}: {completed} of {wanted} handoffs are completed").into())
        }
    }
}

fn live_sessions(connection: &Connection, prefix: &str, count: usize) -> Outcome<()> {
    connection.execute(
        "INSERT INTO sessions (id, source, model, title, started_at)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
         SELECT printf('%s_%06d', ?1, i), 'cli', 'm', printf('Work on %s %d', ?1, i), unixepoch() - 3600 + i * 0.001 FROM n",
        rusqlite::params![prefix, count as i64],
    )?;
    Ok(())
}

/// Gives these sessions a history of a question, a tool call, its result and an answer, again and again.
fn histories(connection: &Connection, sessions: &str, messages: usize) -> Outcome<()> {
    let sql = format!(
        "INSERT INTO messages (session_id, role, content, tool_calls, tool_call_id, tool_name, finish_reason, timestamp)
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
         SELECT s.id,
                CASE n.i % 4 WHEN 0 THEN 'user' WHEN 2 THEN 'tool' ELSE 'assistant' END,
                printf('Message %d: the parser reads one line too few when the file does not end with a newline, see src/parse.rs.', n.i),
                CASE n.i % 4 WHEN 1 THEN json_array(json_object('id', printf('call_%d', n.i), 'type', 'function',
                    'function', json_object('name', 'run_tests', 'arguments', '{{\"filter\": \"parse\"}}'))) END,
                CASE n.i % 4 WHEN 2 THEN printf('call_%d', n.i - 1) END,
                CASE n.i % 4 WHEN 2 THEN 'run_tests' END,
                CASE n.i % 4 WHEN 3 THEN 'stop' END,
                s.started_at + n.i * 0.001
         FROM (SELECT id, started_at FROM sessions WHERE {sessions}) s, n"
    );
    connection.execute(&sql, [messages as i64])?;
    connection.execute(
        &format!("UPDATE sessions SET message_count = ?1 WHERE {sessions}"),
        [messages as i64],
    )?;
    Ok(())
}

/// What years of use leave behind.
fn old_sessions(connection: &Connection, count: usize) -> Outcome<()> {
    connection.execute(
        "INSERT INTO sessions (id, source, model, title, started_at, ended_at, end_reason, message_count)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         SELECT printf('old_%07d', i), 'cli', 'm', printf('Old session %d', i), 1600000000.0 + i * 60, 1600000030.0 + i * 60,
                'cli_close', 10 FROM n",
        [count as i64],
    )?;
    Ok(())
}

/// Completed handoffs, ten of each session, the last of them two hours ago.
fn past_handoffs(connection: &Connection, count: usize) -> Outcome<()> {
    connection.execute(
        "INSERT INTO sessions (id, source, model, title, started_at, session_key, chat_id, chat_type, thread_id, message_count,
                               handoff_state, handoff_platform)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         SELECT printf('past_%07d', i), 'local', 'm', printf('Past session %d', i), 1600000000.0 + i * 60,
                printf('agent:main:local:dm:home:%d', 1000000 + i), 'home', 'dm', CAST(1000000 + i AS TEXT), 10,
                'completed', 'local' FROM n",
        [count.div_ceil(10) as i64],
    )?;
    connection.execute(
        "INSERT INTO hermesd_handoffs (session_id, platform, via, state, stage, stages, requested_at, ended_at, fence, home, thread,
                                       session_key, displaced, reply, message_rows, sent_ids)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         SELECT printf('past_%07d', (i + 9) / 10), 'local', 'socket', 'completed', 'settled',
                '{\"claimed\":1,\"homed\":1,\"threaded\":1,\"bound\":1,\"answered\":1,\"delivered\":1,\"settled\":1}',
                unixepoch() - 7201.0 - (?1 - i) * 60, unixepoch() - 7200.0 - (?1 - i) * 60, 1,
                '{\"chat_id\":\"home\"}', json_object('thread', json_object('id', CAST(1000000 + (i + 9) / 10 AS TEXT), 'title', 'Past')),
                printf('agent:main:local:dm:home:%d', 1000000 + (i + 9) / 10),
                '{\"entry\":null,\"outgoing\":null,\"incoming\":[],\"ended\":[null,null]}',
                'I am here with the session: 10 messages, 5 of yours, 5 of mine. You last said: see src/parse.rs. Go on whenever you like.',
                '[1,2]', '[\"1\"]' FROM n",
        [count as i64],
    )?;
    Ok(())
}
