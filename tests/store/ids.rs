//! Ids of messages and deliveries are part of send keys: an id is never used twice, also when its row was removed.

use std::time::Duration;

use hermesd::domain::TranscriptWriter;
use hermesd::platform::local;
use hermesd::store::{DeliveryExtra, Inbound, NewDelivery, Store, TurnEnd};

use crate::support::{Home, until};

const KEY: &str = "agent:main:local:dm:home";

/// Says something in the local chat and answers it, as the daemon does. Returns the message and the id of its delivery.
async fn answered(store: &Store, session: &str, words: &str) -> (Inbound, i64) {
    let source = local::source("home", None);
    let (_, inbound) = store.say_local(KEY, &source, words).await.unwrap();
    let begun = store
        .begin_inbound(inbound.id, session, TranscriptWriter::Daemon)
        .await;
    begun.unwrap().expect("a turn");
    let reply = NewDelivery {
        send_key: format!("inbound:{}:0", inbound.id),
        source: source.clone(),
        session_id: session.to_owned(),
        handoff_id: None,
        text: format!("reply to {words}"),
        extra: DeliveryExtra::default(),
    };
    let end = TurnEnd::CutOff("a reply".into());
    let sends = store.answer_inbound(inbound.id, session, &end, vec![reply]);
    let sends = sends.await.unwrap();
    let sent = store.send_local(&source, &sends[0].text, &sends[0].send_key);
    let sent = sent.await.unwrap();
    assert_eq!(sent.text, format!("reply to {words}"), "not a repeat");
    let ended = store.delivery_ended(sends[0].id, Ok(sent.id.to_string()));
    ended.await.unwrap();
    (inbound, sends[0].id)
}

#[tokio::test]
async fn ids_of_records_that_were_removed_are_not_used_again() {
    let home = Home::new();
    let store = home.store();
    let session = store.create_session("cli", None, None).await.unwrap();
    let (first, first_delivery) = answered(&store, &session, "one").await;
    assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 2);
    drop(store);
    let store = home.store();
    let (second, second_delivery) = answered(&store, &session, "two").await;
    assert!(second.id > first.id, "{} {}", first.id, second.id);
    assert!(second_delivery > first_delivery);
}

/// What the agent said in the local chat, oldest first.
fn replies(home: &Home) -> Vec<String> {
    let sql = "SELECT text FROM hermesd_local_messages WHERE thread_id = '' AND author = 'agent' ORDER BY id";
    let connection = home.sqlite();
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0));
    rows.unwrap().map(Result::unwrap).collect()
}

fn has_reply(home: &Home, words: &str) -> bool {
    let begins = format!("You said: {words}\n");
    replies(home).iter().any(|said| said.starts_with(&begins))
}

/// A file in which ids have begun again already: replies were swallowed, and one message can never be answered.
#[test]
fn a_file_in_which_ids_were_used_again_is_repaired() {
    let home = crate::store::open::home_of("hermesd-4.db");
    let asked = |words: &str| -> i64 {
        let sql = "SELECT count(*) FROM messages WHERE role = 'assistant' AND content LIKE ?1";
        let like = format!("You said: {words}%");
        home.sqlite()
            .query_row(sql, [like], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(replies(&home).len(), 3, "what the old build left");
    let daemon = home.start();
    for words in ["fourth", "fifth", "sixth"] {
        until(&format!("the {words} message has its reply"), || {
            has_reply(&home, words).then_some(())
        });
    }
    let said = home.pipe_into_hermesctl("seventh\n", &["attach", "local"]);
    assert_eq!(said.end().code, 0);
    until("the seventh message has its reply", || {
        has_reply(&home, "seventh").then_some(())
    });
    assert!(daemon.stop().success());
    // Another start finds nothing left to do, and says nothing twice.
    let daemon = home.start();
    let said = home.pipe_into_hermesctl("eighth\n", &["attach", "local"]);
    assert_eq!(said.end().code, 0);
    until("the eighth message has its reply", || {
        has_reply(&home, "eighth").then_some(())
    });
    assert!(daemon.stop().success());
    assert_eq!(replies(&home).len(), 8, "{:?}", replies(&home));
    assert_eq!(asked("sixth"), 1, "the agent was asked once");
    let lowest = "SELECT min(id) FROM hermesd_inbound WHERE text IN ('sixth', 'seventh', 'eighth')";
    let lowest: i64 = home
        .sqlite()
        .query_row(lowest, [], |row| row.get(0))
        .unwrap();
    assert!(
        lowest > 3,
        "{lowest}: the keys of 1 to 3 are known to the chat"
    );
}

#[tokio::test]
async fn records_behind_many_that_never_end_are_removed_too() {
    let home = Home::new();
    let store = home.store();
    home.sqlite()
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO hermesd_inbound (platform, message_id, session_key, source, text, state, received_at)
             SELECT 'telegram', i, 'key', '{}', 'words', iif(i <= 700 OR i % 2, 'received', 'answered'), 1.0 FROM n;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
             INSERT INTO hermesd_deliveries (platform, source, session_id, send_key, text, state, updated_at)
             SELECT 'telegram', '{}', '', i, 'words', iif(i <= 700, 'pending', 'sent'), 1.0 FROM n;",
        )
        .unwrap();
    assert_eq!(store.prune(Duration::ZERO).await.unwrap(), 650 + 1300);
    let left: i64 = home
        .sqlite()
        .query_row(
            "SELECT (SELECT count(*) FROM hermesd_inbound) + (SELECT count(*) FROM hermesd_deliveries)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 1350 + 700, "what has not ended stays");
}
