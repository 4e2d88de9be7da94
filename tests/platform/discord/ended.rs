//! Threads, channels and servers that end: the session is released, and a chat that is left gets one note.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::discord::{ADA, BOT_ID, Discord, Id, SEND};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::ScriptedFault;
use crate::support::{Daemon, SESSION, TITLE, seed_session, until};

pub fn start(bot: &DiscordBot) -> Daemon {
    let daemon = bot.home.start();
    bot.api.until_listening();
    daemon
}

/// A bot with a session to hand off, and a text channel as home.
pub async fn at_home() -> DiscordBot {
    let bot = DiscordBot::at_home(|api: &Discord, guild: Id| api.text_channel(guild, "work"));
    seed_session(&bot.home).await;
    bot
}

pub fn hand_off(bot: &DiscordBot) -> Id {
    let words = ["handoff", "discord", "--session", SESSION];
    let handed = bot.home.hermesctl(&words);
    assert_eq!(handed.code, 0, "{handed:?}");
    let threads = bot.api.threads(bot.channel);
    assert_eq!(threads.len(), 1, "{threads:?}");
    threads[0].id
}

/// Ada talks to the bot in a thread of another channel than home.
pub fn thread_elsewhere(bot: &DiscordBot, channel: Id) -> Id {
    let thread = bot.api.opens_thread(channel, &ADA, "aside");
    bot.api.says(thread, &ADA, &mention("hello"));
    bot.api
        .until_message(thread, |m| m.content.contains("hello"));
    thread
}

pub fn mention(text: &str) -> String {
    format!("<@{BOT_ID}> {text}")
}

fn guild(bot: &DiscordBot) -> Id {
    let world = bot.api.world();
    world.channel(bot.channel).guild.expect("a guild")
}

/// The messages of a channel that name the way back.
fn notes(bot: &DiscordBot, channel: Id) -> Vec<String> {
    let messages = bot.api.messages_in(channel).into_iter();
    let texts = messages.map(|message| message.content);
    texts.filter(|text| text.contains("/resume")).collect()
}

pub fn look(bot: &DiscordBot, sql: &str) -> i64 {
    let row = bot.home.sqlite().query_row(sql, [], |row| row.get(0));
    row.unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn bindings(bot: &DiscordBot) -> i64 {
    look(bot, "SELECT count(*) FROM gateway_routing")
}

pub fn until_all_sent(bot: &DiscordBot) {
    let open = "SELECT count(*) FROM hermesd_deliveries WHERE state IN ('pending', 'sending')";
    until("every message is sent", || {
        (look(bot, open) == 0).then_some(())
    });
}

/// Waits until all events so far are handled: Ada's words in her private chat come after them.
pub fn until_handled(bot: &DiscordBot, words: &str) {
    let chat = bot.api.direct(&ADA);
    bot.api.says(chat, &ADA, words);
    bot.api.until_message(chat, |m| m.content.contains(words));
    until_all_sent(bot);
}

/// Waits for the note, and then for all that may follow it.
pub fn until_told_once(bot: &DiscordBot, channel: Id, words: &str) -> String {
    bot.api
        .until_message(channel, |m| m.content.contains("/resume"));
    until_handled(bot, "all handled?");
    let told = notes(bot, channel);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains(words), "{told:?}");
    told[0].clone()
}

/// The session goes on in the channel, with all that was said before.
fn goes_on(bot: &DiscordBot, channel: Id, remembered: usize) {
    let resume = mention(&format!("/resume {TITLE}"));
    bot.api.says(channel, &ADA, &resume);
    bot.api
        .until_message(channel, |m| m.content.contains("is here now"));
    bot.api.says(channel, &ADA, &mention("and now?"));
    let answer = bot
        .api
        .until_message(channel, |m| m.content.contains("and now?"));
    let words = format!("I remember {remembered} messages");
    assert!(answer.content.contains(&words), "{answer:?}");
}

