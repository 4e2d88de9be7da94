//! A group that becomes a supergroup: another number, the same conversation.

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BEN, ScriptedFault};
use crate::support::{seed_session, until};

/// The chat that handoffs go to.
fn home(bot: &Bot) -> String {
    let chosen = "SELECT json_extract(home, '$.chat_id') FROM hermesd_homes";
    let row = bot.home.sqlite().query_row(chosen, [], |row| row.get(0));
    row.unwrap_or_default()
}

#[test]
fn a_group_that_becomes_a_supergroup_keeps_its_conversation_and_its_home() {
    let (bot, _) = Bot::of_ada("");
    let group = bot.api.group("Family");
    let daemon = bot.start();
    bot.asks(group, None, "hello");
    bot.api.says(group, None, &ADA, "/sethome");
    bot.api
        .until_message(group, None, |m| m.text.contains("This is home now"));
    let new = bot.api.upgrades(group, true);
    let answer = bot.asks(new, None, "still there?");
    assert!(answer.text.contains("I remember 2 messages"), "{answer:?}");
    // No word about the change itself reached the agent.
    let rows: i64 = bot.look("SELECT count(*) FROM messages");
    assert_eq!(rows, 4);
    assert_eq!(home(&bot), new.to_string());
    let key: String = bot.look("SELECT session_key FROM sessions WHERE source = 'telegram'");
    assert_eq!(key, format!("agent:main:telegram:group:{new}:{}", ADA.id));
    let old: i64 = bot.look(&format!(
        "SELECT count(*) FROM gateway_routing WHERE session_key LIKE '%{group}%'"
    ));
    assert_eq!(old, 0);
    assert!(daemon.stop().success());
    // After a restart, too.
    bot.api.until_quiet();
    let _daemon = bot.start();
    let answer = bot.asks(new, None, "and now?");
    assert!(answer.text.contains("I remember 4 messages"), "{answer:?}");
    let session: String = bot.look("SELECT id FROM sessions WHERE source = 'telegram'");
    let ran = bot.home.hermesctl(&["resume", &session, "--no-chat"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = bot
        .home
        .hermesctl(&["handoff", "telegram", "--session", &session]);
    assert_eq!(ran.code, 0, "it goes to the new one: {ran:?}");
    let answer = bot.asks(new, None, "here again?");
    assert!(answer.text.contains("I remember 8 messages"), "{answer:?}");
    assert_eq!(home(&bot), new.to_string());
}

#[tokio::test]
async fn a_handoff_to_a_group_that_has_become_a_supergroup_follows_it() {
    let bot = Bot::at_home(|api| api.group("Family"));
    seed_session(&bot.home).await;
    // Nobody tells: only the refusal of the first call does.
    let ada = ADA.id.to_string();
    let _daemon = bot.start_with(&[("HERMESD_PLATFORMS_TELEGRAM_OWNER", &ada)]);
    let new = bot.api.upgrades(bot.chat, false);
    let ran = bot.hand_off();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(bot.api.until_message(new, None, |_| true).file.is_none());
    bot.api.says(new, None, &ADA, "and now?");
    let answer = bot
        .api
        .until_message(new, None, |m| m.text.contains("and now?"));
    assert!(answer.text.contains("I remember 6 messages"), "{answer:?}");
    until("the home is the new one", || {
        (home(&bot) == new.to_string()).then_some(())
    });
}

#[test]
fn a_reply_to_a_group_that_has_become_a_supergroup_is_sent_there() {
    let bot = Bot::for_nobody("");
    let group = bot.api.group("Open");
    let env = format!("TELEGRAM_GROUP_ALLOWED_CHATS={group}");
    let _daemon = bot.start_with(&[env.split_once('=').unwrap()]);
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldBefore(gate.clone()));
    bot.api.says(group, None, &BEN, "hello");
    bot.api.until_calls("sendMessage", 1);
    let new = bot.api.upgrades(group, false);
    gate.add_permits(1);
    bot.answered(new, None, "hello");
    assert_eq!(bot.texts(new).len(), 1, "{:?}", bot.texts(new));
    // The group was allowed under its old number.
    bot.api.says(new, None, &BEN, "and now?");
    let answer = bot.answered(new, None, "and now?");
    assert!(answer.text.contains("I remember 2 messages"), "{answer:?}");
}
