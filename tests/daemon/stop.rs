//! A stop begins no new work and finishes what is in progress, until its time is over. What it could not finish, the next
//! start takes up; nothing is sent or asked twice.

use std::path::PathBuf;
use std::sync::Arc;

use hermesd::client::ClientError;
use hermesd::protocol::{Call, ChatOpen, ChatSay, HandoffId, HandoffRequest, LocalSay, Nothing};
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::support::bot::{Bot, MARK};
use crate::support::scripted::{InProcess, Mood};
use crate::support::telegram::{ADA, BotApi, Rights, ScriptedFault};
use crate::support::{Daemon, Home, SESSION, add_session, eventually, seed_session, until};

/// Longer than any test waits: whoever waits for it fails.
const LONG: (&str, &str) = ("HERMESD_DAEMON_DRAIN_TIMEOUT", "10m");

fn forum(api: &BotApi) -> i64 {
    api.forum("Work", Rights::TopicsAdmin)
}

/// SIGTERM; returns when the daemon has heard it and begins nothing new.
fn begin_stop(home: &Home, daemon: &Daemon) {
    daemon.signal(Signal::SIGTERM);
    until("the daemon stops", || {
        daemon.log().contains("stopping").then_some(())
    });
    let refused = home.hermesctl(&["agents", "test", "echo"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("is stopping"), "{refused:?}");
}

/// A program as the agent that answers when there is a file `go`, and the file in which it notes that it was asked.
fn patient_agent(home: &Home) -> (String, PathBuf) {
    let (go, asked) = (home.path().join("go"), home.path().join("asked"));
    let script = format!(
        "cat > /dev/null; echo asked >> '{}'; until [ -e '{}' ]; do sleep 0.02; done; echo 'At last.'\n",
        asked.display(),
        go.display()
    );
    home.write("agent", &script);
    let command = format!("sh '{}'", home.path().join("agent").display());
    (command, asked)
}

fn times_asked(asked: &PathBuf) -> usize {
    std::fs::read_to_string(asked)
        .unwrap_or_default()
        .lines()
        .count()
}

#[tokio::test]
async fn a_stop_waits_for_the_message_that_a_handoff_sends() {
    let bot = Bot::at_home(forum);
    seed_session(&bot.home).await;
    let mut daemon = bot.start_with(&[LONG]);
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldAfter(gate.clone()));
    bot.ask();
    bot.api.until_calls("sendMessage", 1);
    begin_stop(&bot.home, &daemon);
    gate.add_permits(1);
    assert!(daemon.wait().success());
    let state: String = bot.look("SELECT state FROM hermesd_handoffs");
    assert_eq!(state, "completed");

    let _daemon = bot.start();
    let thread = bot.api.topics(bot.chat)[0].thread;
    bot.goes_on(Some(thread), &ADA);
    let sent = bot.api.messages_in(bot.chat, Some(thread));
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(sent.iter().all(|m| !m.text.contains(MARK)), "{sent:?}");
}

#[tokio::test]
async fn a_stop_waits_for_the_topic_that_a_handoff_opens() {
    let bot = Bot::at_home(forum);
    seed_session(&bot.home).await;
    let mut daemon = bot.start_with(&[LONG]);
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then("createForumTopic", ScriptedFault::HoldAfter(gate.clone()));
    bot.ask();
    until("the topic is there", || bot.api.topics(bot.chat).pop());
    begin_stop(&bot.home, &daemon);
    gate.add_permits(1);
    assert!(daemon.wait().success());
    // What it did is recorded, and what comes next is not begun.
    let stage: String = bot.look("SELECT stage FROM hermesd_handoffs WHERE owner IS NULL");
    assert_eq!(stage, "threaded");

    let _daemon = bot.start();
    assert_eq!(bot.settled()["state"], "completed");
    let topics = bot.api.topics(bot.chat);
    assert_eq!(topics.len(), 1, "{topics:?}");
    let welcome = bot.api.messages_in(bot.chat, Some(topics[0].thread));
    assert_eq!(welcome.len(), 1, "{welcome:?}");
    assert!(
        !welcome[0].text.contains("may be an empty one"),
        "{welcome:?}"
    );
}