#[tokio::test]
async fn a_deleted_thread_frees_its_session_which_goes_on_in_the_channel() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    bot.api.deletes_channel(thread);
    bot.api.repeat_last();
    let note = until_told_once(&bot, bot.channel, "was deleted");
    assert_eq!(
        note,
        format!(
            "The thread of \"{TITLE}\" was deleted. Send `/resume {TITLE}` here or in any chat to continue, or run \
             `hermesctl resume` in the terminal."
        )
    );
    let of_thread =
        format!("SELECT count(*) FROM gateway_routing WHERE session_key LIKE '%{thread}%'");
    assert_eq!(look(&bot, &of_thread), 0);
    bot.api.repeat_last();
    goes_on(&bot, bot.channel, 6);
}

#[tokio::test]
async fn a_session_without_a_chat_comes_back_to_the_terminal() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    bot.api.deletes_channel(thread);
    until_told_once(&bot, bot.channel, "was deleted");
    let talk = bot.home.talk(&["--resume", SESSION], "and now?\n/quit\n");
    let replies = talk.replies();
    assert!(replies[0].contains("I remember 6 messages"), "{replies:?}");
}

#[tokio::test]
async fn a_locked_thread_frees_its_session_and_gets_it_back_on_request_only() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    bot.api.locks(thread);
    bot.api.archives(thread, true);
    until_told_once(&bot, bot.channel, "was locked");
    bot.api.unlocks(thread);
    bot.api.says(thread, &ADA, "is anyone there?");
    let told = bot
        .api
        .until_message(thread, |m| m.content.contains("was closed"));
    assert!(told.content.contains("/resume"), "{told:?}");
    bot.api.says(thread, &ADA, &mention("/resume"));
    bot.api
        .until_message(thread, |m| m.content.contains("is here now"));
    bot.api.says(thread, &ADA, "and now?");
    let answer = bot
        .api
        .until_message(thread, |m| m.content.contains("and now?"));
    assert!(answer.content.contains("I remember 6"), "{answer:?}");
}

#[tokio::test]
async fn an_archived_thread_goes_on_with_the_next_reply() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    let sent = bot.api.calls_of(SEND).len();
    let held = Arc::new(Semaphore::new(0));
    bot.api.then(SEND, ScriptedFault::HoldBefore(held.clone()));
    bot.api.says(thread, &ADA, "still open?");
    bot.api.until_calls(SEND, sent + 1);
    bot.api.archives(thread, false);
    bot.api.until_listening();
    assert!(bot.api.thread_state(thread).1);
    held.add_permits(1);
    bot.api
        .until_message(thread, |m| m.content.contains("still open?"));
    assert!(!bot.api.thread_state(thread).1, "the reply opens it again");
    until_handled(&bot, "all handled?");
    assert_eq!(notes(&bot, bot.channel), Vec::<String>::new());
    let of_thread =
        format!("SELECT count(*) FROM gateway_routing WHERE session_key LIKE '%{thread}%'");
    assert_eq!(look(&bot, &of_thread), 1);
}

#[tokio::test]
async fn what_waits_in_a_deleted_thread_is_answered_once_beside_one_note() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    let sent = bot.api.calls_of(SEND).len();
    let held = Arc::new(Semaphore::new(0));
    bot.api.then(SEND, ScriptedFault::HoldBefore(held.clone()));
    for words in ["first", "/title", "second"] {
        bot.api.says(thread, &ADA, words);
    }
    bot.api.until_calls(SEND, sent + 1);
    bot.api.until_listening();
    bot.api.deletes_channel(thread);
    until("the thread is released", || {
        (bindings(&bot) == 0).then_some(())
    });
    held.add_permits(1);
    bot.api
        .until_message(bot.channel, |m| m.content.contains("second"));
    until_told_once(&bot, bot.channel, "was deleted");
    let texts = bot.api.messages_in(bot.channel).into_iter();
    let texts: Vec<String> = texts.map(|m| m.content).collect();
    for words in ["first", "This is \"", "second"] {
        let count = texts.iter().filter(|text| text.contains(words)).count();
        assert_eq!(count, 1, "{words}: {texts:?}");
    }
    let words = "SELECT count(*) FROM messages WHERE role = 'user' AND session_id = '";
    let all = look(&bot, &format!("{words}{SESSION}' AND active = 1"));
    assert_eq!(all, 4, "the notice of the handoff and both messages");
    goes_on(&bot, bot.channel, 10);
}

