//! Handoffs to Slack and conversations in their threads, with the built binaries.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::fake::ScriptedFault;
use crate::support::slack::{ADA, BEN, Slack};
use crate::support::slack_bot::SlackBot;
use crate::support::{SESSION, TITLE, seed_session};

#[tokio::test]
async fn the_first_message_names_the_session_and_the_thread_goes_on() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    let first = &bot.api.bot_messages(&bot.channel)[0];
    assert_eq!(first.ts, root);
    assert!(first.text.contains(TITLE), "{first:?}");
    bot.api.replies(&bot.channel, &root, &ADA, "and now?");
    let answers = bot.until_reply(&root, "and now?");
    assert!(answers[0].contains("I remember 6 messages"), "{answers:?}");
    bot.api.until_acknowledged();
    assert_eq!(bot.api.strays(), Vec::<String>::new());
}

/// The home is the person, a private chat, a private channel and a chat of several people.
#[tokio::test]
async fn every_kind_of_home_has_a_thread_that_goes_on() {
    type Make = fn(&Slack) -> String;
    let homes: [(&str, Make); 3] = [
        ("dm", |api| api.direct(&ADA)),
        ("group", |api| api.private_channel("secret")),
        ("dm", |api| api.group_direct(&[ADA, BEN])),
    ];
    for (chat_type, home) in homes {
        let bot = SlackBot::at_home(home);
        goes_on(&bot, chat_type).await;
    }
    let mut bot = SlackBot::at_home(|_| ADA.id.to_owned());
    bot.channel = bot.api.direct(&ADA);
    goes_on(&bot, "dm").await;
    assert_eq!(
        bot.api.extras(&bot.channel, &bot.roots()[0]).title,
        format!("Hermes — {TITLE}")
    );
}

async fn goes_on(bot: &SlackBot, chat_type: &str) {
    seed_session(&bot.home).await;
    let daemon = bot.start();
    let root = bot.thread();
    let bound: String = bot.look("SELECT session_key FROM sessions");
    let expected = format!("agent:main:slack:{chat_type}:{}:{root}", bot.channel);
    assert_eq!(bound, expected);
    // Another process makes the same key.
    daemon.kill();
    let _daemon = bot.start();
    let channel = &bot.channel;
    bot.api.replies(channel, &root, &ADA, "and now?");
    let answers = bot.until_reply(&root, "and now?");
    assert!(answers[0].contains("I remember 6 messages"), "{answers:?}");
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[tokio::test]
async fn a_reply_to_a_deleted_thread_does_not_stay_in_the_channel() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    let sent = bot.api.calls_of("chat.postMessage").len();
    let held = Arc::new(Semaphore::new(0));
    let hold = ScriptedFault::HoldBefore(held.clone());
    bot.api.then("chat.postMessage", hold);
    bot.api.replies(&bot.channel, &root, &ADA, "still there?");
    bot.api.until_calls("chat.postMessage", sent + 1);
    bot.api.deletes_thread(&bot.channel, &root);
    held.add_permits(1);
    bot.api.until("the note", || {
        let messages = bot.api.bot_messages(&bot.channel);
        messages
            .iter()
            .any(|m| m.text.contains("/resume"))
            .then_some(())
    });
    let messages = bot.api.bot_messages(&bot.channel);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(bot.api.stray_replies().len(), 1);
}

#[test]
fn an_answer_is_shown_while_it_is_written_and_ends_as_one_message() {
    let bot = SlackBot::in_channel();
    let _daemon = bot.home.start_with(&[("HERMESD_AGENT_ECHO_PACE", "30ms")]);
    bot.api.until_listening();
    let private = bot.api.direct(&ADA);
    let words = "word ".repeat(120).trim_end().to_owned();
    let root = bot.api.says(&private, &ADA, &words);
    bot.api.until("a status", || {
        let status = bot.api.extras(&private, &root).status;
        (!status.is_empty()).then_some(())
    });
    let reply = |end: &str| {
        bot.api.until(end, || {
            let replies = bot.api.bot_replies(&private, &root);
            replies.into_iter().find(|m| m.text.ends_with(end))
        })
    };
    let draft = reply(" …");
    let whole = reply("tool results.)");
    assert_eq!(draft.ts, whole.ts);
    assert!(whole.text.contains(&words), "{whole:?}");
    assert_eq!(bot.api.bot_replies(&private, &root).len(), 1);
    assert!(whole.edits >= 2, "{whole:?}");
}

#[tokio::test]
async fn a_deleted_message_that_waits_is_not_answered_and_an_edited_one_is() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    let sends = bot.api.calls_of("chat.postMessage").len();
    let held = Arc::new(Semaphore::new(0));
    bot.api
        .then("chat.postMessage", ScriptedFault::HoldBefore(held.clone()));
    let channel = &bot.channel;
    bot.api.replies(channel, &root, &ADA, "first");
    bot.api.until_calls("chat.postMessage", sends + 1);
    let taken_back = bot.api.replies(channel, &root, &ADA, "taken back");
    let mistyped = bot.api.replies(channel, &root, &ADA, "mistyped");
    bot.api.deletes(channel, &taken_back);
    bot.api.edits(channel, &mistyped, "typed well");
    bot.api.until_acknowledged();
    held.add_permits(1);
    bot.until_reply(&root, "typed well");
    let said = "SELECT count(*) FROM messages WHERE content LIKE '%taken back%' OR content LIKE '%mistyped%'";
    assert_eq!(bot.look::<i64>(said), 0);
    let replies = bot.api.bot_replies(channel, &root);
    assert!(
        !replies.iter().any(|m| m.text.contains("taken back")),
        "{replies:?}"
    );
}

