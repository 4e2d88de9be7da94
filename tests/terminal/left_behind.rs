//! A terminal that leaves while a handoff of its session is in flight: the handoff's end decides whether the session ends.

use hermesd::client::{Client, News};
use hermesd::domain::RequestedVia;
use hermesd::platform::local;
use hermesd::protocol::{
    Call, EventKind, EventsSubscribe, HandoffId, HandoffView, Nothing, ResumedView, SessionResume,
};
use serde_json::Value;

use crate::support::scripted::{InProcess, Mood};
use crate::support::{Home, SESSION, eventually, home_channel, no_thread, seed_session};
use crate::terminal::sessions::{kind, open, say};

/// Source and end of the session's row, and how many terminals wait to be finalised.
fn row(home: &Home) -> (String, Option<String>, i64) {
    let sql = "SELECT source, end_reason, (SELECT count(*) FROM hermesd_terminals) FROM sessions WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    home.sqlite()
        .query_row(sql, [SESSION], read)
        .expect("a session")
}

async fn is_finalised(home: &Home) {
    eventually("the session is finalised", || async {
        let finalised = ("cli".to_owned(), Some("cli_close".to_owned()), 0);
        (row(home) == finalised).then_some(())
    })
    .await;
}

async fn leave(client: &Client) {
    let _: Value = client.call(Call::ChatLeave(Nothing {})).await.unwrap();
}

/// A terminal has left during the agent's turn of a handoff.
async fn left_during_a_handoff(home: &Home, daemon: &InProcess) -> i64 {
    daemon.set_mood(SESSION, Mood::Hang);
    let client = Client::connect(&home.socket()).await.unwrap();
    open(&client, Some(SESSION)).await.unwrap();
    let asked = daemon.ask("telegram", SESSION).await;
    eventually("the agent is asked", || async {
        (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    leave(&client).await;
    assert_eq!(row(home), ("telegram".into(), None, 1));
    asked.id
}

async fn cancel(daemon: &InProcess, id: i64) {
    let call = Call::HandoffCancel(HandoffId { id });
    let _: HandoffView = daemon.client.call(call).await.unwrap();
}

/// Withdraws the handoff, as Hermes' CLI does after a minute.
fn withdraw(home: &Home) {
    home.sqlite()
        .execute("UPDATE sessions SET handoff_state = 'failed'", [])
        .unwrap();
}

#[tokio::test]
async fn a_handoff_that_fails_after_its_terminal_left_ends_the_session_once() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let listener = Client::connect(&home.socket()).await.unwrap();
    let wish = EventsSubscribe {
        topics: vec!["session".into()],
        session: None,
    };
    let _: Value = listener.call(Call::EventsSubscribe(wish)).await.unwrap();
    let id = left_during_a_handoff(&home, &daemon).await;
    cancel(&daemon, id).await;
    is_finalised(&home).await;
    // Opened again and closed again: that is the second end, and no other came before it.
    open(&daemon.client, Some(SESSION)).await.unwrap();
    leave(&daemon.client).await;
    let mut told = Vec::new();
    while told.len() < 4 {
        if let Some(News::Event(event)) = listener.news().await {
            match event.event {
                EventKind::SessionStarted { .. } => told.push("started"),
                EventKind::SessionEnded { .. } => told.push("ended"),
                _ => {}
            }
        }
    }
    assert_eq!(told, ["started", "ended", "started", "ended"]);
    daemon.stop().await;
}

#[tokio::test]
async fn a_handoff_that_another_program_withdraws_ends_the_session_that_its_terminal_left() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")]).await;
    left_during_a_handoff(&home, &daemon).await;
    withdraw(&home);
    is_finalised(&home).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_handoff_that_goes_through_leaves_the_session_to_the_chat() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let permits = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    open(&daemon.client, Some(SESSION)).await.unwrap();
    let asked = daemon.ask("telegram", SESSION).await;
    eventually("the agent is asked", || async {
        (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    leave(&daemon.client).await;
    permits.add_permits(1);
    let ended = daemon.ended(asked.id).await;
    assert_eq!(ended.state, "completed", "{ended:?}");
    eventually("nothing waits", || async {
        (row(&home) == ("telegram".into(), None, 0)).then_some(())
    })
    .await;
    // Brought home, it stays open: the terminal that left has nothing to say any more.
    let wish = Call::SessionResume(SessionResume::default());
    let _: ResumedView = daemon.client.call(wish).await.unwrap();
    assert_eq!(row(&home), ("cli".into(), None, 0));
    daemon.stop().await;
}

#[tokio::test]
async fn a_stop_in_between_leaves_the_end_of_the_session_to_the_next_start() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    left_during_a_handoff(&home, &daemon).await;
    daemon.cut_off().await;
    assert_eq!(row(&home), ("telegram".into(), None, 1));
    let daemon = InProcess::start(&home, &[("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")]).await;
    daemon.set_mood(SESSION, Mood::Fail("no"));
    withdraw(&home);
    is_finalised(&home).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_daemon_killed_during_the_handoff_is_made_up_for_by_the_next() {
    for fails_before_the_start in [true, false] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        // As a killed daemon leaves it: a terminal that was open, and a handoff that has bound its chat.
        store.open_terminal(SESSION, None, None).await.unwrap();
        store
            .request_handoff(SESSION, "local", None, RequestedVia::Socket, false)
            .await
            .unwrap();
        let claim = store.claim_handoff(SESSION, "dead", 0.0, home_channel);
        let claim = claim.await.unwrap().unwrap();
        store.record_thread(&claim, &no_thread()).await.unwrap();
        store
            .record_binding(&claim, "a:key", &local::source("home", None))
            .await
            .unwrap();
        store.cancel_handoff(claim.handoff.id).await.unwrap();
        if fails_before_the_start {
            withdraw(&home);
        }
        drop(store);
        let daemon = InProcess::start(&home, &[("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")]).await;
        is_finalised(&home).await;
        daemon.stop().await;
    }
}

#[tokio::test]
async fn words_for_a_deleted_session_say_that_it_was_deleted() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    open(&daemon.client, Some(SESSION)).await.unwrap();
    home.sqlite()
        .execute_batch("DELETE FROM messages; DELETE FROM sessions;")
        .unwrap();
    assert_eq!(kind(say(&daemon.client, "hello?").await), "deleted");
    daemon.stop().await;
}
