//! A database without a write-ahead log, as Hermes keeps it where its own SQLite has faults with one. It stays so, and hermesd
//! serves it as promptly.

use std::path::Path;

use hermesd::protocol::{Call, HandoffId, HandoffRequest, HandoffView};

use crate::store::open::home_of;
use crate::support::{Home, eventually, until};

const PARSER: &str = "20260101_090000_aaaaaa";

/// What the header of the file says: 1 is a rollback journal, 2 a write-ahead log.
fn format_of(path: &Path) -> [u8; 2] {
    let bytes = std::fs::read(path).unwrap();
    [bytes[18], bytes[19]]
}

fn without_log() -> Home {
    let home = home_of("hermes-0.20.5-delete.db");
    assert_eq!(format_of(&home.path().join("state.db")), [1, 1]);
    home
}

fn stays_without_log(home: &Home) {
    assert_eq!(format_of(&home.path().join("state.db")), [1, 1]);
    for beside in ["state.db-wal", "state.db-shm", "state.db-journal"] {
        assert!(!home.path().join(beside).exists(), "{beside}");
    }
}

fn request(home: &Home) {
    let sql =
        "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local' WHERE id = ?1";
    home.sqlite().execute(sql, [PARSER]).unwrap();
}

fn state_of(home: &Home, id: &str) -> Option<String> {
    let sql = "SELECT handoff_state FROM sessions WHERE id = ?1";
    home.sqlite()
        .query_row(sql, [id], |row| row.get(0))
        .unwrap()
}

#[test]
fn a_database_without_a_log_is_served_and_stays_without_one() {
    let home = without_log();
    // Nothing but the watcher can notice the request.
    let daemon = home.start_with(&[("HERMESD_HANDOFF_POLL_INTERVAL", "0")]);
    request(&home);
    until("the handoff completes", || {
        (state_of(&home, PARSER).as_deref() == Some("completed")).then_some(())
    });
    let talk = home.pipe_into_hermesctl("Go on, please.\n", &["attach", "local/1"]);
    let talk = talk.end();
    assert_eq!(talk.code, 0, "{talk:?}");
    let found = home.hermesctl(&["sessions", "search", "please"]);
    assert!(found.stdout.contains(PARSER), "{found:?}");
    let home_again = home.hermesctl(&["resume", PARSER]);
    assert_eq!(home_again.code, 0, "{home_again:?}");
    assert!(daemon.stop().success());
    stays_without_log(&home);
}

#[tokio::test]
async fn readers_and_writers_wait_for_each_other_and_nothing_is_lost() {
    let home = without_log();
    let daemon = home.start();
    let client = daemon.client().await;
    // Another program reads: no commit can end before it does.
    let other = home.sqlite();
    other
        .execute_batch("BEGIN; SELECT count(*) FROM sessions;")
        .unwrap();
    let asked = client.call::<HandoffView>(Call::HandoffRequest(HandoffRequest {
        platform: "local".into(),
        session: Some("Stayed here".into()),
        ..HandoffRequest::default()
    }));
    tokio::pin!(asked);
    let begun = eventually("the commit begins", || {
        let journal = home.path().join("state.db-journal");
        std::future::ready(journal.exists().then_some(()))
    });
    tokio::select! {
        biased;
        _ = &mut asked => panic!("answered before its commit"),
        () = begun => {}
    }
    other.execute_batch("COMMIT").unwrap();
    let handoff = asked.await.unwrap();
    let wait = Call::HandoffWait(HandoffId { id: handoff.id });
    let ended: HandoffView = client.call(wait).await.unwrap();
    assert_eq!(ended.state, "completed");

    // Many of both at once.
    let searches: Vec<_> = (0..4)
        .map(|_| home.spawn_hermesctl(&["sessions", "search", "parser"], &[]))
        .collect();
    let ids: Vec<String> = (0..12)
        .map(|n| format!("20260201_09000{n:02}_bbbbbb"))
        .collect();
    for id in &ids {
        let sql = "INSERT INTO sessions (id, source, started_at, handoff_state, handoff_platform)
                   VALUES (?1, 'cli', 1, 'pending', 'local')";
        home.sqlite().execute(sql, [id]).unwrap();
    }
    until("all are handed off", || {
        ids.iter()
            .all(|id| state_of(&home, id).as_deref() == Some("completed"))
            .then_some(())
    });
    for search in searches {
        assert_eq!(search.end().code, 0);
    }
    assert!(daemon.stop().success());
    drop(other);
    stays_without_log(&home);
}

#[test]
fn what_a_killed_program_left_half_written_is_rolled_back() {
    let before = without_log();
    let other = before.sqlite();
    // A small cache makes SQLite write into the file before the commit; the copy is what a kill would leave.
    other
        .execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE; UPDATE messages SET content = 'half written ' || hex(zeroblob(3000));")
        .unwrap();
    let home = Home::new();
    for file in ["state.db", "state.db-journal"] {
        std::fs::copy(before.path().join(file), home.path().join(file)).unwrap();
    }
    other.execute_batch("ROLLBACK").unwrap();
    let daemon = home.start();
    let found = home.hermesctl(&["sessions", "transcript", PARSER]);
    assert_eq!(found.code, 0, "{found:?}");
    assert!(!found.stdout.contains("half written"), "{found:?}");
    assert!(daemon.stop().success());
}

#[test]
fn a_fresh_file_gets_a_log_unless_hermes_keeps_it_out() {
    let home = Home::new();
    assert!(home.start().stop().success());
    assert_eq!(format_of(&home.path().join("state.db")), [2, 2]);
    let home = Home::new();
    home.write("config.yaml", "database:\n  journal_mode: delete\n");
    assert!(home.start().stop().success());
    stays_without_log(&home);
}
