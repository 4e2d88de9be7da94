//! From version 4 of our tables to version 5: an id is never used again.
//!
//! Send keys are made of ids, and a platform remembers the keys that it has seen. Before version 5 an id began again when the
//! newest rows of its table were removed, so a new message could get the key of an old one.

use rusqlite::Connection;

use super::StoreError;
use super::schema::{columns, table_exists};

/// The tables whose ids are `AUTOINCREMENT` since version 5.
const TABLES: [&str; 5] = [
    "hermesd_handoffs",
    "hermesd_deliveries",
    "hermesd_inbound",
    "hermesd_local_threads",
    "hermesd_local_messages",
];

/// Rows that wait in a temporary table until their own table is made anew.
pub(super) struct Aside {
    table: &'static str,
    columns: String,
}

/// Takes the rows out of the tables of version 4 and drops those tables. Call [`put_back`] when they are made anew.
///
/// Renaming a table would make SQLite read every trigger in the file, and those of other programs may not parse here.
pub(super) fn set_aside(c: &Connection) -> Result<Vec<Aside>, StoreError> {
    let mut aside = Vec::new();
    for table in TABLES {
        if !table_exists(c, table)? || is_numbered(c, table)? {
            continue;
        }
        c.execute_batch(&format!(
            "CREATE TEMP TABLE {table}_aside AS SELECT * FROM main.{table}; DROP TABLE main.{table};"
        ))?;
        aside.push(Aside {
            table,
            columns: columns(c, &format!("{table}_aside"))?.join(", "),
        });
    }
    Ok(aside)
}

fn is_numbered(c: &Connection, table: &str) -> Result<bool, StoreError> {
    let sql =
        "SELECT sql LIKE '%AUTOINCREMENT%' FROM sqlite_master WHERE type = 'table' AND name = ?1";
    Ok(c.query_row(sql, [table], |row| row.get(0))?)
}

/// Puts the rows into their new tables, and repairs what ids that were used again have done.
pub(super) fn put_back(c: &Connection, aside: Vec<Aside>) -> Result<(), StoreError> {
    if aside.is_empty() {
        return Ok(());
    }
    for Aside { table, columns } in aside {
        c.execute_batch(&format!(
            "INSERT INTO main.{table} ({columns}) SELECT {columns} FROM temp.{table}_aside ORDER BY id;
             DROP TABLE temp.{table}_aside;"
        ))?;
    }
    c.execute_batch(REPAIR)?;
    Ok(())
}

/// Replies that the embedded platform took for repeats are sent. Messages that still wait for their answer get ids whose keys
/// were never used, in the same order. The next ids are higher than all that any key names.
const REPAIR: &str = "
UPDATE hermesd_deliveries SET send_key = 'renewed:' || send_key, state = 'pending', message_id = NULL
WHERE platform = 'local' AND state IN ('pending', 'sending', 'sent')
  AND EXISTS (SELECT 1 FROM hermesd_local_messages said
              WHERE said.send_key = hermesd_deliveries.send_key AND said.text <> hermesd_deliveries.text);
CREATE TEMP TABLE hermesd_used AS SELECT COALESCE(max(id), 0) AS id FROM
   (SELECT id FROM hermesd_inbound
    UNION ALL SELECT CAST(substr(send_key, 9) AS INTEGER) FROM hermesd_local_messages WHERE send_key GLOB 'inbound:[0-9]*'
    UNION ALL SELECT CAST(substr(send_key, 9) AS INTEGER) FROM hermesd_deliveries WHERE send_key GLOB 'inbound:[0-9]*');
UPDATE hermesd_inbound SET id = id + (SELECT id FROM hermesd_used) WHERE state IN ('received', 'running');
DELETE FROM sqlite_sequence WHERE name = 'hermesd_inbound';
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'hermesd_inbound', max(id) FROM (SELECT id FROM hermesd_used UNION ALL SELECT id FROM hermesd_inbound);
DROP TABLE temp.hermesd_used;
";
