//! What a handoff's end puts back, and what it must leave alone because somebody else decided meanwhile.

use std::time::{Duration, Instant};

use hermesd::delivery::{DeliverError, Interrupts, deliver};
use hermesd::domain::RequestedVia;
use hermesd::domain::TranscriptWriter;
use hermesd::platform::local;
use hermesd::platform::{Dedup, Priority, RateLimited, RetryPolicy};
use hermesd::store::{
    Answer, Claim, Delivery, DeliveryExtra, NewDelivery, NewTerminalSession, Store,
};
use tokio_util::sync::CancellationToken;

use crate::support::scripted::Scripted;
use crate::support::{
    Home, SESSION, add_session, eventually, home_channel, no_thread, seed_session,
};

const KEY: &str = "a:key";
const MINUTE: Duration = Duration::from_secs(60);

/// A handoff up to its answer, with one reply in the ledger.
async fn answered(store: &Store) -> (Claim, Delivery) {
    store
        .request_handoff(SESSION, "local", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    let claim = store
        .claim_handoff(SESSION, "owner", f64::MAX, home_channel)
        .await
        .unwrap()
        .unwrap();
    store.record_thread(&claim, &no_thread()).await.unwrap();
    let source = local::source("home", None);
    store.record_binding(&claim, KEY, &source).await.unwrap();
    let reply = NewDelivery {
        send_key: "handoff:1:0".into(),
        source,
        session_id: SESSION.into(),
        handoff_id: Some(claim.handoff.id),
        text: "here".into(),
        extra: DeliveryExtra::default(),
    };
    let answer = Answer {
        notice: "moved".into(),
        reply: "here".to_owned().into(),
        deliveries: vec![reply],
        transcript_writer: TranscriptWriter::Daemon,
    };
    let recorded = store.record_answer(&claim, answer).await.unwrap();
    let delivery = recorded.deliveries[0].clone();
    (claim, delivery)
}

fn never(token: &CancellationToken) -> Interrupts<'_> {
    Interrupts {
        cancel: token,
        draining: token,
    }
}

fn one<T: rusqlite::types::FromSql>(home: &Home, sql: &str) -> T {
    home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn an_abandoned_reply_is_not_sent_and_stays_abandoned() {
    for dedup in [Dedup::None, Dedup::For(MINUTE), Dedup::Always] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        let (claim, delivery) = answered(&store).await;
        store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
        let platform = Scripted {
            dedup,
            ..Scripted::default()
        };
        let outcome = deliver(
            &store,
            &platform,
            &delivery,
            (RetryPolicy::Few, Priority::HandoffReply),
            &hermesd::metrics::Metrics::default(),
            never(&CancellationToken::new()),
        )
        .await;
        assert!(
            matches!(outcome, Err(DeliverError::Cancelled)),
            "{outcome:?}"
        );
        assert!(platform.sent.lock().unwrap().is_empty());
        store
            .delivery_ended(delivery.id, Ok("1".into()))
            .await
            .unwrap();
        let state: String = one(&home, "SELECT state FROM hermesd_deliveries");
        assert_eq!(state, "abandoned");
    }
}

#[tokio::test]
async fn a_real_end_made_while_a_session_is_reopened_stays() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let (mut claim, delivery) = answered(&store).await;
    claim.sent = Some(vec![(delivery.id, "1".into())]);
    store.complete_handoff(&claim).await.unwrap();
    home.sqlite()
        .execute(
            "UPDATE sessions SET ended_at = ?1, end_reason = 'cli_close'",
            [hermesd::clock::now()],
        )
        .unwrap();
    // The writer has nothing left to do when it answers this, so its next write is the one that is waited for below.
    store.foreign_version().await.unwrap();
    // Somebody closes the conversation for good just after we looked, and before we may write.
    let other = home.sqlite();
    other
        .execute_batch("BEGIN IMMEDIATE; UPDATE sessions SET end_reason = 'user_exit'")
        .unwrap();
    let (asked, reopening) = (Instant::now(), store.clone());
    let reopening = tokio::spawn(async move { reopening.reopen_handed_off(0.0).await });
    eventually("it has looked and wants to write", || async {
        (asked.elapsed() > store.quiet_for()).then_some(())
    })
    .await;
    other.execute_batch("COMMIT").unwrap();
    assert!(reopening.await.unwrap().unwrap().is_empty());
    let reason: Option<String> = one(&home, "SELECT end_reason FROM sessions");
    assert_eq!(reason.as_deref(), Some("user_exit"));
}

