//! Conversations in a thread: long replies, files both ways, replies to others, edits, and Discord's rates.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::support::discord::{ADA, BEN, BotMessage, Id, SEND};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::{Outcome, RecordedCall, ScriptedFault};
use crate::support::{Daemon, program, seed_session, told, until};

const EDIT: &str = "PATCH /channels/{}/messages/{}";

/// A thread in which the agent is a program of ours.
async fn agent(script: &str) -> (DiscordBot, Id, Daemon) {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    bot.home.write("agent.reply", "ready");
    let (command, _) = program(&bot.home, "agent", script);
    let daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
    ]);
    let thread = bot.hand_off_to_thread();
    (bot, thread, daemon)
}

#[tokio::test]
async fn a_long_reply_comes_in_pieces_in_order_with_its_code_whole() {
    let (bot, thread, _daemon) = agent("cat \"$0.reply\"").await;
    let paragraph = |n: usize| format!("Paragraph {n}. {}\n\n", "words and more ".repeat(60));
    let code: String = (0..300)
        .map(|n| format!("line {n} of the program\n"))
        .collect();
    let mut reply: String = (0..8).map(paragraph).collect();
    reply.push_str(&format!("```sh\n{code}```\n\nThe end."));
    bot.home.write("agent.reply", &reply);
    bot.api.says(thread, &ADA, "tell me all");
    bot.answered(thread, "The end.");
    bot.until_all_sent();
    let pieces = bot.texts(thread).split_off(1);
    assert!(pieces.len() >= 7, "{}", pieces.len());
    for piece in &pieces {
        assert!(piece.chars().count() <= 2000);
        let fences = piece.matches("```").count();
        assert!(fences.is_multiple_of(2), "{piece}");
        if piece.contains("of the program") {
            assert!(piece.contains("```sh\n"), "{piece}");
        }
    }
    let all = pieces.join("\n");
    let places: Vec<usize> = (0..8)
        .map(|n| all.find(&format!("Paragraph {n}.")).expect("a paragraph"))
        .chain((0..300).map(|n| all.find(&format!("line {n} of")).expect("a line")))
        .collect();
    assert!(places.is_sorted());
    assert_eq!(all.matches("line 7 of").count(), 1, "nothing twice");
}

#[tokio::test]
async fn a_file_of_the_agent_is_in_the_thread() {
    let (bot, thread, _daemon) = agent("cat \"$0.reply\"").await;
    let name = format!("files/discord/chat{thread}/report.pdf");
    bot.home.write(&name, "%PDF of a report");
    let path = bot.home.path().join(&name).display().to_string();
    bot.home
        .write("agent.reply", &format!("Here it is.\nMEDIA:{path}\n"));
    bot.api.says(thread, &ADA, "the report, please");
    let sent = bot
        .api
        .until_message(thread, |m: &BotMessage| !m.files.is_empty());
    assert_eq!(sent.files[0].0, "report.pdf");
    let bytes = reqwest::get(&sent.files[0].1).await.unwrap();
    assert_eq!(bytes.text().await.unwrap(), "%PDF of a report");
    let words = bot.texts(thread).concat();
    assert!(words.contains("Here it is."), "{words}");
    assert!(!words.contains("MEDIA:"), "{words}");
}

#[tokio::test]
async fn the_agent_is_handed_what_a_person_sends_along() {
    let (bot, thread, _daemon) = agent("cat >> \"$OUT\"; echo seen").await;
    let picture = b"\x89PNG a picture";
    bot.api
        .writes(thread, &ADA)
        .text("what is this?")
        .file("photo.png", picture)
        .file("notes.txt", b"some words")
        .send();
    until("the agent is told", || {
        let told = told(&bot.home.path().join("agent.out"));
        (told.len() == 2).then_some(())
    });
    let told = told(&bot.home.path().join("agent.out")).remove(1);
    let sent = told["attachments"].as_array().expect("files");
    assert_eq!(
        (&sent[0]["kind"], &sent[1]["kind"]),
        (&"image".into(), &"file".into())
    );
    let path = sent[0]["path"].as_str().expect("a path");
    assert_eq!(std::fs::read(path).unwrap(), picture);
    let words = told["message"].as_str().expect("words");
    assert!(words.contains("what is this?"), "{words}");
}

