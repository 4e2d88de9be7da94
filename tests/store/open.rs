//! Opening `state.db`: files that every released Hermes made, fresh ones, and those that are refused and left untouched.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use hermesd::store::{HERMES_SCHEMA_VERSION, OpenMode, Store, StoreError};
use rusqlite::Connection;

use crate::support::{Home, skipped, until};

const VERSIONS: [&str; 10] = [
    "0.13.0",
    "0.14.0",
    "0.15.2",
    "0.16.0",
    "0.17.0",
    "0.18.2",
    "0.19.0",
    "0.19.0-upgraded-to-0.20.5",
    "0.20.5",
    "schema-30",
];

/// A home with the database that this version of Hermes made.
fn fixture(version: &str) -> Home {
    home_of(&format!("hermes-{version}.db"))
}

pub fn home_of(file: &str) -> Home {
    let home = Home::new();
    let file: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests/fixtures", file]
        .iter()
        .collect();
    std::fs::copy(file, home.path().join("state.db")).unwrap();
    home
}

/// Tables, columns, indexes and triggers by name, with what a rewrite would change.
fn schema(connection: &Connection) -> Vec<String> {
    let mut statement = connection
        .prepare(
            "SELECT m.type || ' ' || m.name || ' ' || COALESCE(c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || COALESCE(c.dflt_value, ''), m.sql, '')
             FROM sqlite_master m LEFT JOIN pragma_table_info(m.name) c ON m.type = 'table' ORDER BY 1",
        )
        .unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn rows(connection: &Connection, table: &str, columns: &str) -> Vec<String> {
    let mut statement = connection
        .prepare(&format!(
            "SELECT json_array({columns}) FROM {table} ORDER BY 1"
        ))
        .unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[tokio::test]
async fn a_database_of_every_hermes_gets_what_is_missing_and_keeps_all_it_has() {
    for version in VERSIONS {
        let home = fixture(version);
        let contents = |c: &Connection| {
            (
                rows(c, "sessions", "id, source, title, started_at"),
                rows(c, "messages", "id, role, content, timestamp"),
                rows(c, "schema_version", "version"),
            )
        };
        let (before, content) = (schema(&home.sqlite()), contents(&home.sqlite()));
        drop(home.store());
        let after = schema(&home.sqlite());
        assert!(
            before.iter().all(|line| after.contains(line)),
            "{version}: something of Hermes' was changed"
        );
        assert_eq!(contents(&home.sqlite()), content, "{version}");
        // Once more changes nothing.
        drop(home.store());
        assert_eq!(schema(&home.sqlite()), after, "{version}");
    }
}

#[tokio::test]
async fn a_pending_row_in_a_database_of_every_hermes_is_handed_off() {
    for version in VERSIONS {
        let home = fixture(version);
        home.sqlite()
            .execute(
                "UPDATE sessions SET handoff_platform = 'local' WHERE handoff_state = 'pending'",
                [],
            )
            .unwrap();
        let _daemon = home.start();
        until("the handoff completes", || {
            let sql = "SELECT count(*) FROM sessions WHERE handoff_state = 'completed' AND title = 'Fix the parser'";
            (home
                .sqlite()
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .unwrap()
                == 1)
                .then_some(())
        });
        // Hermes' own triggers have indexed the reply.
        let sql = "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'whenever'";
        assert_eq!(
            home.sqlite()
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .unwrap(),
            1,
            "{version}"
        );
    }
}

#[tokio::test]
async fn the_lineage_is_followed_and_parts_are_read_in_a_real_database() {
    let home = fixture("0.19.0");
    let store = home.store();
    assert_eq!(
        store.tip("20260103_090000_cccccc").await.unwrap(),
        "20260103_100000_dddddd"
    );
    let transcript = store.transcript("20260102_090000_bbbbbb").await.unwrap();
    assert!(
        transcript.messages[0].plain().contains("[image_url]"),
        "{transcript:?}"
    );
    let transcript = store.transcript("20260101_090000_aaaaaa").await.unwrap();
    assert_eq!(transcript.messages[1].tool_calls.len(), 1);
}

#[test]
fn a_fresh_database_is_what_hermes_would_have_made() {
    let (home, reference) = (Home::new(), fixture("0.19.0"));
    drop(home.store());
    let ours = home.sqlite();
    let hermes = reference.sqlite();
    // Same columns in every table that we make, same indexes and triggers on them.
    for table in [
        "sessions",
        "messages",
        "gateway_routing",
        "state_meta",
        "schema_version",
        "compression_locks",
    ] {
        let columns = |c: &Connection| {
            rows(
                c,
                &format!("pragma_table_info('{table}')"),
                "name, type, \"notnull\", dflt_value, pk",
            )
        };
        assert_eq!(columns(&ours), columns(&hermes), "{table}");
        let on = |c: &Connection| {
            rows(c, "sqlite_master", "type, name")
                .into_iter()
                .filter(|line| line.contains(table) && !line.contains("hermesd_"))
                .collect::<Vec<_>>()
        };
        let theirs = on(&hermes);
        assert!(
            on(&ours).iter().all(|line| theirs.contains(line)),
            "{table}"
        );
    }
    let version: i64 = ours
        .query_row("SELECT version FROM schema_version", [], |row| row.get(0))
        .unwrap();
    assert_eq!(version, HERMES_SCHEMA_VERSION);
}

/// Refused by the library and by both programs, and not one byte of it changed.
fn refused(home: &Home, wanted: fn(&StoreError) -> bool, words: &str) {
    let path = home.path().join("state.db");
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(home.path(), OpenMode::Create, &Default::default())
        .err()
        .expect("a refusal");
    assert!(wanted(&error), "{error:?}");
    let daemon = home.hermesd(&[]);
    assert_eq!(daemon.code, 65, "{daemon:?}");
    assert!(daemon.stderr.contains(words), "{}", daemon.stderr);
    assert_eq!(home.hermesctl(&["sessions"]).code, 3);
    assert!(
        std::fs::read(&path).unwrap() == before,
        "the file was changed"
    );
}

#[test]
fn foreign_corrupt_and_newer_files_are_refused_and_left_untouched() {
    let home = Home::new();
    home.write("state.db", "this is a shopping list, and a rather long one at that, so that it is longer than a header");
    refused(
        &home,
        |e| matches!(e, StoreError::Foreign { .. }),
        "not a Hermes database",
    );

    let home = Home::new();
    home.sqlite()
        .execute_batch("CREATE TABLE recipes (id INTEGER)")
        .unwrap();
    refused(
        &home,
        |e| matches!(e, StoreError::Foreign { .. }),
        "no table sessions",
    );

    let home = Home::new();
    home.sqlite()
        .execute_batch(
            "CREATE TABLE sessions (id TEXT, user TEXT); CREATE TABLE messages (id INTEGER)",
        )
        .unwrap();
    refused(
        &home,
        |e| matches!(e, StoreError::Foreign { .. }),
        "no column source",
    );

    let home = fixture("0.19.0");
    let mut bytes = std::fs::read(home.path().join("state.db")).unwrap();
    bytes[100..600].fill(0xff);
    std::fs::write(home.path().join("state.db"), bytes).unwrap();
    refused(
        &home,
        |e| matches!(e, StoreError::Corrupt { .. }),
        "damaged",
    );

    let home = fixture("0.19.0");
    drop(home.store());
    home.sqlite()
        .execute_batch("UPDATE hermesd_schema SET version = 99; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    refused(
        &home,
        |e| matches!(e, StoreError::Newer { .. }),
        "upgrade hermesd",
    );
}

#[test]
fn a_file_that_cannot_be_written_is_refused() {
    // Root may write everything, so the daemon runs as nobody here.
    if !nix::unistd::Uid::effective().is_root() {
        skipped("only root can become another user");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let home = fixture("0.19.0");
    let readable = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
    };
    readable(home.path(), 0o755);
    readable(&home.path().join("state.db"), 0o444);
    std::fs::write(home.path().join("hermesd.lock"), "").unwrap();
    std::fs::write(home.path().join("gateway.lock"), "").unwrap();
    for lock in ["hermesd.lock", "gateway.lock"] {
        readable(&home.path().join(lock), 0o666);
    }
    // The test's build directory may be closed to nobody, so the binary comes along.
    let program = home.path().join("hermesd");
    std::fs::copy(env!("CARGO_BIN_EXE_hermesd"), &program).unwrap();
    readable(&program, 0o755);
    let ran = home.run(
        home.command(program.to_str().unwrap())
            .uid(65534)
            .gid(65534),
    );
    assert_eq!(ran.code, 65, "{ran:?}");
    assert!(ran.stderr.contains("cannot be written"), "{}", ran.stderr);
}

#[test]
fn an_empty_file_is_nobodys_yet() {
    let home = Home::new();
    home.write("state.db", "");
    assert_eq!(
        home.hermesctl(&["sessions"]).code,
        6,
        "a reader makes nothing"
    );
    drop(home.store());
}

#[tokio::test]
async fn a_journal_of_every_version_keeps_its_times_and_is_gone_on_with() {
    for (file, claimed_at) in [
        ("hermesd-1.db", 1794810090.860106),
        ("hermesd-2.db", 1794834257.974861),
        ("hermesd-3.db", 1794845267.978385),
        ("hermesd-4.db", 1794932958.360367),
    ] {
        check_journal(file, claimed_at);
    }
}

fn check_journal(file: &str, claimed_at: f64) {
    let home = home_of(file);
    let _daemon = home.start();
    let resumed = until("the handoff that was left at `bound` ends", || {
        let handoff = home.hermesctl(&["--json", "handoffs", "show", "2"]).json();
        (handoff["state"] == "completed").then_some(handoff)
    });
    let ended = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
    for handoff in [&resumed, &ended] {
        let stages: Vec<&str> = handoff["stages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|reached| reached["stage"].as_str().unwrap())
            .collect();
        let all = hermesd::domain::HandoffStage::ALL.map(hermesd::domain::HandoffStage::as_str);
        assert_eq!(stages, all, "{handoff}");
    }
    assert_eq!(ended["stages"][0]["at"], claimed_at);
}
