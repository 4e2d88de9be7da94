//! Defines the tables: Hermes' own, as far as we use them, and ours.
//!
//! Changes of Hermes' schema are additive: nothing is dropped, renamed, retyped or rewritten, and its `schema_version`
//! stays as it is.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use super::{StoreError, fulltext, numbered};

/// The newest tested `schema_version`. A newer one is served too.
pub(super) const NEWEST_TESTED_SCHEMA: i64 = 30;
/// The `schema_version` of files that we create: that of Hermes 0.19, which every later Hermes upgrades.
pub const HERMES_SCHEMA_VERSION: i64 = 22;
/// The version of our own tables.
pub(super) const OWN_SCHEMA_VERSION: i64 = 5;

struct Table {
    name: &'static str,
    columns: &'static [(&'static str, &'static str)],
    constraint: &'static str,
}

const HERMES_TABLES: [Table; 6] = [
    Table {
        name: "schema_version",
        columns: &[("version", "INTEGER NOT NULL")],
        constraint: "",
    },
    Table {
        name: "state_meta",
        columns: &[("key", "TEXT PRIMARY KEY"), ("value", "TEXT")],
        constraint: "",
    },
    Table {
        name: "sessions",
        columns: &[
            ("id", "TEXT PRIMARY KEY"),
            ("source", "TEXT NOT NULL"),
            ("user_id", "TEXT"),
            ("session_key", "TEXT"),
            ("chat_id", "TEXT"),
            ("chat_type", "TEXT"),
            ("thread_id", "TEXT"),
            ("display_name", "TEXT"),
            ("origin_json", "TEXT"),
            ("expiry_finalized", "INTEGER DEFAULT 0"),
            ("model", "TEXT"),
            ("model_config", "TEXT"),
            ("system_prompt", "TEXT"),
            ("parent_session_id", "TEXT REFERENCES sessions(id)"),
            ("started_at", "REAL NOT NULL"),
            ("ended_at", "REAL"),
            ("end_reason", "TEXT"),
            ("message_count", "INTEGER DEFAULT 0"),
            ("tool_call_count", "INTEGER DEFAULT 0"),
            ("input_tokens", "INTEGER DEFAULT 0"),
            ("output_tokens", "INTEGER DEFAULT 0"),
            ("cache_read_tokens", "INTEGER DEFAULT 0"),
            ("cache_write_tokens", "INTEGER DEFAULT 0"),
            ("reasoning_tokens", "INTEGER DEFAULT 0"),
            ("cwd", "TEXT"),
            ("git_branch", "TEXT"),
            ("git_repo_root", "TEXT"),
            ("billing_provider", "TEXT"),
            ("billing_base_url", "TEXT"),
            ("billing_mode", "TEXT"),
            ("estimated_cost_usd", "REAL"),
            ("actual_cost_usd", "REAL"),
            ("cost_status", "TEXT"),
            ("cost_source", "TEXT"),
            ("pricing_version", "TEXT"),
            ("title", "TEXT"),
            ("api_call_count", "INTEGER DEFAULT 0"),
            ("handoff_state", "TEXT"),
            ("handoff_platform", "TEXT"),
            ("handoff_error", "TEXT"),
            ("compression_failure_cooldown_until", "REAL"),
            ("compression_failure_error", "TEXT"),
            ("compression_fallback_streak", "INTEGER NOT NULL DEFAULT 0"),
            ("profile_name", "TEXT"),
            ("rewind_count", "INTEGER NOT NULL DEFAULT 0"),
            ("archived", "INTEGER NOT NULL DEFAULT 0"),
        ],
        constraint: "",
    },
    Table {
        name: "messages",
        columns: &[
            ("id", "INTEGER PRIMARY KEY AUTOINCREMENT"),
            ("session_id", "TEXT NOT NULL REFERENCES sessions(id)"),
            ("role", "TEXT NOT NULL"),
            ("content", "TEXT"),
            ("tool_call_id", "TEXT"),
            ("tool_calls", "TEXT"),
            ("tool_name", "TEXT"),
            ("effect_disposition", "TEXT"),
            ("timestamp", "REAL NOT NULL"),
            ("token_count", "INTEGER"),
            ("finish_reason", "TEXT"),
            ("reasoning", "TEXT"),
            ("reasoning_content", "TEXT"),
            ("reasoning_details", "TEXT"),
            ("codex_reasoning_items", "TEXT"),
            ("codex_message_items", "TEXT"),
            ("platform_message_id", "TEXT"),
            ("observed", "INTEGER DEFAULT 0"),
            ("active", "INTEGER NOT NULL DEFAULT 1"),
            ("compacted", "INTEGER NOT NULL DEFAULT 0"),
            ("api_content", "TEXT"),
        ],
        constraint: "",
    },
    Table {
        name: "gateway_routing",
        columns: &[
            ("scope", "TEXT NOT NULL DEFAULT ''"),
            ("session_key", "TEXT NOT NULL"),
            ("entry_json", "TEXT NOT NULL"),
            ("updated_at", "REAL NOT NULL"),
        ],
        constraint: ", PRIMARY KEY (scope, session_key)",
    },
    Table {
        name: "compression_locks",
        columns: &[
            ("session_id", "TEXT PRIMARY KEY"),
            ("holder", "TEXT NOT NULL"),
            ("acquired_at", "REAL NOT NULL"),
            ("expires_at", "REAL NOT NULL"),
        ],
        constraint: "",
    },
];

