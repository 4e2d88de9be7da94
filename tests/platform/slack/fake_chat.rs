//! The fake Slack: messages of the bot.

use std::time::Duration;

use serde_json::{Value, json};

use super::fake::{call, done, error, get, posts, text_of};
use crate::support::slack::{ADA, BEN, Slack};

fn world() -> (Slack, String) {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    (slack, channel)
}

async fn refused(slack: &Slack, method: &str, body: Value) -> String {
    error(&call(slack, method, body).await).to_owned()
}

#[tokio::test]
async fn a_message_goes_where_the_bot_may_post() {
    let (slack, channel) = world();
    let post = |channel: &str| json!({"channel": channel, "text": "hi"});
    let send = "chat.postMessage";
    assert_eq!(
        refused(&slack, send, post("C07NOBODY00")).await,
        "channel_not_found"
    );
    done(call(&slack, send, post("#general")).await);
    let direct = done(call(&slack, send, post(ADA.id)).await);
    assert_eq!(direct["channel"], slack.direct(&ADA));
    assert_eq!(
        refused(&slack, send, post("U07NOBODY00")).await,
        "channel_not_found"
    );
    let bot = slack.other_bot();
    assert_eq!(refused(&slack, send, post(&bot)).await, "cannot_dm_bot");
    slack.removes_bot(&channel);
    assert_eq!(
        refused(&slack, send, post(&channel)).await,
        "not_in_channel"
    );
    slack.gives_scope("chat:write.public");
    done(call(&slack, send, post(&channel)).await);
    let private = slack.private_channel("ops");
    slack.removes_bot(&private);
    assert_eq!(
        refused(&slack, send, post(&private)).await,
        "channel_not_found"
    );
    slack.invites_bot(&private, &ADA);
    done(call(&slack, send, post(&private)).await);
    slack.restricts(&private);
    assert_eq!(
        refused(&slack, send, post(&private)).await,
        "restricted_action"
    );
    slack.archives(&private);
    assert_eq!(refused(&slack, send, post(&private)).await, "is_archived");
    slack.unarchives(&private);
    slack.closes_messages_tab();
    assert_eq!(
        refused(&slack, send, post(ADA.id)).await,
        "messages_tab_disabled"
    );
}

#[tokio::test]
async fn replies_need_a_root_that_is_there() {
    let (slack, channel) = world();
    let root = slack.says(&channel, &ADA, "question");
    let send = |thread: &str| {
        let body = json!({"channel": channel, "thread_ts": thread, "text": "answer"});
        call(&slack, "chat.postMessage", body)
    };
    let reply = done(send(&root).await);
    assert_eq!(reply["message"]["thread_ts"], root);
    assert_eq!(reply["message"]["parent_user_id"], ADA.id);
    let body =
        json!({"channel": channel, "thread_ts": root, "reply_broadcast": true, "text": "all"});
    done(call(&slack, "chat.postMessage", body).await);
    let broadcast = slack.bot_replies(&channel, &root);
    assert_eq!(
        broadcast
            .iter()
            .map(|one| one.broadcast)
            .collect::<Vec<_>>(),
        [false, true]
    );
    let malformed = send("0").await;
    assert_eq!(error(&malformed), "invalid_thread_ts");
    let told = &malformed["response_metadata"]["messages"][0];
    assert_eq!(told, "[ERROR] 0 is not a valid thread_ts");
    // A thread that is not there, or a reply in place of its root: Slack posts on top, and says so only by what is missing.
    for thread in ["1700000000.000001", &text_of(&reply["ts"])] {
        let on_top = done(send(thread).await);
        assert_eq!(on_top["message"].get("thread_ts"), None);
    }
    // A root with replies stays when it is deleted, and its thread with it.
    slack.deletes(&channel, &root);
    assert_eq!(done(send(&root).await)["message"]["thread_ts"], root);
    let lonely = slack.says(&channel, &ADA, "lonely");
    slack.deletes(&channel, &lonely);
    assert_eq!(done(send(&lonely).await)["message"].get("thread_ts"), None);
    assert_eq!(slack.bot_replies(&channel, &root).len(), 3);
}

