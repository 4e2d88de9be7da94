//! Questions that wait: for ever if the configuration says so, with a reminder, a hook, and one answer wherever it is given.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::config::sources::check;
use crate::support::acp::{self, answer, listen};
use crate::support::bot::Bot;
use crate::support::pty::Terminal;
use crate::support::telegram::{ADA, BotMessage, ScriptedFault};
use crate::support::{Home, Running, SESSION, program, seed_session, told, until};
use crate::terminal::sessions::open;

fn question(bot: &Bot, chat: i64) -> BotMessage {
    bot.api.until_message(chat, None, |m| !m.buttons.is_empty())
}

#[test]
fn a_question_may_wait_for_ever() {
    let (bot, chat) = Bot::of_ada("");
    let never = ("HERMESD_AGENT_QUESTION_TIMEOUT", "never");
    let shown = check(&bot.home, &["--json"], &[never]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stdout.contains("\"never\""), "{shown:?}");
    let _daemon = acp::start(&bot.home, "plain", &[never]);
    bot.api.says(chat, None, &ADA, "permission please");
    let asked = question(&bot, chat);
    bot.api.presses(chat, asked.id, &ADA, "Yes");
    bot.api
        .until_message(chat, None, |m| m.text == "You chose the-allow_once");
}

#[test]
fn a_chat_is_reminded_of_a_question_and_either_message_answers_it() {
    let (bot, chat) = Bot::of_ada("");
    let soon = ("HERMESD_AGENT_QUESTION_REMINDER", "1s");
    let _daemon = acp::start(&bot.home, "plain", &[soon]);
    bot.api.says(chat, None, &ADA, "permission please");
    let asked = question(&bot, chat);
    let reminder = bot.api.until_message(chat, None, |m| {
        m.text.starts_with("This question is still open.")
    });
    assert!(
        reminder.text.contains("rm -rf /tmp/nothing"),
        "{reminder:?}"
    );
    assert_eq!(reminder.buttons.len(), 3);
    bot.api.presses(chat, reminder.id, &ADA, "No");
    bot.api
        .until_message(chat, None, |m| m.text == "You chose the-reject_once");
    for id in [asked.id, reminder.id] {
        bot.api.until_message(chat, None, |m| {
            m.id == id && m.buttons.is_empty() && m.text.ends_with("→ No")
        });
    }
}

#[test]
fn a_question_that_nobody_answers_says_so_where_it_was_shown() {
    let (bot, chat) = Bot::of_ada("");
    let soon = ("HERMESD_AGENT_QUESTION_TIMEOUT", "1s");
    let _daemon = acp::start(&bot.home, "plain", &[soon]);
    bot.api.says(chat, None, &ADA, "permission please");
    bot.api.until_message(chat, None, |m| {
        m.buttons.is_empty() && m.text.ends_with("(no answer in time)")
    });
    bot.api
        .until_message(chat, None, |m| m.text == "You chose the-reject_once");
}

#[test]
fn a_number_takes_the_buttons_away() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api.says(chat, None, &ADA, "permission please");
    let asked = question(&bot, chat);
    bot.api.says(chat, None, &ADA, "2");
    bot.api.until_message(chat, None, |m| {
        m.id == asked.id && m.buttons.is_empty() && m.text.ends_with("→ Always")
    });
}

#[test]
fn a_quick_answer_counts_although_the_receipt_of_the_question_comes_late() {
    let (bot, chat) = Bot::of_ada("");
    let receipt = Arc::new(Semaphore::new(0));
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api
        .then("sendMessage", ScriptedFault::HoldAfter(receipt.clone()));
    bot.api.says(chat, None, &ADA, "permission please");
    let asked = question(&bot, chat);
    bot.api.says(chat, None, &ADA, "2");
    // A vendor that is slow to answer, and has the person's words meanwhile.
    std::thread::sleep(Duration::from_millis(300));
    receipt.add_permits(1);
    bot.api.until_message(chat, None, |m| {
        m.id == asked.id && m.buttons.is_empty() && m.text.ends_with("→ Always")
    });
}

