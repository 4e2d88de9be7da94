//! Files from people and from the agent, with the built binaries.

use crate::support::fake::ScriptedFault;
use crate::support::slack::ADA;
use crate::support::slack_bot::SlackBot;
use crate::support::{Daemon, program, until};

/// A bot whose agent sends this file with each answer. Its private chat with Ada is given.
fn sends(name: &str, content: &str) -> (SlackBot, String, Daemon) {
    let bot = SlackBot::in_channel();
    bot.home.write(&format!("out/{name}"), content);
    let out = bot.home.path().join("out");
    let path = out.join(name);
    let reply = format!("Here it is.\nMEDIA:{}\n", path.display());
    bot.home.write("agent.reply", &reply);
    let (command, _) = program(&bot.home, "agent", "cat \"$0.reply\"");
    let daemon = bot.home.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
        ("HERMESD_CHATS_STREAM", "false"),
        ("HERMESD_CHATS_SEND_FILES_FROM", out.to_str().unwrap()),
    ]);
    bot.api.until_listening();
    let private = bot.api.direct(&ADA);
    (bot, private, daemon)
}

/// The names and the contents of the files in a thread.
fn files(bot: &SlackBot, channel: &str, root: &str) -> Vec<(String, Vec<u8>)> {
    let replies = bot.api.bot_replies(channel, root).into_iter();
    let files = replies.flat_map(|message| message.files);
    files
        .map(|(name, id)| (name, bot.api.file_bytes(&id)))
        .collect()
}

#[test]
fn a_file_of_the_agent_is_shared_in_the_thread_once() {
    for fault in [
        None,
        Some((
            "files.completeUploadExternal",
            ScriptedFault::DisconnectAfter,
        )),
        Some((
            "files.completeUploadExternal",
            ScriptedFault::DisconnectBefore,
        )),
        Some(("upload", ScriptedFault::DisconnectAfter)),
        Some((
            "files.getUploadURLExternal",
            ScriptedFault::too_many_requests(1),
        )),
    ] {
        let (bot, private, _daemon) = sends("report.pdf", "%PDF of a report");
        if let Some((method, fault)) = &fault {
            bot.api.then(method, fault.clone());
        }
        let root = bot.api.says(&private, &ADA, "the report, please");
        let open = "SELECT count(*) FROM hermesd_deliveries WHERE state IN ('pending', 'sending')";
        bot.api.until("a file", || {
            (!files(&bot, &private, &root).is_empty()).then_some(())
        });
        until("all is sent", || (bot.look::<i64>(open) == 0).then_some(()));
        let found = files(&bot, &private, &root);
        let expected = ("report.pdf".to_owned(), b"%PDF of a report".to_vec());
        assert_eq!(found, [expected], "{fault:?}");
    }
}

#[test]
fn an_empty_file_gets_a_note() {
    let (bot, private, _daemon) = sends("nothing.txt", "");
    let root = bot.api.says(&private, &ADA, "the report, please");
    bot.api.until("a note", || {
        let replies = bot.api.bot_replies(&private, &root);
        replies
            .iter()
            .any(|m| m.text.contains("nothing.txt"))
            .then_some(())
    });
    assert!(files(&bot, &private, &root).is_empty());
}

#[test]
fn a_file_of_a_person_reaches_the_agent_if_the_bot_may_read_it() {
    for allowed in [true, false] {
        let bot = SlackBot::in_channel();
        if !allowed {
            bot.api.removes_scope("files:read");
        }
        let _daemon = bot.start();
        let private = bot.api.direct(&ADA);
        let writing = bot.api.writes(&private, &ADA).text("look");
        let root = writing.file("notes.txt", b"the notes").send();
        let answer = &bot.api.until_bot_replies(&private, &root, 1)[0];
        assert!(answer.text.contains("notes.txt"), "{answer:?}");
        let saved = until("the file", || {
            let text: String = bot.look("SELECT text FROM hermesd_inbound");
            text.contains("notes.txt").then_some(text)
        });
        match allowed {
            true => assert!(!saved.contains("files:read"), "{saved}"),
            false => assert!(saved.contains("files:read"), "{saved}"),
        }
    }
}
