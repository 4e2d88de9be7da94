//! Migrates our tables from version 4 to version 5, so that ids are never reused.
//!
//! Send keys contain ids, and platforms remember send keys. Before version 5 an id was reused when the newest rows of
//! its table were removed, so a new message could get the key of an old one.

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

/// Rows in a temporary table, until their own table is created again.
pub(super) struct Aside {
    table: &'static str,
    columns: String,
}

/// Copies the rows of version 4 to temporary tables and drops their tables. Afterwards, call [`put_back`].
///
/// Renaming a table would make SQLite parse every trigger in the file, and those of other programs may not parse here.
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

/// Copies the rows to their new tables, and repairs the effects of reused ids.
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

/// Sends replies again that the embedded platform took for repeats. Gives unanswered messages ids with unused keys, in
/// the same order. Makes the next ids higher than any id in a key.
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
