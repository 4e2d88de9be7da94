//! A stop leaves `state.db` whole by itself: everything is in it, and nothing in files beside it.

use hermesd::protocol::{Call, SessionList};
use rusqlite::Connection;

use crate::support::{Daemon, Home, SESSION, TITLE, seed_session};

/// No log, or an empty one.
fn has_no_log(home: &Home) -> bool {
    let log = home.path().join("state.db-wal");
    log.metadata().map_or(true, |log| log.len() == 0)
}

/// The database file alone, as a backup takes it.
fn copy(home: &Home, to: &Home) -> Connection {
    let from = home.path().join("state.db");
    std::fs::copy(from, to.path().join("state.db")).unwrap();
    let copy = to.sqlite();
    let check: String = copy
        .query_row("PRAGMA quick_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(check, "ok");
    copy
}

fn handoff_state(connection: &Connection) -> Option<String> {
    let sql = "SELECT handoff_state FROM sessions WHERE id = ?1";
    connection
        .query_row(sql, [SESSION], |row| row.get(0))
        .unwrap()
}

async fn hand_off(home: &Home) -> Daemon {
    seed_session(home).await;
    let daemon = home.start();
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
    daemon
}

#[tokio::test]
async fn a_stop_leaves_a_whole_file_although_a_client_is_connected() {
    let (home, backup) = (Home::new(), Home::new());
    let daemon = hand_off(&home).await;
    let client = daemon.client().await;
    let list = Call::SessionList(SessionList::default());
    let _: serde_json::Value = client.call(list).await.unwrap();
    assert!(!has_no_log(&home), "something is to be brought in");
    assert!(daemon.stop().success());
    assert!(has_no_log(&home));
    let state = handoff_state(&copy(&home, &backup));
    assert_eq!(state.as_deref(), Some("completed"));
    drop(client);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_program_that_reads() {
    let home = Home::new();
    let daemon = hand_off(&home).await;
    let other = home.sqlite();
    other
        .execute_batch("BEGIN; SELECT count(*) FROM messages")
        .unwrap();
    let count = "SELECT count(*) FROM messages";
    let before: i64 = other.query_row(count, [], |row| row.get(0)).unwrap();
    assert!(daemon.stop().success());
    let after: i64 = other.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(before, after, "its view stays as it was");
}

/// Else the next start would take the log of the old file for that of the new one.
#[tokio::test]
async fn a_file_that_was_put_in_place_is_whole_when_the_daemon_has_ended() {
    let (home, backup) = (Home::new(), Home::new());
    seed_session(&home).await;
    drop(copy(&home, &backup));
    let mut daemon = home.start_with(&[("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")]);
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let beside = home.path().join("backup.db");
    std::fs::copy(backup.path().join("state.db"), &beside).unwrap();
    std::fs::rename(&beside, home.path().join("state.db")).unwrap();
    assert_eq!(daemon.wait().code(), Some(1));
    assert!(has_no_log(&home));
    let restored = Home::new();
    assert_eq!(handoff_state(&copy(&home, &restored)), None);
    let daemon = home.start();
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(daemon.stop().success());
}