#[tokio::test]
async fn a_waiting_message_gets_a_reaction_as_long_as_the_scope_allows_it() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    bot.api.gives_scope("reactions:write");
    let _daemon = bot.start();
    let root = bot.thread();
    let held = Arc::new(Semaphore::new(0));
    let sends = bot.api.calls_of("chat.postMessage").len();
    let hold = ScriptedFault::HoldBefore(held.clone());
    bot.api.then("chat.postMessage", hold);
    let says = |words: &str| bot.api.replies(&bot.channel, &root, &ADA, words);
    says("first");
    bot.api.until_calls("chat.postMessage", sends + 1);
    let second = says("second");
    bot.api.until_ended("reactions.add", 1);
    assert_eq!(bot.api.reactions(&bot.channel, &second)[0].0, "eyes");
    bot.api.removes_scope("reactions:write");
    says("third");
    bot.api.until_ended("reactions.add", 2);
    says("fourth");
    bot.api.until_acknowledged();
    held.add_permits(1);
    bot.until_reply(&root, "fourth");
    let asked = bot.api.calls_of("reactions.add").len();
    assert_eq!(asked, 2, "a missing scope is asked for once");
}

#[tokio::test]
async fn without_the_scope_for_reactions_there_are_none() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    for words in ["first", "second", "third"] {
        bot.api.replies(&bot.channel, &root, &ADA, words);
    }
    bot.until_reply(&root, "third");
    assert_eq!(bot.api.calls_of("reactions.add").len(), 0);
}

#[tokio::test]
async fn a_home_that_cannot_be_used_is_refused_with_its_remedy() {
    type Spoil = fn(&Slack, &str);
    let cases: [(Spoil, &str, &str); 5] = [
        (
            |api, channel| api.removes_bot(channel),
            "not_in_channel",
            "/invite",
        ),
        (
            |api, channel| api.archives(channel),
            "is_archived",
            "archived",
        ),
        (
            |api, channel| api.restricts(channel),
            "restricted_action",
            "let the app post",
        ),
        (
            |api, _| api.removes_scope("chat:write"),
            "missing_scope",
            "chat:write",
        ),
        (
            |api, _| api.removes_scope("channels:history"),
            "missing_scope",
            "channels:history",
        ),
    ];
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    for (spoil, error, remedy) in cases {
        bot.api.unarchives(&bot.channel);
        bot.api
            .change(|world| world.channel_mut(&bot.channel).restricted = false);
        bot.api.invites_bot(&bot.channel, &ADA);
        bot.api.gives_scope("chat:write");
        bot.api.gives_scope("channels:history");
        spoil(&bot.api, &bot.channel);
        let handed = bot.hand_off();
        assert_ne!(handed.code, 0, "{handed:?}");
        assert!(handed.stderr.contains(error), "{handed:?}");
        assert!(handed.stderr.contains(remedy), "{handed:?}");
    }
    let bound: i64 = bot.look("SELECT count(*) FROM gateway_routing");
    assert_eq!((bound, bot.roots().len()), (0, 0));
    assert_eq!(bot.look::<String>("SELECT id FROM sessions"), SESSION);
}

#[tokio::test]
async fn a_handoff_and_a_long_answer_pass_the_documented_limits() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    bot.api.documented_limits();
    let _daemon = bot.start();
    let root = bot.thread();
    let words = "a < b & c\n\n".repeat(900);
    bot.api.replies(&bot.channel, &root, &ADA, &words);
    let replies = bot.until_reply(&root, "I remember");
    assert_eq!(replies.len(), 1, "{replies:?}");
    let all = bot.api.bot_replies(&bot.channel, &root);
    assert!(all.len() > 3, "{}", all.len());
    assert!(all.iter().all(|m| m.text.chars().count() <= 4000));
}

#[tokio::test]
async fn the_first_message_shows_whether_the_session_is_there() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    let first = || bot.api.bot_messages(&bot.channel)[0].read();
    let before = first();
    bot.home.talk(&["--resume", SESSION], "/quit\n");
    bot.api.until("it is left", || {
        first().contains("has left this thread").then_some(())
    });
    bot.api.replies(&bot.channel, &root, &ADA, "!resume");
    bot.until_reply(&root, "is here now");
    bot.api
        .until("it is back", || (first() == before).then_some(()));
}

#[tokio::test]
async fn an_archived_channel_frees_its_session() {
    let bot = SlackBot::in_channel();
    bot.api.subscribes_to("channel_archive");
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    bot.thread();
    bot.api.archives(&bot.channel);
    crate::support::until("the session is free", || {
        let bound: i64 = bot.look("SELECT count(*) FROM gateway_routing");
        (bound == 0).then_some(())
    });
}
