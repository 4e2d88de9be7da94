//! The fake Slack: streams, reactions and the threads of an assistant.

use serde_json::{Value, json};

use super::fake::{Client, call, done, error, posts, text_of};
use crate::support::slack::{ADA, Slack, TEAM};

#[tokio::test]
async fn a_stream_is_started_appended_and_stopped() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let root = slack.says(&channel, &ADA, "tell me");
    let mut start = json!({"channel": channel, "thread_ts": root, "markdown_text": "one"});
    let missing = call(&slack, "chat.startStream", start.clone()).await;
    assert_eq!(error(&missing), "missing_recipient_team_id");
    start["recipient_team_id"] = json!(TEAM);
    let missing = call(&slack, "chat.startStream", start.clone()).await;
    assert_eq!(error(&missing), "missing_recipient_user_id");
    start["recipient_user_id"] = json!(ADA.id);
    let ts = text_of(&done(call(&slack, "chat.startStream", start.clone()).await)["ts"]);
    let with = |mut more: Value| {
        more["channel"] = json!(channel);
        more["ts"] = json!(ts);
        more
    };
    let update = call(&slack, "chat.update", with(json!({"text": "x"}))).await;
    assert_eq!(error(&update), "streaming_state_conflict");
    assert!(slack.bot_replies(&channel, &root)[0].streaming);
    done(
        call(
            &slack,
            "chat.appendStream",
            with(json!({"markdown_text": " two"})),
        )
        .await,
    );
    let empty = call(&slack, "chat.appendStream", with(json!({}))).await;
    assert_eq!(error(&empty), "no_text");
    let chunks = json!({"chunks": [{"type": "markdown_text", "text": " three"}]});
    let stopped = done(call(&slack, "chat.stopStream", with(chunks)).await);
    assert_eq!(stopped["message"]["text"], "one two three");
    let late = call(
        &slack,
        "chat.appendStream",
        with(json!({"markdown_text": "x"})),
    )
    .await;
    assert_eq!(error(&late), "message_not_in_streaming_state");
    let others = json!({"channel": channel, "ts": root, "markdown_text": "x"});
    let others = call(&slack, "chat.appendStream", others).await;
    assert_eq!(error(&others), "message_not_owned_by_app");
    // A direct channel has one recipient.
    let direct = slack.direct(&ADA);
    let root = slack.says(&direct, &ADA, "tell me");
    let start = json!({"channel": direct, "thread_ts": root});
    done(call(&slack, "chat.startStream", start).await);
    let lost = json!({"channel": direct, "thread_ts": "1700000000.000001"});
    assert_eq!(
        error(&call(&slack, "chat.startStream", lost).await),
        "invalid_thread_ts"
    );
}

#[tokio::test]
async fn a_reaction_is_added_once() {
    let slack = Slack::start();
    slack.gives_scope("reactions:write");
    let channel = slack.public_channel("general");
    let ts = slack.says(&channel, &ADA, "hello");
    slack.reacts(&channel, &ts, &ADA, "eyes");
    let react = async |method: &str, name: &str, ts: &str| {
        let body = json!({"channel": channel, "timestamp": ts, "name": name});
        call(&slack, method, body).await
    };
    done(react("reactions.add", "eyes", &ts).await);
    assert_eq!(
        error(&react("reactions.add", "eyes", &ts).await),
        "already_reacted"
    );
    let users = vec![ADA.id.to_owned(), slack.bot_user()];
    assert_eq!(slack.reactions(&channel, &ts), [("eyes".to_owned(), users)]);
    done(react("reactions.remove", "eyes", &ts).await);
    assert_eq!(
        error(&react("reactions.remove", "eyes", &ts).await),
        "no_reaction"
    );
    assert_eq!(
        error(&react("reactions.add", "telepathy", &ts).await),
        "invalid_name"
    );
    assert_eq!(
        error(&react("reactions.add", "eyes", "soon").await),
        "bad_timestamp"
    );
    let lost = react("reactions.add", "eyes", "1700000000.000001").await;
    assert_eq!(error(&lost), "message_not_found");
    let none = call(&slack, "reactions.add", json!({"name": "eyes"})).await;
    assert_eq!(error(&none), "no_item_specified");
}

#[tokio::test]
async fn an_assistant_shows_what_it_does() {
    let slack = Slack::start();
    let mut client = Client::connect(&slack).await;
    let (channel, root) = slack.opens_assistant(&ADA);
    client.event().await;
    let started = client.event().await;
    assert_eq!(started["type"], "assistant_thread_started");
    assert_eq!(started["assistant_thread"]["thread_ts"], root);
    let other = slack.public_channel("general");
    slack.looks_at(&ADA, &channel, &root, &other);
    let changed = client.event().await;
    assert_eq!(changed["type"], "assistant_thread_context_changed");
    assert_eq!(changed["assistant_thread"]["context"]["channel_id"], other);
    let set = async |method: &str, mut body: Value| {
        body["channel_id"] = json!(channel);
        body["thread_ts"] = json!(root);
        call(&slack, &format!("assistant.threads.{method}"), body).await
    };
    done(set("setStatus", json!({"status": "is thinking"})).await);
    done(set("setTitle", json!({"title": "Plans"})).await);
    let prompts = json!({"prompts": [{"title": "Hi", "message": "Say hi"}]});
    done(set("setSuggestedPrompts", prompts).await);
    let half = json!({"prompts": [{"title": "Hi"}]});
    assert_eq!(
        error(&set("setSuggestedPrompts", half).await),
        "invalid_arguments"
    );
    let extras = slack.extras(&channel, &root);
    assert_eq!((&*extras.status, &*extras.title), ("is thinking", "Plans"));
    assert_eq!(extras.prompts, [("Hi".to_owned(), "Say hi".to_owned())]);
    // A post ends the status.
    let body = json!({"channel": channel, "thread_ts": root, "text": "done"});
    done(call(&slack, "chat.postMessage", body).await);
    assert_eq!(slack.extras(&channel, &root).status, "");
    let ts = posts(&slack, &channel, "on top").await;
    slack.deletes(&channel, &ts);
    let body = json!({"channel_id": channel, "thread_ts": ts, "status": "x"});
    let lost = call(&slack, "assistant.threads.setStatus", body).await;
    assert_eq!(error(&lost), "invalid_thread_ts");
    slack.removes_scope("assistant:write");
    assert_eq!(
        error(&set("setTitle", json!({"title": "x"})).await),
        "missing_scope"
    );
}
