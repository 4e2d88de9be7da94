//! Handoffs that have to wait: for a locked database, for a platform, for a chat. The wait costs nothing that was done
//! before it, and a cancellation ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermesd::platform::PlatformError;
use tokio::sync::Semaphore;

use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{Home, SESSION, eventually, picture, seed_session};

/// Waits until the daemon has met the lock of another program so often.
async fn locked_for(daemon: &InProcess, times: usize) {
    daemon.log.says("the database is locked", times).await;
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
    daemon.log.says("a call failed, trying again", 1).await;
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
