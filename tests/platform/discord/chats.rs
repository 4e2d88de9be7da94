//! Which words are for the bot, and from whom.

use crate::support::Daemon;
use crate::support::discord::{ADA, BEN, BOT_ID, Id};
use crate::support::discord_bot::DiscordBot;

/// A bot without a handoff in sight, in which a mention opens no thread. `more` are further variables.
fn start(bot: &DiscordBot, more: &[(&str, &str)]) -> Daemon {
    let mut settings = vec![("DISCORD_AUTO_THREAD", "false")];
    settings.extend(more);
    bot.start_with(&settings)
}

/// Ada calls the bot, which answers her after all that came before.
fn until_heard(bot: &DiscordBot, channel: Id, words: &str) {
    bot.api.says(channel, &ADA, &DiscordBot::called(words));
    bot.answered(channel, words);
}

#[test]
fn in_a_channel_only_what_is_for_the_bot_is_answered() {
    let bot = DiscordBot::in_text_channel();
    let _daemon = start(&bot, &[]);
    let channel = bot.channel;
    bot.api.says(channel, &ADA, "not for you");
    bot.api
        .says(channel, &ADA, &format!("<@{}> nor this", BEN.id));
    bot.api.says(channel, &ADA, "`<@1>` @hermes-test nor this");
    until_heard(&bot, channel, "hello");
    let answer = bot.api.messages_in(channel).remove(0);
    bot.api
        .writes(channel, &ADA)
        .text("and a reply")
        .reply_to(answer.id)
        .send();
    bot.answered(channel, "and a reply");
    bot.api
        .says(channel, &ADA, &format!("tell me, <@!{BOT_ID}>, why"));
    bot.answered(channel, "tell me");
    let texts = bot.texts(channel);
    assert_eq!(texts.len(), 3, "{texts:?}");
    // Each is one conversation with one person.
    assert!(texts[2].contains("I remember 4 messages"), "{texts:?}");
}

#[test]
fn a_free_chat_needs_no_mention_and_neither_do_its_threads() {
    let bot = DiscordBot::in_text_channel();
    let other = bot.api.text_channel(bot.guild(), "other");
    let free = bot.channel.to_string();
    let _daemon = start(&bot, &[("DISCORD_FREE_RESPONSE_CHANNELS", &free)]);
    let thread = bot.api.opens_thread(bot.channel, &ADA, "plans");
    bot.api.says(other, &ADA, "overheard");
    bot.asks(bot.channel, "hello");
    bot.api.says(thread, &ADA, "hello there");
    bot.answered(thread, "hello there");
    assert_eq!(bot.texts(other), [""; 0]);
}

#[test]
fn an_ignored_chat_gets_nothing_even_when_it_calls() {
    let bot = DiscordBot::in_text_channel();
    let other = bot.api.text_channel(bot.guild(), "other");
    let thread = bot.api.opens_thread(other, &ADA, "plans");
    let ignored = other.to_string();
    let _daemon = start(&bot, &[("DISCORD_IGNORED_CHANNELS", &ignored)]);
    for channel in [other, thread] {
        let called = DiscordBot::called("hello");
        bot.api.says(channel, &ADA, &called);
    }
    until_heard(&bot, bot.channel, "hello");
    assert_eq!(bot.texts(other), [""; 0]);
    assert_eq!(bot.texts(thread), [""; 0]);
}

#[test]
fn only_the_chats_that_are_named_are_listened_to() {
    let bot = DiscordBot::in_text_channel();
    let other = bot.api.text_channel(bot.guild(), "other");
    let thread = bot.api.opens_thread(bot.channel, &ADA, "plans");
    let only = bot.channel.to_string();
    let _daemon = start(&bot, &[("DISCORD_ALLOWED_CHANNELS", &only)]);
    bot.api.says(other, &ADA, &DiscordBot::called("hello"));
    until_heard(&bot, bot.channel, "hello");
    until_heard(&bot, thread, "hello there");
    // A private chat is in no list.
    let private = bot.api.direct(&ADA);
    bot.asks(private, "hello");
    assert_eq!(bot.texts(other), [""; 0]);
}

#[test]
fn a_role_lets_its_members_in_on_their_server_only() {
    let bot = DiscordBot::in_text_channel();
    let guild = bot.guild();
    let role = bot.api.role(guild, "Friends", 0);
    let allowed = role.to_string();
    let _daemon = start(&bot, &[("DISCORD_ALLOWED_ROLES", &allowed)]);
    let called = DiscordBot::called("before");
    bot.api.says(bot.channel, &BEN, &called);
    bot.api.gives_role(guild, BEN.id, role);
    bot.api
        .says(bot.channel, &BEN, &DiscordBot::called("after"));
    bot.answered(bot.channel, "after");
    let private = bot.api.direct(&BEN);
    bot.api.says(private, &BEN, "hello");
    until_heard(&bot, bot.channel, "and me");
    let texts = bot.texts(bot.channel);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(!bot.texts(private).concat().contains("You said"));
}

#[test]
fn bots_and_webhooks_are_not_answered() {
    let bot = DiscordBot::in_text_channel();
    let _daemon = start(&bot, &[("DISCORD_ALLOW_ALL_USERS", "true")]);
    let called = DiscordBot::called("from a machine");
    let writes = || bot.api.writes(bot.channel, &ADA).text(&called);
    writes().by_webhook().send();
    writes().by_other_bot().send();
    // Nor what Discord itself says of a person.
    writes().system(6).send();
    writes().system(7).send();
    until_heard(&bot, bot.channel, "hello");
    let texts = bot.texts(bot.channel);
    assert_eq!(texts.len(), 1, "{texts:?}");
    let stored: i64 = bot.look("SELECT count(*) FROM hermesd_inbound");
    assert_eq!(stored, 1);
}