#[tokio::test]
async fn a_reply_to_another_person_carries_what_they_said() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    let said = bot.api.says(thread, &BEN, "the build is red");
    bot.api
        .writes(thread, &ADA)
        .reply_to(said)
        .text("why is that?")
        .send();
    let answer = bot.answered(thread, "why is that?");
    assert!(
        answer.content.contains("[In reply to: the build is red]"),
        "{answer:?}"
    );
    assert_eq!(bot.texts(thread).len(), 2, "Ben gets nothing");
}

#[tokio::test]
async fn a_message_that_waits_is_answered_in_its_last_wording() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    let sent = bot.api.calls_of(SEND).len();
    let gate = Arc::new(Semaphore::new(0));
    bot.api.then(SEND, ScriptedFault::HoldBefore(gate.clone()));
    let first = bot.api.says(thread, &ADA, "first");
    bot.api.until_calls(SEND, sent + 1);
    let second = bot.api.says(thread, &ADA, "secnd");
    bot.api.edits(thread, second, "second");
    bot.api.edits(thread, first, "the very first");
    // The pointer to a thread and the like are updates too, and change nothing.
    bot.api.until_listening();
    until("the edit is stored", || {
        let text = "SELECT group_concat(text) FROM hermesd_inbound";
        bot.look::<String>(text).contains("second").then_some(())
    });
    gate.add_permits(1);
    bot.answered(thread, "second");
    bot.api.edits(thread, second, "second, again");
    bot.api.says(thread, &ADA, "third");
    bot.answered(thread, "third");
    let texts = bot.texts(thread);
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(!texts.concat().contains("secnd"), "{texts:?}");
    assert!(!texts.concat().contains("the very first"), "{texts:?}");
}

#[tokio::test]
async fn a_reply_that_streams_keeps_to_the_bucket_of_its_edits() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start_with(&[("HERMESD_AGENT_ECHO_PACE", "30ms")]);
    let thread = bot.hand_off_to_thread();
    bot.until_all_sent();
    // Less than the daemon would like: it shows what is new every 1.5 seconds.
    bot.api.limit(EDIT, 1, Duration::from_secs(4));
    let words = "word ".repeat(200).trim_end().to_owned();
    bot.api.says(thread, &ADA, &words);
    let whole = bot.answered(thread, "tool results.)");
    assert!(whole.content.contains(&words), "{whole:?}");
    bot.until_all_sent();
    let edits = bot.api.calls_of(EDIT);
    assert!(edits.len() >= 3, "it streams: {}", edits.len());
    let refused = bot.api.refused(EDIT, 429);
    assert!(refused.is_empty(), "the headers say when: {refused:?}");
    assert_eq!(bot.texts(thread).len(), 2, "{:?}", bot.texts(thread));
}

#[tokio::test]
async fn a_global_limit_is_waited_for_by_all_chats() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    bot.until_all_sent();
    let earlier = bot.api.calls().len();
    let pause = Duration::from_secs(3);
    bot.api.limit_all(0, pause);
    bot.api.says(thread, &ADA, "one");
    let is_refused = |call: &RecordedCall| matches!(call.outcome, Outcome::Refused(429, _));
    let refused = until("a refusal", || {
        let calls = bot.api.calls().split_off(earlier);
        calls.into_iter().find(is_refused)
    });
    // From now on Discord would accept a call. The daemon cannot know that.
    bot.api.change(|world| world.limits.global = None);
    let private = bot.api.direct(&ADA);
    bot.api.says(private, &ADA, "two");
    bot.heard(private, "two");
    bot.heard(thread, "one");
    let calls = bot.api.calls().split_off(earlier).into_iter();
    for call in calls.filter(|call| !is_refused(call)) {
        let after = call.at - refused.at;
        assert!(
            after + Duration::from_millis(50) >= pause,
            "{after:?}: {call:?}"
        );
    }
    assert_eq!(bot.texts(thread).len(), 2, "{:?}", bot.texts(thread));
}

#[tokio::test]
async fn a_limit_that_the_headers_do_not_show_is_waited_for() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    bot.until_all_sent();
    bot.api.limit_shared(SEND, 1, Duration::from_secs(2));
    for n in 0..3 {
        bot.api.says(thread, &ADA, &format!("words {n}."));
    }
    bot.answered(thread, "words 2.");
    bot.until_all_sent();
    let refused = bot.api.refused(SEND, 429).len();
    assert!((1..=2).contains(&refused), "{refused}");
    assert_eq!(bot.texts(thread).len(), 4, "{:?}", bot.texts(thread));
}
