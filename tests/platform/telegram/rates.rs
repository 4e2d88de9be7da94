//! Many handoffs into one forum, against the vendor's limits with a shorter window.

#![allow(clippy::print_stdout)] // what each waiter saw is for people to read

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermesd::client::Client;
use hermesd::protocol::{Call, HandoffId, HandoffRequest, HandoffView};
use tokio::sync::Semaphore;

use crate::support::bot::Bot;
use crate::support::fake::{Outcome, ScriptedFault};
use crate::support::prometheus;
use crate::support::telegram::{BEN, RateLimit, Rights, VendorLimits};
use crate::support::{add_session, program, until};

const RATES: &str = "HERMESD_TEST_RATES";

/// A forum as home, and so many sessions.
fn forum(rights: Rights, sessions: usize) -> (Bot, Vec<String>) {
    let bot = Bot::at_home(|api| api.forum("Workshop", rights));
    drop(bot.home.store());
    let name = |n: usize| format!("20260101_1000{n:02}_cccccc");
    let names: Vec<String> = (0..sessions).map(name).collect();
    for (n, name) in names.iter().enumerate() {
        add_session(&bot.home, name, &format!("Session {n}"));
    }
    (bot, names)
}

/// The vendor's limit of a group, in a shorter window.
fn limit_groups(bot: &Bot, counts_topics: bool) {
    bot.api.enforce_limits(VendorLimits {
        group: Some(RateLimit::new(20, Duration::from_secs(2)).renewing_bans()),
        counts_topics,
        ..VendorLimits::documented()
    });
}

async fn ask(client: &Client, session: &str) -> HandoffView {
    let wish = HandoffRequest {
        platform: "telegram".into(),
        session: Some(session.into()),
        ..HandoffRequest::default()
    };
    let asked = client.call(Call::HandoffRequest(wish)).await;
    asked.expect("a request")
}

async fn end(client: &Client, id: i64) -> HandoffView {
    let wait = client.call(Call::HandoffWait(HandoffId { id })).await;
    wait.expect("an end")
}

/// How many calls have waited for the limits.
fn waits(bot: &Bot) -> f64 {
    let ran = bot.home.hermesctl(&["metrics"]);
    let series = "hermesd_rate_limit_waits_total{platform=\"telegram\",cause=\"pace\"}";
    prometheus::read(&ran.stdout).value(series)
}

/// Asks for fifty handoffs at once, prints what each waiter saw, and returns the calls that the vendor refused.
async fn fifty_handoffs_at_once(counts_topics: bool) -> Vec<String> {
    let (bot, sessions) = forum(Rights::TopicsAdmin, 50);
    limit_groups(&bot, counts_topics);
    let _daemon = bot.start_with(&[(RATES, "20/2000")]);
    let start = Instant::now();
    let waiters: Vec<_> = sessions
        .iter()
        .map(|session| {
            let (socket, session) = (bot.home.socket(), session.clone());
            tokio::spawn(async move {
                let client = Client::connect(&socket).await.expect("a connection");
                let asked = ask(&client, &session).await;
                (end(&client, asked.id).await, start.elapsed())
            })
        })
        .collect();
    for waiter in waiters {
        let (handoff, after) = waiter.await.expect("a waiter");
        println!(
            "{:>8.3} s  {} {:?}",
            after.as_secs_f64(),
            handoff.id,
            handoff.state
        );
        assert_eq!(handoff.error, None);
    }
    let timeline = bot.api.timeline();
    println!("{timeline}");
    println!("{} calls have waited", waits(&bot));
    let topics = bot.api.topics(bot.chat);
    assert_eq!(topics.len(), 50);
    for topic in topics {
        let replies = bot.api.messages_in(bot.chat, Some(topic.thread));
        assert_eq!(replies.len(), 1, "{topic:?}: {replies:?}");
    }
    let calls = timeline.0.into_iter();
    let refused = calls.filter(|call| matches!(call.outcome, Outcome::Refused(..)));
    refused.map(|call| call.method).collect()
}

/// How many windows the burst takes is exact with a paused clock: see the tests of the limiter. Here it depends on the machine.
#[tokio::test]
async fn fifty_handoffs_at_once_use_the_whole_allowance_and_no_more() {
    assert_eq!(fifty_handoffs_at_once(false).await, Vec::<String>::new());
}

/// The calls under way at a refusal may be refused too.
#[tokio::test]
async fn a_vendor_that_counts_threads_is_learned_from_its_refusals() {
    let refused = fifty_handoffs_at_once(true).await;
    assert!(!refused.is_empty());
    assert!(refused.len() < 30, "{refused:?}");
}

#[tokio::test]
async fn handoffs_within_the_limit_wait_for_nothing() {
    let (bot, sessions) = forum(Rights::TopicsAdmin, 20);
    let hour = Duration::from_secs(3600);
    bot.api.limit_chat(20, hour);
    let fast = ("HERMESD_PLATFORMS_TELEGRAM_MESSAGES_PER_SECOND", "1000");
    let _daemon = bot.start_with(&[(RATES, "20/3600000"), fast]);
    let client = Client::connect(&bot.home.socket())
        .await
        .expect("a connection");
    let start = Instant::now();
    for session in &sessions {
        let asked = ask(&client, session).await;
        let ended = end(&client, asked.id).await;
        assert_eq!(ended.error, None);
        println!("{:>8.3} s  {}", start.elapsed().as_secs_f64(), ended.id);
    }
    assert_eq!(bot.api.topics(bot.chat).len(), 20);
    assert_eq!(waits(&bot), 0.0);
}