#[tokio::test]
async fn a_text_is_cut_in_a_post_and_refused_in_an_edit() {
    let (slack, channel) = world();
    assert_eq!(
        refused(&slack, "chat.postMessage", json!({"channel": channel})).await,
        "no_text"
    );
    let long = "ä".repeat(40_001);
    let posted = done(
        call(
            &slack,
            "chat.postMessage",
            json!({"channel": channel, "text": long}),
        )
        .await,
    );
    assert_eq!(
        posted["message"]["text"].as_str().unwrap().chars().count(),
        40_000
    );
    let edit = |text: String| json!({"channel": channel, "ts": posted["ts"], "text": text});
    assert_eq!(
        refused(&slack, "chat.update", edit("x".repeat(4001))).await,
        "msg_too_long"
    );
    done(call(&slack, "chat.update", edit("x".repeat(4000))).await);
    let both = json!({"channel": channel, "text": "a", "markdown_text": "b"});
    assert_eq!(
        refused(&slack, "chat.postMessage", both).await,
        "markdown_text_conflict"
    );
}

#[tokio::test]
async fn the_bot_edits_and_deletes_only_its_own() {
    let (slack, channel) = world();
    let (hers, own) = (
        slack.says(&channel, &ADA, "mine"),
        posts(&slack, &channel, "old").await,
    );
    let edit = |ts: &str| json!({"channel": channel, "ts": ts, "text": "new"});
    assert_eq!(
        refused(&slack, "chat.update", edit(&hers)).await,
        "cant_update_message"
    );
    assert_eq!(
        refused(&slack, "chat.delete", edit(&hers)).await,
        "cant_delete_message"
    );
    assert_eq!(
        refused(&slack, "chat.update", edit("1700000000.000001")).await,
        "message_not_found"
    );
    let edited = done(call(&slack, "chat.update", edit(&own)).await);
    assert_eq!(
        (&edited["text"], &edited["message"]["edited"]["user"]),
        (&json!("new"), &json!(slack.bot_user()))
    );
    assert_eq!(slack.bot_messages(&channel)[0].edits, 1);
    slack.edit_window(Duration::ZERO);
    assert_eq!(
        refused(&slack, "chat.update", edit(&own)).await,
        "edit_window_closed"
    );
    slack.archives(&channel);
    assert_eq!(
        refused(&slack, "chat.update", edit(&own)).await,
        "is_inactive"
    );
    slack.unarchives(&channel);
    done(call(&slack, "chat.delete", edit(&own)).await);
    assert_eq!(
        refused(&slack, "chat.delete", edit(&own)).await,
        "message_not_found"
    );
    assert!(slack.bot_messages(&channel).is_empty());
}

#[tokio::test]
async fn an_edit_without_blocks_removes_them_when_it_has_text() {
    let (slack, channel) = world();
    let button = |label: &str| json!({"type": "button", "text": {"type": "plain_text", "text": label}, "value": "v"});
    let blocks = json!([{"type": "actions", "elements": [button("Yes"), button("No")]}]);
    let body = json!({"channel": channel, "text": "Sure?", "blocks": blocks});
    let ts = text_of(&done(call(&slack, "chat.postMessage", body).await)["ts"]);
    let labels = || -> Vec<String> {
        let all = slack.bot_messages(&channel).remove(0).buttons;
        all.into_iter().map(|button| button.label).collect()
    };
    assert_eq!(labels(), ["Yes", "No"]);
    let body =
        json!({"channel": channel, "ts": ts, "text": "Done", "blocks": [{"type": "divider"}]});
    let edited = done(call(&slack, "chat.update", body).await);
    assert_eq!(edited["message"].get("edited"), None);
    assert_eq!(slack.bot_messages(&channel)[0].blocks[0]["type"], "divider");
    done(
        call(
            &slack,
            "chat.update",
            json!({"channel": channel, "ts": ts, "text": "Done"}),
        )
        .await,
    );
    assert_eq!(slack.bot_messages(&channel)[0].blocks, Value::Null);
}

