//! A topic that Hermes' own handoff has put on a session, under a key that no message of the topic has.

use serde_json::json;

use crate::inbound::former_keys::{TIP, entry_of_hermes, scope};
use crate::support::bot::Bot;
use crate::support::telegram::{ADA, Rights};

#[test]
fn the_next_message_of_the_topic_goes_on_in_the_session() {
    let (bot, _) = Bot::of_ada("TELEGRAM_REQUIRE_MENTION=true\n");
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/hermes-0.20.5.db"
    );
    std::fs::copy(fixture, bot.home.path().join("state.db")).unwrap();
    drop(bot.home.store());
    let forum = bot.api.forum("Work", Rights::TopicsAdmin);
    let topic = bot.api.opens_topic(forum, &ADA, "Hermes — Long work #2");
    let wrong = format!("agent:main:telegram:thread:{forum}:{topic}");
    let origin = json!({"platform": "telegram", "chat_type": "thread", "chat_id": forum.to_string(),
                        "thread_id": topic.to_string(), "user_id": "system:handoff"});
    entry_of_hermes(&bot.home, &scope(&bot.home), &wrong, &origin);
    let _daemon = bot.start();
    // The topic is a conversation's, so nobody has to mention the bot.
    bot.api.says(forum, Some(topic), &ADA, "go on");
    let answer = bot.answered(forum, Some(topic), "[Ada] go on");
    assert!(answer.text.contains("I remember 4 messages"), "{answer:?}");
    let right = format!("agent:main:telegram:group:{forum}:{topic}");
    let bound =
        "SELECT group_concat(session_key) FROM gateway_routing WHERE entry_json LIKE '%dddddd%'";
    assert_eq!(bot.look::<String>(bound), right);
    let row = format!("SELECT session_key FROM sessions WHERE id = '{TIP}'");
    assert_eq!(bot.look::<String>(&row), right);
}