/// A handoff whose agent fails, in a forum that gives the bot these rights.
async fn failed_handoff(rights: Rights) -> Bot {
    let (bot, sessions) = forum(rights, 1);
    let (script, _) = program(&bot.home, "broken", "exit 1");
    let _daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &script),
    ]);
    let client = Client::connect(&bot.home.socket())
        .await
        .expect("a connection");
    let asked = ask(&client, &sessions[0]).await;
    let ended = end(&client, asked.id).await;
    assert!(ended.error.is_some(), "{ended:?}");
    until("the thread is deleted, or says why nothing follows", || {
        let topics = bot.api.topics(bot.chat);
        let said = |thread| !bot.api.messages_in(bot.chat, Some(thread)).is_empty();
        topics.iter().all(|topic| said(topic.thread)).then_some(())
    });
    let open = "SELECT count(*) FROM hermesd_deliveries WHERE state IN ('pending', 'sending')";
    until("the ledger is done", || {
        (bot.look::<i64>(open) == 0).then_some(())
    });
    bot
}

#[tokio::test]
async fn a_failed_handoff_leaves_no_empty_thread() {
    let bot = failed_handoff(Rights::TopicsAdmin).await;
    assert_eq!(bot.api.calls_of("createForumTopic").len(), 1);
    assert_eq!(bot.api.topics(bot.chat).len(), 0);
    assert_eq!(bot.api.calls_of("sendMessage").len(), 0);
}

/// A stranger gets no answer, and keeps what they wrote.
#[tokio::test]
async fn a_thread_in_which_anyone_has_written_stays() {
    let (bot, sessions) = forum(Rights::TopicsAdmin, 1);
    let go = bot.home.path().join("go");
    let waits = format!(
        "while [ ! -e {} ]; do sleep 0.01; done; exit 1",
        go.display()
    );
    let (script, _) = program(&bot.home, "broken", &waits);
    let _daemon = bot.start_with(&[
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", &script),
    ]);
    let client = Client::connect(&bot.home.socket())
        .await
        .expect("a connection");
    // Ben is faster than the answer to the call that opens the topic.
    let receipt = Arc::new(Semaphore::new(0));
    let hold = ScriptedFault::HoldAfter(receipt.clone());
    bot.api.then("createForumTopic", hold);
    let asked = ask(&client, &sessions[0]).await;
    let topic = until("a topic", || bot.api.topics(bot.chat).pop());
    bot.api
        .says(bot.chat, Some(topic.thread), &BEN, "what is this?");
    bot.api.until_polled();
    receipt.add_permits(1);
    bot.home.write("go", "");
    let ended = end(&client, asked.id).await;
    assert!(ended.error.is_some(), "{ended:?}");
    let note = bot
        .api
        .until_message(bot.chat, Some(topic.thread), |_| true);
    assert!(note.text.contains("failed"), "{note:?}");
    assert_eq!(bot.api.calls_of("deleteForumTopic").len(), 0);
}

#[tokio::test]
async fn without_the_right_to_delete_the_thread_says_what_happened() {
    let bot = failed_handoff(Rights::TopicsAdminWithoutDeletion).await;
    let topics = bot.api.topics(bot.chat);
    assert_eq!(topics.len(), 1);
    let said = bot.api.messages_in(bot.chat, Some(topics[0].thread));
    assert!(said[0].text.contains("failed"), "{said:?}");
}

#[tokio::test]
async fn a_handoff_that_waits_for_room_is_withdrawn_without_a_thread() {
    let (bot, sessions) = forum(Rights::TopicsAdmin, 3);
    let _daemon = bot.start_with(&[(RATES, "2/3600000")]);
    let client = Client::connect(&bot.home.socket())
        .await
        .expect("a connection");
    for session in &sessions[..2] {
        let asked = ask(&client, session).await;
        let ended = end(&client, asked.id).await;
        assert_eq!(ended.error, None);
    }
    // The limit has no room for a third.
    let words = ["handoff", "telegram", "--session", &sessions[2]];
    let mut terminal = bot.home.spawn_hermesctl(&words, &[]);
    let shown = BufReader::new(terminal.stdout());
    let mut lines = shown.lines().map(|line| line.expect("a line"));
    let reason = "the rate limit of telegram has no room for a thread";
    assert!(lines.any(|line| line == format!("… waits: {reason}")));
    let id = bot.look("SELECT max(id) FROM hermesd_handoffs");
    let _: serde_json::Value = client
        .call(Call::HandoffCancel(HandoffId { id }))
        .await
        .expect("a cancellation");
    assert_eq!(terminal.code(), Some(4));
    assert_eq!(bot.api.topics(bot.chat).len(), 2);
    assert_eq!(bot.api.calls_of("createForumTopic").len(), 2);
}
