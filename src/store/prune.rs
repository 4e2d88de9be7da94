//! Records of messages that were answered and sent long ago. They are kept to know what comes twice, which no platform sends
//! again after weeks.

use std::time::Duration;

use super::{Store, StoreError};
use crate::clock;

/// How long they are kept.
pub const KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);
/// Looked at in one transaction: others want to write too.
const AT_ONCE: i64 = 500;

/// Of the oldest rows of each table, those that have ended.
const TABLES: [(&str, &str); 2] = [
    (
        "hermesd_inbound",
        "state IN ('answered', 'failed') AND received_at < ?2",
    ),
    (
        "hermesd_deliveries",
        "state IN ('sent', 'failed', 'abandoned') AND updated_at < ?2",
    ),
];

impl Store {
    /// Removes what ended longer ago than `kept`. Returns how many rows that were.
    pub async fn prune(&self, kept: Duration) -> Result<usize, StoreError> {
        let before = clock::now() - kept.as_secs_f64();
        let mut removed = 0;
        for (table, ended) in TABLES {
            loop {
                // Rows are as old as their ids, so the old ones are the first.
                let sql = format!(
                    "DELETE FROM {table} WHERE id IN (SELECT id FROM (SELECT * FROM {table} ORDER BY id LIMIT ?1) WHERE {ended})"
                );
                let gone = self
                    .write(move |c| Ok(c.execute(&sql, rusqlite::params![AT_ONCE, before])?))
                    .await?;
                removed += gone;
                if gone == 0 {
                    break;
                }
            }
        }
        Ok(removed)
    }
}
