//! The commands of a Telegram chat.

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BotMessage, Rights};
use crate::support::{SESSION, TITLE, seed_session};

/// Ada gives a command, which is answered with these words.
fn commands(bot: &Bot, chat: i64, command: &str, words: &str) -> BotMessage {
    bot.api.says(chat, None, &ADA, command);
    bot.api
        .until_message(chat, None, |m| m.text.contains(words))
}

/// The rows of a transcript, and whether each counts.
fn rows(bot: &Bot) -> Vec<(String, bool)> {
    let connection = bot.home.sqlite();
    let mut statement = connection
        .prepare("SELECT content, active FROM messages ORDER BY id")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn the_commands_are_in_the_menu_and_the_plain_ones_do_what_they_say() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let words: Vec<String> = bot.api.menu().into_iter().map(|(word, _)| word).collect();
    for word in [
        "resume", "sessions", "title", "new", "stop", "retry", "status", "sethome", "help",
    ] {
        assert!(words.iter().any(|offered| offered == word), "{words:?}");
    }
    assert!(!words.contains(&"handoff".to_owned()), "{words:?}");
    let help = commands(&bot, chat, "/help", "/sethome");
    assert!(!help.text.contains("/handoff"), "{help:?}");
    commands(&bot, chat, "/handoff local", "is for the terminal");
    commands(&bot, chat, "/dance", "There is no command /dance");
}

#[test]
fn a_conversation_is_titled_looked_at_and_begun_anew() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    bot.asks(chat, None, "hello");
    commands(
        &bot,
        chat,
        "/title A fine day",
        "This is \"A fine day\" now",
    );
    let status = commands(&bot, chat, "/status", "Answered by echo");
    assert!(status.text.contains("A fine day"), "{status:?}");
    assert!(status.text.contains("2 messages"), "{status:?}");
    commands(&bot, chat, "/new", "A new conversation");
    let fresh = bot.asks(chat, None, "hello again");
    assert!(fresh.text.contains("I remember 0 messages"), "{fresh:?}");
}

#[test]
fn the_last_question_is_asked_again() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    commands(&bot, chat, "/retry", "nothing to try again");
    bot.asks(chat, None, "one");
    bot.asks(chat, None, "two");
    bot.api.says(chat, None, &ADA, "/retry");
    bot.api.until_calls("sendMessage", 4);
    let answers = "You said: two\n(I remember 2 messages, 1 of yours, 1 of mine, 0 tool results.)";
    bot.api.until_message(chat, None, |_| {
        bot.texts(chat).iter().filter(|t| *t == answers).count() == 2
    });
    let found = rows(&bot);
    let counts = |n: usize, words: &str| found[n].0.contains(words) && found[n].1;
    assert_eq!(found.len(), 6, "{found:?}");
    assert!(counts(0, "one") && counts(1, "one"), "{found:?}");
    assert!(!found[2].1 && !found[3].1, "{found:?}");
    assert!(counts(4, "two") && counts(5, "You said: two"), "{found:?}");
}

#[test]
fn an_answer_that_is_being_written_is_stopped() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start_with(&[("HERMESD_AGENT_ECHO_PACE", "30ms")]);
    commands(&bot, chat, "/stop", "nothing to stop");
    bot.api.says(chat, None, &ADA, &"word ".repeat(600));
    // What there is of it is shown.
    bot.api
        .until_message(chat, None, |m| m.text.starts_with("You said: word"));
    commands(&bot, chat, "/stop", "Stopping.");
    let cut = bot
        .api
        .until_message(chat, None, |m| m.text.ends_with("(stopped)"));
    assert!(cut.text.starts_with("You said: word"), "{cut:?}");
    assert!(cut.edits > 0 && !cut.text.contains("I remember"), "{cut:?}");
    assert_eq!(bot.texts(chat).len(), 3, "{:?}", bot.texts(chat));
    // The transcript has it as far as it was seen, and goes on from there.
    let kept = rows(&bot);
    assert!(kept[1].0.starts_with("You said: word"), "{kept:?}");
    let next = bot.asks(chat, None, "next");
    assert!(next.text.contains("I remember 2 messages"), "{next:?}");
}

#[tokio::test]
async fn a_session_is_brought_by_the_press_of_a_button() {
    let (bot, chat) = Bot::of_ada("");
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let list = commands(&bot, chat, "/resume", "Which one?");
    assert_eq!(list.buttons[0][0].0, TITLE);
    bot.api.presses(chat, list.id, &ADA, TITLE);
    bot.api
        .until_message(chat, None, |m| m.text.contains("is here now, with its 4"));
    bot.api.until_message(chat, None, |m| {
        m.id == list.id && m.text.contains("Which one?") && m.buttons.is_empty()
    });
    assert!(bot.api.queries()[0].answer.is_some());
    let answer = bot.asks(chat, None, "go on");
    assert!(answer.text.contains("I remember 4 messages"), "{answer:?}");
}

#[tokio::test]
async fn a_session_is_brought_by_its_name() {
    let (bot, chat) = Bot::of_ada("");
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    commands(&bot, chat, "/resume no such thing", "no such thing");
    commands(&bot, chat, &format!("/resume {TITLE}"), "is here now");
    let answer = bot.asks(chat, None, "go on");
    assert!(answer.text.contains("I remember 4 messages"), "{answer:?}");
    commands(&bot, chat, &format!("/resume {SESSION}"), "is already here");
}

#[tokio::test]
async fn a_chat_becomes_the_home_until_another_is_configured() {
    let (bot, private) = Bot::of_ada("");
    let forum = bot.api.forum("Work", Rights::TopicsAdmin);
    seed_session(&bot.home).await;
    let daemon = bot.start();
    let refused = bot.hand_off();
    assert_eq!(refused.code, 3, "{refused:?}");
    commands(&bot, forum, "/sethome", "This is home now");
    assert_eq!(bot.standing()["home_channel"], "Work");
    let handed = bot.hand_off();
    assert_eq!(handed.code, 0, "{handed:?}");
    assert_eq!(bot.api.topics(forum).len(), 1);
    assert!(daemon.stop().success());

    let daemon = bot.start();
    assert_eq!(bot.standing()["home_channel"], "Work");
    assert!(daemon.stop().success());
    // Without a daemon it is known as well.
    assert_eq!(bot.standing()["home_channel"], "Work");
    bot.configure(&format!("TELEGRAM_HOME_CHANNEL={private}\n"));
    let _daemon = bot.start();
    assert_eq!(bot.standing()["home_channel"], private.to_string());
}
