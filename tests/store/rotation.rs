//! Compression that splits a session: Hermes ends the row with the reason `compression`, and a child row goes on. Every id of
//! such a conversation means the child; bindings, handoffs and terminals go along.

use std::sync::Arc;

use hermesd::client::Client;
use hermesd::domain::RequestedVia;
use hermesd::domain::TranscriptWriter;
use hermesd::domain::{KeyRules, session_key};
use hermesd::platform::local;
use hermesd::protocol::{
    Call, HandoffRequest, HandoffView, LocalSay, Nothing, ResumedView, SessionResume,
};
use hermesd::store::{Answer, TurnEnd, TurnStart, TypedMessage};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::inbound::chats::spoken;
use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{Home, SESSION, TITLE, eventually, home_channel, no_thread, seed_session};
use crate::terminal::sessions::{kind, open, say};

const CHILD: &str = "20260102_090000_cccccc";
const SUMMARY: &str = "[CONTEXT COMPACTION] They fixed a parser.";

/// What Hermes does to the rows when it compresses without `in_place`, in a process that knows nothing of chats.
fn rotate(home: &Home) {
    home.sqlite()
        .execute_batch(&format!(
            "UPDATE sessions SET ended_at = unixepoch('subsec'), end_reason = 'compression' WHERE id = '{SESSION}';
             INSERT INTO sessions (id, source, parent_session_id, title, model, started_at)
             VALUES ('{CHILD}', 'tui', '{SESSION}', '{TITLE} #2', 'm', unixepoch('subsec'));
             INSERT INTO messages (session_id, role, content, timestamp, active)
             VALUES ('{CHILD}', 'user', '{SUMMARY}', unixepoch('subsec'), 1),
                    ('{CHILD}', 'assistant', 'An off-by-one.', unixepoch('subsec'), 1);"
        ))
        .expect("a split session");
}

/// Source, key, end and state of the handoff of one row.
type Row = (String, Option<String>, Option<String>, Option<String>);

fn row(home: &Home, id: &str) -> Row {
    let sql = "SELECT source, session_key, end_reason, handoff_state FROM sessions WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    home.sqlite().query_row(sql, [id], read).expect("a session")
}

fn is_compressed(home: &Home) {
    assert_eq!(row(home, SESSION).2.as_deref(), Some("compression"));
}

/// The session that the chat of a handoff is on, as other programs read it.
fn bound(home: &Home, key: &str) -> Option<String> {
    let sql = "SELECT json_extract(entry_json, '$.session_id') FROM gateway_routing WHERE session_key = ?1";
    home.sqlite().query_row(sql, [key], |row| row.get(0)).ok()
}

async fn resume(daemon: &InProcess, session: &str) -> ResumedView {
    let wish = SessionResume {
        session: Some(session.into()),
    };
    let resumed = daemon.client.call(Call::SessionResume(wish)).await;
    resumed.expect("a session at home")
}

async fn asked(daemon: &InProcess, times: usize) {
    eventually("the agent is asked", || async {
        (daemon.agent.asked.lock().unwrap().len() >= times).then_some(())
    })
    .await;
}

fn answer(transcript_writer: TranscriptWriter) -> Answer {
    Answer {
        notice: "n".into(),
        reply: "r".to_owned().into(),
        deliveries: Vec::new(),
        transcript_writer,
    }
}