#[tokio::test]
async fn a_stop_waits_for_the_turns_of_chats_and_handoffs_and_each_is_asked_once() {
    let bot = Bot::at_home(forum);
    let chat = bot.api.private(&ADA);
    seed_session(&bot.home).await;
    let (agent, asked) = patient_agent(&bot.home);
    let settings = [
        LONG,
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &agent),
    ];
    let mut daemon = bot.start_with(&settings);
    bot.ask();
    bot.api.says(chat, None, &ADA, "hello");
    until("both are asked", || {
        (times_asked(&asked) == 2).then_some(())
    });
    begin_stop(&bot.home, &daemon);
    // Said while it stops: it is kept, and the next start answers it.
    bot.api.says(chat, None, &ADA, "and more");
    until("it is kept", || {
        let kept: i64 = bot.look("SELECT count(*) FROM hermesd_inbound");
        (kept == 2).then_some(())
    });
    bot.home.write("go", "");
    assert!(daemon.wait().success());
    assert_eq!(times_asked(&asked), 2);
    let state: String = bot.look("SELECT state FROM hermesd_handoffs");
    assert_eq!(state, "completed");
    assert_eq!(bot.api.messages_in(chat, None).len(), 1);

    let _daemon = bot.start_with(&settings);
    until("the second is answered", || {
        (bot.api.messages_in(chat, None).len() == 2).then_some(())
    });
    assert_eq!(times_asked(&asked), 3);
    let thread = bot.api.topics(bot.chat)[0].thread;
    assert_eq!(bot.api.messages_in(bot.chat, Some(thread)).len(), 1);
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_message_that_the_platform_wants_later() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    let mut daemon = bot.start_with(&[LONG]);
    let later = ScriptedFault::too_many_requests(3600);
    bot.api.then("sendMessage", later);
    bot.api.says(bot.chat, None, &ADA, "hello");
    until("it has to wait", || {
        daemon
            .log()
            .contains("call failed, will retry")
            .then_some(())
    });
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    let _daemon = bot.start();
    let answer = bot
        .api
        .until_message(bot.chat, None, |m| m.text.contains("hello"));
    assert!(!answer.text.contains(MARK), "{answer:?}");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_terminal_that_is_idle() {
    let home = Home::new();
    let mut daemon = home.start_with(&[LONG]);
    let client = daemon.client().await;
    let open = Call::ChatOpen(ChatOpen::default());
    client.call::<Value>(open).await.expect("a terminal");
    let say = Call::ChatSay(ChatSay {
        text: "hello".into(),
    });
    client.call::<Value>(say).await.expect("a turn");
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success());
    let ended = "SELECT count(*) FROM sessions WHERE end_reason = 'cli_close'";
    let ended: i64 = home
        .sqlite()
        .query_row(ended, [], |row| row.get(0))
        .unwrap();
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn a_second_signal_cuts_off_what_is_in_progress() {
    let home = Home::new();
    seed_session(&home).await;
    let (agent, asked) = patient_agent(&home);
    let settings = [
        LONG,
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &agent),
    ];
    let mut daemon = home.start_with(&settings);
    home.hermesctl(&["handoff", "local", "--session", SESSION, "--no-wait"]);
    until("it is asked", || (times_asked(&asked) == 1).then_some(()));
    begin_stop(&home, &daemon);
    daemon.signal(Signal::SIGINT);
    assert!(daemon.wait().success());
    assert!(daemon.log().contains("second stop signal received"));
    home.write("go", "");
    let _daemon = home.start_with(&settings);
    until("the next start completes it", || {
        let show = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
        (show["state"] == "completed").then_some(())
    });
    assert_eq!(times_asked(&asked), 2);
}

#[tokio::test]
async fn what_takes_longer_than_the_drain_timeout_is_cut_off() {
    let home = Home::new();
    seed_session(&home).await;
    let settings = [("HERMESD_DAEMON_DRAIN_TIMEOUT", "1s")];
    let daemon = InProcess::start(&home, &settings).await;
    daemon.set_mood(SESSION, Mood::Hang);
    daemon.ask("telegram", SESSION).await;
    asked(&daemon).await;
    daemon.stop().await;
    let left = "SELECT count(*) FROM hermesd_handoffs WHERE state = 'running' AND owner IS NULL";
    let left: i64 = home.sqlite().query_row(left, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}

async fn asked(daemon: &InProcess) {
    eventually("the agent is asked", || async {
        (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_daemon_that_stops_begins_nothing_new_and_says_so() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, "other", "Another");
    let daemon = InProcess::start(&home, &[LONG]).await;
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let client = &daemon.client;
    let open = || Call::ChatOpen(ChatOpen::default());
    client.call::<Value>(open()).await.expect("a terminal");
    let asked_for = daemon.ask("telegram", SESSION).await;
    asked(&daemon).await;
    daemon.begin_stop();

    let say = ChatSay {
        text: "hello".into(),
    };
    let request = HandoffRequest {
        platform: "telegram".into(),
        session: Some("other".into()),
        ..HandoffRequest::default()
    };
    let local = LocalSay {
        text: "hello".into(),
        thread: None,
    };
    for call in [
        open(),
        Call::ChatSay(say),
        Call::HandoffRequest(request),
        Call::HandoffRetry(HandoffId { id: 1 }),
        Call::LocalSay(local),
    ] {
        let told = format!("{call:?}");
        match client.call::<Value>(call).await {
            Err(ClientError::Refused(error)) => {
                assert_eq!(error.data.expect("a kind").kind, "stopping", "{told}");
            }
            other => panic!("{told}: {other:?}"),
        }
    }
    // Whoever only wants to know something is answered.
    client
        .call::<Value>(Call::Status(Nothing {}))
        .await
        .expect("a status");
    permits.add_permits(1);
    assert_eq!(daemon.ended(asked_for.id).await.state, "completed");
    daemon.ended_cleanly().await;
}
