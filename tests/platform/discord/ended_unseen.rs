//! Chats that end while no daemon runs, or while one is killed.

use nix::sys::signal::Signal;

use super::ended::{
    at_home, hand_off, look, start, thread_elsewhere, until_all_sent, until_handled,
    until_told_once,
};
use crate::support::discord::permissions::VIEW_CHANNEL;
use crate::support::discord::{ADA, BOT_ID, Discord, Id, Whom};
use crate::support::fake::Side;
use crate::support::{SESSION, until};

/// Ends the thread while no daemon runs. `forgets`: Discord does not keep the session of the gateway.
async fn ends_without_a_daemon(said: bool, forgets: bool, end: fn(&Discord, Id), words: &str) {
    let bot = at_home().await;
    let daemon = start(&bot);
    let thread = hand_off(&bot);
    if said {
        bot.api.says(thread, &ADA, "hello");
        bot.api
            .until_message(thread, |m| m.content.contains("hello"));
        until_all_sent(&bot);
    }
    daemon.kill();
    bot.api.until_quiet();
    if forgets {
        bot.api.forgets_sessions();
    }
    end(&bot.api, thread);
    let daemon = start(&bot);
    until_told_once(&bot, bot.channel, words);
    daemon.kill();
    bot.api.forgets_sessions();
    let _daemon = start(&bot);
    until_told_once(&bot, bot.channel, words);
}

#[tokio::test]
async fn a_thread_that_is_deleted_without_a_daemon_is_found() {
    for (said, forgets) in [(false, true), (true, true), (true, false)] {
        let end = |api: &Discord, thread: Id| api.deletes_channel(thread);
        ends_without_a_daemon(said, forgets, end, "was deleted").await;
    }
}

#[tokio::test]
async fn a_thread_that_is_locked_without_a_daemon_is_found() {
    let end = |api: &Discord, thread: Id| api.archives(thread, true);
    ends_without_a_daemon(true, true, end, "was locked").await;
}

#[tokio::test]
async fn a_thread_that_cannot_be_seen_has_not_ended() {
    let bot = at_home().await;
    let daemon = start(&bot);
    let thread = hand_off(&bot);
    daemon.kill();
    bot.api.forgets_sessions();
    let bot_itself = Whom::Member(BOT_ID);
    bot.api.overwrites(bot.channel, bot_itself, 0, VIEW_CHANNEL);
    let daemon = start(&bot);
    until_handled(&bot, "all handled?");
    assert!(daemon.log().contains("chat cannot be seen"));
    bot.api.overwrites(bot.channel, bot_itself, 0, 0);
    bot.api.says(thread, &ADA, "and now?");
    bot.api
        .until_message(thread, |m| m.content.contains("and now?"));
}

#[tokio::test]
async fn words_from_before_a_lock_without_a_daemon_are_answered_in_the_channel() {
    let bot = at_home().await;
    let daemon = start(&bot);
    let thread = hand_off(&bot);
    bot.api.says(thread, &ADA, "first");
    bot.api
        .until_message(thread, |m| m.content.contains("first"));
    until_all_sent(&bot);
    daemon.kill();
    bot.api.forgets_sessions();
    bot.api.says(thread, &ADA, "second");
    bot.api.archives(thread, true);
    let _daemon = start(&bot);
    bot.api
        .until_message(bot.channel, |m| m.content.contains("second"));
    until_told_once(&bot, bot.channel, "was locked");
    let words = "SELECT count(*) FROM messages WHERE content LIKE '%second%' AND role = 'user' AND session_id = '";
    assert_eq!(look(&bot, &format!("{words}{SESSION}'")), 1);
}

#[tokio::test]
async fn a_server_that_removes_the_bot_without_a_daemon_is_found() {
    let bot = at_home().await;
    let daemon = start(&bot);
    let club = bot.api.guild("Club");
    let other = bot.api.text_channel(club, "other");
    thread_elsewhere(&bot, other);
    daemon.kill();
    bot.api.forgets_sessions();
    bot.api.kicks_bot(club);
    let _daemon = start(&bot);
    until_told_once(&bot, bot.channel, "removed from the server");
}

#[tokio::test]
async fn a_kill_around_the_note_leaves_one_note() {
    for side in [Side::Before, Side::After] {
        let bot = at_home().await;
        let daemon = start(&bot);
        let thread = hand_off(&bot);
        until_all_sent(&bot);
        let held = bot.api.hold(0, side);
        bot.api.deletes_channel(thread);
        until("the note is on its way", || held.reached().then_some(()));
        daemon.kill();
        bot.api.until_quiet();
        held.let_go();
        bot.api.repeat_last();
        let _daemon = start(&bot);
        until_told_once(&bot, bot.channel, "was deleted");
    }
}

#[tokio::test]
async fn a_kill_before_the_event_is_handled_leaves_one_note() {
    for forgets in [false, true] {
        let bot = at_home().await;
        let daemon = start(&bot);
        let thread = hand_off(&bot);
        bot.api.says(thread, &ADA, "hello");
        bot.api
            .until_message(thread, |m| m.content.contains("hello"));
        until_all_sent(&bot);
        daemon.signal(Signal::SIGSTOP);
        bot.api.deletes_channel(thread);
        daemon.kill();
        bot.api.until_quiet();
        if forgets {
            bot.api.forgets_sessions();
        }
        let _daemon = start(&bot);
        until_told_once(&bot, bot.channel, "was deleted");
    }
}
