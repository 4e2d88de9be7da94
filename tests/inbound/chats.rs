//! A person's messages meet a fault: the session is gone, the database takes nothing for a while, the chat moves to
//! another session meanwhile. Every message is answered, in order, in the session where it belongs.

use std::sync::Arc;

use hermesd::domain::TranscriptWriter;
use hermesd::platform::local;
use hermesd::protocol::{Call, LocalSay};
use hermesd::store::{LocalMessage, TurnEnd};
use tokio::sync::Semaphore;

use crate::support::scripted::{InProcess, Mood};
use crate::support::{Home, SESSION, add_session, eventually, seed_session};

pub const KEY: &str = "agent:main:local:dm:home";
/// What is logged when the store did not take something.
pub const WAITS: &str = "waiting for the database";

async fn say(daemon: &InProcess, text: &str) {
    let wish = LocalSay {
        thread: None,
        text: text.into(),
    };
    let _: serde_json::Value = daemon
        .client
        .call(Call::LocalSay(wish))
        .await
        .expect("a message that is kept");
}

pub async fn replies(home: &Home, count: usize) -> Vec<LocalMessage> {
    let store = home.store();
    eventually("replies in the chat", || async {
        let messages = store.local_messages("home", "", 0, 100).await.unwrap();
        let replies: Vec<_> = messages
            .into_iter()
            .filter(|m| m.author == "agent")
            .collect();
        (replies.len() >= count).then_some(replies)
    })
    .await
}

