//! A turn as its chat sees it: acknowledged, typed, shown while it is written, and asked about.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BotMessage, Rights, ScriptedFault};
use crate::support::{acp, until};

#[test]
fn what_comes_meanwhile_is_acknowledged_and_answered_in_order() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldBefore(gate.clone()));
    let one = bot.api.says(chat, None, &ADA, "one");
    bot.api.until_calls("sendMessage", 1);
    let two = bot.api.says(chat, None, &ADA, "two");
    until("an acknowledgement", || {
        bot.api
            .reactions(chat, two)
            .contains(&"👀".to_owned())
            .then_some(())
    });
    // Where no reactions are allowed, it is said.
    let why = "Bad Request: REACTION_INVALID";
    bot.api
        .then("setMessageReaction", ScriptedFault::Refuse(400, why));
    bot.api.says(chat, None, &ADA, "three");
    bot.api
        .until_message(chat, None, |m| m.text.contains("I have seen it"));
    assert_eq!(bot.texts(chat).len(), 1);
    gate.add_permits(1);
    bot.answered(chat, None, "three");
    assert!(bot.api.reactions(chat, one).is_empty());
    let texts = bot.texts(chat);
    let order = ["one", "two", "three"].map(|word| {
        let begin = format!("You said: {word}\n");
        texts.iter().position(|text| text.starts_with(&begin))
    });
    assert!(order.is_sorted() && texts.len() == 4, "{texts:?}");
}

#[test]
fn somebody_is_seen_typing_where_the_answer_will_be() {
    let (bot, private) = Bot::of_ada("");
    let forum = bot.api.forum("Work", Rights::TopicsAdmin);
    let topic = bot.api.opens_topic(forum, &ADA, "Plans");
    let _daemon = bot.start_with(&[("HERMESD_AGENT_ECHO_PACE", "20ms")]);
    bot.api.says(forum, None, &ADA, "in general");
    bot.answered(forum, None, "[Ada] in general");
    bot.api.says(forum, Some(topic), &ADA, "here");
    bot.answered(forum, Some(topic), "[Ada] here");
    bot.asks(private, None, "and here");
    let shown = bot.api.calls_of("sendChatAction");
    let threads: Vec<&Value> = shown
        .iter()
        .map(|call| &call.params["message_thread_id"])
        .collect();
    assert_eq!(
        threads,
        [&Value::from(1), &Value::from(topic), &Value::Null]
    );
    assert_eq!(
        bot.api.actions(forum),
        [(None, "typing".into()), (Some(topic), "typing".into())]
    );
}

#[test]
fn an_answer_is_shown_while_it_is_written_and_ends_as_one_message() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start_with(&[("HERMESD_AGENT_ECHO_PACE", "30ms")]);
    let words = "word ".repeat(120).trim_end().to_owned();
    bot.api.says(chat, None, &ADA, &words);
    let draft = bot
        .api
        .until_message(chat, None, |m| m.text.ends_with(" …"));
    // Whoever asks how it stands need not wait for its end.
    bot.api.says(chat, None, &ADA, "/status");
    bot.api
        .until_message(chat, None, |m| m.text.contains("I am writing an answer"));
    let whole = bot
        .api
        .until_message(chat, None, |m| m.text.ends_with("tool results.)"));
    assert_eq!(draft.id, whole.id);
    assert!(whole.text.contains(&words), "{whole:?}");
    assert_eq!(bot.texts(chat).len(), 2);
    assert_eq!(bot.api.calls_of("sendMessage").len(), 2);
    // One change while it streams and one at the end; those while it streams keep their distance.
    let edits = bot.api.calls_of("editMessageText");
    assert!((2..=3).contains(&edits.len()), "{}", edits.len());
    let begun = bot.api.calls_of("sendMessage")[0].at;
    let pause = edits[0].at - begun;
    assert!(pause >= Duration::from_millis(1450), "{pause:?}");
}

