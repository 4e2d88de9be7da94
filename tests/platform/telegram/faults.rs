//! Failures of the Bot API and of what stands before it, told apart by status and code: only a refused token is final.

use crate::support::bot::{Bot, MARK};
use crate::support::telegram::{ADA, ScriptedFault};

/// A poll that is over soon, so that its end can be waited for.
const POLL: (&str, &str) = ("HERMESD_PLATFORMS_TELEGRAM_POLL", "1s");

/// What passes by itself, as the Bot API says it and as a proxy or a balancer before it does.
fn passing() -> Vec<ScriptedFault> {
    vec![
        ScriptedFault::Refuse(503, "Service Unavailable"),
        ScriptedFault::Refuse(408, "Request Timeout"),
        ScriptedFault::Refuse(403, "Forbidden"),
        ScriptedFault::Refuse(429, "Too Many Requests"),
        ScriptedFault::Refuse(500, "Internal Server Error: restart"),
        ScriptedFault::Refuse(418, "Something that no list has"),
        ScriptedFault::ProxyPage(520),
        ScriptedFault::ProxyPage(403),
        ScriptedFault::ProxyPage(404),
        ScriptedFault::ProxyPage(200),
    ]
}

#[test]
fn no_fault_that_passes_takes_the_line_down() {
    std::thread::scope(|scope| {
        for fault in passing() {
            scope.spawn(move || {
                let (bot, chat) = Bot::of_ada("");
                let daemon = bot.start_with(&[POLL]);
                bot.api.then("getUpdates", fault.clone());
                let polls = bot.api.calls_of("getUpdates").len();
                bot.api.until_calls("getUpdates", polls + 2);
                bot.asks(chat, None, "hello");
                assert_eq!(bot.standing()["state"], "up", "{fault:?}");
                assert!(!daemon.log().contains("platform down"), "{fault:?}");
            });
        }
    });
}

#[test]
fn no_fault_that_passes_loses_a_reply() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    for (n, fault) in passing().into_iter().enumerate() {
        bot.api.then("sendMessage", fault.clone());
        let words = format!("number {n}");
        bot.api.says(chat, None, &ADA, &words);
        let answer = bot
            .api
            .until_message(chat, None, |m| m.text.contains(&words));
        // It was refused for sure, or there is no telling whether it was done.
        let sure = matches!(
            &fault,
            ScriptedFault::Refuse(400..=499, _) | ScriptedFault::ProxyPage(400..=499)
        );
        assert_eq!(
            answer.text.starts_with(MARK),
            !sure,
            "{fault:?}: {answer:?}"
        );
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
        bot.api
            .then("sendMessage", ScriptedFault::Refuse(status, why));
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
    bot.api
        .then("getMe", ScriptedFault::Refuse(401, "Unauthorized"));
    let _daemon = bot.start_with(&[POLL]);
    bot.asks(chat, None, "hello");
    bot.api
        .then("getUpdates", ScriptedFault::Refuse(404, "Not Found"));
    bot.api
        .then("getMe", ScriptedFault::Refuse(401, "Unauthorized"));
    let polls = bot.api.calls_of("getUpdates").len();
    bot.api.until_calls("getUpdates", polls + 2);
    bot.asks(chat, None, "and again");
    assert_eq!(bot.standing()["state"], "up");
    // A reply meets one, too.
    bot.api
        .then("sendMessage", ScriptedFault::Refuse(401, "Unauthorized"));
    bot.asks(chat, None, "and now?");
}
