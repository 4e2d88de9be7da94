//! Files on their way to Telegram: bounded repeats, other shapes for what is refused, and words behind them that go on.

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, ScriptedFault, unreadable_result};
use crate::support::{Daemon, program, seed_session};

/// A bot whose agent sends this file with each answer.
fn sends(name: &str, content: &str) -> (Bot, i64, Daemon) {
    let (bot, chat) = Bot::of_ada("");
    bot.home.write(&format!("out/{name}"), content);
    let out = bot.home.path().join("out");
    let path = out.join(name);
    bot.home.write(
        "agent.reply",
        &format!("Here it is.\nMEDIA:{}\n", path.display()),
    );
    let (command, _) = program(&bot.home, "agent", "cat \"$0.reply\"");
    let daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
        ("HERMESD_CHATS_STREAM", "false"),
        ("HERMESD_CHATS_SEND_FILES_FROM", out.to_str().unwrap()),
    ]);
    (bot, chat, daemon)
}

#[test]
fn a_file_that_does_not_arrive_is_given_up_and_the_words_behind_it_go_on() {
    let (bot, chat, _daemon) = sends("report.pdf", "%PDF of a report");
    for _ in 0..12 {
        bot.api
            .then("sendDocument", ScriptedFault::DisconnectBefore);
    }
    bot.api.says(chat, None, &ADA, "the report, please");
    let note = bot
        .api
        .until_message(chat, None, |m| m.text.contains("report.pdf"));
    assert!(note.file.is_none(), "{note:?}");
    assert!(note.text.contains("could not be sent"), "{note:?}");
    let tries = bot.api.calls_of("sendDocument").len();
    assert!((2..=5).contains(&tries), "{tries}");
    // The chat is free for what comes next.
    bot.home.write("agent.reply", "Only words.");
    bot.api.says(chat, None, &ADA, "and now?");
    bot.api
        .until_message(chat, None, |m| m.text == "Only words.");
    assert_eq!(bot.api.calls_of("sendDocument").len(), tries);
}

#[test]
fn a_file_whose_receipt_cannot_be_read_counts_as_sent() {
    let (bot, chat, _daemon) = sends("report.pdf", "%PDF of a report");
    bot.api.then("sendDocument", unreadable_result());
    bot.api.then("sendMessage", unreadable_result());
    bot.api.says(chat, None, &ADA, "the report, please");
    bot.api.until_message(chat, None, |m| m.file.is_some());
    bot.home.write("agent.reply", "Only words.");
    bot.api.says(chat, None, &ADA, "and now?");
    bot.api
        .until_message(chat, None, |m| m.text == "Only words.");
    let texts = bot.texts(chat);
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(bot.api.calls_of("sendDocument").len(), 1);
}

#[test]
fn a_picture_or_a_voice_that_is_refused_goes_as_a_document() {
    for (name, method, refusal) in [
        (
            "wide.png",
            "sendPhoto",
            "Bad Request: PHOTO_INVALID_DIMENSIONS",
        ),
        (
            "note.ogg",
            "sendVoice",
            "Bad Request: VOICE_MESSAGES_FORBIDDEN",
        ),
    ] {
        let (bot, chat, _daemon) = sends(name, "what it is");
        bot.api.then(method, ScriptedFault::Refuse(400, refusal));
        bot.api.says(chat, None, &ADA, "show me");
        let sent = bot.api.until_message(chat, None, |m| m.file.is_some());
        let file = sent.file.expect("a file");
        assert!(file.is("document", name, b"what it is"), "{file:?}");
        assert_eq!(bot.api.calls_of(method).len(), 1, "{name}");
    }
}

#[test]
fn a_file_that_is_refused_in_every_shape_is_said_to_be() {
    let (bot, chat, _daemon) = sends("wide.png", "what it is");
    bot.api.then(
        "sendPhoto",
        ScriptedFault::Refuse(400, "Bad Request: IMAGE_PROCESS_FAILED"),
    );
    bot.api.then(
        "sendDocument",
        ScriptedFault::Refuse(400, "Bad Request: CHAT_SEND_DOCS_FORBIDDEN"),
    );
    bot.api.says(chat, None, &ADA, "show me");
    let note = bot
        .api
        .until_message(chat, None, |m| m.text.contains("wide.png"));
    assert!(note.text.contains("CHAT_SEND_DOCS_FORBIDDEN"), "{note:?}");
}

#[tokio::test]
async fn a_handoff_survives_a_file_that_cannot_be_sent() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    seed_session(&bot.home).await;
    bot.home.write("out/report.pdf", "%PDF of a report");
    let out = bot.home.path().join("out");
    let path = out.join("report.pdf");
    let script = format!(
        "cat > /dev/null; echo 'Here it is.'; echo 'MEDIA:{}'",
        path.display()
    );
    let (command, _) = program(&bot.home, "agent", &script);
    let _daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
        ("HERMESD_CHATS_SEND_FILES_FROM", out.to_str().unwrap()),
    ]);
    for _ in 0..12 {
        bot.api
            .then("sendDocument", ScriptedFault::DisconnectBefore);
    }
    let ran = bot.hand_off();
    assert_eq!(ran.code, 0, "{ran:?}");
    let note = bot
        .api
        .until_message(bot.chat, None, |m| m.text.contains("report.pdf"));
    assert!(note.text.contains("could not be sent"), "{note:?}");
    assert_eq!(bot.texts(bot.chat)[0], "Here it is.");
    assert_eq!(bot.handoff(1)["state"], "completed");
}
