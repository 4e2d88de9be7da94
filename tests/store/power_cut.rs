//! What a person or a platform was told is on the disk before they are told, so that a power cut cannot take it back.

use hermesd::protocol::{Call, HandoffId, HandoffRequest, HandoffView};

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, Rights};
use crate::support::traced::{Traced, assert_flushed_before, can_trace, flushes, hermesctl_traced};
use crate::support::{Home, TITLE, seed_session};
use crate::terminal::sessions::{open, say};

const NOTE: &str = "a note that stands nowhere else";

#[tokio::test]
async fn a_handoff_is_on_the_disk_when_it_is_accepted_and_when_it_is_completed() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    let client = daemon.client().await;
    let traced = Traced::attach(&home, daemon.pid());
    let wish = HandoffRequest {
        platform: "local".into(),
        session: Some(TITLE.into()),
        note: Some(NOTE.into()),
        ..HandoffRequest::default()
    };
    let asked: HandoffView = client.call(Call::HandoffRequest(wish)).await.unwrap();
    let wait = Call::HandoffWait(HandoffId { id: asked.id });
    let ended: HandoffView = client.call(wait).await.unwrap();
    assert_eq!(ended.state, "completed");
    let seen = traced.seen();
    let (asked, _) = assert_flushed_before(&seen, NOTE, &["\"result\"", "\"state\":\"pending\""]);
    let completed = ["\"result\"", "\"state\":\"completed\""];
    let (_, told) = assert_flushed_before(&seen, "\"settled\":", &completed);
    let flushes = flushes(&seen[asked..told]);
    assert!(flushes <= 3, "{flushes} flushes for one handoff");
}

#[tokio::test]
async fn a_request_without_a_daemon_is_on_the_disk_when_hermesctl_says_so() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    seed_session(&home).await;
    let wish = [
        "handoff",
        "local",
        "--session",
        TITLE,
        "--no-wait",
        "--note",
        NOTE,
    ];
    let (ran, seen) = hermesctl_traced(&home, &wish);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("requested"), "{ran:?}");
    assert_flushed_before(&seen, NOTE, &["write(1<", "requested"]);
}

#[test]
fn a_message_is_on_the_disk_before_it_is_confirmed_and_a_reply_is_marked_before_it_is_sent() {
    if !can_trace() {
        return;
    }
    let bot = Bot::at_home(|api| api.private(&ADA));
    let daemon = bot.start();
    let traced = Traced::attach(&bot.home, daemon.pid());
    let words = "words that stand nowhere else";
    bot.api.says(bot.chat, None, &ADA, words);
    bot.api
        .until_message(bot.chat, None, |m| m.text.contains(words));
    // The call that confirms it.
    let seen = traced.until_said_after(words, "/getupdates");
    assert_flushed_before(&seen, words, &["/getupdates"]);
    assert_flushed_before(&seen, "sending", &["/sendmessage"]);
}

#[tokio::test]
async fn a_topic_is_marked_before_it_is_opened() {
    if !can_trace() {
        return;
    }
    let bot = Bot::at_home(|api| api.forum("Work", Rights::TopicsAdmin));
    seed_session(&bot.home).await;
    let daemon = bot.start();
    let traced = Traced::attach(&bot.home, daemon.pid());
    let ran = bot.hand_off();
    assert_eq!(ran.code, 0, "{ran:?}");
    // The mark itself is a number; the claim that it follows is not flushed by itself.
    let claimed = "\"claimed\":";
    assert_flushed_before(&traced.seen(), claimed, &["/createforumtopic"]);
    assert_flushed_before(&traced.seen(), "sending", &["/sendmessage"]);
}

#[tokio::test]
async fn what_is_said_in_a_terminal_and_its_reply_are_on_the_disk_when_the_reply_is_there() {
    if !can_trace() {
        return;
    }
    let home = Home::new();
    let daemon = home.start();
    let client = daemon.client().await;
    open(&client, None).await.unwrap();
    let traced = Traced::attach(&home, daemon.pid());
    let words = "words that stand nowhere else";
    say(&client, words).await.unwrap();
    let seen = traced.seen();
    assert_flushed_before(&seen, words, &["\"result\"", words]);
    assert_flushed_before(&seen, "You said: words", &["\"result\"", words]);
}