#[tokio::test]
async fn a_session_that_hermes_closes_stays_open_while_a_terminal_is_on_it() {
    let home = Home::new();
    let store = home.store();
    store
        .create_terminal_session(NewTerminalSession {
            id: "s".into(),
            ..NewTerminalSession::default()
        })
        .await
        .unwrap();
    let closed = "UPDATE sessions SET ended_at = ?1, end_reason = 'tui_close'";
    let now = hermesd::clock::now();
    home.sqlite().execute(closed, [now]).unwrap();
    assert_eq!(store.reopen_handed_off(now - 1.0).await.unwrap(), ["s"]);
    let end: Option<f64> = one(&home, "SELECT ended_at FROM sessions");
    assert_eq!(end, None);
    // A terminal that has left does not keep it open.
    store.close_terminal("s", "cli_close").await.unwrap();
    home.sqlite().execute(closed, [now]).unwrap();
    assert!(store.reopen_handed_off(now - 1.0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_chat_that_moved_on_keeps_its_session_and_ours_loses_the_chats_columns() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let before = store
        .bind_fresh_session(KEY, &local::source("home", None))
        .await
        .unwrap()
        .session_id;
    let (claim, _) = answered(&store).await;
    add_session(&home, "20260101_090000_bbbbbb", "Another");
    home.sqlite()
        .execute(
            "UPDATE gateway_routing SET entry_json = replace(entry_json, ?1, '20260101_090000_bbbbbb')",
            [SESSION],
        )
        .unwrap();
    store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
    let bound = store.bound_session(KEY).await.unwrap();
    assert_eq!(bound.as_deref(), Some("20260101_090000_bbbbbb"));
    let ours = store.session(SESSION).await.unwrap().unwrap();
    assert_eq!((ours.source.as_str(), ours.session_key), ("cli", None));
    let outgoing = store.session(&before).await.unwrap().unwrap();
    assert_eq!(outgoing.end_reason.as_deref(), Some("session_switch"));
}

#[tokio::test]
async fn counters_are_as_before_after_a_rollback() {
    for before in ["NULL", "4", "0"] {
        let home = Home::new();
        seed_session(&home).await;
        let set = format!(
            "UPDATE sessions SET message_count = {before}, api_call_count = {before}, tool_call_count = {before}"
        );
        home.sqlite().execute_batch(&set).unwrap();
        let store = home.store();
        let (claim, _) = answered(&store).await;
        store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
        let counters: String = one(
            &home,
            "SELECT json_array(message_count, api_call_count, tool_call_count) FROM sessions",
        );
        let before = before.to_lowercase();
        assert_eq!(counters, format!("[{before},{before},{before}]"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_send_without_an_answer_is_marked_when_it_is_repeated() {
    // The platform gets a minute to answer.
    for (dedup, expected) in [
        (Dedup::None, "(this may be a repeat) here"),
        (Dedup::For(MINUTE / 2), "(this may be a repeat) here"),
        (Dedup::For(MINUTE * 2), "here"),
        (Dedup::Always, "here"),
    ] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        let (_, delivery) = answered(&store).await;
        let platform = std::sync::Arc::new(Scripted {
            dedup,
            unanswered: 1.into(),
            ..Scripted::default()
        });
        let limited = RateLimited::new(platform.clone(), Default::default());
        let busy = hermesd::platform::PlatformError::transient("busy");
        platform.sends.lock().unwrap().push_back(busy);
        deliver(
            &store,
            &limited,
            &delivery,
            (RetryPolicy::Few, Priority::HandoffReply),
            &hermesd::metrics::Metrics::default(),
            never(&CancellationToken::new()),
        )
        .await
        .unwrap();
        let sent = platform.sent.lock().unwrap().clone();
        assert_eq!(sent, [("handoff:1:0".to_owned(), expected.to_owned())]);
    }
}

#[tokio::test]
async fn an_interrupted_send_is_marked_after_the_window_of_its_first_try() {
    for (dedup, age, expected) in [
        (Dedup::For(MINUTE), 5.0, "here"),
        (Dedup::For(MINUTE), 3600.0, "(this may be a repeat) here"),
        // A clock that was set back tells nothing.
        (Dedup::For(MINUTE), -3600.0, "(this may be a repeat) here"),
        (Dedup::None, 5.0, "(this may be a repeat) here"),
        (Dedup::Always, 3600.0, "here"),
    ] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        let (claim, delivery) = answered(&store).await;
        assert!(store.delivery_started(delivery.id).await.unwrap());
        let older = "UPDATE hermesd_deliveries SET updated_at = updated_at - ?1";
        home.sqlite().execute(older, [age]).unwrap();
        // Another try does not make the first one younger.
        assert!(store.delivery_started(delivery.id).await.unwrap());
        let left = store.deliveries_of(claim.handoff.id).await.unwrap();
        let platform = Scripted {
            dedup,
            ..Scripted::default()
        };
        deliver(
            &store,
            &platform,
            &left[0],
            (RetryPolicy::Few, Priority::HandoffReply),
            &hermesd::metrics::Metrics::default(),
            never(&CancellationToken::new()),
        )
        .await
        .unwrap();
        let sent = platform.sent.lock().unwrap().clone();
        assert_eq!(sent[0].1, expected, "{dedup:?} {age}");
    }
}
