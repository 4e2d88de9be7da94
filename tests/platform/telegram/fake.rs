//! The fake Telegram: it is as strict as the vendor, and it fails as a test scripts it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teloxide_core::payloads::GetUpdatesSetters;
use teloxide_core::prelude::Requester;
use teloxide_core::{ApiError, Bot, RequestError};
use tokio::sync::Semaphore;

use crate::support::eventually;
use crate::support::telegram::{ADA, BEN, BotApi, CONFLICT, Outcome, ScriptedFault, TOKEN};

/// The vendor's library, with a connection of its own.
pub fn bot(api: &BotApi) -> Bot {
    Bot::new(TOKEN).set_api_url(api.url().parse().unwrap())
}

async fn post(url: String, params: Value) -> Result<(u16, Value), reqwest::Error> {
    let request = reqwest::Client::new().post(url);
    let request = request.header("content-type", "application/json");
    let response = request.body(params.to_string()).send().await?;
    let status = response.status().as_u16();
    let body = response.text().await?;
    Ok((
        status,
        serde_json::from_str(&body).unwrap_or(Value::String(body)),
    ))
}

pub async fn call(
    api: &BotApi,
    method: &str,
    params: Value,
) -> Result<(u16, Value), reqwest::Error> {
    post(format!("{}{TOKEN}/{method}", api.hermes_base_url()), params).await
}

/// What a call is refused with.
pub async fn refused(api: &BotApi, method: &str, params: Value) -> String {
    let (status, body) = call(api, method, params).await.unwrap();
    assert_eq!(body["error_code"], status, "{body}");
    assert_eq!(body["ok"], false, "{body}");
    body["description"].as_str().unwrap().to_owned()
}

pub async fn done(api: &BotApi, method: &str, params: Value) -> Value {
    let (status, body) = call(api, method, params).await.unwrap();
    assert_eq!((status, &body["ok"]), (200, &json!(true)), "{body}");
    body["result"].clone()
}

#[tokio::test]
async fn refuses_as_the_vendor_does() {
    let api = BotApi::start();
    let ada = api.private(&ADA);
    let other = format!("{}/bot12:wrong/getMe", api.url());
    let (status, body) = post(other, json!({})).await.unwrap();
    let unauthorized = json!({"ok": false, "error_code": 401, "description": "Unauthorized"});
    assert_eq!((status, body), (401, unauthorized));
    let (status, body) = post(format!("{}/botwrong/getMe", api.url()), json!({}))
        .await
        .unwrap();
    assert_eq!((status, &body["description"]), (404, &json!("Not Found")));

    let keyboard = |button: Value| json!({"inline_keyboard": [[button]]});
    let long = "ä".repeat(4097);
    let wide = "😀".repeat(2049);
    let refusals = [
        ("sendMesage", json!({}), "Not Found: method not found"),
        (
            "sendMessage",
            json!({"text": "a"}),
            "Bad Request: chat_id is empty",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada}),
            "Bad Request: message text is empty",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": " \n"}),
            "Bad Request: message text is empty",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": long}),
            "Bad Request: message is too long",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": wide}),
            "Bad Request: message is too long",
        ),
        (
            "sendMessage",
            json!({"chat_id": 5, "text": "a"}),
            "Bad Request: chat not found",
        ),
        (
            "sendMessage",
            json!({"chat_id": "@nobody", "text": "a"}),
            "Bad Request: chat not found",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": "a", "txet": "b"}),
            "Bad Request: unknown parameter \"txet\" of sendMessage",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": 5}),
            "Bad Request: parameter \"text\" has to be of type Text, got 5",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": "a", "parse_mode": "MarkdownV2"}),
            "Bad Request: unsupported parse_mode",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": "a", "message_thread_id": 3}),
            "Bad Request: message thread not found",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": "a", "reply_parameters": {"message_id": 99}}),
            "Bad Request: message to be replied not found",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": "a", "link_preview_options": {"disabled": true}}),
            "Bad Request: link_preview_options: unknown field \"disabled\"",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": "a", "reply_markup": keyboard(json!({"text": "a", "callback_data": "ä".repeat(33)}))}),
            "Bad Request: BUTTON_DATA_INVALID",
        ),
        (
            "sendMessage",
            json!({"chat_id": ada, "text": "a", "reply_markup": keyboard(json!({"text": "a"}))}),
            "Bad Request: can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
        ),
        (
            "editMessageText",
            json!({"chat_id": ada, "message_id": 99, "text": "a"}),
            "Bad Request: message to edit not found",
        ),
        (
            "deleteMessage",
            json!({"chat_id": ada, "message_id": 99}),
            "Bad Request: message to delete not found",
        ),
        (
            "deleteMessage",
            json!({"chat_id": ada}),
            "Bad Request: parameter \"message_id\" is missing",
        ),
        (
            "createForumTopic",
            json!({"chat_id": ada, "name": "a"}),
            "Bad Request: the chat is not a forum",
        ),
        (
            "sendChatAction",
            json!({"chat_id": ada, "action": "thinking"}),
            "Bad Request: wrong parameter action in request",
        ),
        (
            "answerCallbackQuery",
            json!({"callback_query_id": "5"}),
            "Bad Request: query is too old and response timeout expired or query ID is invalid",
        ),
        (
            "setMyCommands",
            json!({"commands": [{"command": "New", "description": "a"}]}),
            "Bad Request: BOT_COMMAND_INVALID",
        ),
        (
            "getFile",
            json!({"file_id": "x"}),
            "Bad Request: wrong file_id or the file is temporarily unavailable",
        ),
        (
            "getUpdates",
            json!({"limit": 0}),
            "Bad Request: limit has to be between 1 and 100",
        ),
        (
            "getChatMember",
            json!({"chat_id": ada, "user_id": 1}),
            "Bad Request: PARTICIPANT_ID_INVALID",
        ),
    ];
    for (method, params, expected) in refusals {
        assert_eq!(
            refused(&api, method, params.clone()).await,
            expected,
            "{method} {params}"
        );
    }
    // As long as it can be, counted without the tags.
    let text = format!("<b>{}</b>", "ä".repeat(4096));
    done(
        &api,
        "SENDMESSAGE",
        json!({"chat_id": ada, "text": text, "parse_mode": "HTML"}),
    )
    .await;
    let calls = api.calls();
    let last = calls.last().unwrap();
    assert_eq!(
        (last.method.as_str(), &last.params["chat_id"]),
        ("sendMessage", &json!(ada))
    );
    assert!(calls[0].at < last.at);
    assert_eq!(
        calls[0].outcome,
        Outcome::Refused(401, "Unauthorized".into())
    );
}

