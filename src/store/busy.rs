//! Finds out whether another program has a turn in progress. Turn leases tell this, if the database has them.
//! Otherwise the last rows of the transcript are the only evidence.

use std::fmt;

use rusqlite::{Connection, OptionalExtension, params};

use super::features::{self, Feature};
use super::{HeldBy, Store, StoreError, lenient, sessions, turn_leases, turns};
use crate::clock;

/// A turn that has written nothing for this long, in seconds, counts as dead.
const SILENCE: f64 = 600.0;
/// A row that is further ahead of the clock was written before the clock was set back. It is ignored.
const AHEAD: f64 = 60.0;
/// Hermes locks for five minutes at a time. A lock with a longer remaining time is from a wrong clock.
const LONGEST_LOCK: f64 = 3600.0;

/// The activity of another program in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum BusyElsewhere {
    /// It holds the lease of the turn.
    Turn(HeldBy),
    /// The transcript or a compression lock suggests this activity.
    Seems(String),
}

impl fmt::Display for BusyElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BusyElsewhere::Turn(by) => by.fmt(f),
            BusyElsewhere::Seems(what) => f.write_str(what),
        }
    }
}

impl Store {
    /// The activity of another program in this session, if there is evidence of any.
    pub fn busy_elsewhere(&self, session_id: &str) -> Result<Option<BusyElsewhere>, StoreError> {
        self.look(|c| {
            let tip = sessions::tip(c, session_id)?;
            if let Some(by) = turn_leases::held_by(c, &tip)? {
                return Ok(Some(BusyElsewhere::Turn(by)));
            }
            let seems = match compressing(c, &tip)? {
                None if !features::has(c, Feature::TurnLeases)? => unanswered(c, &tip)?,
                compressing => compressing,
            };
            Ok(seems.map(BusyElsewhere::Seems))
        })
    }
}

/// Hermes locks a session while it compresses the context.
fn compressing(c: &Connection, session_id: &str) -> Result<Option<String>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT 1 FROM compression_locks WHERE session_id = ?1 AND expires_at > ?2 AND expires_at < ?3",
    )?;
    let now = clock::now();
    let locked = statement.exists(params![session_id, now, now + LONGEST_LOCK])?;
    Ok(locked.then(|| "Hermes is compressing its context".to_owned()))
}

/// A transcript that ends with a question, a tool call or a tool's result waits for an answer. Our own words do not
/// count, because we know their state. Rows with a `display_kind` do not count, because no person wrote them.
fn unanswered(c: &Connection, session_id: &str) -> Result<Option<String>, StoreError> {
    let kind = match features::has(c, Feature::DisplayKind)? {
        true => "display_kind",
        false => "NULL",
    };
    let mut statement = c.prepare_cached(&format!(
        "SELECT id, role, CASE WHEN octet_length(tool_calls) > 4 THEN 1
                               ELSE COALESCE(tool_calls NOT IN ('', '[]', 'null'), 0) END, timestamp, {kind}
         FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id DESC LIMIT 1"
    ))?;
    let tail = statement
        .query_row([session_id], |row| {
            let seconds = lenient::seconds(row, 3)?.unwrap_or_default();
            Ok((
                row.get::<_, i64>(0)?,
                lenient::text(row, 1)?,
                row.get::<_, bool>(2)?,
                seconds,
                lenient::text(row, 4)?.is_none_or(|kind| kind.is_empty()),
            ))
        })
        .optional()?;
    let Some((row, role, calls_tools, at, is_said)) = tail else {
        return Ok(None);
    };
    let silent = clock::now() - at;
    if !(-AHEAD..=SILENCE).contains(&silent) || turns::last_words(c, session_id)? == Some(row) {
        return Ok(None);
    }
    let what = match role.as_deref() {
        // A program's note waits for no answer.
        Some("user") if is_said => "its last message has no answer yet",
        Some("tool") => "a tool's result has no answer yet",
        Some("assistant") if calls_tools => "a tool is running",
        _ => return Ok(None),
    };
    Ok(Some(format!(
        "{what} (written {} ago)",
        clock::age(silent.max(0.0))
    )))
}
