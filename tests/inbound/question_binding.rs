//! Whose answer counts: a question is bound to its chat, to the message that shows it and to the person whose turn asks.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BEN, BotMessage, Outcome, Rights, ScriptedFault};
use crate::support::{Daemon, SESSION, acp, seed_session, until};

/// Ada owns the bot; everybody may talk in this group.
fn open_group(chat: impl Fn(&Bot) -> i64) -> (Bot, i64) {
    let (bot, _) = Bot::of_ada("");
    let group = chat(&bot);
    bot.configure(&format!("TELEGRAM_GROUP_ALLOWED_CHATS={group}\n"));
    (bot, group)
}

fn start(bot: &Bot) -> Daemon {
    let daemon = acp::start(&bot.home, "plain", &[]);
    bot.api.until_polled();
    daemon
}

fn question(bot: &Bot, chat: i64, thread: Option<i64>) -> BotMessage {
    bot.api
        .until_message(chat, thread, |m| !m.buttons.is_empty())
}

/// What the last press was answered with.
fn toast(bot: &Bot, query: &str) -> String {
    until("the press is answered", || {
        let queries = bot.api.queries().into_iter();
        let mut queries = queries.filter(|asked| asked.id == query);
        Some(queries.next()?.answer?.0)
    })
}

/// No answer has reached the agent; with the next one, the agent hears just that.
fn is_answered_by_ada(bot: &Bot, chat: i64, thread: Option<i64>, question: &BotMessage) {
    assert!(acp::outcomes(&bot.home).is_empty());
    bot.api.presses(chat, question.id, &ADA, "No");
    bot.api
        .until_message(chat, thread, |m| m.text == "You chose the-reject_once");
    assert_eq!(acp::outcomes(&bot.home).len(), 1);
}

#[test]
fn a_person_of_another_group_cannot_answer_the_owners_private_question() {
    let (bot, group) = open_group(|bot| bot.api.group("Open"));
    let private = bot.api.private(&ADA);
    let _daemon = start(&bot);
    bot.api.says(private, None, &ADA, "permission please");
    let asked = question(&bot, private, None);
    // Ben has a message with buttons of his own, and gives the data of the other question back with it.
    bot.api
        .says(group, None, &BEN, "@hermes_test_bot permission please");
    let own = question(&bot, group, None);
    let always = asked.buttons[1][0].1.clone();
    let query = bot.api.presses_with(group, own.id, &BEN, &always);
    assert_eq!(toast(&bot, &query), "That question is no longer open.");
    // Data that he makes up takes no buttons away either.
    let query = bot.api.presses_with(group, own.id, &BEN, "choice:1:0");
    assert_eq!(toast(&bot, &query), "That question is no longer open.");
    is_answered_by_ada(&bot, private, None, &asked);
    let left = bot.api.messages_in(group, None);
    assert_eq!((left.len(), left[0].buttons.len()), (1, 3), "{left:?}");
}

#[test]
fn a_press_counts_for_the_message_that_shows_the_question_only() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = start(&bot);
    bot.api.says(chat, None, &ADA, "hello");
    let other = bot
        .api
        .until_message(chat, None, |m| m.text.contains("Prompts: 1."));
    bot.api.says(chat, None, &ADA, "permission please");
    let asked = question(&bot, chat, None);
    let data = asked.buttons[0][0].1.clone();
    let query = bot.api.presses_with(chat, other.id, &ADA, &data);
    assert_eq!(toast(&bot, &query), "That question is no longer open.");
    is_answered_by_ada(&bot, chat, None, &asked);
}

#[test]
fn a_member_of_the_same_topic_answers_neither_with_a_button_nor_with_a_number() {
    let (bot, forum) = open_group(|bot| bot.api.forum("Work", Rights::TopicsAdmin));
    let topic = bot.api.opens_topic(forum, &ADA, "Plans");
    let thread = Some(topic);
    let _daemon = start(&bot);
    bot.api
        .says(forum, thread, &ADA, "@hermes_test_bot permission please");
    let asked = question(&bot, forum, thread);
    let query = bot.api.presses(forum, asked.id, &BEN, "Always");
    assert_eq!(toast(&bot, &query), "This question is not for you.");
    for _ in 0..2 {
        bot.api.says(forum, thread, &BEN, "1");
    }
    let note = "The question above is for another person.";
    bot.api
        .until_message(forum, thread, |m| m.text.starts_with(note));
    bot.api.until_polled();
    let still = bot.api.messages_in(forum, thread);
    let still = still.iter().find(|m| m.id == asked.id).unwrap();
    assert_eq!(still.buttons.len(), 3, "nothing has changed: {still:?}");
    is_answered_by_ada(&bot, forum, thread, &asked);
    // What Ben wrote is a message like any other, and was noted once.
    bot.api
        .until_message(forum, thread, |m| m.text.contains("Prompts: 3."));
    let all = bot.api.messages_in(forum, thread);
    let notes = all.iter().filter(|m| m.text.starts_with(note)).count();
    assert_eq!(notes, 1, "{all:?}");
}