#[tokio::test]
async fn takes_only_telegrams_html() {
    let api = BotApi::start();
    let ada = api.private(&ADA);
    let refusals = [
        (
            "<b>a",
            "Can't find end tag corresponding to start tag \"b\"",
        ),
        ("a</b>", "Unexpected end tag at byte offset 1"),
        (
            "<b><i>a</b></i>",
            "Unmatched end tag at byte offset 7, expected \"</i>\", found \"</b>\"",
        ),
        ("ä<p>a</p>", "Unsupported start tag \"p\" at byte offset 2"),
        ("1 < 2", "Unsupported start tag \"\" at byte offset 2"),
        ("a <b", "Unclosed start tag at byte offset 2"),
        (
            "<span>a</span>",
            "Tag \"span\" must have class \"tg-spoiler\" at byte offset 0",
        ),
    ];
    for (text, why) in refusals {
        let params = json!({"chat_id": ada, "text": text, "parse_mode": "HTML"});
        let expected = format!("Bad Request: can't parse entities: {why}");
        assert_eq!(
            refused(&api, "sendMessage", params).await,
            expected,
            "{text}"
        );
    }
    let text = " 😀<b>x &lt;<i>y</i></b> <pre><code class=\"language-rust\">fn</code></pre>\
         <a href='https://a.example/?q=1&amp;r=2'>l</a>&amp;nbsp; &#x41;\n";
    let params = json!({"chat_id": ada, "text": text, "parse_mode": "HTML"});
    done(&api, "sendMessage", params).await;
    let sent = api.until_message(ada, None, |_| true);
    assert_eq!(sent.text, "😀x <y fnl&nbsp; A");
    assert_eq!(sent.source, text);
    let entities = json!([
        {"type": "bold", "offset": 2, "length": 4},
        {"type": "italic", "offset": 5, "length": 1},
        {"type": "pre", "offset": 7, "length": 2, "language": "rust"},
        {"type": "text_link", "offset": 9, "length": 1, "url": "https://a.example/?q=1&r=2"},
    ]);
    assert_eq!(sent.entities, entities);
}

#[tokio::test]
async fn a_later_poll_ends_an_earlier_one() {
    let api = Arc::new(BotApi::start());
    let ada = api.private(&ADA);
    let poll = || {
        let bot = bot(&api);
        tokio::spawn(async move { bot.get_updates().timeout(5).await })
    };
    let waits = |api: Arc<BotApi>| tokio::task::spawn_blocking(move || api.until_polled());
    let first = poll();
    waits(api.clone()).await.unwrap();
    let second = poll();
    let ended = first.await.unwrap().unwrap_err();
    let conflict = RequestError::Api(ApiError::TerminatedByOtherGetUpdates);
    assert_eq!(ended.to_string(), conflict.to_string());
    waits(api.clone()).await.unwrap();
    api.says(ada, None, &ADA, "hi");
    assert_eq!(second.await.unwrap().unwrap().len(), 1);
}

