//! Handoffs that have to wait: for a locked database, for a platform, for a chat. The wait costs nothing that was done
//! before it, and a cancellation ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermesd::domain::{HandoffState, RequestedVia};
use hermesd::platform::PlatformError;
use tokio::sync::Semaphore;

use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{Home, SESSION, add_session, eventually, picture, seed_session};

/// Waits until the daemon has met the lock of another program so often.
async fn locked_for(daemon: &InProcess, times: usize) {
    daemon.log.says("locked by another program", times).await;
}

#[tokio::test]
async fn a_locked_database_delays_the_commit_of_an_answer_and_asks_nothing_again() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let handoff = daemon.ask("telegram", SESSION).await;
    daemon.asked(1).await;
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // A lock counts as busy sooner.
    daemon.store.hurry();
    permits.add_permits(100);
    locked_for(&daemon, 3).await;
    other.execute_batch("COMMIT").unwrap();
    let ended = daemon.ended(handoff.id).await;
    assert_eq!(ended.state, "completed", "{ended:?}");
    assert_eq!(ended.reply.as_deref(), Some("at last"));
    assert_eq!(daemon.agent.asked.lock().unwrap().len(), 1);
    daemon.stop().await;
}

/// The vendor wants the call put off for an hour.
fn much_later() -> PlatformError {
    PlatformError::Transient {
        reason: "too many requests".into(),
        retry_after: Some(Duration::from_secs(3600)),
        unsure: false,
    }
}

#[tokio::test]
async fn a_cancellation_ends_the_wait_for_a_thread_at_once() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let before = picture(&home);
    daemon
        .platform
        .threads
        .lock()
        .unwrap()
        .push_back(much_later());
    let handoff = daemon.ask("telegram", SESSION).await;
    daemon.log.says("call failed, will retry", 1).await;
    daemon.cancel(handoff.id).await;
    let ended = daemon.ended(handoff.id).await;
    assert_eq!(
        (ended.state.as_str(), ended.error.as_deref()),
        ("failed", Some("cancelled"))
    );
    assert_eq!(picture(&home), before);
    daemon.stop().await;
}

