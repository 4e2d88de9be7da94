//! Messages around a fault: the note about a failed handoff reaches its topic, and a database that cannot be written
//! repeats no message.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::support::bot::{Bot, MARK};
use crate::support::telegram::{ADA, ScriptedFault};
use crate::support::{Home, SESSION, add_session, seed_session, until};

/// Settings of a daemon whose agent is this script.
fn scripted<'a>(home: &Home, script: &str, command: &'a mut String) -> [(&'a str, &'a str); 3] {
    home.write("agent", script);
    *command = format!("sh '{}'", home.path().join("agent").display());
    [
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", command),
        ("HERMESD_CHATS_STREAM", "false"),
    ]
}

/// A private chat with topics.
fn topics() -> Bot {
    Bot::at_home(|api| {
        api.private_topics(true);
        api.private(&ADA)
    })
}

/// The topic stays, so it needs a note.
fn undeletable() -> ScriptedFault {
    ScriptedFault::Refuse(400, "Bad Request: not enough rights to delete the topic")
}

#[tokio::test]
async fn the_note_about_a_failed_handoff_reaches_every_topic() {
    let bot = topics();
    seed_session(&bot.home).await;
    let mut command = String::new();
    let settings = scripted(&bot.home, "echo 'no model' >&2; exit 1\n", &mut command);
    let _daemon = bot.start_with(&settings);
    // More than fit the limit, and the platform is not even willing to take the first.
    for _ in 0..4 {
        bot.api
            .then("sendMessage", ScriptedFault::too_many_requests(1));
    }
    const COUNT: usize = 8;
    for n in 0..COUNT {
        bot.api.then("deleteForumTopic", undeletable());
        let id = format!("session-{n}");
        add_session(&bot.home, &id, &format!("Number {n}"));
        let asked = ["handoff", "telegram", "--session", &id, "--no-wait"];
        assert_eq!(bot.home.hermesctl(&asked).code, 0);
    }
    until("each topic has its note", || {
        let topics = bot.api.topics(bot.chat);
        let noted = topics.iter().filter(|topic| {
            let messages = bot.api.messages_in(bot.chat, Some(topic.thread));
            messages.len() == 1
                && messages[0]
                    .text
                    .contains("The handoff to this thread failed")
        });
        (noted.count() == COUNT).then_some(())
    });
    assert!(bot.api.refused("sendMessage", 429).len() <= 4, "paced");
}

#[tokio::test]
async fn the_note_about_a_failed_handoff_survives_a_kill() {
    let bot = topics();
    seed_session(&bot.home).await;
    let mut command = String::new();
    let settings = scripted(&bot.home, "exit 1\n", &mut command);
    let daemon = bot.start_with(&settings);
    let never = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldBefore(never));
    bot.api.then("deleteForumTopic", undeletable());
    bot.ask();
    assert_eq!(bot.settled()["state"], "failed");
    bot.api.until_calls("sendMessage", 1);
    daemon.kill();
    let _daemon = bot.start();
    let thread = bot.api.topics(bot.chat)[0].thread;
    let noted = bot.api.until_message(bot.chat, Some(thread), |_| true);
    assert!(
        noted.text.contains("The handoff to this thread failed"),
        "{noted:?}"
    );
}

/// Makes SQLite answer every change of the ledger's rows with "disk full", until told otherwise.
fn fill_ledger(home: &Home, full: bool) {
    let sql = match full {
        true => format!(
            "CREATE TABLE full (id INTEGER PRIMARY KEY AUTOINCREMENT);
             INSERT INTO full VALUES ({});
             CREATE TRIGGER full_ledger BEFORE UPDATE ON hermesd_deliveries BEGIN INSERT INTO full VALUES (NULL); END;",
            i64::MAX
        ),
        false => "DROP TRIGGER full_ledger; DROP TABLE full;".to_owned(),
    };
    home.sqlite().execute_batch(&sql).expect("a trigger");
}

/// More than one message takes.
const LONG_REPLY: &str = "cat > /dev/null; for n in $(seq 1200); do echo \"word$n\"; done\n";

#[tokio::test]
async fn a_handoff_whose_pieces_cannot_be_recorded_sends_none_of_them_again() {
    let bot = topics();
    seed_session(&bot.home).await;
    let mut command = String::new();
    let settings = scripted(&bot.home, LONG_REPLY, &mut command);
    let daemon = bot.start_with(&settings);
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldAfter(gate.clone()));
    bot.ask();
    bot.api.until_calls("sendMessage", 1);
    fill_ledger(&bot.home, true);
    gate.add_permits(1);
    until("it waits for the database", || {
        daemon
            .log()
            .contains("waiting for the database")
            .then_some(())
    });
    fill_ledger(&bot.home, false);
    assert_eq!(bot.settled()["state"], "completed");
    sent_once(&bot, bot.api.topics(bot.chat)[0].thread);
    let ids: String = bot.look("SELECT sent_ids FROM hermesd_handoffs");
    assert_eq!(ids.split(',').count(), 3, "{ids}");
}

#[tokio::test]
async fn a_reply_whose_pieces_cannot_be_recorded_sends_none_of_them_again() {
    let bot = topics();
    let thread = bot.api.opens_topic(bot.chat, &ADA, "Words");
    let mut command = String::new();
    let settings = scripted(&bot.home, LONG_REPLY, &mut command);
    let daemon = bot.start_with(&settings);
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldAfter(gate.clone()));
    bot.api.says(bot.chat, Some(thread), &ADA, "hello");
    bot.api.until_calls("sendMessage", 1);
    fill_ledger(&bot.home, true);
    gate.add_permits(1);
    until("it waits for the database", || {
        daemon
            .log()
            .contains("waiting for the database")
            .then_some(())
    });
    fill_ledger(&bot.home, false);
    bot.until_all_sent(3);
    sent_once(&bot, thread);
}

fn sent_once(bot: &Bot, thread: i64) {
    let messages = bot.api.messages_in(bot.chat, Some(thread));
    assert_eq!(messages.len(), 3, "{messages:?}");
    let all: String = messages.iter().map(|m| format!("{}\n", m.text)).collect();
    assert!(!all.contains(MARK), "{messages:?}");
    assert_eq!(all.matches("word1\n").count(), 1, "{messages:?}");
    assert!(all.contains("word1200"), "{messages:?}");
}

#[tokio::test]
async fn a_handoff_that_is_stopped_between_its_pieces_sends_none_of_them_again() {
    let bot = topics();
    seed_session(&bot.home).await;
    let mut command = String::new();
    let settings = scripted(&bot.home, LONG_REPLY, &mut command);
    let mut daemon = bot.start_with(&settings);
    // The first piece arrives; the platform wants the second later, much later.
    bot.api
        .then(
            "sendMessage",
            ScriptedFault::HoldAfter(Arc::new(Semaphore::new(1))),
        )
        .then("sendMessage", ScriptedFault::too_many_requests(3600));
    bot.ask();
    until("the second has to wait", || {
        daemon
            .log()
            .contains("call failed, will retry")
            .then_some(())
    });
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(daemon.wait().success());
    let _daemon = bot.start_with(&settings);
    assert_eq!(bot.settled()["state"], "completed");
    sent_once(&bot, bot.api.topics(bot.chat)[0].thread);
    let ids: String = bot.look("SELECT sent_ids FROM hermesd_handoffs");
    assert_eq!(ids.split(',').count(), 3, "{ids}");
    let session: String = bot.look("SELECT session_id FROM hermesd_handoffs");
    assert_eq!(session, SESSION);
}
