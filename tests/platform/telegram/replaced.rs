//! A second handoff to a chat without threads: refused, asked about in a terminal, and told to everybody who lost a place.

use crate::support::bot::Bot;
use crate::support::pty::Terminal;
use crate::support::telegram::ADA;
use crate::support::{Daemon, add_session, until};

const FIRST: &str = "20260101_090000_aaaaaa";
const SECOND: &str = "20260102_090000_bbbbbb";

/// A private chat without topics, with the first session in it.
fn taken() -> (Bot, Daemon) {
    let bot = Bot::at_home(|api| api.private(&ADA));
    let daemon = bot.start();
    add_session(&bot.home, FIRST, "The first");
    add_session(&bot.home, SECOND, "The second");
    let handed = hand_off(&bot, FIRST, &[]);
    assert_eq!(handed.code, 0, "{handed:?}");
    // No thread was opened, and nothing says so.
    assert!(!handed.stdout.contains("thread opened"), "{handed:?}");
    let used = "no thread, the chat itself is used: ";
    assert!(handed.stdout.contains(used), "{handed:?}");
    assert_eq!(there(&bot), FIRST);
    (bot, daemon)
}

fn hand_off(bot: &Bot, session: &str, more: &[&str]) -> crate::support::Ran {
    let all = ["handoff", "telegram", "--session", session];
    bot.home.hermesctl(&[&all, more].concat())
}

/// The session that the chat is on.
fn there(bot: &Bot) -> String {
    bot.look("SELECT json_extract(entry_json, '$.session_id') FROM gateway_routing")
}

#[test]
fn it_is_refused_and_the_chat_stays_on_the_first() {
    let (bot, _daemon) = taken();
    let refused = hand_off(&bot, SECOND, &["--json"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    let error = &refused.json()["error"];
    assert_eq!(error["kind"], "chat_taken", "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("\"The first\" is there now"), "{message}");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("--replace"), "{hint}");
    assert_eq!(there(&bot), FIRST);
    // The same session may be handed off again, and another one when the place is free.
    let back = bot.home.hermesctl(&["resume", FIRST, "--no-chat"]);
    assert_eq!(back.code, 0, "{back:?}");
    assert_eq!(hand_off(&bot, SECOND, &[]).code, 0);
    assert_eq!(there(&bot), SECOND);
}

#[test]
fn with_replace_the_chat_and_the_terminal_of_the_first_are_told_and_it_comes_back() {
    let (bot, _daemon) = taken();
    let back = bot.home.hermesctl(&["resume", FIRST, "--no-chat"]);
    assert_eq!(back.code, 0, "{back:?}");
    let terminal = Terminal::open(&bot.home, &["chat", "--resume", FIRST], 120, 40);
    terminal.prompts();
    assert_eq!(hand_off(&bot, FIRST, &[]).code, 0);
    terminal.shows("This session is on telegram now.");
    let replaced = hand_off(&bot, SECOND, &["--replace"]);
    assert_eq!(replaced.code, 0, "{replaced:?}");
    assert_eq!(there(&bot), SECOND);
    bot.api.until_message(bot.chat, None, |message| {
        message.text.contains("The first") && message.text.contains("until now")
    });
    terminal.shows(&format!(
        "Session {SECOND} has taken the place of this one on telegram. /resume brings this one back.\n>"
    ));
    // The first comes back when the second leaves.
    let back = bot.home.hermesctl(&["resume", SECOND, "--no-chat"]);
    assert_eq!(back.code, 0, "{back:?}");
    until("the first is there", || {
        (there(&bot) == FIRST).then_some(())
    });
    terminal.say("/resume");
    terminal.shows("Brought back from telegram.");
}

#[test]
fn a_terminal_asks_before_it_replaces() {
    let (bot, _daemon) = taken();
    let question = "Replace it? [y/N]";
    let arguments = ["handoff", "telegram", "--session", SECOND];
    let mut no = Terminal::open(&bot.home, &arguments, 120, 40);
    no.shows(question);
    no.type_line("");
    assert_eq!(no.end(), 3);
    assert_eq!(there(&bot), FIRST);

    let mut chat = Terminal::open(&bot.home, &["chat", "--resume", SECOND], 120, 40);
    chat.say("/handoff telegram");
    chat.shows(question);
    chat.type_line("n");
    chat.shows("nothing was handed off");
    chat.say("/handoff telegram");
    chat.shows_times(question, 2);
    chat.type_line("y");
    assert_eq!(chat.end(), 0);
    assert!(chat.is_as_found());
    assert_eq!(there(&bot), SECOND);
}
