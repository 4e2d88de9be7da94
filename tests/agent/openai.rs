//! Any OpenAI-compatible endpoint as the agent: what it is shown, and what becomes of what it says.

use std::sync::Arc;

use hermesd::client::{Client, News};
use hermesd::protocol::{Call, EventKind, EventsSubscribe, Nothing};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::inbound::chats::spoken;
use crate::support::endpoint::{Endpoint, KEY, MODEL, ScriptedReply};
use crate::support::{Daemon, Home, PATIENCE, SESSION, TITLE, eventually, seed_session, until};
use crate::terminal::sessions::{open, say};

pub fn hand_off(home: &Home) {
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

pub fn set(home: &Home, change: &str) {
    let sql = format!("UPDATE sessions SET {change}");
    assert_eq!(home.sqlite().execute(&sql, []).unwrap(), 1);
}

pub fn one<T: rusqlite::types::FromSql>(home: &Home, sql: &str) -> T {
    home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// All live rows as other programs read them.
pub fn rows(home: &Home) -> Vec<String> {
    let connection = home.sqlite();
    let mut statement = connection
        .prepare(
            "SELECT json_array(id, role, content, api_content, tool_calls, tool_call_id, tool_name, finish_reason,
                               reasoning, reasoning_content, timestamp)
             FROM messages WHERE active ORDER BY id",
        )
        .unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Another program's row, long ago.
pub fn write(home: &Home, role: &str, content: Option<&str>, tool_calls: Option<&str>) {
    home.sqlite()
        .execute(
            "INSERT INTO messages (session_id, role, content, tool_calls, timestamp) VALUES (?1, ?2, ?3, ?4, 1767258000.0)",
            (SESSION, role, content, tool_calls),
        )
        .unwrap();
}

/// A client that hears every piece of every reply.
pub async fn listen(daemon: &Daemon) -> Client {
    let client = daemon.client().await;
    let wish = EventsSubscribe {
        topics: vec!["turn.delta".into()],
        session: None,
    };
    let _: Value = client.call(Call::EventsSubscribe(wish)).await.unwrap();
    client
}

/// The next so many pieces.
pub async fn heard(client: &Client, count: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    while pieces.len() < count {
        let news = tokio::time::timeout(PATIENCE, client.news()).await;
        if let Ok(Some(News::Event(event))) = &news
            && let EventKind::TurnDelta { text, .. } = &event.event
        {
            pieces.push(text.clone());
        } else {
            panic!("after {pieces:?} came {news:?}");
        }
    }
    pieces
}

const TOKENS: &str = "SELECT json_array(input_tokens, output_tokens, cache_read_tokens, reasoning_tokens) FROM sessions";

async fn post(url: &str, key: &str, body: &Value) -> (u16, Value) {
    let request = reqwest::Client::new().post(url).bearer_auth(key);
    let request = request.header("content-type", "application/json");
    let response = request.body(body.to_string()).send().await.unwrap();
    let status = response.status().as_u16();
    let body = response.text().await.unwrap();
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn the_endpoint_of_these_tests_refuses_what_a_vendor_refuses() {
    let endpoint = Endpoint::start();
    let url = format!("{}/chat/completions", endpoint.url());
    let ask = |messages: Value| json!({"model": MODEL, "messages": messages});
    let hello = json!([{"role": "user", "content": "hello"}]);
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "a"});

    let part = |role: &str, part: Value| ask(json!([{"role": role, "content": [part]}]));
    let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

    let (status, body) = post(&url, KEY, &part("user", picture(PNG))).await;
    assert_eq!(status, 200, "{body}");
    let good = ask(json!([call, result, hello[0]]));
    let (status, body) = post(&url, KEY, &good).await;
    assert_eq!((status, &body["usage"]["prompt_tokens"]), (200, &json!(30)));
    let (status, body) = post(&url, "sk-wrong", &good).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (401, &json!("invalid_api_key"))
    );
    let (status, body) = post(&endpoint.url(), KEY, &good).await;
    assert!(
        status == 404 && body["error"]["message"].is_string(),
        "{body}"
    );
    let other = json!({"model": "other", "messages": hello});
    let (status, body) = post(&url, KEY, &other).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    for (wrong, words) in [
        (json!("hello"), "could not parse"),
        (json!({"messages": hello}), "model"),
        (ask(json!([])), "minimum length 1"),
        (
            json!({"model": MODEL, "messages": hello, "mood": 1}),
            "mood",
        ),
        (
            json!({"model": MODEL, "messages": hello, "stream_options": {}}),
            "stream_options",
        ),
        (ask(json!([{"role": "robot", "content": "x"}])), "robot"),
        (
            ask(json!([{"role": "user", "content": "x", "mood": 1}])),
            "mood",
        ),
        (ask(json!([{"role": "user", "content": null}])), "content"),
        (
            ask(json!([{"role": "assistant", "content": null}])),
            "content",
        ),
        (ask(json!([{"role": "user", "content": []}])), "content"),
        (part("user", json!({"type": "text"})), "content"),
        (
            part("user", json!({"type": "text", "text": "x", "mood": 1})),
            "content",
        ),
        (
            part("user", json!({"type": "picture", "url": "x"})),
            "content",
        ),
        (
            part("user", picture("https://example.org/a.png")),
            "data URL",
        ),
        (
            part("user", picture("data:image/png;base64,????")),
            "data URL",
        ),
        (
            part("user", picture("data:image/png;base64,AAAA")),
            "data URL",
        ),
        (part("assistant", picture(PNG)), "assistant"),
        (ask(json!([call, hello[0]])), "did not have response"),
        (ask(json!([hello[0], call])), "did not have response"),
        (ask(json!([hello[0], result])), "preceeding"),
        (ask(json!([call, result, result])), "preceeding"),
    ] {
        let (status, body) = post(&url, KEY, &wrong).await;
        let message = body["error"]["message"].as_str().unwrap_or_default();
        assert!(
            status == 400 && message.contains(words),
            "{wrong} → {status} {body}"
        );
    }
}

