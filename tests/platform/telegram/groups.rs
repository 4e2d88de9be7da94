//! Groups: what is for the bot, where it belongs, and who said it.

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BEN, BOT_NAME, Rights};

#[test]
fn a_command_for_another_bot_is_none_of_ours() {
    let (bot, _) = Bot::of_ada("");
    let group = bot.api.group("Family");
    let _daemon = bot.start();
    bot.api.says(group, None, &ADA, "/status@other_bot");
    bot.api.until_polled();
    let ours = format!("/help@{BOT_NAME}");
    bot.api.says(group, None, &ADA, &ours);
    bot.api
        .until_message(group, None, |m| m.text.contains("/sethome"));
    assert_eq!(bot.texts(group).len(), 1);
}

#[test]
fn where_mentions_are_wanted_only_what_is_for_the_bot_is_answered() {
    let (bot, private) = Bot::of_ada("TELEGRAM_REQUIRE_MENTION=true\n");
    let (group, free) = (bot.api.group("Family"), bot.api.group("Free"));
    let free_chats = free.to_string();
    let _daemon = bot.start_with(&[("TELEGRAM_FREE_RESPONSE_CHATS", &free_chats)]);
    bot.api.says(group, None, &ADA, "not for you");
    bot.api.says(group, None, &ADA, "@another_bot nor this");
    // Which bot is meant is not said.
    bot.api.says(group, None, &ADA, "/status");
    bot.api.until_polled();
    let called = format!("@{BOT_NAME}, are you there?");
    bot.api.says(group, None, &ADA, &called);
    let answer = bot.answered(group, None, "are you there?");
    let reply = bot.api.writes(group, &ADA).reply_to(answer.id);
    reply.text("good").send();
    bot.api
        .until_message(group, None, |m| m.text.contains("\ngood\n"));
    let amid = format!("tell me, @{BOT_NAME}, who you are");
    bot.asks(group, None, &amid);
    bot.api
        .says(group, None, &ADA, &format!("@{BOT_NAME} /status"));
    bot.api
        .until_message(group, None, |m| m.text.contains("Answered by echo"));
    assert_eq!(bot.texts(group).len(), 4, "{:?}", bot.texts(group));
    bot.asks(free, None, "hello");
    bot.asks(private, None, "hello");
}

#[test]
fn a_topic_that_a_conversation_is_in_needs_no_mention() {
    let (bot, _) = Bot::of_ada("TELEGRAM_REQUIRE_MENTION=true\n");
    let forum = bot.api.forum("Work", Rights::TopicsAdmin);
    let topic = Some(bot.api.opens_topic(forum, &ADA, "Plans"));
    let _daemon = bot.start();
    bot.api.says(forum, topic, &ADA, "overheard");
    bot.api.until_polled();
    bot.api
        .says(forum, topic, &ADA, &format!("@{BOT_NAME} begin"));
    bot.answered(forum, topic, "[Ada] begin");
    bot.api.says(forum, topic, &ADA, "go on");
    bot.answered(forum, topic, "[Ada] go on");
    assert_eq!(bot.api.messages_in(forum, topic).len(), 2);
}

#[test]
fn only_the_chats_that_are_named_are_listened_to() {
    let (bot, private) = Bot::of_ada("");
    let (named, other) = (bot.api.group("Named"), bot.api.group("Other"));
    let only = named.to_string();
    let _daemon = bot.start_with(&[("TELEGRAM_ALLOWED_CHATS", &only)]);
    bot.api.says(other, None, &ADA, "hello");
    bot.asks(named, None, "hello");
    bot.asks(private, None, "hello");
    assert!(bot.texts(other).is_empty());
}

#[test]
fn a_reply_in_a_supergroup_belongs_to_the_chat_and_to_no_thread() {
    let (bot, _) = Bot::of_ada("");
    let group = bot.api.supergroup("Family");
    let _daemon = bot.start();
    let first = bot.asks(group, None, "hello");
    bot.api
        .writes(group, &ADA)
        .reply_to(first.id)
        .text("and?")
        .send();
    let answer = bot
        .api
        .until_message(group, None, |m| m.text.contains("\nand?\n"));
    assert!(answer.text.contains("I remember 2 messages"), "{answer:?}");
    for call in bot.api.calls_of("sendMessage") {
        assert!(call.params.get("message_thread_id").is_none(), "{call:?}");
    }
}

#[test]
fn people_who_share_a_topic_are_told_apart_and_share_a_conversation() {
    let (bot, _) = Bot::of_ada("");
    let forum = bot.api.forum("Work", Rights::Member);
    let topic = Some(bot.api.opens_topic(forum, &ADA, "Plans"));
    let chat = forum.to_string();
    let _daemon = bot.start_with(&[("TELEGRAM_GROUP_ALLOWED_CHATS", &chat)]);
    bot.api.says(forum, topic, &ADA, "hello");
    bot.answered(forum, topic, "[Ada] hello");
    bot.api.says(forum, topic, &BEN, "me too");
    let answer = bot.answered(forum, topic, "[Ben] me too");
    assert!(answer.text.contains("I remember 2 messages"), "{answer:?}");
    // The general topic is another conversation.
    bot.api.says(forum, None, &ADA, "elsewhere");
    let answer = bot.answered(forum, None, "[Ada] elsewhere");
    assert!(answer.text.contains("I remember 0 messages"), "{answer:?}");
}