#[tokio::test]
async fn fails_as_scripted() {
    let api = Arc::new(BotApi::start());
    let ada = api.private(&ADA);
    let hi = json!({"chat_id": ada, "text": "hi"});
    let send = || call(&api, "sendMessage", hi.clone());
    let count = || api.messages_in(ada, None).len();

    api.then("sendMessage", ScriptedFault::too_many_requests(3))
        .then("sendMessage", ScriptedFault::ProxyPage(502))
        .then("sendMessage", ScriptedFault::Refuse(409, CONFLICT))
        .then("sendMessage", ScriptedFault::Refuse(401, "Unauthorized"))
        .then_any(ScriptedFault::Refuse(400, "Bad Request: no"));
    let (status, body) = send().await.unwrap();
    assert_eq!(
        (status, &body["parameters"]["retry_after"]),
        (429, &json!(3))
    );
    assert_eq!(body["description"], "Too Many Requests: retry after 3");
    let (status, body) = send().await.unwrap();
    assert!(
        status == 502 && body.as_str().unwrap().contains("nginx"),
        "{body}"
    );
    for expected in [409, 401, 400] {
        assert_eq!(send().await.unwrap().0, expected);
    }
    api.then("sendMessage", ScriptedFault::DisconnectBefore)
        .then("sendMessage", ScriptedFault::DisconnectAfter);
    assert!(send().await.is_err() && count() == 0);
    assert!(send().await.is_err() && count() == 1);
    let outcomes: Vec<Outcome> = api
        .calls_of("sendMessage")
        .into_iter()
        .map(|c| c.outcome)
        .collect();
    assert!(
        matches!(outcomes[5..], [Outcome::Abandoned, Outcome::Done(_)]),
        "{outcomes:?}"
    );

    let spawn = || {
        let (api, hi) = (api.clone(), hi.clone());
        tokio::spawn(async move { call(&api, "sendMessage", hi).await.unwrap().0 })
    };
    let wait = |calls: usize| {
        let api = api.clone();
        tokio::task::spawn_blocking(move || api.until_calls("sendMessage", calls))
    };
    api.then("sendMessage", ScriptedFault::Hang);
    let muted = spawn();
    wait(8).await.unwrap();
    assert!(!muted.is_finished());
    muted.abort();

    let permits = Arc::new(Semaphore::new(0));
    api.then("sendMessage", ScriptedFault::HoldBefore(permits.clone()));
    let held = spawn();
    wait(9).await.unwrap();
    assert_eq!(count(), 1);
    permits.add_permits(1);
    assert_eq!(held.await.unwrap(), 200);
    api.then("sendMessage", ScriptedFault::HoldAfter(permits.clone()));
    let held = spawn();
    eventually("done", || async { (count() == 3).then_some(()) }).await;
    assert!(!held.is_finished());
    permits.add_permits(1);
    assert_eq!(held.await.unwrap(), 200);

    api.pause_all();
    let held = spawn();
    wait(11).await.unwrap();
    assert_eq!(count(), 3);
    api.let_pass(1);
    assert_eq!(held.await.unwrap(), 200);
    let held = spawn();
    wait(12).await.unwrap();
    assert_eq!(count(), 4);
    api.resume_all();
    assert_eq!(held.await.unwrap(), 200);
    api.pause_after(1);
    assert_eq!(send().await.unwrap().0, 200);
    // A client that goes before the work prevents the work.
    let held = spawn();
    wait(14).await.unwrap();
    held.abort();
    let quiet = api.clone();
    let quiet = tokio::task::spawn_blocking(move || quiet.until_quiet());
    quiet.await.unwrap();
    api.resume_all();
    assert_eq!(send().await.unwrap().0, 200);
    assert_eq!(count(), 7);
    api.always(Some(ScriptedFault::ProxyPage(503)));
    for _ in 0..2 {
        assert_eq!(send().await.unwrap().0, 503);
    }
    api.always(None);
    assert_eq!(send().await.unwrap().0, 200);
}

#[tokio::test]
async fn can_keep_to_limits() {
    let api = BotApi::start();
    let (ada, ben) = (api.private(&ADA), api.private(&BEN));
    api.limit(3);
    api.limit_chat(2, Duration::from_secs(60));
    let start = Instant::now();
    let mut told = Vec::new();
    for chat in [ada, ada, ada, ben, ben] {
        let hi = json!({"chat_id": chat, "text": "hi"});
        let (status, body) = call(&api, "sendMessage", hi).await.unwrap();
        told.push((
            status,
            body["parameters"]["retry_after"].as_u64().unwrap_or(0),
        ));
    }
    // Where this takes a second, there is nothing to be told at the end.
    let expected = [(200, 0), (200, 0), (429, 60), (200, 0), (429, 1)];
    let certain = 4 + usize::from(start.elapsed() < Duration::from_secs(1));
    assert_eq!(told[..certain], expected[..certain]);
}
