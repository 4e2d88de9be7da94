//! A turn in progress is not torn in two: the handoff is refused with what to do about it, or waits for the turn's end.

use std::sync::Arc;

use hermesd::client::ClientError;
use hermesd::protocol::{Call, ChatOpen, ChatSay, ChatTurnView, HandoffRequest, HandoffView};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::support::scripted::{InProcess, Mood};
use crate::support::{Home, Ran, SESSION, TITLE, eventually, seed_session, until};

/// Another program writes a row, so many seconds ago.
fn write(home: &Home, role: &str, tool_calls: Option<&str>, ago: f64) {
    home.sqlite()
        .execute(
            "INSERT INTO messages (session_id, role, content, tool_calls, timestamp)
             VALUES (?1, ?2, 'words', ?3, unixepoch('subsec') - ?4)",
            (SESSION, role, tool_calls, ago),
        )
        .expect("a message");
}

fn hand_off(home: &Home, flags: &[&str]) -> Ran {
    home.hermesctl(&[&["handoff", "local", "--session", TITLE], flags].concat())
}

fn refused(home: &Home, words: &str) {
    let ran = hand_off(home, &["--no-wait"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    for words in ["another program", words, "--after-turn", "--force"] {
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
    }
    let in_flight = home.hermesctl(&["--json", "handoffs", "list", "--in-flight"]);
    assert_eq!(
        in_flight.json(),
        Value::Array(Vec::new()),
        "nothing was asked for"
    );
}

#[tokio::test]
async fn the_tail_of_the_transcript_tells_of_a_turn_in_another_program() {
    let home = Home::new();
    seed_session(&home).await;
    // Without a daemon as well as with one.
    write(&home, "user", None, 5.0);
    refused(&home, "has no answer yet");
    let _daemon = home.start();
    refused(&home, "has no answer yet");
    write(&home, "assistant", Some("[{\"id\": \"c\"}]"), 4.0);
    refused(&home, "a tool is running");
    write(&home, "tool", None, 3.0);
    refused(&home, "tool's result");
    write(&home, "assistant", Some("[]"), 2.0);
    let ran = hand_off(&home, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[tokio::test]
async fn a_turn_that_died_long_ago_or_whose_program_is_dead_holds_nobody_up() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    write(&home, "user", None, 700.0);
    assert_eq!(hand_off(&home, &[]).code, 0);
    write(&home, "user", None, 5.0);
    refused(&home, "has no answer yet");
    let entry = |pid: u32| {
        home.write(
            "runtime/active_sessions.json",
            &format!(r#"{{"entries": [{{"session_id": "{SESSION}", "pid": {pid}}}]}}"#),
        );
    };
    entry(std::process::id());
    let ran = hand_off(&home, &["--no-wait"]);
    assert_eq!(ran.code, 3, "its program lives: {ran:?}");
    entry(4_194_303);
    assert_eq!(hand_off(&home, &[]).code, 0);
}

#[tokio::test]
async fn hermes_lock_on_a_session_is_heeded_until_it_expires() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let lock = |seconds: f64| {
        home.sqlite()
            .execute(
                "INSERT OR REPLACE INTO compression_locks VALUES (?1, 'hermes', 0, unixepoch('subsec') + ?2)",
                (SESSION, seconds),
            )
            .expect("a lock");
    };
    lock(60.0);
    refused(&home, "compressing");
    lock(-1.0);
    assert_eq!(hand_off(&home, &[]).code, 0);
}

#[tokio::test]
async fn rows_and_locks_from_before_the_clock_was_set_back_hold_nothing_up() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    assert_eq!(hand_off(&home, &[]).code, 0);
    // A little ahead is a turn in progress, an hour ahead is the work of another clock.
    write(&home, "user", None, -5.0);
    let refused = home.hermesctl(&["resume", TITLE]);
    assert_eq!(refused.code, 3, "{refused:?}");
    write(&home, "user", None, -3600.0);
    home.sqlite()
        .execute(
            "INSERT INTO compression_locks VALUES (?1, 'hermes', 0, unixepoch('subsec') + 7200)",
            [SESSION],
        )
        .expect("a lock");
    let resumed = home.hermesctl(&["resume", TITLE]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
}

#[tokio::test]
async fn force_does_not_mind_and_wait_waits_for_the_other_program() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    write(&home, "user", None, 5.0);
    let waiting = home.spawn_hermesctl(&["handoff", "local", "--session", TITLE, "--wait"], &[]);
    until("the request is written", || {
        let handoffs = home.hermesctl(&["--json", "handoffs"]).json();
        let asked = handoffs.get(0)?;
        assert_eq!(
            (&asked["state"], &asked["after_turn"]),
            (&"pending".into(), &true.into())
        );
        Some(())
    });
    // The queue has looked at it again since, and left it alone.
    let status = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
    assert_eq!(status["state"], "pending");
    write(&home, "assistant", None, 0.0);
    let ran = waiting.end();
    assert_eq!(ran.code, 0, "{ran:?}");

    write(&home, "user", None, 0.0);
    refused(&home, "has no answer yet");
    let ran = hand_off(&home, &["--force"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[tokio::test]
async fn a_turn_of_our_own_refuses_the_handoff_or_is_waited_for() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let open = ChatOpen {
        session: Some(SESSION.into()),
        ..ChatOpen::default()
    };
    let _: Value = daemon.client.call(Call::ChatOpen(open)).await.unwrap();
    let say = ChatSay { text: "go".into() };
    let turn = daemon.client.call::<ChatTurnView>(Call::ChatSay(say));
    let meanwhile = async {
        eventually("the agent is asked", || async {
            (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
        })
        .await;
        let wish = |after_turn| HandoffRequest {
            platform: "telegram".into(),
            session: Some(SESSION.into()),
            after_turn,
            // That is for other programs; what we do ourselves we know.
            force: true,
            ..HandoffRequest::default()
        };
        let refused = daemon
            .client
            .call::<HandoffView>(Call::HandoffRequest(wish(false)))
            .await;
        let Err(ClientError::Refused(error)) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(error.data.unwrap().kind, "turn_in_progress");
        let asked: HandoffView = daemon
            .client
            .call(Call::HandoffRequest(wish(true)))
            .await
            .unwrap();
        assert_eq!(asked.state, "pending");
        permits.add_permits(2);
        asked.id
    };
    let (turn, id) = tokio::join!(turn, meanwhile);
    assert_eq!(turn.unwrap().reply, "at last");
    let ended = daemon.ended(id).await;
    assert_eq!(ended.state, "completed", "{ended:?}");
    // The whole turn stands before what the handoff said.
    let said = crate::inbound::chats::spoken(&home, SESSION);
    let words: Vec<&str> = said[4..]
        .iter()
        .map(|s| s.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        words,
        ["user:", "assistant:", "user:", "assistant:"],
        "{said:?}"
    );
    assert!(
        said[4].ends_with("go") && said[6].contains("[Handoff]"),
        "{said:?}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn words_of_ours_that_failed_to_be_answered_are_no_turn_of_another_program() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    daemon.set_mood(SESSION, Mood::Fail("no"));
    let open = ChatOpen {
        session: Some(SESSION.into()),
        ..ChatOpen::default()
    };
    let _: Value = daemon.client.call(Call::ChatOpen(open)).await.unwrap();
    let say = Call::ChatSay(ChatSay { text: "go".into() });
    let turn: ChatTurnView = daemon.client.call(say).await.unwrap();
    assert_eq!(turn.error.as_deref(), Some("the agent failed: no"));
    daemon.set_mood(SESSION, Mood::Say("yes"));
    let ended = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(ended.state, "completed", "{ended:?}");
    daemon.stop().await;
}
