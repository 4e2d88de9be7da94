//! Removes old records of answered and sent messages. The records detect duplicates, and no platform repeats a message
//! after weeks.

use std::time::Duration;

use rusqlite::{Connection, params};

use super::{Store, StoreError};
use crate::clock;

/// How long records stay.
pub const KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);
/// The rows per transaction. Other jobs have to write in between.
const AT_ONCE: i64 = 500;

/// The rows of each table that ended before `?1`.
const TABLES: [(&str, &str); 2] = [
    (
        "hermesd_inbound",
        "state IN ('answered', 'failed') AND received_at < ?1",
    ),
    (
        "hermesd_deliveries",
        "state IN ('sent', 'failed', 'abandoned') AND updated_at < ?1",
    ),
];

impl Store {
    /// Removes records that ended longer ago than `kept`. Returns their number.
    pub async fn prune(&self, kept: Duration) -> Result<usize, StoreError> {
        let before = clock::now() - kept.as_secs_f64();
        let mut removed = 0;
        for (table, ended) in TABLES {
            let mut behind = 0;
            // One pass over the table, in portions. Rows that have not ended are skipped.
            loop {
                let ids = self.ended_behind(table, ended, before, behind).await?;
                let Some(last) = ids.last() else { break };
                behind = *last;
                let sql = format!("DELETE FROM {table} WHERE id = ?2 AND {ended}");
                let remove = move |c: &Connection| {
                    let mut statement = c.prepare(&sql)?;
                    ids.iter().try_fold(0, |removed, id| {
                        Ok(removed + statement.execute(params![before, id])?)
                    })
                };
                removed += self.write_unflushed(remove).await?;
            }
        }
        Ok(removed)
    }

    /// The next removable ids after `behind`.
    async fn ended_behind(
        &self,
        table: &'static str,
        ended: &'static str,
        before: f64,
        behind: i64,
    ) -> Result<Vec<i64>, StoreError> {
        self.read(move |c| {
            let sql =
                format!("SELECT id FROM {table} WHERE id > ?2 AND {ended} ORDER BY id LIMIT ?3");
            let mut statement = c.prepare(&sql)?;
            let ids = statement.query_map(params![before, behind, AT_ONCE], |row| row.get(0))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
        .await
    }
}
