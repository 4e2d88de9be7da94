//! A session comes home from a chat, or goes on to another one: the chat that it leaves is told, is on it no longer, and
//! whoever writes there gets an answer.

use hermesd::client::ClientError;
use hermesd::domain::RequestedVia;
use hermesd::domain::TranscriptWriter;
use hermesd::domain::{KeyRules, Source, session_key};
use hermesd::platform::local;
use hermesd::protocol::{Call, HandoffId, HandoffView, LocalSay, ResumedView, SessionResume};
use hermesd::store::{Answer, Claim, Store};
use serde_json::Value;

use crate::inbound::chats::spoken;
use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{
    Home, SESSION, TITLE, add_session, eventually, home_channel, no_thread, seed_session,
};

/// The columns that a chat gives a session.
fn columns(home: &Home) -> Vec<Option<String>> {
    let sql = "SELECT source, user_id, session_key, chat_id, chat_type, thread_id, display_name, origin_json,
                      CAST(ended_at AS TEXT), end_reason FROM sessions WHERE id = ?1";
    home.sqlite()
        .query_row(sql, [SESSION], |row| (0..10).map(|i| row.get(i)).collect())
        .unwrap()
}

fn hand_off(home: &Home) {
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// Says something in a local thread and returns the last words there.
fn say(home: &Home, thread: i64, words: &str) -> String {
    let place = format!("local/{thread}");
    let ran = home
        .pipe_into_hermesctl(&format!("{words}\n"), &["--json", "attach", &place])
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["author"], "agent", "{ran:?}");
    last["text"].as_str().unwrap().to_owned()
}

/// What the agent's side has said in a local thread.
async fn thread(home: &Home, id: &str, count: usize) -> Vec<String> {
    let store = home.store();
    eventually("words in the thread", || async {
        let said = store.local_messages("home", id, 0, 100).await.unwrap();
        let said: Vec<String> = said
            .into_iter()
            .filter(|m| m.author == "agent")
            .map(|m| m.text)
            .collect();
        (said.len() >= count).then_some(said)
    })
    .await
}

