//! `kill -9` of a real daemon on either side of every call that it makes to Telegram, which cannot tell a repeat: nothing is
//! lost, and what may be doubled says so.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::bot::{Bot, MARK, Side};
use crate::support::telegram::{ADA, BotMessage, Person, ScriptedFault};
use crate::support::until;

const HALF: &str = "…";

fn unmarked(messages: &[BotMessage]) -> usize {
    messages.iter().filter(|m| !m.text.contains(MARK)).count()
}

/// Long enough for its answer to be shown in pieces while it is written.
fn long(count: usize) -> String {
    let words: Vec<String> = (0..count).map(|n| format!("word{n}")).collect();
    words.join(" ")
}

/// A private chat with topics, and somebody's topic there.
fn topic() -> (Bot, i64) {
    let bot = Bot::at_home(|api| {
        api.private_topics(true);
        api.private(&ADA)
    });
    let topic = bot.api.opens_topic(bot.chat, &ADA, "Words");
    (bot, topic)
}

fn until_sent(bot: &Bot) {
    until("the answer is sent", || {
        let sent: i64 = bot.look("SELECT count(*) FROM hermesd_deliveries WHERE state = 'sent'");
        (sent == 1).then_some(())
    });
}

const PACE: (&str, &str) = ("HERMESD_AGENT_ECHO_PACE", "20ms");
const WORDS: usize = 170;

/// Says something in a topic, kills the daemon at the nth call while it is answered, and starts another.
fn answer_killed_at(nth: usize, side: Side) {
    let (bot, topic) = topic();
    let daemon = bot.start_with(&[PACE]);
    let held = bot.api.hold(nth, side);
    bot.api.says(bot.chat, Some(topic), &ADA, &long(WORDS));
    until("the call, or the answer", || {
        let sent: i64 = bot.look("SELECT count(*) FROM hermesd_deliveries WHERE state = 'sent'");
        (held.reached() || sent == 1).then_some(())
    });
    daemon.kill();
    bot.api.until_quiet();
    held.let_go();
    let _daemon = bot.start();
    until_sent(&bot);
    assert_answered_once(&bot, topic);
}

fn assert_answered_once(bot: &Bot, topic: i64) {
    for sql in [
        "SELECT count(*) FROM sessions",
        "SELECT count(*) FROM hermesd_deliveries",
        "SELECT count(*) FROM messages WHERE active = 1 AND role = 'user'",
        "SELECT count(*) FROM messages WHERE active = 1 AND role = 'assistant'",
    ] {
        assert_eq!(bot.look::<i64>(sql), 1, "{sql}");
    }
    let messages = bot.api.messages_in(bot.chat, Some(topic));
    let last = messages.last().expect("an answer");
    let whole = format!("You said: {}\n(I remember 0 messages", long(WORDS));
    assert!(last.text.contains(&whole), "{last:?}");
    let (half, answers): (Vec<_>, Vec<_>) = messages
        .iter()
        .cloned()
        .partition(|m| m.text.ends_with(HALF));
    assert!(unmarked(&answers) <= 1, "{answers:?}");
    // What was shown of it is the answer now, unless nobody knew of it.
    assert!(half.is_empty() || last.text.contains(MARK), "{messages:?}");
    assert!(half.len() <= 1, "{messages:?}");
}

/// That somebody writes, what was written so far, more of it, the whole, and none.
const CALLS: usize = 5;

#[test]
fn an_answer_that_is_shown_while_it_is_written_survives_a_kill_at_any_call() {
    std::thread::scope(|scope| {
        for side in [Side::Before, Side::After] {
            for nth in 0..CALLS {
                scope.spawn(move || answer_killed_at(nth, side));
            }
        }
    });
}

#[test]
fn an_answer_that_could_not_replace_what_was_shown_is_marked_when_it_may_be_there_twice() {
    let (bot, topic) = topic();
    let daemon = bot.start_with(&[PACE]);
    // Somebody has deleted what was shown.
    let gone = ScriptedFault::Refuse(400, "Bad Request: message to edit not found");
    for _ in 0..3 {
        bot.api.then("editMessageText", gone.clone());
    }
    let never = Arc::new(Semaphore::new(0));
    bot.api
        .then(
            "sendMessage",
            ScriptedFault::HoldAfter(Arc::new(Semaphore::new(1))),
        )
        .then("sendMessage", ScriptedFault::HoldAfter(never));
    bot.api.says(bot.chat, Some(topic), &ADA, &long(90));
    bot.api
        .until_message(bot.chat, Some(topic), |m| m.text.contains("I remember"));
    daemon.kill();
    let _daemon = bot.start();
    until_sent(&bot);
    let mut answers = bot.api.messages_in(bot.chat, Some(topic));
    answers.retain(|m| m.text.contains("I remember"));
    assert_eq!((answers.len(), unmarked(&answers)), (2, 1), "{answers:?}");
}

#[test]
fn a_daemon_killed_in_the_middle_of_many_chats_answers_all_that_was_said() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    let settings = [
        ("HERMESD_PLATFORMS_TELEGRAM_ALLOW_EVERYONE", "true"),
        ("HERMESD_PLATFORMS_TELEGRAM_MESSAGES_PER_SECOND", "1000"),
    ];
    let daemon = bot.start_with(&settings);
    let people = Person::many(30);
    bot.all_talk(&people, 3);
    bot.api.until_calls("sendMessage", 40);
    daemon.kill();
    let _daemon = bot.start_with(&settings);
    for person in &people {
        bot.until_answered(person, 3);
    }
    bot.until_all_sent(90);
}
