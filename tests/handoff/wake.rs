//! Each wake source alone: the socket, inotify on the write-ahead log, the poll. Rows written by a plain `sqlite3`
//! process are picked up at once.

use std::process::Command;

use crate::support::{Home, SESSION, TITLE, seed_session, until};

/// Never within the life of a test.
const NO_POLL: (&str, &str) = ("HERMESD_HANDOFF_POLL_INTERVAL", "0");
const NO_WATCH: (&str, &str) = ("HERMESD_HANDOFF_WATCH", "false");
/// The queue's clock follows the lease when the poll is off; a long one keeps it out of the way.
const LONG_LEASE: (&str, &str) = ("HERMESD_HANDOFF_LEASE", "1h");

fn completed(home: &Home) {
    until("the handoff completes", || {
        let state: Option<String> = home
            .sqlite()
            .query_row("SELECT handoff_state FROM sessions", [], |row| row.get(0))
            .unwrap();
        assert_ne!(state.as_deref(), Some("failed"));
        (state.as_deref() == Some("completed")).then_some(())
    });
}

/// A process that knows nothing of us: Debian's sqlite3 when there is one, else Python's.
fn write_with_another_program(home: &Home) {
    let database = home.path().join("state.db");
    let sql = format!(
        "UPDATE sessions SET handoff_state='pending', handoff_platform='local', handoff_error=NULL WHERE id='{SESSION}'"
    );
    let with_sqlite = Command::new("sqlite3")
        .args(["-cmd", ".timeout 5000"])
        .arg(&database)
        .arg(&sql)
        .status();
    if with_sqlite.is_ok_and(|status| status.success()) {
        return;
    }
    let program = "import sqlite3,sys\nc=sqlite3.connect(sys.argv[1],timeout=5)\nc.execute(sys.argv[2])\nc.commit()";
    let with_python = Command::new("python3")
        .args(["-c", program])
        .arg(&database)
        .arg(&sql)
        .status();
    assert!(with_python.expect("sqlite3 or python3").success());
}

#[tokio::test]
async fn the_socket_alone_wakes_the_queue() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[NO_POLL, NO_WATCH, LONG_LEASE]);
    assert_eq!(
        home.hermesctl(&["handoff", "local", "--session", TITLE])
            .code,
        0
    );
}

#[tokio::test]
async fn inotify_alone_picks_up_a_row_of_a_plain_sqlite_process() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[NO_POLL, LONG_LEASE]);
    write_with_another_program(&home);
    completed(&home);
    let handoff = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
    assert_eq!(handoff["via"], "foreign");
}

#[tokio::test]
async fn inotify_keeps_up_with_row_after_row() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[NO_POLL, LONG_LEASE]);
    for _ in 0..20 {
        write_with_another_program(&home);
        completed(&home);
    }
    let completed: i64 = home
        .sqlite()
        .query_row(
            "SELECT count(*) FROM hermesd_handoffs WHERE state = 'completed'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(completed, 20);
}

#[tokio::test]
async fn the_poll_alone_picks_up_a_row_of_another_program() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[NO_WATCH, ("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")]);
    write_with_another_program(&home);
    completed(&home);
}

#[tokio::test]
async fn with_every_source_off_a_foreign_row_stays_pending() {
    let home = Home::new();
    seed_session(&home).await;
    // Guards the tests above: what they switch off is really off.
    let daemon = home.start_with(&[NO_WATCH, NO_POLL, LONG_LEASE]);
    // The queue has looked once at its start and once when its platform came up; after a handoff both lie behind it.
    let other = home
        .store()
        .create_session("cli", Some("other"), None)
        .await
        .unwrap();
    assert_eq!(
        home.hermesctl(&["handoff", "local", "--session", &other])
            .code,
        0
    );
    write_with_another_program(&home);
    assert_eq!(home.hermesctl(&["status"]).code, 0);
    let sql = "SELECT handoff_state FROM sessions WHERE id = ?1";
    let state: String = home
        .sqlite()
        .query_row(sql, [SESSION], |row| row.get(0))
        .unwrap();
    assert_eq!(state, "pending");
    // A start finds what was left.
    drop(daemon);
    let _daemon = home.start();
    until("the foreign row completes", || {
        let state: String = home
            .sqlite()
            .query_row(sql, [SESSION], |row| row.get(0))
            .unwrap();
        (state == "completed").then_some(())
    });
}
