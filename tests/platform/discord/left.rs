//! A thread that its session has left is renamed or archived, if you want that.

use super::ended::{at_home, hand_off, mention, start, until_all_sent, until_handled};
use crate::support::discord::{ADA, Id};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::ScriptedFault;
use crate::support::{SESSION, until};

const PATCH: &str = "PATCH /channels/{}";

fn archive_left(bot: &DiscordBot, how: &str) {
    let url = bot.api.url();
    let toml = format!("[platforms.discord]\nbase_url = \"{url}\"\narchive_left = \"{how}\"\n");
    bot.home.write(".config/hermesd/hermesd.toml", &toml);
}

/// Waits until one more message of a thread contains these words than before.
fn until_said_again(bot: &DiscordBot, thread: Id, words: &str, act: impl FnOnce()) {
    let count = || {
        let messages = bot.api.messages_in(thread).into_iter();
        messages.filter(|m| m.content.contains(words)).count()
    };
    let before = count();
    act();
    bot.api.until(words, || (count() > before).then_some(()));
}

/// The session goes home. Returns when the thread is told.
fn go_home(bot: &DiscordBot, thread: Id) {
    until_said_again(bot, thread, "back to the terminal", || {
        bot.home.talk(&["--resume", SESSION], "/quit\n");
    });
}

fn come_back(bot: &DiscordBot, thread: Id) {
    until_said_again(bot, thread, "is here now", || {
        bot.api.says(thread, &ADA, &mention("/resume"));
    });
}

fn until_named(bot: &DiscordBot, thread: Id, name: &str) {
    bot.api.until(name, || {
        (bot.api.thread_state(thread).0 == name).then_some(())
    });
}

#[tokio::test]
async fn a_thread_that_its_session_left_is_renamed_until_it_comes_back() {
    let bot = at_home().await;
    archive_left(&bot, "rename");
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    let (name, _) = bot.api.thread_state(thread);
    for _ in 0..2 {
        go_home(&bot, thread);
        until_named(&bot, thread, &format!("[left] {name}"));
        come_back(&bot, thread);
        until_named(&bot, thread, &name);
    }
    assert_eq!(bot.api.calls_of(PATCH).len(), 4);
}

#[tokio::test]
async fn a_thread_that_its_session_left_is_archived_until_it_comes_back() {
    let bot = at_home().await;
    archive_left(&bot, "archive");
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    let as_before = bot.api.thread_state(thread);
    go_home(&bot, thread);
    bot.api.until("it is archived", || {
        bot.api.thread_state(thread).1.then_some(())
    });
    come_back(&bot, thread);
    assert_eq!(bot.api.thread_state(thread), as_before);
    bot.api.says(thread, &ADA, "and now?");
    bot.api
        .until_message(thread, |m| m.content.contains("and now?"));
}

#[tokio::test]
async fn a_thread_that_its_session_left_stays_as_it_is_by_default() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    let as_before = bot.api.thread_state(thread);
    go_home(&bot, thread);
    until_handled(&bot, "all handled?");
    assert_eq!(bot.api.thread_state(thread), as_before);
    assert!(bot.api.calls_of(PATCH).is_empty());
}

#[tokio::test]
async fn a_new_name_that_discord_delays_holds_no_message() {
    let bot = at_home().await;
    archive_left(&bot, "rename");
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    let (name, _) = bot.api.thread_state(thread);
    bot.api.then(PATCH, ScriptedFault::too_many_requests(1));
    go_home(&bot, thread);
    until_named(&bot, thread, &format!("[left] {name}"));
    bot.api.then(PATCH, ScriptedFault::too_many_requests(600));
    come_back(&bot, thread);
    until("the name is delayed", || {
        (bot.api.refused(PATCH, 429).len() == 2).then_some(())
    });
    bot.api.says(thread, &ADA, "and now?");
    bot.api
        .until_message(thread, |m| m.content.contains("and now?"));
    go_home(&bot, thread);
    until_all_sent(&bot);
}