#[tokio::test]
async fn a_terminal_talks_to_the_endpoint_which_is_shown_all_that_was_said() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    let talk = home.talk(&[], "hello\nand again\n");
    assert_eq!(
        talk.replies(),
        ["I was given 1 messages.", "I was given 3 messages."]
    );
    let second = &endpoint.seen()[1];
    assert_eq!(
        second.body,
        json!({
            "model": MODEL,
            "messages": [
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "I was given 1 messages."},
                {"role": "user", "content": "and again"},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
    assert_eq!(one::<String>(&home, TOKENS), "[40,14,6,4]");
    assert_eq!(one::<String>(&home, "SELECT model FROM sessions"), MODEL);
    assert_eq!(one::<i64>(&home, "SELECT api_call_count FROM sessions"), 2);
}

#[tokio::test]
async fn hermes_own_model_section_is_all_that_is_needed() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    home.write(
        "config.yaml",
        &format!(
            "model:\n  default: {MODEL}\n  provider: custom\n  base_url: {}/\n  api_key: {KEY}\n",
            endpoint.url()
        ),
    );
    let _daemon = home.start();
    let status = home.hermesctl(&["--json", "status"]).json();
    assert_eq!(status["agent"], "openai");
    let said = home.type_into("local", "hello\nand again\n");
    assert_eq!(said, ["I was given 1 messages.", "I was given 3 messages."]);
}

#[tokio::test]
async fn a_handoff_shows_the_endpoint_the_whole_transcript_and_counts_what_it_cost() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    set(
        &home,
        "system_prompt = 'Be kind.', input_tokens = 5, output_tokens = NULL",
    );
    let _daemon = endpoint.start_daemon(&home, &[]);
    hand_off(&home);
    let seen = endpoint.seen();
    let messages = seen[0].messages();
    assert_eq!(
        messages[..5],
        [
            json!({"role": "system", "content": "Be kind."}),
            json!({"role": "user", "content": "Why does the parser fail?"}),
            json!({"role": "assistant", "content": "Let me see.", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "run_tests", "arguments": "{}"}}]}),
            json!({"role": "tool", "content": "1 failed", "tool_call_id": "call_1"}),
            json!({"role": "assistant", "content": "An off-by-one."}),
        ]
    );
    let notice = messages[5]["content"].as_str().unwrap();
    assert!(
        messages.len() == 6 && messages[5]["role"] == "user" && notice.starts_with("[Handoff]"),
        "{messages:?}"
    );
    assert_eq!(
        home.type_into("local/1", "go on\n"),
        ["I was given 6 messages.", "I was given 8 messages."]
    );
    assert_eq!(
        endpoint.seen()[1].roles()[5..],
        ["user", "assistant", "user"]
    );
    // What the chat's turn cost comes on top.
    assert_eq!(one::<String>(&home, TOKENS), "[145,14,6,4]");
}

