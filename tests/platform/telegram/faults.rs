//! Failures of the Bot API and of what stands before it, told apart by status and code: only a refused token is final.

use crate::support::bot::{Bot, MARK};
use crate::support::telegram::{ADA, Play};

/// A poll that is over soon, so that its end can be waited for.
const POLL: (&str, &str) = ("HERMESD_PLATFORMS_TELEGRAM_POLL", "1s");

/// What passes by itself, as the Bot API says it and as a proxy or a balancer before it does.
fn passing() -> Vec<Play> {
    vec![
        Play::Refuse(503, "Service Unavailable"),
        Play::Refuse(408, "Request Timeout"),
        Play::Refuse(403, "Forbidden"),
        Play::Refuse(429, "Too Many Requests"),
        Play::Refuse(500, "Internal Server Error: restart"),
        Play::Refuse(418, "Something that no list has"),
        Play::Status(520),
        Play::Status(403),
        Play::Status(404),
        Play::Status(200),
    ]
}

#[test]
fn no_fault_that_passes_takes_the_line_down() {
    std::thread::scope(|scope| {
        for play in passing() {
            scope.spawn(move || {
                let (bot, chat) = Bot::of_ada("");
                let daemon = bot.start_with(&[POLL]);
                bot.api.then("getUpdates", play.clone());
                let polls = bot.api.calls_of("getUpdates").len();
                bot.api.until_calls("getUpdates", polls + 2);
                bot.asks(chat, None, "hello");
                assert_eq!(bot.standing()["state"], "up", "{play:?}");
                assert!(!daemon.log().contains("platform down"), "{play:?}");
            });
        }
    });
}

#[test]
fn no_fault_that_passes_loses_a_reply() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    for (n, play) in passing().into_iter().enumerate() {
        bot.api.then("sendMessage", play.clone());
        let words = format!("number {n}");
        bot.api.says(chat, None, &ADA, &words);
        let answer = bot
            .api
            .until_message(chat, None, |m| m.text.contains(&words));
        // It was refused for sure, or there is no telling whether it was done.
        let sure = matches!(&play, Play::Refuse(400..=499, _) | Play::Status(400..=499));
        assert_eq!(answer.text.starts_with(MARK), !sure, "{play:?}: {answer:?}");
    }
    assert_eq!(bot.texts(chat).len(), passing().len(), "each once");
}

#[test]
fn what_telegram_refuses_for_good_is_not_tried_again() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let refusals = [
        (400, "Bad Request: chat not found"),
        (403, "Forbidden: bot was blocked by the user"),
    ];
    for (n, (status, why)) in refusals.into_iter().enumerate() {
        bot.api.then("sendMessage", Play::Refuse(status, why));
        bot.api.says(chat, None, &ADA, &format!("lost {n}"));
        bot.asks(chat, None, &format!("kept {n}"));
    }
    let calls = bot.api.calls_of("sendMessage").len();
    assert_eq!(calls, 4, "{:?}", bot.texts(chat));
}

#[test]
fn a_token_is_refused_twice_before_that_is_believed() {
    let (bot, chat) = Bot::of_ada("");
    // Once at the start, once at a poll: each time a second look finds it good.
    bot.api.then("getMe", Play::Unauthorized);
    let _daemon = bot.start_with(&[POLL]);
    bot.asks(chat, None, "hello");
    bot.api.then("getUpdates", Play::Refuse(404, "Not Found"));
    bot.api.then("getMe", Play::Unauthorized);
    let polls = bot.api.calls_of("getUpdates").len();
    bot.api.until_calls("getUpdates", polls + 2);
    bot.asks(chat, None, "and again");
    assert_eq!(bot.standing()["state"], "up");
    // A reply meets one, too.
    bot.api.then("sendMessage", Play::Unauthorized);
    bot.asks(chat, None, "and now?");
}
