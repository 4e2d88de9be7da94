//! Commands in their forms on Slack, and the buttons below messages, with the built binaries.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::fake::ScriptedFault;
use crate::support::slack::{ADA, BEN};
use crate::support::slack_bot::SlackBot;
use crate::support::{SESSION, TITLE, acp, add_session, seed_session, until};

/// Waits for a text that only this person sees in the home channel.
fn until_whisper(bot: &SlackBot, to: &str, words: &str) -> String {
    bot.api.until(words, || {
        let seen = bot.api.ephemerals(&bot.channel).into_iter();
        let mut seen = seen.filter(|one| one.to == to).map(|one| one.text);
        seen.find(|text| text.contains(words))
    })
}

#[tokio::test]
async fn a_native_command_is_acknowledged_and_answered_to_its_person() {
    let bot = SlackBot::in_channel();
    bot.api.registers("/title");
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    bot.api.runs(&bot.channel, &ADA, "/hermes", "help");
    until_whisper(&bot, ADA.id, "/resume");
    bot.api.runs(&bot.channel, &ADA, "/hermes", "");
    bot.api.runs(&bot.channel, &ADA, "/hermes", "status");
    until_whisper(&bot, ADA.id, "agent");
    // A command of an existing Hermes app.
    bot.api.runs(&bot.channel, &ADA, "/title", "New name");
    until_whisper(&bot, ADA.id, "title");
    assert_eq!(bot.api.bot_messages(&bot.channel).len(), 0);
    bot.api.until_acknowledged();
    assert_eq!(bot.api.unanswered().len(), 0);
    let stored: i64 =
        bot.look("SELECT count(*) FROM hermesd_inbound WHERE source LIKE '%/commands/%'");
    assert_eq!(stored, 0, "the address for answers is in no row");
    bot.api.runs(&bot.channel, &BEN, "/hermes", "sessions");
    let refused = until_whisper(&bot, BEN.id, "not for you");
    assert!(!refused.contains(SESSION), "{refused}");
}

#[tokio::test]
async fn in_a_private_chat_the_answer_is_a_message() {
    let bot = SlackBot::in_channel();
    let _daemon = bot.start();
    let private = bot.api.direct(&ADA);
    bot.api.runs(&private, &ADA, "/hermes", "help");
    let answer = &bot.api.until_bot_messages(&private, 1)[0];
    assert!(answer.text.contains("/resume"), "{answer:?}");
    // Words that are no command are for the agent.
    bot.api.runs(&private, &ADA, "/hermes", "what is up?");
    let answer = &bot.api.until_bot_messages(&private, 2)[1];
    assert!(answer.text.contains("You said: what is up?"), "{answer:?}");
}

/// A daemon that dies between the acknowledgement and the answer answers with a message.
#[tokio::test]
async fn a_command_survives_a_kill() {
    let bot = SlackBot::in_channel();
    let daemon = bot.start();
    let private = bot.api.direct(&ADA);
    let held = Arc::new(Semaphore::new(0));
    bot.api
        .then("response_url", ScriptedFault::HoldBefore(held.clone()));
    bot.api.runs(&private, &ADA, "/hermes", "help");
    bot.api.until_calls("response_url", 1);
    daemon.kill();
    bot.api.until_quiet();
    let daemon = bot.start();
    let answers = bot.api.until_bot_messages(&private, 1);
    assert!(answers[0].text.contains("/resume"), "{answers:?}");
    // In a channel still only its person sees it.
    let held = Arc::new(Semaphore::new(0));
    bot.api
        .then("response_url", ScriptedFault::HoldBefore(held.clone()));
    let before = bot.api.calls_of("response_url").len();
    bot.api.runs(&bot.channel, &ADA, "/hermes", "help");
    bot.api.until_calls("response_url", before + 1);
    daemon.kill();
    bot.api.until_quiet();
    let _daemon = bot.start();
    until_whisper(&bot, ADA.id, "/resume");
    assert_eq!(bot.api.bot_messages(&bot.channel).len(), 0);
}

#[tokio::test]
async fn an_exclamation_mark_is_a_command_within_a_thread() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    bot.api
        .replies(&bot.channel, &root, &ADA, "!title A new name");
    bot.until_reply(&root, "A new name");
    until("the title", || {
        let title: String = bot.look("SELECT title FROM sessions");
        (title == "A new name").then_some(())
    });
    bot.api.replies(&bot.channel, &root, &ADA, "!wow");
    bot.until_reply(&root, "!wow");
}

#[tokio::test]
async fn a_question_is_answered_by_its_button_and_the_buttons_go() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api.until_listening();
    let private = bot.api.direct(&ADA);
    let root = bot.api.says(&private, &ADA, "permission please");
    let asked = bot.api.until("a question", || {
        let replies = bot.api.bot_replies(&private, &root);
        replies.into_iter().find(|m| !m.buttons.is_empty())
    });
    bot.api.presses(&private, &asked.ts, &ADA, "No");
    bot.api.until("the answer", || {
        let replies = bot.api.bot_replies(&private, &root);
        let chosen = replies
            .iter()
            .any(|m| m.text.contains("You chose the-reject"));
        let mut asked_then = replies.into_iter().filter(|m| m.ts == asked.ts);
        let without = asked_then.next().is_some_and(|m| m.buttons.is_empty());
        (chosen && without).then_some(())
    });
    // Without this, Slack keeps the blocks that a message has.
    let edits = bot.api.calls_of("chat.update").into_iter();
    let mut edits = edits.filter(|call| call.params["ts"] == asked.ts.as_str());
    assert!(edits.any(|call| call.params["blocks"] == serde_json::json!([])));
}

#[tokio::test]
async fn a_session_is_chosen_by_button_from_a_list_that_only_its_person_sees() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    add_session(&bot.home, "second", "Another plan");
    let _daemon = bot.start();
    bot.api.runs(&bot.channel, &ADA, "/hermes", "resume");
    let list = bot.api.until("a list", || {
        let seen = bot.api.ephemerals(&bot.channel).into_iter();
        let mut seen = seen.filter(|one| one.blocks.is_array());
        seen.next()
    });
    assert!(list.blocks.to_string().contains(TITLE), "{list:?}");
    assert_eq!(bot.api.bot_messages(&bot.channel).len(), 0);
    let private = bot.api.direct(&ADA);
    bot.api.runs(&private, &ADA, "/hermes", "resume");
    let asked = bot.api.until("a list", || {
        let messages = bot.api.bot_messages(&private);
        messages.into_iter().find(|m| !m.buttons.is_empty())
    });
    bot.api.presses(&private, &asked.ts, &ADA, TITLE);
    bot.api.until("it is here", || {
        let messages = bot.api.bot_messages(&private);
        let here = messages.iter().any(|m| m.text.contains("is here now"));
        let gone = messages.iter().all(|m| m.buttons.is_empty());
        (here && gone).then_some(())
    });
}