/// Created after the columns, because older files lack some. The names are Hermes', so Hermes does not repeat them.
const HERMES_INDEXES: &str = "
CREATE INDEX IF NOT EXISTS idx_sessions_source ON sessions(source);
CREATE INDEX IF NOT EXISTS idx_sessions_source_id ON sessions(source, id);
CREATE INDEX IF NOT EXISTS idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX IF NOT EXISTS idx_sessions_started ON sessions(started_at DESC);
CREATE INDEX IF NOT EXISTS idx_sessions_session_key ON sessions(session_key, started_at DESC);
CREATE INDEX IF NOT EXISTS idx_sessions_handoff_state ON sessions(handoff_state, started_at);
CREATE INDEX IF NOT EXISTS idx_sessions_gateway_peer
    ON sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC);
CREATE INDEX IF NOT EXISTS idx_messages_session ON messages(session_id, timestamp);
CREATE INDEX IF NOT EXISTS idx_messages_session_active ON messages(session_id, active, timestamp);
CREATE INDEX IF NOT EXISTS idx_messages_platform_msg_id
    ON messages(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_compression_locks_expires ON compression_locks(expires_at);
";

/// Only for a new file. In an old file titles may not be unique, which is left to Hermes.
const TITLE_INDEX: &str = "CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;";

const OWN_TABLES: &str = "
CREATE TABLE IF NOT EXISTS hermesd_schema (version INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS hermesd_sessions_live ON sessions(started_at) WHERE ended_at IS NULL;
CREATE INDEX IF NOT EXISTS hermesd_sessions_left ON sessions(ended_at)
    WHERE end_reason IN ('cli_close', 'agent_close', 'tui_close');
CREATE TABLE IF NOT EXISTS hermesd_handoffs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    platform TEXT NOT NULL,
    note TEXT,
    via TEXT NOT NULL,
    state TEXT NOT NULL,
    stage TEXT,
    stages TEXT,
    error TEXT,
    requested_at REAL NOT NULL,
    ended_at REAL,
    owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    lease_until REAL,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    after_turn INTEGER NOT NULL DEFAULT 0,
    home TEXT,
    opening INTEGER NOT NULL DEFAULT 0,
    thread TEXT,
    session_key TEXT,
    displaced TEXT,
    reply TEXT,
    message_rows TEXT,
    sent_ids TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS hermesd_handoffs_in_flight
    ON hermesd_handoffs(session_id) WHERE state IN ('pending', 'running');
CREATE INDEX IF NOT EXISTS hermesd_handoffs_session ON hermesd_handoffs(session_id);
CREATE TABLE IF NOT EXISTS hermesd_deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    source TEXT NOT NULL,
    session_id TEXT NOT NULL,
    handoff_id INTEGER,
    send_key TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    extra TEXT,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    message_id TEXT,
    error TEXT,
    updated_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS hermesd_deliveries_open
    ON hermesd_deliveries(handoff_id, id) WHERE state IN ('pending', 'sending');
CREATE TABLE IF NOT EXISTS hermesd_inbound (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    platform TEXT NOT NULL,
    message_id TEXT NOT NULL,
    session_key TEXT NOT NULL,
    source TEXT NOT NULL,
    text TEXT NOT NULL,
    files TEXT,
    draft TEXT,
    state TEXT NOT NULL,
    message_row INTEGER,
    error TEXT,
    received_at REAL NOT NULL,
    UNIQUE (platform, session_key, message_id)
);
CREATE INDEX IF NOT EXISTS hermesd_inbound_open ON hermesd_inbound(id) WHERE state IN ('received', 'running');
CREATE TABLE IF NOT EXISTS hermesd_turns (
    session_id TEXT PRIMARY KEY,
    message_row INTEGER NOT NULL,
    running INTEGER NOT NULL,
    words TEXT,
    rows_before INTEGER,
    partial TEXT
);
CREATE TABLE IF NOT EXISTS hermesd_agents (
    session_id TEXT PRIMARY KEY,
    agent TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS hermesd_acp_sessions (
    session_id TEXT PRIMARY KEY,
    command TEXT NOT NULL,
    name TEXT NOT NULL,
    messages INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS hermesd_terminals (
    session_id TEXT PRIMARY KEY,
    tty TEXT,
    opened_at REAL NOT NULL,
    left_because TEXT,
    interrupted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS hermesd_left (
    session_key TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    went_to TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS hermesd_cursors (
    platform TEXT NOT NULL,
    account TEXT NOT NULL,
    value TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (platform, account)
);
CREATE TABLE IF NOT EXISTS hermesd_homes (
    platform TEXT PRIMARY KEY,
    home TEXT NOT NULL,
    configured TEXT,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS hermesd_people (
    platform TEXT NOT NULL,
    user_id TEXT NOT NULL,
    user_name TEXT,
    code TEXT UNIQUE,
    source TEXT NOT NULL,
    asked_at REAL NOT NULL,
    approved_at REAL,
    PRIMARY KEY (platform, user_id)
);
CREATE TABLE IF NOT EXISTS hermesd_local_threads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat_id TEXT NOT NULL,
    title TEXT NOT NULL,
    open_key TEXT UNIQUE,
    created_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS hermesd_local_messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    author TEXT NOT NULL,
    text TEXT NOT NULL,
    send_key TEXT UNIQUE,
    at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS hermesd_local_messages_thread ON hermesd_local_messages(chat_id, thread_id, id);
";

/// In version 1 the times of stages had their own table.
const FROM_VERSION_1: &str = "
ALTER TABLE hermesd_handoffs ADD COLUMN stages TEXT;
UPDATE hermesd_handoffs SET stages =
    (SELECT json_group_object(stage, at) FROM hermesd_stages WHERE handoff_id = hermesd_handoffs.id);
DROP TABLE hermesd_stages;
DROP INDEX hermesd_handoffs_running;
DROP INDEX hermesd_handoffs_completed;
DROP INDEX hermesd_deliveries_handoff;
DROP INDEX hermesd_deliveries_open;
";

/// In version 2 a handoff could not wait for the end of a turn.
const FROM_VERSION_2: &str =
    "ALTER TABLE hermesd_handoffs ADD COLUMN after_turn INTEGER NOT NULL DEFAULT 0;";

/// In version 3 the embedded platform was the only one.
const FROM_VERSION_3: &str = "
ALTER TABLE hermesd_handoffs ADD COLUMN opening INTEGER NOT NULL DEFAULT 0;
ALTER TABLE hermesd_deliveries ADD COLUMN extra TEXT;
ALTER TABLE hermesd_inbound ADD COLUMN files TEXT;
ALTER TABLE hermesd_inbound ADD COLUMN draft TEXT;
";

/// In version 4 a terminal that left during a handoff was not recorded.
const FROM_VERSION_4: &str = "
ALTER TABLE hermesd_terminals ADD COLUMN left_because TEXT;
ALTER TABLE hermesd_terminals ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;
";

/// Adds missing parts, in the open transaction. A complete file is only read.
pub(super) fn bring_up(connection: &Connection) -> Result<(), StoreError> {
    match is_complete(connection)? {
        true => Ok(()),
        false => make_missing(connection),
    }
}

fn make_missing(connection: &Connection) -> Result<(), StoreError> {
    let fresh = !table_exists(connection, "sessions")?;
    for table in &HERMES_TABLES {
        if !table_exists(connection, table.name)? {
            let columns: Vec<String> = table
                .columns
                .iter()
                .map(|(name, kind)| format!("{name} {kind}"))
                .collect();
            connection.execute_batch(&format!(
                "CREATE TABLE {} ({}{})",
                table.name,
                columns.join(", "),
                table.constraint
            ))?;
        }
        for (name, kind) in missing_columns(connection, table)? {
            connection.execute_batch(&format!(
                "ALTER TABLE {} ADD COLUMN {name} {kind}",
                table.name
            ))?;
        }
    }
    connection.execute_batch(HERMES_INDEXES)?;
    if fresh {
        connection.execute_batch(TITLE_INDEX)?;
        connection.execute(
            "INSERT INTO schema_version (version) VALUES (?1)",
            [HERMES_SCHEMA_VERSION],
        )?;
        fulltext::create(connection)?;
    }
    if table_exists(connection, "hermesd_stages")? {
        connection.execute_batch(FROM_VERSION_1)?;
    }
    let journal = columns(connection, "hermesd_handoffs")?;
    if !journal.is_empty() && !journal.iter().any(|column| column == "after_turn") {
        connection.execute_batch(FROM_VERSION_2)?;
    }
    if !journal.is_empty() && !journal.iter().any(|column| column == "opening") {
        connection.execute_batch(FROM_VERSION_3)?;
    }
    let terminals = columns(connection, "hermesd_terminals")?;
    if !terminals.is_empty() && !terminals.iter().any(|column| column == "left_because") {
        connection.execute_batch(FROM_VERSION_4)?;
    }
    let aside = numbered::set_aside(connection)?;
    connection.execute_batch(OWN_TABLES)?;
    numbered::put_back(connection, aside)?;
    connection.execute_batch("DELETE FROM hermesd_schema")?;
    connection.execute(
        "INSERT INTO hermesd_schema (version) VALUES (?1)",
        [OWN_SCHEMA_VERSION],
    )?;
    Ok(())
}

/// Whether nothing is missing. Our indexes on a table of Hermes vanish if Hermes creates the table again.
pub(super) fn is_complete(connection: &Connection) -> Result<bool, StoreError> {
    if !table_exists(connection, "hermesd_schema")? {
        return Ok(false);
    }
    let version: Option<i64> = connection
        .query_row("SELECT version FROM hermesd_schema", [], |row| row.get(0))
        .optional()?;
    if version != Some(OWN_SCHEMA_VERSION) {
        return Ok(false);
    }
    for table in &HERMES_TABLES {
        if !missing_columns(connection, table)?.is_empty() {
            return Ok(false);
        }
    }
    let indexes: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name IN ('hermesd_sessions_live', 'hermesd_sessions_left')",
        [],
        |row| row.get(0),
    )?;
    Ok(indexes == 2)
}

fn missing_columns(
    connection: &Connection,
    table: &Table,
) -> Result<Vec<(&'static str, &'static str)>, StoreError> {
    let present = columns(connection, table.name)?;
    Ok(table
        .columns
        .iter()
        .copied()
        .filter(|(name, _)| !present.iter().any(|p| p == name))
        .collect())
}

pub(super) fn columns(connection: &Connection, table: &str) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let names = statement
        .query_map([table], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(names)
}

pub(super) fn table_exists(connection: &Connection, name: &str) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1)";
    Ok(connection.query_row(sql, [name], |row| row.get(0))?)
}

/// Why neither Hermes nor hermesd can have made this file, if so. An empty database is accepted.
pub(super) fn objection(
    connection: &Connection,
    path: &Path,
) -> Result<Option<StoreError>, StoreError> {
    let foreign = |why: String| {
        Ok(Some(StoreError::Foreign {
            path: path.to_owned(),
            why,
        }))
    };
    // `application_id` is not evidence: Hermes 0.21 gives each file a number of its own.
    let tables: i64 = connection.query_row(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table'",
        [],
        |row| row.get(0),
    )?;
    if tables == 0 {
        return Ok(None);
    }
    for (table, needed) in [
        ("sessions", &["id", "source", "started_at"][..]),
        (
            "messages",
            &["id", "session_id", "role", "content", "timestamp"][..],
        ),
    ] {
        if !table_exists(connection, table)? {
            return foreign(format!("it has no table {table}"));
        }
        let present = columns(connection, table)?;
        if let Some(missing) = needed.iter().find(|n| !present.iter().any(|p| p == *n)) {
            return foreign(format!("its table {table} has no column {missing}"));
        }
    }
    Ok(None)
}
