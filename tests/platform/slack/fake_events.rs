//! The fake Slack: which events the app gets.

use serde_json::json;

use super::fake::{Client, call, done};
use crate::support::slack::{ADA, BEN, Slack};

#[tokio::test]
async fn a_mention_comes_as_two_events_with_one_ts() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let mut client = Client::connect(&slack).await;
    let text = format!("<@{}> hello", slack.bot_user());
    let ts = slack.says(&channel, &ADA, &text);
    let (message, mention) = (client.event().await, client.event().await);
    assert_eq!(
        (&message["type"], &message["channel_type"]),
        (&json!("message"), &json!("channel"))
    );
    assert_eq!(
        (&mention["type"], mention.get("channel_type")),
        (&json!("app_mention"), None)
    );
    for event in [&message, &mention] {
        assert_eq!(
            (&event["ts"], &event["text"], &event["user"]),
            (&json!(ts), &json!(text), &json!(ADA.id))
        );
        assert_eq!(event["blocks"][0]["type"], "rich_text");
    }
    // A direct message mentions nobody.
    let direct = slack.direct(&ADA);
    slack.says(&direct, &ADA, &text);
    assert_eq!(client.event().await["channel_type"], "im");
    slack.says(&slack.group_direct(&[ADA, BEN]), &BEN, "all");
    assert_eq!(client.event().await["channel_type"], "mpim");
    slack.says(&slack.private_channel("ops"), &BEN, "secret");
    assert_eq!(client.event().await["channel_type"], "group");
}

#[tokio::test]
async fn events_depend_on_subscriptions_scopes_and_membership() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let direct = slack.direct(&ADA);
    let mention = format!("<@{}>", slack.bot_user());
    let mut client = Client::connect(&slack).await;
    slack.removes_scope("channels:history");
    slack.says(&channel, &ADA, &mention);
    assert_eq!(client.event().await["type"], "app_mention");
    slack.subscribes(&["message.im"]);
    slack.says(&channel, &ADA, &mention);
    slack.says(&direct, &ADA, "direct");
    assert_eq!(client.event().await["text"], "direct");
    slack.subscribes(&["message.channels", "member_joined_channel", "channel_left"]);
    slack.gives_scope("channels:history");
    slack.removes_bot(&channel);
    assert_eq!(client.event().await["type"], "channel_left");
    slack.says(&channel, &ADA, "behind its back");
    slack.invites_bot(&channel, &ADA);
    let note = client.event().await;
    assert_eq!(
        (&note["subtype"], &note["user"]),
        (&json!("channel_join"), &json!(slack.bot_user()))
    );
    let joined = client.event().await;
    assert_eq!(
        (&joined["type"], &joined["inviter"]),
        (&json!("member_joined_channel"), &json!(ADA.id))
    );
    slack.leaves(&channel, &BEN);
    slack.joins(&channel, &BEN);
    assert_eq!(client.event().await["subtype"], "channel_join");
    assert_eq!(client.event().await["user"], BEN.id);
    slack.subscribes(&["tokens_revoked", "message.channels"]);
    slack.revokes_token();
    assert_eq!(client.event().await["type"], "tokens_revoked");
    slack.says(&channel, &ADA, "too late");
    assert!(client.is_quiet().await);
}

#[tokio::test]
async fn edits_deletions_and_notes_have_subtypes() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let mut client = Client::connect(&slack).await;
    let ts = slack.says(&channel, &ADA, "helo");
    client.event().await;
    slack.edits(&channel, &ts, "hello");
    let changed = client.event().await;
    assert_eq!(changed["subtype"], "message_changed");
    assert_eq!(
        (
            &changed["message"]["text"],
            &changed["previous_message"]["text"]
        ),
        (&json!("hello"), &json!("helo"))
    );
    assert_eq!(
        (
            &changed["message"]["ts"],
            &changed["message"]["edited"]["user"]
        ),
        (&json!(ts), &json!(ADA.id))
    );
    assert_ne!(changed["ts"], ts);
    let root = slack.says(&channel, &ADA, "root");
    client.event().await;
    let reply = slack
        .writes(&channel, &BEN)
        .thread(&root)
        .broadcast()
        .text("all")
        .send();
    let broadcast = client.event().await;
    assert_eq!(
        (&broadcast["subtype"], &broadcast["thread_ts"]),
        (&json!("thread_broadcast"), &json!(root))
    );
    assert_eq!(
        (&broadcast["ts"], &broadcast["root"]["ts"]),
        (&json!(reply), &json!(root))
    );
    slack.deletes(&channel, &ts);
    let deleted = client.event().await;
    assert_eq!(
        (&deleted["subtype"], &deleted["deleted_ts"]),
        (&json!("message_deleted"), &json!(ts))
    );
    slack
        .writes(&channel, &ADA)
        .text("set the topic")
        .note("channel_topic")
        .send();
    assert_eq!(client.event().await["subtype"], "channel_topic");
    let bot = slack.other_bot();
    slack
        .writes(&channel, &ADA)
        .text("built")
        .by_other_bot(&bot)
        .send();
    let built = client.event().await;
    assert_eq!(
        (&built["user"], &built["bot_profile"]["name"]),
        (&json!(bot), &json!("build"))
    );
    slack.gives_scope("chat:write.customize");
    let body = json!({"channel": channel, "text": "hi", "username": "Other"});
    done(call(&slack, "chat.postMessage", body).await);
    assert_eq!(client.event().await["subtype"], "bot_message");
    slack.subscribes(&["reaction_added", "channel_archive"]);
    slack.gives_scope("reactions:read");
    slack.reacts(&channel, &root, &BEN, "eyes");
    assert_eq!(client.event().await["item"]["ts"], root);
    slack.archives(&channel);
    assert_eq!(client.event().await["type"], "channel_archive");
}
