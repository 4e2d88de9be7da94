//! Handoffs to homes where no fresh topic can be had: the chat itself does, the reason is recorded, and the person's next
//! message there is in the session.

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BEN, BotApi, Rights};
use crate::support::{SESSION, picture, seed_session, until};

const OWNER: &str = "HERMESD_PLATFORMS_TELEGRAM_OWNER";

/// Hands off to a home without a fresh topic and returns the bot, its daemon, and why there was none.
async fn handed_off(
    chat: impl FnOnce(&BotApi) -> i64,
    settings: &[(&str, &str)],
) -> (Bot, crate::support::Daemon, String) {
    let bot = Bot::at_home(chat);
    seed_session(&bot.home).await;
    let daemon = bot.start_with(settings);
    let handed = bot.hand_off();
    assert_eq!(handed.code, 0, "{handed:?}");
    let handoff = bot.handoff(1);
    assert_eq!(handoff["thread"], serde_json::Value::Null, "{handoff}");
    let welcome = bot.api.messages_in(bot.chat, None);
    assert_eq!(welcome.len(), 1, "{welcome:?}");
    assert!(welcome[0].text.contains("I am here"), "{welcome:?}");
    let reason = handoff["no_thread"].as_str().expect("a reason").to_owned();
    (bot, daemon, reason)
}

fn key_of(bot: &Bot) -> String {
    bot.look(&format!(
        "SELECT session_key FROM sessions WHERE id = '{SESSION}'"
    ))
}

fn both() -> String {
    format!("{},{}", ADA.id, BEN.id)
}

#[tokio::test]
async fn in_a_forum_that_grants_no_topics_it_is_general() {
    let (bot, _daemon, reason) = handed_off(|api| api.forum("Work", Rights::Member), &[]).await;
    assert!(reason.contains("not enough rights"), "{reason}");
    let key = format!("agent:main:telegram:group:{}:1", bot.chat);
    assert_eq!(key_of(&bot), key);
    bot.goes_on(None, &ADA);
}

#[tokio::test]
async fn a_private_chat_without_topics_is_used_as_it_is() {
    let (bot, _daemon, reason) = handed_off(|api| api.private(&ADA), &[]).await;
    assert!(reason.contains("@BotFather"), "{reason}");
    assert_eq!(key_of(&bot), format!("agent:main:telegram:dm:{}", bot.chat));
    bot.goes_on(None, &ADA);
}

#[tokio::test]
async fn in_a_plain_group_it_is_for_the_only_one_who_is_allowed() {
    let (bot, _daemon, reason) = handed_off(|api| api.group("Work"), &[]).await;
    assert!(reason.contains("no topics"), "{reason}");
    bot.goes_on(None, &ADA);
}

#[tokio::test]
async fn in_a_plain_group_it_is_for_the_owner_and_for_nobody_else() {
    let (ben, both) = (BEN.id.to_string(), both());
    let settings = [
        (OWNER, ben.as_str()),
        ("HERMESD_PLATFORMS_TELEGRAM_ALLOWED_USERS", &both),
    ];
    let (bot, _daemon, _) = handed_off(|api| api.supergroup("Work"), &settings).await;
    bot.goes_on(None, &BEN);
    bot.api.says(bot.chat, None, &ADA, "and I?");
    let answer = bot
        .api
        .until_message(bot.chat, None, |m| m.text.contains("and I?"));
    assert!(answer.text.contains("I remember 0 messages"), "{answer:?}");
}

#[tokio::test]
async fn in_a_plain_group_of_nobody_in_particular_it_fails_with_the_remedy() {
    let bot = Bot::at_home(|api| api.group("Work"));
    seed_session(&bot.home).await;
    let both = both();
    let _daemon = bot.start_with(&[
        ("HERMESD_PLATFORMS_TELEGRAM_ALLOWED_USERS", &both),
        ("HERMESD_PLATFORMS_TELEGRAM_TRUSTED", "allowed_users"),
    ]);
    let before = picture(&bot.home);
    let handed = bot.hand_off();
    assert_eq!(handed.code, 4, "{handed:?}");
    for remedy in ["platforms.telegram.owner", "/sethome"] {
        assert!(handed.stderr.contains(remedy), "{handed:?}");
    }
    assert_eq!(picture(&bot.home), before);
    // Who then says so is known, and has it.
    bot.api.says(bot.chat, None, &BEN, "/sethome");
    bot.api
        .until_message(bot.chat, None, |m| m.text.contains("home now"));
    assert_eq!(bot.hand_off().code, 0);
    bot.goes_on(None, &BEN);
}

#[tokio::test]
async fn a_channel_is_gone_on_with_by_what_is_posted_there() {
    let (bot, _daemon, reason) = handed_off(|api| api.channel("News", "news_of_work"), &[]).await;
    assert!(reason.contains("a channel has no topics"), "{reason}");
    bot.goes_on(None, &ADA);
}

/// What is said there comes from its number.
#[tokio::test]
async fn a_home_that_is_named_and_not_numbered_fails_with_the_remedy() {
    let bot = Bot::at_home(|api| api.channel("News", "news_of_work"));
    bot.configure("TELEGRAM_HOME_CHANNEL=@news_of_work\n");
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let before = picture(&bot.home);
    let handed = bot.hand_off();
    assert_eq!(handed.code, 4, "{handed:?}");
    assert!(handed.stderr.contains(&bot.chat.to_string()), "{handed:?}");
    assert_eq!(picture(&bot.home), before);
}

#[tokio::test]
async fn a_long_title_is_cut_to_what_a_topic_may_be_called() {
    let bot = Bot::at_home(|api| api.forum("Work", Rights::TopicsAdmin));
    seed_session(&bot.home).await;
    let title = "Fix the parser — ".repeat(20);
    let title = title.trim();
    bot.home
        .sqlite()
        .execute("UPDATE sessions SET title = ?1", [title])
        .unwrap();
    let _daemon = bot.start();
    let handed = bot.hand_off();
    assert_eq!(handed.code, 0, "{handed:?}");
    let topic = bot.api.topics(bot.chat).remove(0);
    assert_eq!(topic.name.chars().count(), 128);
    assert!(format!("Hermes — {title}").starts_with(&topic.name));
    bot.goes_on(Some(topic.thread), &ADA);
}

#[tokio::test]
async fn a_home_where_the_bot_is_not_fails_with_the_remedy() {
    let bot = Bot::at_home(|_| -1_001_999_999_999);
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let before = picture(&bot.home);
    let handed = bot.hand_off();
    assert_eq!(handed.code, 4, "{handed:?}");
    assert!(handed.stderr.contains("add it to the group"), "{handed:?}");
    assert_eq!(picture(&bot.home), before);
    until("it is usable", || {
        let state: Option<String> = bot.look("SELECT handoff_state FROM sessions");
        (state.as_deref() == Some("failed")).then_some(())
    });
}
