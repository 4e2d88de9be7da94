//! Reads a database that another daemon or gateway may serve, without changing it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::StoreError;

const PATIENCE: Duration = Duration::from_secs(1);

/// The number of pending handoffs in the database of a home.
pub fn count_pending(home: &Path) -> Result<i64, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(home.join("state.db"), flags)?;
    connection.busy_timeout(PATIENCE)?;
    let count = connection.query_row(
        "SELECT count(*) FROM sessions WHERE handoff_state = 'pending'",
        [],
        |row| row.get(0),
    )?;
    Ok(count)
}