#[test]
fn the_owner_answers_the_question_of_a_guests_turn_and_the_guest_does_not() {
    let (bot, group) = open_group(|bot| bot.api.group("Open"));
    let _daemon = start(&bot);
    bot.api
        .says(group, None, &BEN, "@hermes_test_bot permission please");
    let asked = question(&bot, group, None);
    let query = bot.api.presses(group, asked.id, &BEN, "Always");
    assert_eq!(toast(&bot, &query), "This question is not for you.");
    is_answered_by_ada(&bot, group, None, &asked);
}

#[test]
fn an_allowed_user_approves_in_their_own_turn_where_allowed_users_are_trusted() {
    let (bot, _) = Bot::of_ada("");
    let group = bot.api.group("Work");
    let both = format!("TELEGRAM_ALLOWED_USERS={},{}\n", ADA.id, BEN.id);
    bot.configure(&both);
    let trusted = ("HERMESD_PLATFORMS_TELEGRAM_TRUSTED", "allowed_users");
    let _daemon = acp::start(&bot.home, "plain", &[trusted]);
    bot.api.until_polled();
    bot.api
        .says(group, None, &BEN, "@hermes_test_bot permission please");
    let asked = question(&bot, group, None);
    // Ada is trusted as much, and it is not her turn.
    let query = bot.api.presses(group, asked.id, &ADA, "Always");
    assert_eq!(toast(&bot, &query), "This question is not for you.");
    assert!(acp::outcomes(&bot.home).is_empty());
    bot.api.presses(group, asked.id, &BEN, "No");
    bot.api
        .until_message(group, None, |m| m.text == "You chose the-reject_once");
}

#[tokio::test]
async fn a_handoff_to_a_channel_is_answered_by_the_owner_and_by_no_reader() {
    let bot = Bot::at_home(|api| api.channel("News", "the_news"));
    seed_session(&bot.home).await;
    let _daemon = start(&bot);
    let ask = [
        "handoff",
        "telegram",
        "--session",
        SESSION,
        "--note",
        "permission",
    ];
    let handoff = bot.home.spawn_hermesctl(&ask, &[]);
    let asked = question(&bot, bot.chat, None);
    let query = bot.api.presses(bot.chat, asked.id, &BEN, "Always");
    assert_eq!(toast(&bot, &query), "This question is not for you.");
    is_answered_by_ada(&bot, bot.chat, None, &asked);
    assert_eq!(handoff.end().code, 0);
}

#[test]
fn what_was_written_before_the_question_is_no_answer_however_late_it_comes() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = start(&bot);
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldBefore(gate.clone()));
    bot.api.says(chat, None, &ADA, "permission please");
    bot.api.until_calls("sendMessage", 1);
    // It is asked already, and not shown.
    bot.api.says(chat, None, &ADA, "1");
    bot.api.until_polled();
    let (early, asked) = bot.api.at_once(|api| {
        let early = api.says(chat, None, &ADA, "1");
        gate.add_permits(1);
        let asked = api.until_message(chat, None, |m| !m.buttons.is_empty());
        until("the daemon knows that it is shown", || {
            let call = api.calls_of("sendMessage").remove(0);
            matches!(call.outcome, Outcome::Done(_)).then_some(())
        });
        (early, asked)
    });
    assert!(early < asked.id);
    until("it is seen", || {
        let seen = bot.api.reactions(chat, early).contains(&"👀".to_owned());
        seen.then_some(())
    });
    is_answered_by_ada(&bot, chat, None, &asked);
    // Both are messages for the agent.
    bot.api
        .until_message(chat, None, |m| m.text.contains("Prompts: 3."));
}

#[test]
fn other_words_wait_in_line_and_the_person_is_informed_once() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = start(&bot);
    bot.api.says(chat, None, &ADA, "permission please");
    let asked = question(&bot, chat, None);
    bot.api.says(chat, None, &ADA, "wait, which file?");
    let note = "The question above is still open.";
    bot.api
        .until_message(chat, None, |m| m.text.starts_with(note));
    bot.api.says(chat, None, &ADA, "hm");
    bot.api.says(chat, None, &ADA, "/title Later");
    bot.api.until_polled();
    is_answered_by_ada(&bot, chat, None, &asked);
    bot.api
        .until_message(chat, None, |m| m.text.contains("Prompts: 3."));
    bot.api
        .until_message(chat, None, |m| m.text.contains("Later"));
    let texts = bot.texts(chat);
    let notes = texts.iter().filter(|text| text.starts_with(note)).count();
    assert_eq!(notes, 1, "{texts:?}");
    let prompts: Vec<String> = acp::prompts(&bot.home).concat();
    assert!(
        prompts.contains(&"wait, which file?".to_owned()),
        "{prompts:?}"
    );
}