#[tokio::test]
async fn a_thread_that_opens_while_it_is_cancelled_is_known_and_told() {
    let home = Home::new();
    seed_session(&home).await;
    let platform = Scripted {
        opening: Semaphore::new(0),
        ..Scripted::default()
    };
    let daemon = InProcess::start_with(&home, &[], platform).await;
    let handoff = daemon.ask("telegram", SESSION).await;
    eventually("the call is under way", || async {
        (daemon.platform.opened.load(Ordering::Relaxed) == 1).then_some(())
    })
    .await;
    let opens = async {
        eventually("the cancellation is written", || async {
            let sql = "SELECT cancel_requested FROM hermesd_handoffs";
            let asked: bool = home.sqlite().query_row(sql, [], |row| row.get(0)).ok()?;
            asked.then_some(())
        })
        .await;
        daemon.platform.opening.add_permits(1);
    };
    tokio::join!(daemon.cancel(handoff.id), opens);
    let ended = daemon.ended(handoff.id).await;
    assert_eq!(
        (ended.state.as_str(), ended.error.as_deref()),
        ("failed", Some("cancelled"))
    );
    assert_eq!(ended.thread.as_deref(), Some("handoff-1"));
    let note = eventually("a note in the thread", || async {
        daemon.platform.sent.lock().unwrap().last().cloned()
    })
    .await;
    assert!(note.0.contains(":failed"), "{note:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_call_that_does_not_end_is_given_up_after_a_cancellation() {
    let home = Home::new();
    seed_session(&home).await;
    let platform = Scripted {
        opening: Semaphore::new(0),
        ..Scripted::default()
    };
    let daemon = InProcess::start_with(&home, &[], platform).await;
    let handoff = daemon.ask("telegram", SESSION).await;
    eventually("the call is under way", || async {
        (daemon.platform.opened.load(Ordering::Relaxed) == 1).then_some(())
    })
    .await;
    daemon.cancel(handoff.id).await;
    let ended = daemon.ended(handoff.id).await;
    assert_eq!(ended.error.as_deref(), Some("cancelled"));
    daemon.stop().await;
}

#[tokio::test]
async fn a_locked_database_delays_the_record_of_a_thread_and_opens_no_other() {
    let home = Home::new();
    seed_session(&home).await;
    let platform = Scripted {
        opening: Semaphore::new(0),
        ..Scripted::default()
    };
    let daemon = InProcess::start_with(&home, &[], platform).await;
    let handoff = daemon.ask("telegram", SESSION).await;
    eventually("the call is under way", || async {
        (daemon.platform.opened.load(Ordering::Relaxed) == 1).then_some(())
    })
    .await;
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    daemon.store.hurry();
    daemon.platform.opening.add_permits(100);
    locked_for(&daemon, 3).await;
    other.execute_batch("COMMIT").unwrap();
    let ended = daemon.ended(handoff.id).await;
    assert_eq!(ended.state, "completed", "{ended:?}");
    assert_eq!(daemon.platform.opened.load(Ordering::Relaxed), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_handoff_that_waits_for_a_chat_leaves_its_place_to_others() {
    let home = Home::new();
    seed_session(&home).await;
    let [second, third] = ["20260101_090000_bbbbbb", "20260101_090000_cccccc"];
    add_session(&home, second, "second");
    add_session(&home, third, "third");
    let platform = Scripted {
        threadless: true,
        ..Scripted::default()
    };
    let settings = [("HERMESD_HANDOFF_PARALLEL", "2")];
    let daemon = InProcess::start_with(&home, &settings, platform).await;
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let one = daemon.ask("telegram", SESSION).await;
    daemon.asked(1).await;
    let two = daemon.ask("telegram", second).await;
    daemon
        .log
        .says("waiting for another handoff to this chat", 1)
        .await;
    let three = daemon.hand_off("local", third).await;
    assert_eq!(three.state, "completed", "{three:?}");
    // The end of the first wakes the second.
    permits.add_permits(1);
    for id in [one.id, two.id] {
        let ended = daemon.ended(id).await;
        assert_eq!(ended.state, "completed", "{ended:?}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn requests_that_wait_for_a_turn_hide_none_behind_them() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    for n in 0..40 {
        let id = format!("20250101_0900{n:02}_aaaaaa");
        home.sqlite()
            .execute_batch(&format!(
                "INSERT INTO sessions (id, source, started_at) VALUES ('{id}', 'cli', {n});
                 INSERT INTO messages (session_id, role, content, timestamp)
                 VALUES ('{id}', 'user', 'words', unixepoch('subsec'));"
            ))
            .unwrap();
        let asked = store.request_handoff(&id, "local", None, RequestedVia::Direct, true);
        asked.await.unwrap();
    }
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local' WHERE id = ?1",
            [SESSION],
        )
        .unwrap();
    let settings = [("HERMESD_HANDOFF_PARALLEL", "1")];
    let daemon = InProcess::start(&home, &settings).await;
    eventually("the request behind them completes", || async {
        let row = store.handoff_state(SESSION).await.unwrap().unwrap();
        (row.state == Some(HandoffState::Completed)).then_some(())
    })
    .await;
    let waiting: i64 = home
        .sqlite()
        .query_row(
            "SELECT count(*) FROM sessions WHERE handoff_state = 'pending'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(waiting, 40);
    daemon.stop().await;
}

#[tokio::test]
async fn a_claim_that_met_a_lock_is_tried_again_without_a_poll() {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite()
        .execute_batch(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'telegram'",
        )
        .unwrap();
    let settings = [
        ("HERMESD_HANDOFF_POLL_INTERVAL", "0"),
        ("HERMESD_HANDOFF_WATCH", "false"),
        ("HERMESD_HANDOFF_LEASE", "1h"),
    ];
    let daemon = InProcess::start_with(&home, &settings, Scripted::never_connected()).await;
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    daemon.store.hurry();
    daemon.platform.connected.add_permits(1);
    locked_for(&daemon, 1).await;
    other.execute_batch("COMMIT").unwrap();
    let store = home.store();
    eventually("it is claimed and completes", || async {
        let row = store.handoff_state(SESSION).await.unwrap().unwrap();
        (row.state == Some(HandoffState::Completed)).then_some(())
    })
    .await;
    daemon.stop().await;
}
