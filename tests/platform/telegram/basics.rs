//! The main road over Telegram, with the built binaries and a strict Bot API.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, Rights, ScriptedFault};
use crate::support::{SESSION, add_session, seed_session, until};

#[tokio::test]
async fn a_session_goes_to_a_topic_is_gone_on_with_there_and_comes_home() {
    for kind in ["forum", "private"] {
        let bot = Bot::at_home(|api| match kind {
            "forum" => api.forum("Work", Rights::TopicsAdmin),
            _ => {
                api.private_topics(true);
                api.private(&ADA)
            }
        });
        seed_session(&bot.home).await;
        let _daemon = bot.start();
        let handed = bot.hand_off();
        assert_eq!(handed.code, 0, "{handed:?}");
        let home = bot.home.hermesctl(&["--json", "platforms"]).json();
        let chat: i64 = home[1]["home_channel"].as_str().unwrap().parse().unwrap();
        let topics = bot.api.topics(chat);
        assert_eq!(topics.len(), 1, "{topics:?}");
        assert_eq!(topics[0].name, "Hermes — Fix the parser");
        let topic = Some(topics[0].thread);
        let welcome = bot
            .api
            .until_message(chat, topic, |m| m.text.contains("I am here"));
        assert!(welcome.text.contains("Fix the parser"), "{welcome:?}");

        bot.api.says(chat, topic, &ADA, "and now?");
        let answer = bot
            .api
            .until_message(chat, topic, |m| m.text.contains("and now?"));
        assert!(answer.text.contains("I remember 6 messages"), "{answer:?}");
        assert_eq!(bot.api.messages_in(chat, topic).len(), 2);

        let resumed = bot
            .home
            .hermesctl(&["--json", "resume", SESSION, "--no-chat"]);
        assert_eq!(resumed.code, 0, "{resumed:?}");
        bot.api
            .until_message(chat, topic, |m| m.text.contains("terminal"));
        bot.api.says(chat, topic, &ADA, "still there?");
        bot.api
            .until_message(chat, topic, |m| m.text.contains("/resume"));
    }
}

#[tokio::test]
async fn two_handoffs_into_one_chat_without_topics_come_one_after_the_other() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    seed_session(&bot.home).await;
    add_session(&bot.home, OTHER, "Other");
    let daemon = bot.start();
    bot.api.says(ADA.id, None, &ADA, "before");
    bot.api
        .until_message(ADA.id, None, |m| m.text.contains("before"));
    let before = bound(&bot);

    // The first has bound the chat and cannot send; the second has to wait for its end.
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldBefore(gate.clone()));
    for session in [SESSION, OTHER] {
        let asked = ["handoff", "telegram", "--session", session, "--no-wait"];
        assert_eq!(bot.home.hermesctl(&asked).code, 0);
        if session == SESSION {
            bot.api.until_calls("sendMessage", 2);
        }
    }
    let show = |id: &str| {
        bot.home
            .hermesctl(&["--json", "handoffs", "show", id])
            .json()
    };
    until("the second has come as far as it can", || {
        (show("2")["stage"] == "threaded").then_some(())
    });
    assert_eq!(bound(&bot).as_deref(), Some(SESSION));
    bot.api.block(&ADA);
    gate.add_permits(1);
    for id in ["1", "2"] {
        until("both fail", || {
            (show(id)["state"] == "failed").then_some(())
        });
    }
    assert_eq!(bound(&bot), before);
    drop(daemon);
}

const OTHER: &str = "20260102_090000_bbbbbb";

/// The session that the private chat is on.
fn bound(bot: &Bot) -> Option<String> {
    let key = format!("agent:main:telegram:dm:{}", ADA.id);
    let sql = "SELECT json_extract(entry_json, '$.session_id') FROM gateway_routing WHERE session_key = ?1";
    bot.home
        .sqlite()
        .query_row(sql, [key], |row| row.get(0))
        .ok()
}
