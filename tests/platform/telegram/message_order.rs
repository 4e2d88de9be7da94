//! The line to Telegram: what breaks it, what is said of that, and how it comes back.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, CONFLICT, ScriptedFault, TOKEN};
use crate::support::until;

/// A poll that is over soon, so that its end can be waited for.
const POLL: (&str, &str) = ("HERMESD_PLATFORMS_TELEGRAM_POLL", "1s");

/// The next poll meets this, and the line stays broken until there is a permit.
fn breaks(bot: &Bot, fault: ScriptedFault) -> Arc<Semaphore> {
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("getMe", ScriptedFault::HoldBefore(gate.clone()));
    bot.api.then("getUpdates", fault);
    gate
}

#[test]
fn a_wrong_token_is_said_to_be_and_the_daemon_stays() {
    for token in ["4242424242:AAwrong", "nonsense"] {
        let (bot, _) = Bot::of_ada("");
        let daemon = bot
            .home
            .start_with(&[("HERMESD_PLATFORMS_TELEGRAM_TOKEN", token)]);
        let why = bot.until_standing("down");
        assert!(why.contains("@BotFather"), "{why}");
        assert!(why.contains("platforms.telegram.token"), "{why}");
        assert!(bot.api.calls_of("getMe").len() <= 2, "a second look");
        let status = bot.home.hermesctl(&["status"]);
        assert_eq!(status.code, 0, "{status:?}");
        assert!(!daemon.log().contains(token), "{}", daemon.log());
    }
}

#[test]
fn a_token_that_is_taken_back_is_said_to_be() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    bot.api
        .then("getUpdates", ScriptedFault::Refuse(401, "Unauthorized"));
    for _ in 0..2 {
        bot.api
            .then("getMe", ScriptedFault::Refuse(401, "Unauthorized"));
    }
    bot.api.says(chat, None, &ADA, "hello");
    let why = bot.until_standing("down");
    assert!(why.contains("@BotFather"), "{why}");
    assert_eq!(bot.api.calls_of("getMe").len(), 3);
}

#[test]
fn another_program_at_the_same_bot_is_named_until_it_is_gone() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start_with(&[POLL]);
    let gate = breaks(&bot, ScriptedFault::Refuse(409, CONFLICT));
    let why = bot.until_standing("degraded");
    assert!(why.contains("another program"), "{why}");
    gate.add_permits(1);
    bot.until_standing("up");
    bot.asks(chat, None, "hello");
}

#[test]
fn a_connection_that_says_nothing_is_noticed_and_made_anew() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start_with(&[POLL]);
    let gate = breaks(&bot, ScriptedFault::Hang);
    let why = bot.until_standing("degraded");
    assert!(why.contains("connection is dead"), "{why}");
    bot.api.says(chat, None, &ADA, "hello");
    gate.add_permits(1);
    bot.answered(chat, None, "hello");
    bot.until_standing("up");
}

#[test]
fn a_telegram_that_is_down_at_the_start_is_waited_for() {
    let (bot, chat) = Bot::of_ada("");
    bot.api.always(Some(ScriptedFault::DisconnectBefore));
    bot.api.says(chat, None, &ADA, "hello");
    let _daemon = bot.home.start();
    let why = until("a reason", || {
        let now = bot.standing();
        let why = now["detail"].as_str()?.to_owned();
        (now["state"] == "connecting").then_some(why)
    });
    assert!(why.contains("cannot be reached"), "{why}");
    bot.api.always(None);
    bot.answered(chat, None, "hello");
    bot.until_standing("up");
    assert!(!bot.api.menu().is_empty());
}

#[test]
fn the_token_is_told_to_nobody() {
    let (bot, chat) = Bot::of_ada("");
    let daemon = bot.start_with(&[("HERMESD_LOG_LEVEL", "debug"), POLL]);
    for method in ["sendMessage", "getFile", "file"] {
        bot.api.then(method, ScriptedFault::DisconnectBefore);
    }
    let gate = breaks(&bot, ScriptedFault::DisconnectBefore);
    let document = bot.api.writes(chat, &ADA).text("look");
    document.file("document", "a.txt", b"words").send();
    let why = bot.until_standing("degraded");
    assert!(why.contains("cannot be reached"), "{why}");
    bot.api
        .until_message(chat, None, |m| m.text.contains("a.txt"));
    gate.add_permits(1);
    bot.until_standing("up");
    // What is refused, and with words that make no sense.
    bot.api.then("file", ScriptedFault::ProxyPage(404));
    bot.api.then("sendMessage", ScriptedFault::ProxyPage(404));
    let document = bot.api.writes(chat, &ADA).text("look again");
    document.file("document", "b.txt", b"words").send();
    bot.api
        .until_message(chat, None, |m| m.text.contains("b.txt"));
    let shown = bot.home.hermesctl(&["platforms"]).stdout;
    assert!(daemon.log().contains("DEBUG"), "{}", daemon.log());
    let (_, secret) = TOKEN.split_once(':').unwrap();
    let texts = bot.texts(chat).concat();
    for told in [daemon.log(), shown, why, texts] {
        assert!(!told.contains(secret), "{told}");
    }
}
