//! The fake Slack: buttons, commands, and the addresses for their answers.

use std::time::Duration;

use serde_json::{Value, json};

use super::fake::{Client, answer_to, call, done, text_of};
use crate::support::slack::{ADA, BEN, Slack};

async fn answers(url: &Value, body: Value) -> (u16, Value) {
    let url = url.as_str().expect("an address");
    answer_to(reqwest::Client::new().post(url).json(&body)).await
}

#[tokio::test]
async fn a_press_tells_of_the_button_and_its_message() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let root = slack.says(&channel, &ADA, "do it");
    let label = |text: &str| json!({"type": "plain_text", "text": text});
    let yes =
        json!({"type": "button", "text": label("Yes"), "action_id": "approve", "value": "42"});
    let no = json!({"type": "button", "text": label("No"), "action_id": "deny"});
    let blocks = json!([{"type": "actions", "block_id": "ask", "elements": [yes, no]}]);
    let body = json!({"channel": channel, "thread_ts": root, "text": "Sure?", "blocks": blocks});
    let ts = text_of(&done(call(&slack, "chat.postMessage", body).await)["ts"]);
    let mut client = Client::connect(&slack).await;
    client.event().await;
    client.event().await;
    slack.presses(&channel, &ts, &BEN, "Yes");
    let envelope = client.envelope("interactive").await;
    assert_eq!(envelope["accepts_response_payload"], true);
    let press = &envelope["payload"];
    assert_eq!(
        (&press["type"], &press["user"]["id"]),
        (&json!("block_actions"), &json!(BEN.id))
    );
    let action = &press["actions"][0];
    assert_eq!(
        (&action["action_id"], &action["value"], &action["block_id"]),
        (&json!("approve"), &json!("42"), &json!("ask"))
    );
    assert_eq!(
        (
            &press["container"]["message_ts"],
            &press["container"]["thread_ts"]
        ),
        (&json!(ts), &json!(root))
    );
    assert_eq!(press["message"]["text"], "Sure?");
    client.acknowledge(&envelope).await;
    let url = &press["response_url"];
    let replaced = json!({"replace_original": true, "text": "Approved"});
    assert_eq!(answers(url, replaced).await, (200, json!({"ok": true})));
    let message = slack.until_bot_messages(&channel, 1).remove(0);
    assert_eq!((&*message.text, message.buttons.len()), ("Approved", 0));
    assert_eq!(answers(url, json!({"text": "only you"})).await.0, 200);
    let seen = slack.ephemerals(&channel).remove(0);
    assert_eq!(
        (&*seen.to, &*seen.text, seen.thread_ts),
        (BEN.id, "only you", Some(root))
    );
    assert_eq!(answers(url, json!({"delete_original": true})).await.0, 200);
    assert!(slack.bot_messages(&channel).is_empty());
}

#[tokio::test]
async fn a_command_is_answered_within_the_acknowledgement_and_after_it() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let mut client = Client::connect(&slack).await;
    slack.runs(&channel, &ADA, "/hermes", "status now");
    let envelope = client.envelope("slash_commands").await;
    let command = &envelope["payload"];
    assert_eq!(
        (&command["command"], &command["text"]),
        (&json!("/hermes"), &json!("status now"))
    );
    assert_eq!(
        (&command["user_id"], &command["channel_id"]),
        (&json!(ADA.id), &json!(channel))
    );
    let answer = json!({"envelope_id": envelope["envelope_id"], "payload": {"text": "wait"}});
    client.send(answer).await;
    slack.until("the answer", || slack.ephemerals(&channel).pop());
    assert_eq!(slack.acknowledged()[0].answer, json!({"text": "wait"}));
    let url = &command["response_url"];
    let loud = json!({"response_type": "in_channel", "text": "for all"});
    assert_eq!(answers(url, loud).await.0, 200);
    assert_eq!(slack.bot_messages(&channel)[0].text, "for all");
    assert_eq!(
        answers(url, json!({})).await,
        (400, json!({"ok": false, "error": "no_text"}))
    );
    for _ in 0..3 {
        assert_eq!(answers(url, json!({"text": "more"})).await.0, 200);
    }
    assert_eq!(
        answers(url, json!({"text": "x"})).await,
        (404, json!({"ok": false, "error": "used_url"}))
    );
    slack.registers("/model");
    slack.runs(&channel, &ADA, "/model", "");
    client.event().await;
    let next = client.envelope("slash_commands").await;
    slack.expires_response_urls();
    let late = answers(&next["payload"]["response_url"], json!({"text": "x"})).await;
    assert_eq!(late, (404, json!({"ok": false, "error": "expired_url"})));
}

#[tokio::test]
async fn nobody_repeats_a_command_for_a_person() {
    let slack = Slack::start();
    slack.retries(Duration::from_millis(50), [Duration::ZERO; 3]);
    let channel = slack.public_channel("general");
    let mut client = Client::connect(&slack).await;
    slack.runs(&channel, &ADA, "/hermes", "slow");
    client.envelope("slash_commands").await;
    slack.until("given up", || (slack.unanswered().len() == 1).then_some(()));
    assert!(client.is_quiet().await);
}