#[tokio::test]
async fn whatever_acts_on_the_old_row_acts_on_the_one_that_goes_on() {
    let home = Home::new();
    seed_session(&home).await;
    rotate(&home);
    let store = home.store();
    let source = local::source("home", None);
    let key = session_key(&source, &KeyRules::default());

    assert_eq!(
        store.open_terminal(SESSION, None, None).await.unwrap(),
        CHILD
    );
    let typed = store
        .begin_terminal_turn(SESSION, "hello", TranscriptWriter::Daemon)
        .await;
    assert!(matches!(typed.unwrap(), TypedMessage::Begun(id, _) if id == CHILD));
    let end = TurnEnd::Answered("hi".to_owned().into());
    assert_eq!(store.end_turn(SESSION, end).await.unwrap(), CHILD);
    assert_eq!(
        spoken(&home, CHILD)[2..],
        ["user: hello", "assistant: hi"],
        "said in the child"
    );
    assert!(store.close_terminal(SESSION, "cli_close").await.unwrap());
    assert_eq!(row(&home, CHILD).2.as_deref(), Some("cli_close"));

    let handoff = store.request_handoff(SESSION, "local", None, RequestedVia::Socket, false);
    assert_eq!(handoff.await.unwrap().session_id, CHILD);
    let claim = store.claim_handoff(SESSION, "me", f64::MAX, home_channel);
    let mut claim = claim.await.unwrap().expect("a claim");
    assert_eq!(claim.handoff.session_id, CHILD);
    store.record_thread(&claim, &no_thread()).await.unwrap();
    store.record_binding(&claim, &key, &source).await.unwrap();
    store
        .record_answer(&claim, answer(TranscriptWriter::Daemon))
        .await
        .unwrap();
    claim.sent = Some(Vec::new());
    store.complete_handoff(&claim).await.unwrap();
    assert_eq!(bound(&home, &key).as_deref(), Some(CHILD));

    assert!(store.take_home(SESSION).await.unwrap().is_some());
    assert_eq!(row(&home, CHILD).1, None);
    store.take_to_chat(SESSION, &key, &source).await.unwrap();
    assert_eq!(bound(&home, &key).as_deref(), Some(CHILD));
    is_compressed(&home);
    assert_eq!(spoken(&home, SESSION).len(), 4, "nothing was said there");
}

#[tokio::test]
async fn a_chat_that_is_on_the_old_row_is_found_from_either_row() {
    for name in [SESSION, CHILD] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        let source = local::source("home", None);
        let key = session_key(&source, &KeyRules::default());
        store.take_to_chat(SESSION, &key, &source).await.unwrap();
        rotate(&home);
        let departure = store.take_home(name).await.unwrap();
        assert_eq!(departure.expect("a chat").from.platform, "local", "{name}");
        assert_eq!(bound(&home, &key), None);
        for id in [SESSION, CHILD] {
            assert_eq!(row(&home, id).1, None, "{id} belongs to no chat");
        }
        is_compressed(&home);
    }
}

#[tokio::test]
async fn a_request_that_waits_goes_along() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start_with(&home, &[], Scripted::never_connected()).await;
    let asked = daemon.ask("telegram", SESSION).await;
    rotate(&home);
    daemon.platform.connected.add_permits(1);
    let ended = daemon.ended(asked.id).await;
    assert_eq!(
        (ended.state.as_str(), ended.session.as_str()),
        ("completed", CHILD),
        "{ended:?}"
    );
    let child = row(&home, CHILD);
    assert_eq!(child.0, "telegram");
    assert_eq!(child.3.as_deref(), Some("completed"));
    assert_eq!(bound(&home, &child.1.unwrap()).as_deref(), Some(CHILD));
    assert_eq!(row(&home, SESSION).3, None);
    is_compressed(&home);
    daemon.stop().await;
}

#[tokio::test]
async fn a_handoff_whose_own_turn_splits_the_session_ends_with_the_child() {
    for goes_through in [true, false] {
        let home = Home::new();
        seed_session(&home).await;
        let daemon = InProcess::start(&home, &[]).await;
        let permits = Arc::new(Semaphore::new(0));
        daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
        let handoff = daemon.ask("telegram", SESSION).await;
        asked(&daemon, 1).await;
        let key = row(&home, SESSION).1.expect("a key");
        rotate(&home);
        if !goes_through {
            daemon
                .platform
                .sends
                .lock()
                .unwrap()
                .push_back(hermesd::platform::PlatformError::Permanent("no".into()));
        }
        permits.add_permits(1);
        let ended = daemon.ended(handoff.id).await;
        assert_eq!(ended.session, CHILD, "{ended:?}");
        is_compressed(&home);
        let (source, own, end, state) = row(&home, CHILD);
        if goes_through {
            assert_eq!(ended.state, "completed", "{ended:?}");
            assert_eq!((source.as_str(), end), ("telegram", None));
            assert_eq!(
                (own.as_ref(), state.as_deref()),
                (Some(&key), Some("completed"))
            );
            assert_eq!(bound(&home, &key).as_deref(), Some(CHILD));
            let home_again = resume(&daemon, SESSION).await;
            assert_eq!(home_again.came_from.as_deref(), Some("telegram"));
            assert_eq!(home_again.session.id, CHILD);
        } else {
            assert_eq!(ended.state, "failed", "{ended:?}");
            assert_eq!(state.as_deref(), Some("failed"));
            assert_eq!(source, "cli", "as it was before");
        }
        assert_eq!(bound(&home, &key), None);
        for id in [SESSION, CHILD] {
            assert_eq!(row(&home, id).1, None, "{id} belongs to no chat");
        }
        is_compressed(&home);
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_chat_whose_turn_splits_the_session_goes_on_with_the_child() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    daemon.hand_off("local", SESSION).await;
    let key = row(&home, SESSION).1.expect("a key");
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    daemon.set_mood(CHILD, Mood::Say("from the child"));
    let speak = |text: &'static str| {
        let wish = LocalSay {
            thread: Some(1),
            text: text.into(),
        };
        daemon.client.call::<Value>(Call::LocalSay(wish))
    };
    speak("first").await.unwrap();
    asked(&daemon, 2).await;
    rotate(&home);
    // Either row of a conversation that is in a turn is busy.
    for session in [SESSION, CHILD] {
        let wish = HandoffRequest {
            platform: "telegram".into(),
            session: Some(session.into()),
            ..HandoffRequest::default()
        };
        let refused = daemon
            .client
            .call::<HandoffView>(Call::HandoffRequest(wish));
        assert_eq!(kind(refused.await), "turn_in_progress", "{session}");
    }
    permits.add_permits(1);
    eventually("the binding goes along", || async {
        (bound(&home, &key).as_deref() == Some(CHILD)).then_some(())
    })
    .await;
    assert_eq!(row(&home, CHILD).1, Some(key.clone()));
    speak("second").await.unwrap();
    eventually("the child answers", || async {
        let last = spoken(&home, CHILD).pop();
        (last.as_deref() == Some("assistant: from the child")).then_some(())
    })
    .await;
    assert_eq!(
        resume(&daemon, TITLE).await.came_from.as_deref(),
        Some("local")
    );
    is_compressed(&home);
    daemon.stop().await;
}