#[tokio::test]
async fn blocks_have_limits() {
    let (slack, channel) = world();
    let text = |kind: &str, count: usize| json!({"type": kind, "text": "x".repeat(count)});
    let section = |count| json!({"type": "section", "text": text("mrkdwn", count)});
    let button = |label: usize, id: &str, value: usize| json!({"type": "button", "text": text("plain_text", label), "action_id": id, "value": "v".repeat(value)});
    let actions = |elements: Vec<Value>| json!({"type": "actions", "elements": elements});
    let post = |blocks: Vec<Value>| {
        let body = json!({"channel": channel, "text": "x", "blocks": blocks});
        call(&slack, "chat.postMessage", body)
    };
    let many = |count: usize| {
        (0..count)
            .map(|n| button(1, &n.to_string(), 1))
            .collect::<Vec<_>>()
    };
    let fine = [
        vec![section(3000); 50],
        vec![actions(many(25))],
        vec![actions(vec![button(75, &"i".repeat(255), 2000)])],
        vec![
            json!({"type": "header", "text": text("plain_text", 150)}),
            json!({"type": "divider"}),
        ],
    ];
    for blocks in fine {
        done(post(blocks).await);
    }
    let bad = [
        (
            vec![section(3001)],
            "must be less than 3001 characters [json-pointer:/blocks/0/text/text]",
        ),
        (vec![section(1); 51], "no more than 50 items allowed"),
        (vec![actions(many(26))], "[json-pointer:/blocks/0/elements]"),
        (
            vec![actions(vec![button(76, "a", 1)])],
            "/blocks/0/elements/0/text/text",
        ),
        (
            vec![actions(vec![button(1, "a", 2001)])],
            "/blocks/0/elements/0/value",
        ),
        (
            vec![actions(vec![button(1, &"i".repeat(256), 1)])],
            "/blocks/0/elements/0/action_id",
        ),
        (
            vec![actions(vec![button(1, "a", 1), button(1, "a", 1)])],
            "`action_id` already exists",
        ),
        (
            vec![json!({"type": "telepathy"})],
            "unsupported type: telepathy",
        ),
        (
            vec![json!({"type": "section"})],
            "missing required field: text",
        ),
        (
            vec![json!({"type": "header", "text": text("mrkdwn", 1)})],
            "/blocks/0/text/type",
        ),
        (
            vec![
                json!({"type": "divider", "block_id": "b"}),
                json!({"type": "divider", "block_id": "b"}),
            ],
            "`block_id` already exists",
        ),
    ];
    for (blocks, why) in bad {
        let refused = post(blocks).await;
        assert_eq!(error(&refused), "invalid_blocks");
        let told = refused["response_metadata"]["messages"].to_string();
        assert!(told.contains(why), "{told}");
    }
}

#[tokio::test]
async fn metadata_comes_back_to_whom_asks_for_it() {
    let (slack, channel) = world();
    let metadata = json!({"event_type": "handoff", "event_payload": {"key": "abc"}});
    let body = json!({"channel": channel, "text": "hi", "metadata": metadata});
    let posted = done(call(&slack, "chat.postMessage", body).await);
    assert_eq!(posted["message"]["metadata"], metadata);
    let read = get(&slack, "conversations.history", &[("channel", &channel)]).await;
    assert_eq!(
        done(read)["messages"][0]["metadata"],
        json!({"event_type": "handoff"})
    );
    let query = [("channel", &*channel), ("include_all_metadata", "true")];
    let read = get(&slack, "conversations.history", &query).await;
    assert_eq!(done(read)["messages"][0]["metadata"], metadata);
    assert_eq!(slack.bot_messages(&channel)[0].metadata, Some(metadata));
    let half = json!({"channel": channel, "text": "hi", "metadata": {"event_type": "x"}});
    assert_eq!(
        refused(&slack, "chat.postMessage", half).await,
        "invalid_metadata_format"
    );
    let gone = json!({"channel": channel, "ts": posted["ts"], "text": "hi", "metadata": {}});
    done(call(&slack, "chat.update", gone).await);
    assert_eq!(slack.bot_messages(&channel)[0].metadata, None);
}

#[tokio::test]
async fn some_messages_are_for_one_person() {
    let (slack, channel) = world();
    let blocks = json!([{"type": "divider", "block_id": "b"}]);
    let body = json!({"channel": channel, "user": ADA.id, "text": "psst", "blocks": blocks});
    let told = done(call(&slack, "chat.postEphemeral", body.clone()).await);
    let seen = slack.ephemerals(&channel).remove(0);
    assert_eq!(told["message_ts"], seen.ts);
    assert_eq!((&*seen.to, &*seen.text), (ADA.id, "psst"));
    assert_eq!(seen.blocks, blocks);
    slack.leaves(&channel, &ADA);
    assert_eq!(
        refused(&slack, "chat.postEphemeral", body).await,
        "user_not_in_channel"
    );
    let ts = slack.says(&channel, &BEN, "public");
    let query = [("channel", &*channel), ("message_ts", &*ts)];
    let link = done(get(&slack, "chat.getPermalink", &query).await);
    let digits = ts.replace('.', "");
    assert_eq!(
        link["permalink"],
        format!("https://work.slack.com/archives/{channel}/p{digits}")
    );
    let named = json!({"channel": channel, "text": "hi", "username": "Other"});
    assert_eq!(
        refused(&slack, "chat.postMessage", named.clone()).await,
        "missing_scope"
    );
    slack.gives_scope("chat:write.customize");
    assert_eq!(
        done(call(&slack, "chat.postMessage", named).await)["message"]["subtype"],
        "bot_message"
    );
}
