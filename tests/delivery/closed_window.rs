//! A vendor that accepts messages for a chat only after the person writes there.

use hermesd::domain::{ChatType, Source};
use hermesd::platform::{InboundEvent, InboundMessage, Inbox, MessageFacts, PlatformError};

use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{Home, SESSION, eventually, seed_session};

fn closed() -> PlatformError {
    PlatformError::WindowClosed("the last message is older than a day".into())
}

async fn write(inbox: &dyn Inbox, id: &str, text: &str) {
    let mut source = Source::new("telegram", ChatType::Dm, "77");
    source.user_id = Some("77".into());
    let said = InboundMessage {
        source,
        message_id: id.into(),
        text: text.into(),
        files: Vec::new(),
        at: hermesd::clock::now(),
        facts: MessageFacts::default(),
    };
    inbox.accept(InboundEvent::Message(said)).await.unwrap();
}

fn sent(daemon: &InProcess) -> Vec<String> {
    let sent = daemon.platform.sent.lock().unwrap();
    sent.iter().map(|(_, text)| text.clone()).collect()
}

#[tokio::test]
async fn a_reply_to_a_closed_window_waits_until_the_person_writes() {
    let home = Home::new();
    seed_session(&home).await;
    let platform = Scripted {
        threadless: true,
        dedup: hermesd::platform::Dedup::None,
        ..Scripted::default()
    };
    let daemon = InProcess::start_with(&home, &[], platform).await;
    let done = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(done.error, None);
    let inbox = daemon.platform.inbox().await;
    daemon.platform.sends.lock().unwrap().push_back(closed());
    daemon.set_mood(SESSION, Mood::Say("the first answer"));
    write(inbox.as_ref(), "1", "hello?").await;
    daemon
        .log
        .says("reply waits until the person writes", 1)
        .await;
    assert_eq!(sent(&daemon).len(), 1);
    daemon.set_mood(SESSION, Mood::Say("the second answer"));
    write(inbox.as_ref(), "2", "still there?").await;
    let answers = eventually("both answers arrive", || async {
        Some(sent(&daemon).split_off(1)).filter(|answers| answers.len() == 2)
    })
    .await;
    assert_eq!(answers, ["the first answer", "the second answer"]);
    drop(inbox);
    daemon.stop().await;
}

#[tokio::test]
async fn a_reply_that_waits_for_the_person_survives_a_restart() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start_with(&home, &[], Scripted::default()).await;
    let inbox = daemon.platform.inbox().await;
    daemon.platform.sends.lock().unwrap().push_back(closed());
    write(inbox.as_ref(), "1", "hello?").await;
    daemon
        .log
        .says("reply waits until the person writes", 1)
        .await;
    assert_eq!(sent(&daemon), Vec::<String>::new());
    drop(inbox);
    daemon.stop().await;
    let daemon = InProcess::start_with(&home, &[], Scripted::default()).await;
    let sent = eventually("the answer arrives", || async {
        sent(&daemon).first().cloned()
    })
    .await;
    assert!(sent.starts_with("I have "), "{sent}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_handoff_to_a_closed_window_fails_and_says_what_to_do() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start_with(&home, &[], Scripted::default()).await;
    daemon.platform.sends.lock().unwrap().push_back(closed());
    let ended = daemon.hand_off("telegram", SESSION).await;
    let error = ended.error.expect("an error");
    assert!(
        error.contains("Write there first, then hand off again"),
        "{error}"
    );
    assert!(error.contains("older than a day"), "{error}");
    daemon.stop().await;
}
