//! The fake Slack: how texts are kept, and whom they notify.

use serde_json::{Value, json};

use super::fake::{call, done, posts, text_of};
use crate::support::slack::{ADA, BEN, Slack};

async fn notified_by(slack: &Slack, channel: &str, mut body: Value) -> Vec<String> {
    body["channel"] = json!(channel);
    let posted = done(call(slack, "chat.postMessage", body).await);
    slack.notified(channel, &text_of(&posted["ts"]))
}

#[tokio::test]
async fn special_characters_are_kept_as_entities() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    posts(
        &slack,
        &channel,
        "1 < 2 & 3 > 2, <oops> &lt;@U1&gt; <https://a.example|a> &amp;",
    )
    .await;
    let message = slack.bot_messages(&channel).remove(0);
    let kept = "1 &lt; 2 &amp; 3 &gt; 2, &lt;oops&gt; &lt;@U1&gt; <https://a.example|a> &amp;";
    assert_eq!(message.text, kept);
    assert_eq!(
        message.read(),
        "1 < 2 & 3 > 2, <oops> <@U1> <https://a.example|a> &"
    );
    assert!(message.notified.is_empty());
}

#[tokio::test]
async fn mentions_notify_and_plain_words_do_not() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let ada = format!("user {}", ADA.id);
    let told = async |body: Value| notified_by(&slack, &channel, body).await;
    let mention = json!({"text": format!("<@{}> and <@{}|ben>", ADA.id, BEN.id)});
    assert_eq!(
        told(mention).await,
        [ada.clone(), format!("user {}", BEN.id)]
    );
    let all = json!({"text": "<!channel> <!here> <!everyone> <!subteam^S07GROUP01> <#C07X|x>"});
    assert_eq!(
        told(all).await,
        ["channel", "everyone", "group S07GROUP01", "here"]
    );
    assert!(
        told(json!({"text": "@here @ada &lt;!here&gt; <#C07X>"}))
            .await
            .is_empty()
    );
    let full = json!({"text": "@here, @ada.", "parse": "full"});
    assert_eq!(told(full).await, ["here", &ada]);
    let linked = json!({"text": "@here @ada", "link_names": true});
    assert_eq!(told(linked).await, ["here"]);
}

#[tokio::test]
async fn mentions_in_blocks_notify_too() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let text = format!("<@{}>", ADA.id);
    let section = |kind: &str| json!([{"type": "section", "text": {"type": kind, "text": text}}]);
    let body = json!({"text": "x", "blocks": section("mrkdwn")});
    assert_eq!(
        notified_by(&slack, &channel, body).await,
        [format!("user {}", ADA.id)]
    );
    let body = json!({"text": "x", "blocks": section("plain_text")});
    assert!(notified_by(&slack, &channel, body).await.is_empty());
    let elements =
        json!([{"type": "broadcast", "range": "here"}, {"type": "user", "user_id": BEN.id}]);
    let section = json!({"type": "rich_text_section", "elements": elements});
    let rich = json!({"text": "x", "blocks": [{"type": "rich_text", "elements": [section]}]});
    assert_eq!(
        notified_by(&slack, &channel, rich).await,
        ["here".to_owned(), format!("user {}", BEN.id)]
    );
}