#[test]
fn an_answer_that_a_kill_has_cut_off_is_finished_where_it_was_shown() {
    let (bot, chat) = Bot::of_ada("");
    let daemon = bot.start_with(&[("HERMESD_AGENT_ECHO_PACE", "30ms")]);
    let words = "word ".repeat(200).trim_end().to_owned();
    bot.api.says(chat, None, &ADA, &words);
    let draft = bot
        .api
        .until_message(chat, None, |m| m.text.ends_with(" …"));
    until("the draft is known", || {
        let known = "SELECT draft FROM hermesd_inbound";
        let known = bot.home.sqlite().query_row(known, [], |row| row.get(0));
        (known == Ok(draft.id.to_string())).then_some(())
    });
    daemon.kill();
    bot.api.until_quiet();
    let _daemon = bot.start();
    let whole = bot.answered(chat, None, &words);
    assert_eq!(whole.id, draft.id);
    assert_eq!(bot.texts(chat).len(), 1, "{:?}", bot.texts(chat));
}

#[test]
fn a_telegram_that_wants_patience_gets_it() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = acp::start(&bot.home, "plain", &[]);
    let too_many = ScriptedFault::too_many_requests(1);
    bot.api.then("sendMessage", too_many.clone());
    let question = asked(&bot, chat);
    let calls = bot.api.calls_of("sendMessage");
    assert!(calls[1].at - calls[0].at >= Duration::from_millis(950));
    bot.api.then("sendMessage", too_many);
    bot.api.presses(chat, question.id, &ADA, "Yes");
    bot.api
        .until_message(chat, None, |m| m.text == "You chose the-allow_once");
    assert_eq!(bot.texts(chat).len(), 2, "{:?}", bot.texts(chat));
}

#[test]
fn an_answer_can_be_kept_back_until_it_is_whole() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start_with(&[
        ("HERMESD_AGENT_ECHO_PACE", "30ms"),
        ("HERMESD_CHATS_STREAM", "false"),
    ]);
    let words = "word ".repeat(70);
    bot.asks(chat, None, words.trim_end());
    assert!(bot.api.calls_of("editMessageText").is_empty());
    assert_eq!(bot.api.calls_of("sendMessage").len(), 1);
}

/// The agent asks for a permission, which is shown with buttons.
fn asked(bot: &Bot, chat: i64) -> BotMessage {
    bot.api.says(chat, None, &ADA, "permission please");
    bot.api.until_message(chat, None, |m| {
        m.text.contains("rm -rf") && !m.buttons.is_empty()
    })
}

#[test]
fn an_agents_question_is_answered_by_the_press_of_a_button() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = acp::start(&bot.home, "plain", &[]);
    let question = asked(&bot, chat);
    let labels: Vec<&str> = question.buttons.iter().map(|b| b[0].0.as_str()).collect();
    assert_eq!(labels, ["Yes", "Always", "No"]);
    bot.api.presses(chat, question.id, &ADA, "Yes");
    bot.api
        .until_message(chat, None, |m| m.text == "You chose the-allow_once");
    bot.api.until_message(chat, None, |m| {
        m.id == question.id && m.buttons.is_empty() && m.text.ends_with("→ Yes")
    });
    assert_eq!(bot.api.queries()[0].answer.clone().unwrap().0, "Yes");
    assert_eq!(bot.texts(chat).len(), 2, "{:?}", bot.texts(chat));
}

#[test]
fn an_agents_question_is_answered_by_a_number_and_its_buttons_are_stale_then() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = acp::start(&bot.home, "plain", &[]);
    let question = asked(&bot, chat);
    bot.api.says(chat, None, &ADA, "3");
    bot.api
        .until_message(chat, None, |m| m.text == "You chose the-reject_once");
    bot.api.until_message(chat, None, |m| {
        m.id == question.id && m.buttons.is_empty() && m.text.ends_with("→ No")
    });
    // Another device may still show them.
    let yes = &question.buttons[0][0].1;
    bot.api.presses_with(chat, question.id, &ADA, yes);
    bot.api.until_message(chat, None, |m| {
        m.id == question.id && m.text.ends_with("(no longer open)")
    });
    let told = bot.api.queries()[0].answer.clone().unwrap().0;
    assert_eq!(told, "That question is no longer open.");
    assert_eq!(acp::outcomes(&bot.home).len(), 1);
}