/// Puts a chat on a session without asking anybody, as another program would.
fn rebind(home: &Home, key: &str, session: &str) {
    let scope = home.path().canonicalize().unwrap().join("sessions");
    let entry = format!(r#"{{"session_key":"{key}","session_id":"{session}"}}"#);
    home.sqlite()
        .execute(
            "INSERT OR REPLACE INTO gateway_routing VALUES (?1, ?2, ?3, 1.0)",
            [scope.to_str().unwrap(), key, &entry],
        )
        .unwrap();
}

/// Makes SQLite answer every insert into `table` with "disk full", until told otherwise: each has to insert a row into
/// another table as well, whose row ids are used up.
pub fn fill(home: &Home, table: &str, full: bool) {
    let connection = home.sqlite();
    // A schema that has changed is looked at first, and that is not to fail.
    let when = match table {
        "messages" => {
            "WHEN (SELECT title FROM sessions WHERE id = new.session_id) IS NOT 'hermesd:rehearsal'"
        }
        _ => "",
    };
    let sql = match full {
        true => format!(
            "CREATE TABLE full (id INTEGER PRIMARY KEY AUTOINCREMENT);
             INSERT INTO full VALUES ({});
             CREATE TRIGGER full_{table} BEFORE INSERT ON {table} {when} BEGIN INSERT INTO full VALUES (NULL); END;",
            i64::MAX
        ),
        false => format!("DROP TRIGGER full_{table}; DROP TABLE full;"),
    };
    connection.execute_batch(&sql).unwrap();
}

pub fn spoken(home: &Home, session: &str) -> Vec<String> {
    let connection = home.sqlite();
    let mut statement = connection
        .prepare("SELECT role || ': ' || COALESCE(content, '') FROM messages WHERE session_id = ?1 ORDER BY id")
        .unwrap();
    statement
        .query_map([session], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[tokio::test]
async fn a_chat_whose_session_was_deleted_goes_on_in_a_fresh_one() {
    let home = Home::new();
    let daemon = InProcess::start(&home, &[]).await;
    say(&daemon, "one").await;
    replies(&home, 1).await;
    let first = home.store().bound_session(KEY).await.unwrap().unwrap();
    home.sqlite()
        .execute_batch("DELETE FROM messages; DELETE FROM sessions;")
        .unwrap();
    say(&daemon, "two").await;
    replies(&home, 2).await;
    let second = home.store().bound_session(KEY).await.unwrap().unwrap();
    assert_ne!(first, second);
    assert_eq!(
        spoken(&home, &second),
        ["user: two", "assistant: I have 0 messages."]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_session_deleted_while_its_message_was_at_work_does_not_cost_the_message() {
    let home = Home::new();
    let store = home.store();
    let source = local::source("home", None);
    let (_, inbound) = store.say_local(KEY, &source, "one").await.unwrap();
    let gone = store
        .bind_fresh_session(KEY, &source)
        .await
        .unwrap()
        .session_id;
    store
        .begin_inbound(inbound.id, &gone, TranscriptWriter::Daemon)
        .await
        .unwrap();
    home.sqlite()
        .execute_batch("DELETE FROM messages; DELETE FROM sessions;")
        .unwrap();
    let daemon = InProcess::start(&home, &[]).await;
    replies(&home, 1).await;
    let fresh = home.store().bound_session(KEY).await.unwrap().unwrap();
    assert_eq!(
        spoken(&home, &fresh),
        ["user: one", "assistant: I have 0 messages."]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn messages_wait_for_the_database_and_are_answered_in_order() {
    let home = Home::new();
    let daemon = InProcess::start(&home, &[]).await;
    fill(&home, "messages", true);
    say(&daemon, "one").await;
    say(&daemon, "two").await;
    // Tried, and tried again.
    daemon.log.says(WAITS, 2).await;
    assert!(daemon.agent.asked.lock().unwrap().is_empty());
    fill(&home, "messages", false);
    replies(&home, 2).await;
    let session = home.store().bound_session(KEY).await.unwrap().unwrap();
    assert_eq!(
        spoken(&home, &session),
        [
            "user: one",
            "assistant: I have 0 messages.",
            "user: two",
            "assistant: I have 2 messages."
        ]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn an_answer_waits_for_the_database_without_asking_the_agent_twice() {
    let home = Home::new();
    let daemon = InProcess::start(&home, &[]).await;
    fill(&home, "hermesd_deliveries", true);
    say(&daemon, "one").await;
    eventually("the agent is asked", || async {
        (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    daemon.log.says(WAITS, 2).await;
    fill(&home, "hermesd_deliveries", false);
    replies(&home, 1).await;
    assert_eq!(daemon.agent.asked.lock().unwrap().len(), 1);
    daemon.stop().await;
}

#[tokio::test]
async fn a_reply_that_the_embedded_chat_cannot_take_yet_arrives_later() {
    let home = Home::new();
    let source = local::source("home", None);
    home.store().say_local(KEY, &source, "one").await.unwrap();
    fill(&home, "hermesd_local_messages", true);
    let daemon = InProcess::start(&home, &[]).await;
    eventually("the agent has answered", || async {
        let answered = "SELECT count(*) FROM hermesd_inbound WHERE state = 'answered'";
        let count: i64 = home
            .sqlite()
            .query_row(answered, [], |row| row.get(0))
            .unwrap();
        (count == 1).then_some(())
    })
    .await;
    // More tries than another platform would be given; what they wait in between need not be waited here.
    tokio::time::pause();
    daemon.log.says("call waits for local storage", 6).await;
    fill(&home, "hermesd_local_messages", false);
    replies(&home, 1).await;
    tokio::time::resume();
    daemon.stop().await;
}

#[tokio::test]
async fn a_person_is_told_when_the_agent_gives_up_or_panics() {
    for mood in [Mood::GiveUp, Mood::Panic] {
        let home = Home::new();
        seed_session(&home).await;
        rebind(&home, KEY, SESSION);
        let daemon = InProcess::start(&home, &[]).await;
        daemon
            .agent
            .moods
            .lock()
            .unwrap()
            .insert(SESSION.into(), mood);
        say(&daemon, "one").await;
        let told = replies(&home, 1).await;
        assert!(told[0].text.contains("could not answer"), "{told:?}");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn a_chat_that_moved_while_its_message_waited_speaks_in_its_new_session() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, "20260101_090000_bbbbbb", "Another");
    let thread = home
        .store()
        .open_local_thread("home", "x", "x")
        .await
        .unwrap();
    rebind(&home, KEY, SESSION);
    rebind(&home, &format!("{KEY}:{thread}"), SESSION);
    let daemon = InProcess::start(&home, &[]).await;
    let permits = Arc::new(Semaphore::new(0));
    daemon
        .agent
        .moods
        .lock()
        .unwrap()
        .insert(SESSION.into(), Mood::Wait(permits.clone()));
    // The thread's message holds the session; the chat's own waits for it.
    let wish = LocalSay {
        thread: Some(thread),
        text: "first".into(),
    };
    let _: serde_json::Value = daemon.client.call(Call::LocalSay(wish)).await.unwrap();
    eventually("the agent is at it", || async {
        (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
    })
    .await;
    say(&daemon, "second").await;
    daemon.log.says("message waits for its turn", 2).await;
    rebind(&home, KEY, "20260101_090000_bbbbbb");
    permits.add_permits(1);
    replies(&home, 1).await;
    assert_eq!(
        spoken(&home, "20260101_090000_bbbbbb"),
        ["user: second", "assistant: I have 0 messages."]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_message_that_was_at_work_is_answered_where_its_words_stand() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let source = local::source("home", None);
    let (_, inbound) = store.say_local(KEY, &source, "one").await.unwrap();
    let begun = store
        .bind_fresh_session(KEY, &source)
        .await
        .unwrap()
        .session_id;
    store
        .begin_inbound(inbound.id, &begun, TranscriptWriter::Daemon)
        .await
        .unwrap();
    rebind(&home, KEY, SESSION);
    let daemon = InProcess::start(&home, &[]).await;
    replies(&home, 1).await;
    assert_eq!(
        spoken(&home, &begun),
        ["user: one", "assistant: I have 0 messages."]
    );
    assert_eq!(spoken(&home, SESSION).len(), 4);
    daemon.stop().await;
}

#[tokio::test]
async fn a_message_that_was_answered_is_not_begun_again() {
    let home = Home::new();
    let store = home.store();
    let source = local::source("home", None);
    let (_, inbound) = store.say_local(KEY, &source, "one").await.unwrap();
    let session = store
        .bind_fresh_session(KEY, &source)
        .await
        .unwrap()
        .session_id;
    let row = store
        .begin_inbound(inbound.id, &session, TranscriptWriter::Daemon)
        .await
        .unwrap();
    assert!(row.is_some());
    assert_eq!(
        store
            .begin_inbound(inbound.id, &session, TranscriptWriter::Daemon)
            .await
            .unwrap(),
        row
    );
    store
        .answer_inbound(
            inbound.id,
            &session,
            &TurnEnd::Answered("yes".to_owned().into()),
            Vec::new(),
        )
        .await
        .unwrap();
    assert_eq!(
        store
            .begin_inbound(inbound.id, &session, TranscriptWriter::Daemon)
            .await
            .unwrap(),
        None
    );
}

#[tokio::test]
async fn a_message_that_is_taken_up_again_has_its_answer_in_the_transcript_whatever_was_said_since()
{
    let home = Home::new();
    let store = home.store();
    let source = local::source("home", None);
    let (_, inbound) = store.say_local(KEY, &source, "one").await.unwrap();
    let bound = store.bind_fresh_session(KEY, &source).await.unwrap();
    let session = bound.session_id;
    store
        .begin_inbound(inbound.id, &session, TranscriptWriter::Daemon)
        .await
        .unwrap();
    // Its daemon is gone, and another turn of the session comes and goes before the next one takes it up.
    store
        .begin_turn(&session, "two", TranscriptWriter::Daemon)
        .await
        .unwrap();
    let end = TurnEnd::Answered("second".to_owned().into());
    store.end_turn(&session, end).await.unwrap();
    drop(store);
    let daemon = InProcess::start(&home, &[]).await;
    replies(&home, 1).await;
    assert_eq!(
        spoken(&home, &session),
        [
            "user: one",
            "user: two",
            "assistant: second",
            "assistant: I have 0 messages."
        ]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn what_was_answered_long_ago_is_forgotten_and_what_waits_is_not() {
    let home = Home::new();
    let daemon = home.start();
    home.type_into("local", "one\n");
    replies(&home, 1).await;
    assert!(daemon.stop().success());
    let rows = |table: &str| -> i64 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        home.sqlite().query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    let kept = std::time::Duration::from_secs(3600);
    assert_eq!(home.store().prune(kept).await.unwrap(), 0);
    home.sqlite()
        .execute_batch(
            "UPDATE hermesd_inbound SET received_at = 1.0; UPDATE hermesd_deliveries SET updated_at = 1.0;
             INSERT INTO hermesd_inbound (platform, message_id, session_key, source, text, state, received_at)
             VALUES ('local', 'x', 'k', '{}', 'waits', 'received', 1.0)",
        )
        .unwrap();
    assert_eq!(home.store().prune(kept).await.unwrap(), 2);
    assert_eq!(
        (rows("hermesd_inbound"), rows("hermesd_deliveries")),
        (1, 0)
    );
}