#[tokio::test]
async fn words_arrive_as_the_endpoint_says_them() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let daemon = endpoint.start_daemon(&home, &[]);
    let permits = Arc::new(Semaphore::new(0));
    endpoint.then(ScriptedReply::Pause(2, permits.clone()));
    let client = listen(&daemon).await;
    open(&client, None).await.unwrap();
    let hearing = async {
        let begun = heard(&client, 2).await;
        permits.add_permits(1);
        (begun, heard(&client, 3).await)
    };
    let (turn, (begun, rest)) = tokio::join!(say(&client, "hello"), hearing);
    assert_eq!(begun, ["I ", "was "]);
    assert_eq!(rest, ["given ", "1 ", "messages."]);
    assert_eq!(turn.unwrap().reply, "I was given 1 messages.");
}

#[tokio::test]
async fn thoughts_are_kept_beside_the_reply_and_shown_to_nobody() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    endpoint.then(ScriptedReply::Think("A greeting it is.", "Hello yourself."));
    assert_eq!(home.type_into("local", "hello\n"), ["Hello yourself."]);
    let (reply, thought): (String, String) = home
        .sqlite()
        .query_row(
            "SELECT content, reasoning FROM messages WHERE role = 'assistant'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(
        (reply.as_str(), thought.as_str()),
        ("Hello yourself.", "A greeting it is.")
    );
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_is_understood() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    endpoint.then(ScriptedReply::Whole);
    let talk = home.talk(&[], "hello\n");
    assert_eq!(talk.replies(), ["I was given 1 messages."]);
    assert_eq!(one::<String>(&home, TOKENS), "[10,7,3,2]");
}

#[tokio::test]
async fn an_endpoint_that_takes_no_extras_is_asked_again_without_them() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    home.sqlite()
        .execute(
            "UPDATE messages SET reasoning_content = 'I look.' WHERE content = 'Let me see.'",
            [],
        )
        .unwrap();
    let _daemon = endpoint.start_daemon(&home, &[]);
    endpoint
        .then(ScriptedReply::Picky)
        .then(ScriptedReply::Picky);
    hand_off(&home);
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].messages()[1]["reasoning_content"], "I look.");
    assert!(!seen[1].body.to_string().contains("reasoning"), "{seen:?}");
    assert_eq!(seen[1].body["stream_options"], Value::Null);
    assert_eq!(seen[1].messages().len(), 5);
    // Such an endpoint does not say what it cost.
    assert_eq!(one::<String>(&home, TOKENS), "[0,0,0,0]");
}