#[tokio::test]
async fn a_deleted_channel_is_told_of_at_home() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let other = bot.api.text_channel(guild(&bot), "other");
    let threads = [(); 2].map(|()| thread_elsewhere(&bot, other));
    assert_eq!(bindings(&bot), 2);
    bot.api.deletes_channel(other);
    bot.api.repeat_last();
    let note = until_told_once(&bot, bot.channel, "were deleted");
    assert!(note.starts_with("The threads of \""), "{note}");
    for thread in threads {
        let of_thread =
            format!("SELECT count(*) FROM gateway_routing WHERE session_key LIKE '%{thread}%'");
        assert_eq!(look(&bot, &of_thread), 0);
    }
}

#[tokio::test]
async fn the_end_of_the_home_channel_is_logged_and_published() {
    let bot = at_home().await;
    let daemon = start(&bot);
    hand_off(&bot);
    let topics = ["--topic", "handoff", "--topic", "session"];
    let words = [&["--json", "events", "--follow"][..], &topics].concat();
    let mut following = bot.home.spawn_hermesctl(&words, &[]);
    let mut lines = BufReader::new(following.stdout()).lines();
    let mut until_event = |name: &str| loop {
        let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if event["type"] == name {
            return event;
        }
    };
    until_event("handoff.ended");
    bot.api.deletes_channel(bot.channel);
    let event = until_event("session.released");
    assert_eq!(
        (&event["session"], &event["reason"], &event["told"]),
        (&json!(SESSION), &json!("deleted"), &json!(false))
    );
    assert!(daemon.log().contains("no chat is left to say so"));
    until_handled(&bot, "all handled?");
    daemon.kill();
    following.code();
}

#[tokio::test]
async fn a_server_that_removes_the_bot_is_told_of_at_home() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let club = bot.api.guild("Club");
    let other = bot.api.text_channel(club, "other");
    let thread = thread_elsewhere(&bot, other);
    let sent = bot.api.calls_of(SEND).len();
    let held = Arc::new(Semaphore::new(0));
    bot.api.then(SEND, ScriptedFault::HoldBefore(held.clone()));
    bot.api.says(thread, &ADA, "what is this?");
    bot.api.until_calls(SEND, sent + 1);
    bot.api.kicks_bot(club);
    until("the thread is released", || {
        (bindings(&bot) == 0).then_some(())
    });
    held.add_permits(1);
    let answer = bot
        .api
        .until_message(bot.channel, |m| m.content.contains("what is this?"));
    assert!(answer.content.starts_with("(From the thread"), "{answer:?}");
    until_told_once(&bot, bot.channel, "removed from the server");
}

#[tokio::test]
async fn a_server_with_the_home_channel_that_removes_the_bot_is_logged() {
    let bot = at_home().await;
    // The bot still meets Ada there.
    bot.api.guild("Club");
    let daemon = start(&bot);
    hand_off(&bot);
    bot.api.kicks_bot(guild(&bot));
    until("the end is logged", || {
        let log = daemon.log();
        log.contains("no chat is left to say so").then_some(())
    });
    assert_eq!(bindings(&bot), 0);
    until_handled(&bot, "all handled?");
    assert_eq!(notes(&bot, bot.channel), Vec::<String>::new());
}

#[tokio::test]
async fn an_outage_changes_nothing() {
    let bot = at_home().await;
    let _daemon = start(&bot);
    let thread = hand_off(&bot);
    bot.api.outage(guild(&bot));
    until_handled(&bot, "during the outage");
    bot.api.outage_ends(guild(&bot));
    bot.api.says(thread, &ADA, "and now?");
    let answer = bot
        .api
        .until_message(thread, |m| m.content.contains("and now?"));
    assert!(answer.content.contains("I remember 6"), "{answer:?}");
    assert_eq!(notes(&bot, bot.channel), Vec::<String>::new());
}
