//! Turns of two programs in one conversation, with Hermes' turn lease: each waits for the other, and whoever waits is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermesd::client::{Client, News};
use hermesd::protocol::{
    Call, ChatTurnView, EventKind, EventsSubscribe, LocalMessageView, LocalRead, LocalSay, Nothing,
};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::inbound::chats::spoken;
use crate::support::scripted::{InProcess, Mood};
use crate::support::{Daemon, Home, SESSION, TITLE, Taker, eventually, picture, until};
use crate::terminal::sessions::{kind, open, say};
use crate::turn::lease_rules::{free, hold, leased_home, leases};

/// Another program that lives, in a chat of its own.
const OTHER: &str = "pid=1:turn=other:platform=discord";

fn hand_off(home: &Home) {
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// The thread that the handoff has opened.
fn thread(home: &Home) -> i64 {
    let sql = "SELECT MAX(id) FROM hermesd_local_threads";
    home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

pub async fn say_in(client: &Client, thread: impl Into<Option<i64>>, text: &str) {
    let wish = LocalSay {
        thread: thread.into(),
        text: text.into(),
    };
    let _: Value = client.call(Call::LocalSay(wish)).await.expect("kept");
}

/// What the agent's side has said in a thread.
pub async fn said_in(client: &Client, thread: impl Into<Option<i64>>) -> Vec<String> {
    let wish = LocalRead {
        thread: thread.into(),
        ..LocalRead::default()
    };
    let messages: Vec<LocalMessageView> = client.call(Call::LocalRead(wish)).await.unwrap();
    let said = messages.into_iter().filter(|m| m.author == "agent");
    said.map(|m| m.text).collect()
}

async fn hears(client: &Client, thread: impl Into<Option<i64>>, words: &str) {
    let thread = thread.into();
    eventually(words, || async {
        let said = said_in(client, thread).await;
        said.iter().any(|s| s.contains(words)).then_some(())
    })
    .await;
}

/// The roles of what stands behind the first `before` rows.
fn roles(home: &Home, before: usize) -> Vec<String> {
    let said = spoken(home, SESSION).split_off(before);
    let role = |s: &String| s.split(':').next().unwrap_or_default().to_owned();
    said.iter().map(role).collect()
}

#[tokio::test]
async fn a_message_waits_for_the_turn_of_another_program_and_is_answered() {
    let home = leased_home();
    let daemon = home.start();
    hand_off(&home);
    let (client, thread) = (daemon.client().await, thread(&home));
    let before = spoken(&home, SESSION).len();
    let mut taker = Taker::start(&home, SESSION);
    taker.order("take");
    taker.order("write user theirs");
    say_in(&client, None, &format!("/resume {TITLE}")).await;
    hears(
        &client,
        None,
        "Another program is in the middle of an answer",
    )
    .await;
    say_in(&client, thread, "ours").await;
    hears(&client, thread, "Another program is at work").await;
    let note = said_in(&client, thread).await.pop().unwrap();
    let pid = format!("process {} (cli)", taker.pid());
    assert!(note.contains(&pid), "{note}");
    assert_eq!(roles(&home, before), ["user"], "nothing of ours is written");
    say_in(&client, thread, "/status").await;
    hears(&client, thread, "Answered by").await;
    let status = said_in(&client, thread).await.pop().unwrap();
    assert!(status.contains("at work in this conversation"), "{status}");
    // Other conversations do not wait.
    let talk = home.talk(&[], "hello\n");
    assert_eq!(talk.turns.len(), 1, "{talk:?}");
    taker.order("write assistant done");
    taker.order("release");
    hears(&client, thread, "You said: ours").await;
    until("the turn has ended", || {
        leases(&home).is_empty().then_some(())
    });
    let rows = spoken(&home, SESSION).split_off(before);
    assert_eq!(rows[..3], ["user: theirs", "assistant: done", "user: ours"]);
    assert!(rows[3].starts_with("assistant: "), "{rows:?}");
}

#[tokio::test]
async fn a_handoff_is_refused_during_the_turn_of_another_program_or_waits_for_it() {
    let home = leased_home();
    let mut taker = Taker::start(&home, SESSION);
    // The transcript says nothing about a turn; before, its tail was all there was to go by.
    taker.order("take");
    let refused = |flags: &[&str]| {
        let words = [&["handoff", "local", "--session", TITLE], flags].concat();
        let ran = home.hermesctl(&words);
        assert_eq!(ran.code, 3, "{ran:?}");
        let pid = format!("process {} (cli)", taker.pid());
        for words in ["another program is in the middle", &pid, "--after-turn"] {
            assert!(ran.stderr.contains(words), "{words}: {ran:?}");
        }
    };
    refused(&["--no-wait"]);
    let _daemon = home.start();
    refused(&["--no-wait"]);
    refused(&["--force"]);
    let resumed = home.hermesctl(&["resume", TITLE]);
    assert_eq!(resumed.code, 3, "{resumed:?}");
    let waiting = home.spawn_hermesctl(&["handoff", "local", "--session", TITLE, "--wait"], &[]);
    until("the request is written", || {
        let handoffs = home.hermesctl(&["--json", "handoffs"]).json();
        let asked = handoffs.as_array()?.iter();
        asked.into_iter().find(|h| h["session"] == SESSION)?;
        Some(())
    });
    taker.order("write user theirs");
    taker.order("write assistant done");
    taker.order("release");
    let ran = waiting.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    // A question without an answer is no turn, if nobody holds the lease.
    let sql = "INSERT INTO messages (session_id, role, content, timestamp, active)
               VALUES (?1, 'user', 'and?', unixepoch(), 1)";
    home.sqlite().execute(sql, [SESSION]).unwrap();
    assert_eq!(home.hermesctl(&["resume", TITLE]).code, 0);
    assert_eq!(leases(&home), []);
}

#[tokio::test]
async fn a_wait_ends_after_its_time_and_the_message_is_not_processed() {
    let home = leased_home();
    // By Hermes' own name for it.
    home.write("config.yaml", "agent:\n  gateway_turn_lease_timeout: 1\n");
    let daemon = home.start();
    hand_off(&home);
    let (client, thread) = (daemon.client().await, thread(&home));
    let before = spoken(&home, SESSION);
    hold(&home, SESSION, OTHER, 60.0);
    say_in(&client, thread, "ours").await;
    hears(&client, thread, "was not processed").await;
    assert_eq!(spoken(&home, SESSION), before);
    say_in(&client, thread, "/retry").await;
    eventually("a second refusal", || async {
        let said = said_in(&client, thread).await;
        let refused = said.iter().filter(|s| s.contains("was not processed"));
        (refused.count() == 2).then_some(())
    })
    .await;
    assert_eq!(spoken(&home, SESSION), before);
    free(&home);
    say_in(&client, thread, "again").await;
    hears(&client, thread, "You said: again").await;
}

#[tokio::test]
async fn a_person_or_a_stop_of_the_daemon_ends_a_wait_at_once() {
    let home = leased_home();
    let daemon = home.start();
    hand_off(&home);
    let (client, place) = (daemon.client().await, thread(&home));
    let before = spoken(&home, SESSION);
    hold(&home, SESSION, OTHER, 600.0);
    say_in(&client, place, "first").await;
    hears(&client, place, "Another program is at work").await;
    say_in(&client, place, "/stop").await;
    hears(&client, place, "Your message was not processed").await;
    say_in(&client, place, "second").await;
    eventually("a second wait", || async {
        let said = said_in(&client, place).await;
        let waits = said.iter().filter(|s| s.contains("is at work"));
        (waits.count() == 2).then_some(())
    })
    .await;
    drop(client);
    assert!(daemon.stop().success());
    assert_eq!(spoken(&home, SESSION), before);
    // The next start answers it, as soon as it can.
    free(&home);
    let daemon = home.start();
    let client = daemon.client().await;
    hears(&client, place, "You said: second").await;
    assert!(
        !said_in(&client, place)
            .await
            .iter()
            .any(|s| s.contains("You said: first"))
    );
}

#[tokio::test]
async fn words_in_a_terminal_wait_and_the_terminal_is_told() {
    let home = leased_home();
    let daemon = InProcess::start(&home, &[]).await;
    open(&daemon.client, Some(SESSION)).await.unwrap();
    let wish = EventsSubscribe {
        topics: vec!["turn".into()],
        session: Some(SESSION.into()),
    };
    let _: Value = daemon
        .client
        .call(Call::EventsSubscribe(wish))
        .await
        .unwrap();
    hold(&home, SESSION, OTHER, 60.0);
    let waiting = async {
        loop {
            let Some(News::Event(event)) = daemon.client.news().await else {
                continue;
            };
            if let EventKind::TurnWaiting { holder, .. } = event.event {
                return holder;
            }
        }
    };
    let told = async {
        let holder = waiting.await;
        assert!(holder.contains("process 1 (discord)"), "{holder}");
        assert!(daemon.agent.asked.lock().unwrap().is_empty());
        free(&home);
    };
    let (turn, ()) = tokio::join!(say(&daemon.client, "hello"), told);
    assert!(turn.unwrap().reply.starts_with("I have"));
    assert_eq!(leases(&home), []);
    // A person who stops a wait has said nothing.
    hold(&home, SESSION, OTHER, 60.0);
    let before = spoken(&home, SESSION);
    let stopping = async {
        daemon
            .log
            .says("waiting for the turn of another program", 2)
            .await;
        let _: Value = daemon
            .client
            .call(Call::ChatStop(Nothing {}))
            .await
            .unwrap();
    };
    let (turn, ()) = tokio::join!(say(&daemon.client, "never mind"), stopping);
    assert!(turn.unwrap().interrupted);
    assert_eq!(spoken(&home, SESSION), before);
    daemon.stop().await;
}

#[tokio::test]
async fn a_lease_that_is_lost_during_an_answer_ends_the_turn_without_another_row() {
    let home = leased_home();
    let daemon = InProcess::start(&home, &[]).await;
    // In a terminal: what is streamed is kept every now and then, which notices it.
    open(&daemon.client, Some(SESSION)).await.unwrap();
    daemon.set_mood(SESSION, Mood::Begin("Let me"));
    let before = spoken(&home, SESSION).len();
    let steal = async {
        daemon.asked(1).await;
        hold(&home, SESSION, OTHER, 60.0);
    };
    let (turn, ()) = tokio::join!(say(&daemon.client, "go"), steal);
    let turn: ChatTurnView = turn.unwrap();
    let error = turn.error.expect("an error");
    assert!(error.contains("another program took over"), "{error}");
    assert_eq!(roles(&home, before), ["user"]);
    daemon.log.says("turn failed", 1).await;
    assert_eq!(leases(&home)[0].1, OTHER);
    free(&home);
    let _: Value = daemon
        .client
        .call(Call::ChatLeave(Nothing {}))
        .await
        .unwrap();
    // In a handoff: it fails, and everything is as before.
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let before = picture(&home);
    let handoff = daemon.ask("telegram", SESSION).await;
    daemon.asked(2).await;
    hold(&home, SESSION, OTHER, 60.0);
    permits.add_permits(1);
    let ended = daemon.ended(handoff.id).await;
    assert_eq!(ended.state, "failed");
    let error = ended.error.expect("a reason");
    assert!(error.contains("another program took over"), "{error}");
    assert_eq!(picture(&home), before);
    free(&home);
    // In a chat: the words stay, and the person is told.
    daemon.set_mood(SESSION, Mood::Say("here"));
    assert_eq!(daemon.hand_off("local", SESSION).await.state, "completed");
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let (place, before) = (thread(&home), spoken(&home, SESSION).len());
    say_in(&daemon.client, place, "go on").await;
    daemon.asked(4).await;
    hold(&home, SESSION, OTHER, 60.0);
    permits.add_permits(1);
    hears(
        &daemon.client,
        place,
        "I could not answer: another program took over",
    )
    .await;
    assert_eq!(roles(&home, before), ["user"]);
    assert_eq!(leases(&home)[0].1, OTHER);
    daemon.stop().await;
}

#[tokio::test]
async fn an_agent_that_takes_the_lease_itself_finds_it_free() {
    let home = leased_home();
    let daemon = InProcess::start(&home, &[]).await;
    daemon.agent.writes.store(true, Ordering::Relaxed);
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    open(&daemon.client, Some(SESSION)).await.unwrap();
    hold(&home, SESSION, OTHER, 60.0);
    let meanwhile = async {
        daemon
            .log
            .says("waiting for the turn of another program", 1)
            .await;
        assert!(daemon.agent.asked.lock().unwrap().is_empty());
        free(&home);
        daemon.asked(1).await;
        assert_eq!(leases(&home), [], "it is for the agent to take");
        // The agent is a process of ours: what it holds is no other program's.
        let child = std::process::Command::new("sleep").arg("600").spawn();
        let mut child = child.unwrap();
        hold(&home, SESSION, &format!("pid={}:turn=t", child.id()), 60.0);
        assert_eq!(daemon.store.busy_elsewhere(SESSION).unwrap(), None);
        permits.add_permits(1);
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let (turn, ()) = tokio::join!(say(&daemon.client, "go"), meanwhile);
    assert_eq!(turn.unwrap().reply, "at last");
    daemon.stop().await;
}

/// A daemon whose answers take a while.
fn slow(home: &Home) -> Daemon {
    home.start_with(&[("HERMESD_AGENT_ECHO_PACE", "300ms")])
}

#[tokio::test]
async fn a_killed_daemon_leaves_a_lease_that_its_successor_takes_at_once() {
    for others_spoke in [false, true] {
        let home = leased_home();
        let daemon = home.start();
        hand_off(&home);
        assert!(daemon.stop().success());
        let (daemon, place) = (slow(&home), thread(&home));
        let before = spoken(&home, SESSION).len();
        say_in(&daemon.client().await, place, "please").await;
        until("the turn has begun", || {
            (!leases(&home).is_empty()).then_some(())
        });
        let pid = format!("pid={}:", daemon.pid());
        daemon.kill();
        let left = &leases(&home)[0].1;
        assert!(left.starts_with(&pid), "{left}");
        if others_spoke {
            Taker::start(&home, SESSION).order("turn 0 meanwhile");
        }
        let daemon = home.start();
        let client = daemon.client().await;
        hears(&client, place, "You said: please").await;
        until("the turn has ended", || {
            leases(&home).is_empty().then_some(())
        });
        let sql = "SELECT role || ': ' || COALESCE(content, '') FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id";
        let connection = home.sqlite();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([SESSION], |row| row.get(0)).unwrap();
        let rows: Vec<String> = rows.map(Result::unwrap).collect();
        let rows = &rows[before..];
        let mut expected = vec!["user: please"];
        if others_spoke {
            expected.splice(0..0, ["user: meanwhile", "assistant: answer to meanwhile"]);
        }
        assert_eq!(rows[..rows.len() - 1], expected);
        assert!(rows[rows.len() - 1].starts_with("assistant: "), "{rows:?}");
        assert_eq!(kind_of_busy(&client).await, None);
    }
}

/// Why the session cannot be opened, if it cannot.
async fn kind_of_busy(client: &Client) -> Option<String> {
    match open(client, Some(SESSION)).await {
        Ok(_) => None,
        refused => Some(kind(refused)),
    }
}