#[test]
fn other_words_get_their_note_although_the_receipt_of_the_question_comes_late() {
    let (bot, chat) = Bot::of_ada("");
    let receipt = Arc::new(Semaphore::new(0));
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api
        .then("sendMessage", ScriptedFault::HoldAfter(receipt.clone()));
    bot.api.says(chat, None, &ADA, "permission please");
    question(&bot, chat);
    bot.api.says(chat, None, &ADA, "wait, which file?");
    // The daemon has the words when it asks for what comes after them.
    bot.api.until_polled();
    receipt.add_permits(1);
    bot.api.until_message(chat, None, |m| {
        m.text.starts_with("The question above is still open.")
    });
}

#[test]
fn a_stop_takes_the_buttons_away() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api.says(chat, None, &ADA, "permission please");
    let asked = question(&bot, chat);
    bot.api.says(chat, None, &ADA, "/stop");
    bot.api.until_message(chat, None, |m| {
        m.id == asked.id && m.buttons.is_empty() && m.text.ends_with("(no longer open)")
    });
}

#[test]
fn a_hook_runs_when_an_agent_asks() {
    let home = Home::new();
    let (note, notes) = program(&home, "note", "cat >> $OUT");
    let _daemon = acp::start(&home, "plain", &[("HERMESD_HOOKS_ON_QUESTION", &note)]);
    let talk = home.talk(&[], "permission\n1\n");
    let heard = until("the hook has run", || told(&notes).pop());
    assert_eq!(heard["event"], "on_question");
    assert_eq!(heard["session_id"], talk.session.as_str());
    assert_eq!(heard["ask"], "May I do this?");
    assert_eq!(heard["subject"], "rm -rf /tmp/nothing");
    assert_eq!(heard["choices"], json!(["Yes", "Always", "No"]));
    assert_eq!(heard["place"], "terminal");
    assert_eq!(heard["question"], talk.turns[0]["question"]);
}

/// A session on its way from a terminal to Ada's chat, whose agent asks there.
async fn handed_off(settings: &[(&str, &str)]) -> (Bot, crate::support::Daemon) {
    let bot = Bot::at_home(|api| api.private(&ADA));
    seed_session(&bot.home).await;
    let daemon = acp::start(&bot.home, "plain", settings);
    bot.api.until_polled();
    (bot, daemon)
}

fn hand_off(bot: &Bot) -> Running {
    let ask = [
        "handoff",
        "telegram",
        "--session",
        SESSION,
        "--note",
        "permission",
    ];
    bot.home.spawn_hermesctl(&ask, &[])
}

#[tokio::test]
async fn an_answer_in_the_terminal_counts_and_the_chat_sees_it() {
    let (bot, daemon) = handed_off(&[]).await;
    let client = daemon.client().await;
    open(&client, Some(SESSION)).await.unwrap();
    let listener = listen(&bot.home, "turn").await;
    let handoff = hand_off(&bot);
    let asked = question(&bot, bot.chat);
    answer(&client, "3").await.unwrap();
    bot.api.until_message(bot.chat, None, |m| {
        m.id == asked.id
            && m.buttons.is_empty()
            && m.text.ends_with("→ No (answered in the terminal)")
    });
    let pressed = bot
        .api
        .presses_with(bot.chat, asked.id, &ADA, &asked.buttons[0][0].1);
    until("the press is answered", || {
        let queries = bot.api.queries().into_iter();
        let answer = queries.filter(|q| q.id == pressed).find_map(|q| q.answer)?;
        (answer.0 == "That question is no longer open.").then_some(())
    });
    let closed = loop {
        let event: Value = serde_json::to_value(acp::next(&listener).await).unwrap();
        if event["type"] == "turn.question_closed" {
            break event;
        }
    };
    assert_eq!(closed["answer"], "No");
    assert_eq!(closed["place"], "terminal");
    assert_eq!(closed["outcome"], "answered");
    assert_eq!(handoff.end().code, 0);
    assert_eq!(acp::outcomes(&bot.home).len(), 1);
}

#[tokio::test]
async fn an_answer_in_the_chat_counts_and_the_terminal_sees_it() {
    let (bot, _daemon) = handed_off(&[]).await;
    let terminal = Terminal::open(&bot.home, &["chat", "--resume", SESSION], 100, 40);
    terminal.prompts();
    let handoff = hand_off(&bot);
    let asked = question(&bot, bot.chat);
    terminal.shows("  │ rm -rf /tmp/nothing");
    bot.api.presses(bot.chat, asked.id, &ADA, "Always");
    terminal.shows("(answered on telegram: Always)");
    assert_eq!(handoff.end().code, 0);
    assert_eq!(acp::outcomes(&bot.home).len(), 1);
}
