//! Files of a Hermes that nobody knows yet: what can be served is served, and the rest can be read.

use std::path::Path;

use rusqlite::Connection;

use crate::store::open::home_of;
use crate::support::{Home, until};

const PARSER: &str = "20260101_090000_aaaaaa";

/// A trigger that refuses every message.
const REFUSING: &str =
    "CREATE TRIGGER tenants BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'no tenant'); END";

fn changed(fixture: &str, sql: &str) -> Home {
    let home = home_of(fixture);
    let other = home.sqlite();
    other.execute_batch(sql).unwrap();
    let log: String = other
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    if log == "wal" {
        other
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
    }
    home
}

fn bytes(home: &Home) -> Vec<u8> {
    std::fs::read(home.path().join("state.db")).unwrap()
}

fn ask(c: &Connection, state: &str) {
    let sql = "UPDATE sessions SET handoff_state = ?2, handoff_platform = 'local' WHERE id = ?1";
    c.execute(sql, [PARSER, state]).unwrap();
}

fn until_state(home: &Home, state: &str) {
    until(state, || {
        let sql = "SELECT handoff_state FROM sessions WHERE id = ?1";
        let is: Option<String> = home
            .sqlite()
            .query_row(sql, [PARSER], |row| row.get(0))
            .unwrap();
        (is.as_deref() == Some(state)).then_some(())
    });
}

#[test]
fn a_number_that_nobody_knows_is_one_line_in_the_log() {
    let home = changed(
        "hermes-schema-30.db",
        "UPDATE schema_version SET version = 99; ALTER TABLE sessions ADD COLUMN mood TEXT NOT NULL DEFAULT '';
         CREATE TRIGGER moods AFTER INSERT ON sessions BEGIN UPDATE sessions SET mood = 'new' WHERE id = new.id; END",
    );
    let generation = |c: &Connection| -> (i64, String) {
        let id = c.query_row("PRAGMA application_id", [], |row| row.get(0));
        let sql = "SELECT value FROM state_meta WHERE key = 'db_file_generation'";
        let of_file = c.query_row(sql, [], |row| row.get(0));
        (id.unwrap(), of_file.unwrap())
    };
    let before = generation(&home.sqlite());
    assert_ne!(before.0, 0);
    let daemon = home.start();
    ask(&home.sqlite(), "pending");
    until_state(&home, "completed");
    let log = daemon.log();
    assert_eq!(
        log.matches("schema 99 is newer than tested (30)").count(),
        1,
        "{log}"
    );
    assert!(log.contains("moods"), "the trigger is named: {log}");
    assert_eq!(generation(&home.sqlite()), before);
    let version: i64 = home
        .sqlite()
        .query_row("SELECT version FROM schema_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(version, 99);
}

/// No daemon serves this home, for this reason; the file is as it was, and its sessions can be read.
fn only_readable(home: &Home, why: &str) {
    let before = bytes(home);
    let ran = home.hermesd(&[]);
    assert_eq!(ran.code, 65, "{ran:?}");
    assert!(ran.stderr.contains(why), "{ran:?}");
    let ran = home.hermesctl(&["handoff", "local", "--session", PARSER]);
    assert!(ran.code != 0 && ran.stderr.contains(why), "{ran:?}");
    for (arguments, shows) in [
        (&["sessions", "list"][..], "Fix the parser"),
        (&["sessions", "show", PARSER], "Fix the parser"),
        (&["sessions", "search", "parser"], PARSER),
        (&["sessions", "export", PARSER], "Fix the parser"),
    ] {
        let ran = home.hermesctl(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains(shows), "{arguments:?}: {ran:?}");
        assert!(
            ran.stderr.contains("can only be read") && ran.stderr.contains(why),
            "{ran:?}"
        );
    }
    let ran = home.hermesctl(&["sessions", "rename", PARSER, "Other"]);
    assert!(ran.code != 0 && ran.stderr.contains(why), "{ran:?}");
    assert!(bytes(home) == before, "the file was changed");
    assert!(!Path::new(&home.path().join("state.db-journal")).exists());
}

#[test]
fn a_trigger_that_refuses_our_rows_leaves_the_file_to_readers() {
    for fixture in ["hermes-schema-30.db", "hermes-0.20.5-delete.db"] {
        let home = changed(fixture, REFUSING);
        only_readable(&home, "no tenant");
        let ran = home.hermesd(&[]);
        assert!(
            ran.stderr.contains("INSERT INTO messages"),
            "the statement is named: {ran:?}"
        );
    }
}

#[test]
fn a_column_that_must_be_set_leaves_the_file_to_readers() {
    let home = changed(
        "hermes-schema-30.db",
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_master SET sql = replace(sql, 'tool_names TEXT,', 'tool_names TEXT, tenant TEXT NOT NULL,')
         WHERE name = 'sessions';",
    );
    only_readable(&home, "NOT NULL constraint failed: sessions.tenant");
}

#[test]
fn a_trigger_that_counts_for_us_leaves_the_file_to_readers() {
    let home = changed(
        "hermes-schema-30.db",
        "CREATE TRIGGER counts AFTER INSERT ON messages BEGIN
           UPDATE sessions SET message_count = message_count + 1 WHERE id = new.session_id; END",
    );
    only_readable(&home, "a trigger counts the messages");
}

#[test]
fn a_schema_that_changes_under_the_daemon_is_looked_at_again() {
    let home = home_of("hermes-0.20.5.db");
    let mut daemon = home.start();
    // What Hermes does at an upgrade: a column, and a table made anew, without what others had hung on it.
    home.sqlite()
        .execute_batch(
            "ALTER TABLE sessions ADD COLUMN created_source TEXT; DROP INDEX hermesd_sessions_live;",
        )
        .unwrap();
    until("it looks", || {
        daemon.log().contains("changed the schema").then_some(())
    });
    ask(&home.sqlite(), "pending");
    until_state(&home, "completed");
    let sql = "SELECT count(*) FROM sqlite_master WHERE name = 'hermesd_sessions_live'";
    let made: i64 = home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(made, 1);

    home.sqlite().execute_batch(REFUSING).unwrap();
    assert_eq!(daemon.wait().code(), Some(65));
    let log = daemon.log();
    assert!(
        log.contains("no tenant") && log.contains("INSERT INTO messages"),
        "{log}"
    );
}