#[tokio::test]
async fn a_terminal_whose_turn_splits_the_session_goes_on_with_the_child() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    daemon.set_mood(CHILD, Mood::Say("from the child"));
    open(&daemon.client, Some(SESSION)).await.unwrap();
    let turn = async {
        asked(&daemon, 1).await;
        rotate(&home);
        permits.add_permits(1);
    };
    let (said, ()) = tokio::join!(say(&daemon.client, "first"), turn);
    assert_eq!(said.unwrap().session, CHILD);
    let other = Client::connect(&home.socket()).await.unwrap();
    assert_eq!(kind(open(&other, Some(CHILD)).await), "open_elsewhere");
    let said = say(&daemon.client, "second").await.unwrap();
    assert_eq!(
        (said.session.as_str(), said.reply.as_str()),
        (CHILD, "from the child")
    );
    let _: Value = daemon
        .client
        .call(Call::ChatLeave(Nothing {}))
        .await
        .unwrap();
    assert_eq!(row(&home, CHILD).2.as_deref(), Some("cli_close"));
    is_compressed(&home);
    let terminals: i64 = home
        .sqlite()
        .query_row("SELECT count(*) FROM hermesd_terminals", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(terminals, 0);
    daemon.stop().await;
}

#[tokio::test]
async fn the_rows_of_an_agent_that_split_the_session_stand_once_and_can_be_taken_back() {
    let write = |home: &Home, id: &str, rows: &[(&str, &str)]| {
        for (role, content) in rows {
            home.sqlite()
                .execute(
                    "INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?1, ?2, ?3, 1.0, 1)",
                    [id, role, content],
                )
                .expect("a row");
        }
    };
    for takes_back in [false, true] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        let begun = store
            .begin_turn(SESSION, "Why?", TranscriptWriter::Agent)
            .await;
        assert_eq!(begun.unwrap(), TurnStart::Ask(None));
        write(&home, SESSION, &[("user", "Why?")]);
        rotate(&home);
        write(&home, CHILD, &[("user", "Why?"), ("assistant", "Because.")]);
        let summary = format!("user: {SUMMARY}");
        let mut expected = vec![summary.as_str(), "assistant: An off-by-one."];
        if takes_back {
            store.retract_turn(SESSION).await.unwrap();
        } else {
            let end = TurnEnd::Answered("Because.".to_owned().into());
            store.end_turn(SESSION, end).await.unwrap();
            expected.extend(["user: Why?", "assistant: Because."]);
        }
        let live = store.transcript(CHILD).await.unwrap().messages;
        let live: Vec<String> = live
            .iter()
            .map(|m| format!("{}: {}", m.role.as_str(), m.plain()))
            .collect();
        assert_eq!(live, expected, "takes back: {takes_back}");
        is_compressed(&home);
    }
}
