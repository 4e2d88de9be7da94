//! Lists pending handoffs.

use super::{Store, StoreError, lenient};
use crate::domain::RequestedVia;

/// A row with a pending handoff.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    pub session_id: String,
    pub platform: String,
    /// It waits for the end of a turn.
    pub after_turn: bool,
    /// Another program wrote it.
    pub foreign: bool,
}

impl Store {
    /// The first pending rows that satisfy `wanted`, the oldest session first. Other rows, and rows that cannot be
    /// read, do not count towards `limit`.
    pub fn pending_handoffs(
        &self,
        limit: usize,
        mut wanted: impl FnMut(&Pending) -> bool,
    ) -> Result<Vec<Pending>, StoreError> {
        self.look(|c| {
            let mut statement = c.prepare_cached(
                "SELECT s.id, s.handoff_platform, COALESCE(h.after_turn, 0), COALESCE(h.via, 'foreign') FROM sessions s
                 LEFT JOIN hermesd_handoffs h INDEXED BY hermesd_handoffs_in_flight
                   ON h.session_id = s.id AND h.state IN ('pending', 'running')
                 WHERE likelihood(s.handoff_state = 'pending', 0.000001) AND typeof(s.id) = 'text'
                 ORDER BY s.started_at",
            )?;
            let mut rows = statement.query([])?;
            let mut found = Vec::new();
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                let pending = lenient::readable_row(row, "sessions", |row| {
                    Ok(Pending {
                        // A lossily read id could not be claimed.
                        session_id: row.get(0)?,
                        platform: lenient::text(row, 1)?.unwrap_or_default(),
                        after_turn: row.get(2)?,
                        foreign: row.get::<_, String>(3)? == RequestedVia::Foreign.as_str(),
                    })
                })?;
                found.extend(pending.filter(&mut wanted));
            }
            Ok(found)
        })
    }

    /// The number of pending rows.
    pub fn pending_count(&self) -> Result<usize, StoreError> {
        self.look(|c| {
            let sql = "SELECT count(*) FROM sessions WHERE handoff_state = 'pending'";
            let count: i64 = c.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
            Ok(usize::try_from(count).unwrap_or_default())
        })
    }
}
