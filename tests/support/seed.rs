//! A terminal session with a history to hand off.

use hermesd::domain::transcript::Role;
use hermesd::store::NewMessage;
use serde_json::{Value, json};

use super::Home;

pub const SESSION: &str = "20260101_090000_aaaaaa";
pub const TITLE: &str = "Fix the parser";

/// Four messages with a tool call, under a fixed id; the schema is made when there is none.
pub async fn seed_session(home: &Home) {
    let store = home.store();
    home.sqlite()
        .execute(
            "INSERT INTO sessions (id, source, title, model, started_at) VALUES (?1, 'cli', ?2, 'm', 1767258000.0)",
            [SESSION, TITLE],
        )
        .expect("a session");
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "run_tests", "arguments": "{}"}});
    let history = vec![
        NewMessage::text(Role::User, "Why does the parser fail?"),
        NewMessage {
            tool_calls: vec![call],
            ..NewMessage::text(Role::Assistant, "Let me see.")
        },
        NewMessage {
            tool_call_id: Some("call_1".into()),
            tool_name: Some("run_tests".into()),
            ..NewMessage::text(Role::Tool, "1 failed")
        },
        NewMessage::reply("An off-by-one."),
    ];
    store.append(SESSION, history).await.expect("a history");
}

/// One more live terminal session, with nothing said in it yet.
pub fn add_session(home: &Home, id: &str, title: &str) {
    home.sqlite()
        .execute(
            "INSERT INTO sessions (id, source, title, model, started_at) VALUES (?1, 'cli', ?2, 'm', 1767258001.0)",
            [id, title],
        )
        .expect("a session");
}

/// The home channel of every platform, for tests that claim a handoff themselves.
pub fn home_channel(_platform: &str) -> Option<hermesd::domain::HomeChannel> {
    Some(hermesd::domain::HomeChannel {
        chat_id: "home".into(),
        name: None,
        thread_id: None,
        owner: None,
    })
}

pub fn no_thread() -> hermesd::domain::ThreadOutcome {
    hermesd::domain::ThreadOutcome::chat("none")
}

/// All that a handoff may change, as one value: a failed one has to leave it as it was.
pub fn picture(home: &Home) -> Value {
    let connection = home.sqlite();
    let rows = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        statement
            .query_map([], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    };
    json!({
        "sessions": rows("SELECT json_array(id, source, user_id, session_key, chat_id, chat_type, thread_id, display_name, origin_json,
                                 ended_at, end_reason, message_count, api_call_count) FROM sessions ORDER BY id"),
        "messages": rows("SELECT json_array(id, role, content) FROM messages WHERE active = 1 ORDER BY id"),
        "routing": rows("SELECT json_array(scope, session_key, entry_json) FROM gateway_routing ORDER BY session_key"),
    })
}