#[tokio::test]
async fn a_call_that_nobody_answered_is_mended_for_the_endpoint_and_not_in_the_database() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    let calls = r#"[{"id": "call_2", "function": {"name": "a", "arguments": "{}"}},
                    {"id": "call_3", "function": {"name": "b", "arguments": "{}"}}]"#;
    write(&home, "user", Some("and now?"), None);
    write(&home, "assistant", None, Some(calls));
    let before = rows(&home);
    let _daemon = endpoint.start_daemon(&home, &[]);
    hand_off(&home);
    let messages = endpoint.seen()[0].messages();
    let results: Vec<_> = messages[6..8]
        .iter()
        .map(|m| (m["role"].as_str(), m["tool_call_id"].as_str()))
        .collect();
    assert_eq!(
        results,
        [
            (Some("tool"), Some("call_2")),
            (Some("tool"), Some("call_3"))
        ]
    );
    assert!(
        messages[6]["content"]
            .as_str()
            .unwrap()
            .contains("no result"),
        "{messages:?}"
    );
    let after = rows(&home);
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.len(), before.len() + 2);
}

#[tokio::test]
async fn a_result_that_names_its_call_by_its_other_id_still_belongs_to_it() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    // Some backends give a call two ids, and let results name either.
    home.sqlite()
        .execute_batch(
            "UPDATE messages SET tool_calls = replace(tool_calls, '\"id\":', '\"id\":\"fc_1\",\"call_id\":');
             UPDATE messages SET tool_calls = json(tool_calls) WHERE tool_calls IS NOT NULL;",
        )
        .unwrap();
    let _daemon = endpoint.start_daemon(&home, &[]);
    hand_off(&home);
    let messages = endpoint.seen()[0].messages();
    assert_eq!(
        messages[1]["tool_calls"][0]["id"],
        messages[2]["tool_call_id"]
    );
}

#[tokio::test]
async fn stopping_an_answer_hangs_up_and_keeps_what_was_said() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let daemon = endpoint.start_daemon(&home, &[]);
    let client = &listen(&daemon).await;
    let id = open(client, None).await.unwrap().session.id;
    endpoint
        .then(ScriptedReply::FallSilent(2))
        .then(ScriptedReply::Hang);
    for (turn, kept) in [(1, "I was "), (2, "")] {
        let stopping = async {
            eventually("the endpoint is asked", || async {
                (endpoint.seen().len() == turn).then_some(())
            })
            .await;
            if !kept.is_empty() {
                heard(client, 2).await;
            }
            let _: Value = client.call(Call::ChatStop(Nothing {})).await.unwrap();
        };
        let (said, ()) = tokio::join!(say(client, "hello"), stopping);
        let said = said.unwrap();
        assert_eq!(
            (said.reply.as_str(), said.interrupted, said.error),
            (kept, true, None)
        );
        until("the endpoint is left alone", || {
            (endpoint.hung_up() == turn).then_some(())
        });
    }
    assert_eq!(
        spoken(&home, &id),
        ["user: hello", "assistant: I was ", "user: hello"]
    );
    let finish = "SELECT finish_reason FROM messages WHERE role = 'assistant'";
    assert_eq!(one::<String>(&home, finish), "interrupted");
}

#[tokio::test]
async fn stop_in_a_chat_hangs_up_too() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let daemon = endpoint.start_daemon(&home, &[]);
    endpoint.then(ScriptedReply::FallSilent(2));
    let listener = listen(&daemon).await;
    let _talking = home.pipe_into_hermesctl("hello\n", &["attach", "local"]);
    assert_eq!(heard(&listener, 2).await, ["I ", "was "]);
    home.type_into("local", "/stop\n");
    until("the endpoint is left alone", || {
        (endpoint.hung_up() == 1).then_some(())
    });
    until("what there is of the answer is in the chat", || {
        let said = home.type_into("local", "");
        let has = |words: &str| said.iter().any(|said| said == words);
        (has("Stopping.") && has("I was\n(stopped)")).then_some(())
    });
    let finish = "SELECT finish_reason FROM messages WHERE role = 'assistant'";
    assert_eq!(one::<String>(&home, finish), "interrupted");
}
