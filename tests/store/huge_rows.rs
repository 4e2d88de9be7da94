//! Rows of other programs with more in them than any model takes: they cost nobody else their time or memory.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hermesd::domain::transcript::Content;
use serde_json::json;

use crate::support::{Home, SESSION, Wire, seed_session, somebody_hands_off};

const MEGABYTE: usize = 1 << 20;

/// As another program would write it, without Hermes' full-text indexes, which would take minutes.
fn add_huge_message(home: &Home, prefix: &str, bytes: usize) {
    let database = home.sqlite();
    let mut triggers = database
        .prepare("SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE type = 'trigger'")
        .unwrap();
    let triggers = triggers.query_map([], |row| row.get::<_, String>(0));
    let drop: Vec<String> = triggers.unwrap().map(Result::unwrap).collect();
    database.execute_batch(&drop.join(";")).unwrap();
    let sql = "INSERT INTO messages (session_id, role, content, timestamp, active)
               VALUES (?1, 'tool', CAST(?2 AS TEXT) || hex(zeroblob(?3)), 1767258002.0, 1)";
    let half = i64::try_from(bytes / 2).unwrap();
    database
        .execute(sql, rusqlite::params![SESSION, prefix, half])
        .unwrap();
    // So that nothing removes it as an orphan.
    let paired = "UPDATE messages SET tool_call_id = 'call_1'
                  WHERE id = (SELECT max(id) FROM messages)";
    database.execute(paired, []).unwrap();
    let first = "DELETE FROM messages WHERE role = 'tool' AND octet_length(content) < 100";
    database.execute(first, []).unwrap();
    let order = "UPDATE messages SET id = id + 100 WHERE role = 'assistant' AND tool_calls IS NULL";
    database.execute(order, []).unwrap();
}

fn longest(contents: impl Iterator<Item = Option<Content>>) -> String {
    let texts = contents.flatten().map(|content| content.plain());
    texts.max_by_key(String::len).expect("a message")
}

#[tokio::test]
async fn a_huge_message_is_read_on_another_thread_and_cut() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    {
        // What is short is read at once.
        let briefing = pin!(store.briefing(SESSION, None));
        let polled = briefing.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(Some(_)))));
    }
    add_huge_message(&home, "output: ", 48 * MEGABYTE);
    {
        let briefing = pin!(store.briefing(SESSION, None));
        let polled = briefing.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "read on the caller's thread");
    }
    let (_, transcript) = store.briefing(SESSION, None).await.unwrap().unwrap();
    let text = longest(transcript.messages.into_iter().map(|m| m.content));
    assert!(text.len() < 17 * MEGABYTE, "{} bytes", text.len());
    assert!(text.starts_with("output: 000"));
    let end = &text[text.len() - 40..];
    let more = 48 * MEGABYTE + "output: ".len() - 16 * MEGABYTE;
    assert!(end.ends_with(&format!("… ({more} bytes more)")), "{end}");
    // An export leaves nothing out.
    let whole = store.whole_transcript(SESSION).await.unwrap();
    let text = longest(whole.messages.into_iter().map(|m| m.content));
    assert_eq!(text.len(), 48 * MEGABYTE + "output: ".len());
}

#[tokio::test]
async fn half_of_a_huge_list_of_parts_is_no_text() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    add_huge_message(&home, "\0json:[", 20 * MEGABYTE);
    let transcript = store.transcript(SESSION).await.unwrap();
    let texts: Vec<String> = transcript.messages.iter().map(|m| m.plain()).collect();
    let bytes = 20 * MEGABYTE + "\0json:[".len();
    let expected = format!("[{bytes} bytes, too long to read]");
    assert!(texts.contains(&expected), "{texts:.100?}");
}

#[tokio::test]
async fn a_session_with_a_huge_message_is_shown_and_handed_off() {
    let home = Home::new();
    seed_session(&home).await;
    add_huge_message(&home, "output: ", 48 * MEGABYTE);
    let _daemon = home.start();
    let mut wire = Wire::greeted(&home.socket());
    let page = wire.ask("session.transcript", json!({"session": SESSION}));
    let contents: Vec<&str> = page["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|m| m["content"].as_str())
        .collect();
    assert!(contents.iter().any(|c| c.starts_with("output: 000")));
    somebody_hands_off(&home);
}