fn sessions(home: &Home) -> i64 {
    home.sqlite()
        .query_row("SELECT count(*) FROM sessions", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn a_session_comes_home_and_its_thread_knows() {
    let home = Home::new();
    seed_session(&home).await;
    home.write("sessions/sessions.json", "{\"_note\": 1}");
    let before = columns(&home);
    let _daemon = home.start();
    hand_off(&home);
    say(&home, 1, "said on the phone");
    let there = columns(&home);
    assert_eq!(there[0].as_deref(), Some("local"));
    let key = there[2].clone().unwrap();

    let resumed = home.hermesctl(&["--json", "resume"]).json();
    assert_eq!(resumed["came_from"], "local", "{resumed}");
    assert_eq!(resumed["session"]["id"], SESSION);
    assert_eq!(columns(&home), before, "as it was before it left");
    assert_eq!(home.store().bound_session(&key).await.unwrap(), None);
    let mirror = std::fs::read_to_string(home.path().join("sessions/sessions.json")).unwrap();
    assert!(
        !mirror.contains(&key) && mirror.contains("_note"),
        "{mirror}"
    );

    let told = thread(&home, "1", 3).await;
    assert!(told[2].contains("moved back to the terminal"), "{told:?}");
    let (rows, count) = (spoken(&home, SESSION), sessions(&home));
    assert!(
        rows.contains(&"user: said on the phone".to_owned()),
        "{rows:?}"
    );
    let answer = say(&home, 1, "is anybody there?");
    assert!(answer.contains("was not passed on"), "{answer}");
    assert_eq!((spoken(&home, SESSION), sessions(&home)), (rows, count));

    // Nothing is left to bring home, by name or without one.
    let again = home.hermesctl(&["--json", "resume", TITLE]).json();
    assert_eq!(again["came_from"], Value::Null);
    let none = home.hermesctl(&["resume"]);
    assert_eq!(none.code, 3, "{none:?}");
    assert!(
        none.stderr.contains("no session that was handed off"),
        "{none:?}"
    );

    // And it can go there again, or come back from there.
    let back = say(&home, 1, "/resume");
    assert!(back.contains(TITLE), "{back}");
    assert_eq!(columns(&home)[..6], there[..6]);
    assert!(say(&home, 1, "hello again").contains("You said: hello again"));
}

#[tokio::test]
async fn without_a_daemon_it_comes_home_too_and_the_next_daemon_tells_the_thread() {
    let home = Home::new();
    seed_session(&home).await;
    let before = columns(&home);
    let daemon = home.start();
    hand_off(&home);
    daemon.stop();
    let ran = home.hermesctl(&["resume"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("is back from local"), "{ran:?}");
    assert_eq!(columns(&home), before);
    let _daemon = home.start();
    let told = thread(&home, "1", 2).await;
    assert!(told[1].contains("moved back to the terminal"), "{told:?}");
}

#[tokio::test]
async fn several_that_are_away_are_listed_and_none_is_moved() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, "20260101_090000_bbbbbb", "Other");
    let _daemon = home.start();
    hand_off(&home);
    let other = home.hermesctl(&["handoff", "local", "--session", "Other"]);
    assert_eq!(other.code, 0, "{other:?}");
    let before = columns(&home);
    let ran = home.hermesctl(&["resume"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    for words in [TITLE, "Other", "on local", "ago"] {
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
    }
    assert_eq!(columns(&home), before);
}

/// Asks for a session to come home, and why it does not.
async fn refused(daemon: &InProcess) -> String {
    let wish = SessionResume {
        session: Some(SESSION.into()),
    };
    let answer = daemon
        .client
        .call::<ResumedView>(Call::SessionResume(wish))
        .await;
    match answer {
        Err(ClientError::Refused(error)) => error.data.expect("a kind").kind,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_session_that_is_busy_or_on_its_way_stays_where_it_is() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start_with(&home, &[], Scripted::never_connected()).await;
    let asked = daemon.ask("telegram", SESSION).await;
    assert_eq!(refused(&daemon).await, "in_flight");
    daemon.platform.connected.add_permits(1);
    daemon.ended(asked.id).await;

    let there = columns(&home);
    daemon.set_mood(SESSION, Mood::Hang);
    let second = daemon.ask("telegram", SESSION).await;
    eventually("the agent is asked", || async {
        (daemon.agent.asked.lock().unwrap().len() == 2).then_some(())
    })
    .await;
    assert_eq!(refused(&daemon).await, "turn_in_progress");
    let _: HandoffView = daemon
        .client
        .call(Call::HandoffCancel(HandoffId { id: second.id }))
        .await
        .unwrap();
    assert_eq!(columns(&home), there);
    daemon.stop().await;
}

async fn say_in_thread(daemon: &InProcess, words: &str) {
    let wish = LocalSay {
        thread: Some(1),
        text: words.into(),
    };
    let _: Value = daemon.client.call(Call::LocalSay(wish)).await.unwrap();
}

#[tokio::test]
async fn a_session_goes_on_to_another_platform_and_the_old_thread_says_where() {
    let home = Home::new();
    seed_session(&home).await;
    let before = columns(&home);
    let daemon = InProcess::start(&home, &[]).await;
    daemon.hand_off("local", SESSION).await;
    let key = columns(&home)[2].clone().unwrap();

    let ended = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(ended.state, "completed", "{ended:?}");
    assert_eq!(columns(&home)[0].as_deref(), Some("telegram"));
    assert_eq!(home.store().bound_session(&key).await.unwrap(), None);
    let told = thread(&home, "1", 2).await;
    assert!(told[1].contains("moved to telegram"), "{told:?}");
    let rows = spoken(&home, SESSION);
    say_in_thread(&daemon, "hello?").await;
    let told = thread(&home, "1", 3).await;
    assert!(
        told[2].contains("moved to telegram") && told[2].contains("not passed on"),
        "{told:?}"
    );
    assert_eq!(spoken(&home, SESSION), rows);

    // From its second chat it comes home all the same, with the columns that it left with.
    let wish = SessionResume::default();
    let home_again: ResumedView = daemon.client.call(Call::SessionResume(wish)).await.unwrap();
    assert_eq!(home_again.came_from.as_deref(), Some("telegram"));
    assert_eq!(columns(&home), before);
    eventually("telegram is told", || async {
        let sent = daemon.platform.sent.lock().unwrap();
        sent.iter()
            .any(|(_, text)| text.contains("back to the terminal"))
            .then_some(())
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_move_to_another_platform_that_fails_leaves_the_old_thread_on_the_session() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    daemon.hand_off("local", SESSION).await;
    let there = columns(&home);
    daemon.set_mood(SESSION, Mood::Fail("out of words"));
    let ended = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(ended.state, "failed", "{ended:?}");
    assert_eq!(columns(&home), there);
    daemon.set_mood(SESSION, Mood::Say("still here"));
    say_in_thread(&daemon, "hello?").await;
    let told = thread(&home, "1", 2).await;
    assert_eq!(told[1], "still here", "{told:?}");
    daemon.stop().await;
}

/// A handoff that has put the chat behind `key` on the session.
async fn bind(store: &Store, key: &str, source: &Source) -> Claim {
    store
        .request_handoff(SESSION, "local", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    let claim = store.claim_handoff(SESSION, "me", f64::MAX, home_channel);
    let claim = claim.await.unwrap().unwrap();
    store.record_thread(&claim, &no_thread()).await.unwrap();
    store.record_binding(&claim, key, source).await.unwrap();
    claim
}

async fn complete(store: &Store, mut claim: Claim) {
    let answer = Answer {
        notice: "n".into(),
        reply: "r".to_owned().into(),
        deliveries: Vec::new(),
        transcript_writer: TranscriptWriter::Daemon,
    };
    store.record_answer(&claim, answer).await.unwrap();
    claim.sent = Some(Vec::new());
    store.complete_handoff(&claim).await.unwrap();
}

#[tokio::test]
async fn a_conversation_that_has_moved_on_is_not_given_back_to_its_chat() {
    let key_of = |source: &Source| session_key(source, &KeyRules::default());
    for completes in [true, false] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        let (here, there) = (local::source("home", None), local::source("other", None));
        let earlier = store.bind_fresh_session(&key_of(&here), &here).await;
        let earlier = earlier.unwrap().session_id;
        let claim = bind(&store, &key_of(&here), &here).await;
        store
            .take_to_chat(&earlier, &key_of(&there), &there)
            .await
            .unwrap();
        // It leaves the chat, or it never quite came there.
        let gone = if completes {
            complete(&store, claim).await;
            let departure = store.take_home(SESSION).await.unwrap().unwrap();
            assert!(!departure.note.text.contains("earlier"), "{departure:?}");
            SESSION.to_owned()
        } else {
            store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
            earlier.clone()
        };
        let bound = store.bound_session(&key_of(&here)).await.unwrap();
        assert_eq!(bound, None, "completes: {completes}");
        let left = store.left(&key_of(&here)).await.unwrap().unwrap();
        assert_eq!(left.session_id, gone, "completes: {completes}");
        let bound = store.bound_session(&key_of(&there)).await.unwrap();
        assert_eq!(bound, Some(earlier), "completes: {completes}");
    }
}

#[tokio::test]
async fn a_failed_handoff_leaves_a_chat_with_the_memory_of_what_left_it() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let source = local::source("home", None);
    let key = session_key(&source, &KeyRules::default());
    let claim = bind(&store, &key, &source).await;
    complete(&store, claim).await;
    store.take_home(SESSION).await.unwrap();
    let before = store.left(&key).await.unwrap();
    assert_eq!(before.as_ref().unwrap().session_id, SESSION);
    let claim = bind(&store, &key, &source).await;
    store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
    assert_eq!(store.left(&key).await.unwrap(), before);
}

#[tokio::test]
async fn a_chat_without_threads_goes_back_to_the_conversation_that_it_had_before() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let source = local::source("home", None);
    let key = session_key(&source, &KeyRules::default());
    let earlier = store.bind_fresh_session(&key, &source).await.unwrap();
    let claim = bind(&store, &key, &source).await;
    complete(&store, claim).await;
    let ended = store.session(&earlier.session_id).await.unwrap().unwrap();
    assert_eq!(ended.end_reason.as_deref(), Some("session_switch"));

    let departure = store.take_home(SESSION).await.unwrap().unwrap();
    assert!(
        departure.note.text.contains("earlier conversation"),
        "{departure:?}"
    );
    assert_eq!(
        store.live_session(&key).await.unwrap(),
        Some(earlier.session_id.clone())
    );
    assert_eq!(store.left(&key).await.unwrap(), None);
    let reopened = store.session(&earlier.session_id).await.unwrap().unwrap();
    assert_eq!((reopened.ended_at, reopened.end_reason), (None, None));
}
