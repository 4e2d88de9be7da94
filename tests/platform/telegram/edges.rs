//! Rare turns of a chat: a second absence, a server that does not wait, a draft of a file, an edit at the wrong moment.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::program;
use crate::support::telegram::{ADA, ScriptedFault, no_updates};

#[test]
fn each_absence_is_told_of() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let long_ago = Duration::from_secs(13 * 3600);
    let old = |text: &str| bot.api.writes(chat, &ADA).ago(long_ago).text(text).send();
    let told = || {
        let texts = bot.texts(chat);
        texts
            .iter()
            .filter(|t| t.contains("Send them again"))
            .count()
    };
    old("one");
    old("two");
    bot.asks(chat, None, "here I am");
    assert_eq!(told(), 1, "{:?}", bot.texts(chat));
    // The network was away for as long, and the daemon was not.
    old("three");
    old("four");
    bot.asks(chat, None, "here again");
    assert_eq!(told(), 2, "{:?}", bot.texts(chat));
}

#[test]
fn a_server_that_does_not_wait_is_not_asked_without_pause() {
    let (bot, chat) = Bot::of_ada("");
    for _ in 0..4 {
        bot.api.then("getUpdates", no_updates());
    }
    let _daemon = bot.start();
    let polls = bot.api.until_calls("getUpdates", 5);
    for pair in polls.windows(2).take(4) {
        let pause = pair[1].at - pair[0].at;
        assert!(pause >= Duration::from_millis(500), "{pause:?}");
    }
    bot.asks(chat, None, "hello");
}

#[test]
fn a_draft_that_names_a_file_is_not_shown() {
    let (bot, chat) = Bot::of_ada("");
    bot.home.write("out/report.pdf", "%PDF of a report");
    let sent_from = bot.home.path().join("out");
    let path = sent_from.join("report.pdf");
    let script = format!(
        "cat > /dev/null; printf 'MEDIA:'; printf '{} '; echo; printf x >> \"$OUT\"; until [ -e \"$0.go\" ]; do sleep 0.05; done; echo",
        path.display()
    );
    let (command, out) = program(&bot.home, "agent", &script);
    let _daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &command),
        ("HERMESD_CHATS_SEND_FILES_FROM", sent_from.to_str().unwrap()),
    ]);
    bot.api.says(chat, None, &ADA, "the report, please");
    crate::support::until("it writes", || out.exists().then_some(()));
    // A draft is shown with the second sign of writing at the latest.
    bot.api.until_calls("sendChatAction", 2);
    bot.home.write("agent.go", "");
    bot.api.until_message(chat, None, |m| m.file.is_some());
    let messages = bot.api.messages_in(chat, None);
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(bot.api.calls_of("sendMessage").len(), 0);
}

#[test]
fn an_edit_while_a_file_is_fetched_counts() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("file", ScriptedFault::HoldBefore(gate.clone()));
    let message = bot.api.writes(chat, &ADA).text("what is tihs?");
    let id = message.file("document", "a.txt", b"words").send();
    bot.api.until_calls("file", 1);
    bot.api.edits_caption(chat, id, "what is this?");
    bot.api.until_polled();
    gate.add_permits(1);
    let answer = bot
        .api
        .until_message(chat, None, |m| m.text.contains("a.txt"));
    assert!(answer.text.contains("what is this?"), "{answer:?}");
    let row: String = bot.look("SELECT content FROM messages WHERE role = 'user'");
    assert!(
        row.contains("what is this?") && row.contains("a.txt"),
        "{row}"
    );
}
