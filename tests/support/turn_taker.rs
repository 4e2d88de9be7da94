//! Another program that takes turns of a conversation, as Hermes 0.20 does: it holds the turn lease, writes the words at the
//! beginning of a turn and the answer at its end. It reads one order a line and says when that is done.

use std::io::{BufRead, Write, stdin, stdout};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

type Failure = Box<dyn std::error::Error>;

const TTL: f64 = 300.0;
const LOOK_AGAIN: Duration = Duration::from_millis(2);

struct Taker {
    connection: Connection,
    session: String,
    holder: String,
}

fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// Whether a process of this machine is gone, by the process id alone.
fn is_dead(holder: &str) -> bool {
    let pid = holder
        .split(':')
        .find_map(|part| part.strip_prefix("pid="))
        .and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
}

impl Taker {
    fn try_take(&mut self) -> Result<bool, Failure> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "SELECT holder, expires_at FROM session_turn_leases WHERE conversation_id = ?1";
        let found: Option<(String, f64)> = transaction
            .query_row(sql, [&self.session], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((holder, expires_at)) = found
            && (expires_at <= now() || is_dead(&holder))
        {
            transaction.execute(
                "DELETE FROM session_turn_leases WHERE conversation_id = ?1 AND holder = ?2",
                [&self.session, &holder],
            )?;
        }
        transaction.execute(
            "INSERT OR IGNORE INTO session_turn_leases VALUES (?1, ?2, ?3, ?4)",
            params![self.session, self.holder, now(), now() + TTL],
        )?;
        let holder: String = transaction.query_row(sql, [&self.session], |row| row.get(0))?;
        transaction.commit()?;
        Ok(holder == self.holder)
    }

    fn take(&mut self) -> Result<(), Failure> {
        while !self.try_take()? {
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Writes a row, if the lease is still its own.
    fn write(&mut self, role: &str, text: &str) -> Result<(), Failure> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let holds: bool = transaction.query_row(
            "SELECT EXISTS (SELECT 1 FROM session_turn_leases WHERE conversation_id = ?1 AND holder = ?2)",
            [&self.session, &self.holder],
            |row| row.get(0),
        )?;
        if !holds {
            return Err("the lease is lost".into());
        }
        transaction.execute(
            "INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?1, ?2, ?3, ?4, 1)",
            params![self.session, role, text, now()],
        )?;
        transaction.commit()?;
        Ok(())
    }

    fn release(&mut self) -> Result<(), Failure> {
        self.connection.execute(
            "DELETE FROM session_turn_leases WHERE conversation_id = ?1 AND holder = ?2",
            [&self.session, &self.holder],
        )?;
        Ok(())
    }

    fn obey(&mut self, order: &str) -> Result<(), Failure> {
        let (verb, rest) = order.split_once(' ').unwrap_or((order, ""));
        match verb {
            "take" => self.take(),
            "write" => {
                let (role, text) = rest.split_once(' ').ok_or("a role and a text")?;
                self.write(role, text)
            }
            "release" => self.release(),
            // A whole turn that lasts so many milliseconds.
            "turn" => {
                let (lasts, text) = rest.split_once(' ').ok_or("a time and a text")?;
                self.take()?;
                self.write("user", text)?;
                std::thread::sleep(Duration::from_millis(lasts.parse()?));
                self.write("assistant", &format!("answer to {text}"))?;
                self.release()
            }
            other => Err(format!("unknown order {other:?}").into()),
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let (Some(database), Some(session)) = (words.next(), words.next()) else {
        return Err("give a database and a session".into());
    };
    let connection = Connection::open(database)?;
    connection.busy_timeout(Duration::from_secs(30))?;
    let pid = std::process::id();
    let mut taker = Taker {
        holder: format!("pid={pid}:turn={session}:task:0badcafe:platform=cli"),
        connection,
        session,
    };
    for order in stdin().lock().lines() {
        let done = match taker.obey(&order?) {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("failed: {error}"),
        };
        writeln!(stdout(), "{done}")?;
    }
    Ok(())
}
