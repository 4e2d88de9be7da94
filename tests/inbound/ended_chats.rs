//! A chat that ends during a turn, and while a handoff is on its way there.

use std::sync::Arc;

use hermesd::domain::{ChatType, EndReason, EndedPlace, Source};
use hermesd::platform::{InboundEvent, InboundMessage, MessageFacts, PlatformError};
use tokio::sync::Semaphore;

use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{Home, SESSION, eventually, seed_session};

fn ends(chat: &str) -> InboundEvent {
    InboundEvent::Ended {
        platform: "telegram",
        place: EndedPlace::Chat(chat.into()),
        reason: EndReason::Deleted,
    }
}

/// A platform with a chat around its threads.
fn with_parent() -> Scripted {
    Scripted {
        parent: Some(Source::new("telegram", ChatType::Group, "100")),
        ..Scripted::default()
    }
}

/// How many of the messages that were sent contain these words.
fn sent(daemon: &InProcess, words: &str) -> usize {
    let sent = daemon.platform.sent.lock().unwrap();
    let texts = sent.iter().map(|(_, text)| text);
    texts.filter(|text| text.contains(words)).count()
}

#[tokio::test]
async fn a_turn_in_progress_ends_and_its_reply_follows_the_note() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start_with(&home, &[], with_parent()).await;
    assert_eq!(daemon.hand_off("telegram", SESSION).await.error, None);
    let thread = daemon.platform.sent_to.lock().unwrap()[0].clone();
    let chat = thread.chat_id.clone().unwrap();
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let inbox = daemon.platform.inbox().await;
    let said = InboundMessage {
        source: Source {
            user_id: Some("77".into()),
            ..thread
        },
        message_id: "1".into(),
        text: "and now?".into(),
        files: Vec::new(),
        at: hermesd::clock::now(),
        facts: MessageFacts::default(),
    };
    inbox.accept(InboundEvent::Message(said)).await.unwrap();
    daemon.asked(2).await;
    inbox.accept(ends(&chat)).await.unwrap();
    eventually("the note is sent", || async {
        (sent(&daemon, "was deleted") > 0).then_some(())
    })
    .await;
    let gone = PlatformError::Gone("no such thread".into());
    daemon.platform.sends.lock().unwrap().push_back(gone);
    permits.add_permits(1);
    eventually("the reply is sent", || async {
        (sent(&daemon, "at last") > 0).then_some(())
    })
    .await;
    assert_eq!((sent(&daemon, "at last"), sent(&daemon, "/resume")), (1, 1));
    let to = daemon.platform.sent_to.lock().unwrap().last().cloned();
    assert_eq!(to.and_then(|to| to.chat_id).as_deref(), Some("100"));
    drop(inbox);
    daemon.stop().await;
}

#[tokio::test]
async fn a_handoff_in_flight_is_left_to_itself_and_its_chat_is_released_at_its_end() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start_with(&home, &[], with_parent()).await;
    let permits = Arc::new(Semaphore::new(0));
    daemon.set_mood(SESSION, Mood::Wait(permits.clone()));
    let asked = daemon.ask("telegram", SESSION).await;
    daemon.asked(1).await;
    let key: String = home
        .sqlite()
        .query_row("SELECT session_key FROM gateway_routing", [], |row| {
            row.get(0)
        })
        .unwrap();
    let chat = key.split(':').nth(4).unwrap().to_owned();
    let inbox = daemon.platform.inbox().await;
    inbox.accept(ends(&chat)).await.unwrap();
    inbox.accept(ends(&chat)).await.unwrap();
    let live = daemon.store.live_session(&key).await.unwrap();
    assert_eq!(live.as_deref(), Some(SESSION));
    permits.add_permits(1);
    assert_eq!(daemon.ended(asked.id).await.error, None);
    eventually("the chat is released", || async {
        let live = daemon.store.live_session(&key).await.unwrap();
        live.is_none().then_some(())
    })
    .await;
    eventually("the note is sent", || async {
        (sent(&daemon, "was deleted") > 0).then_some(())
    })
    .await;
    assert_eq!(sent(&daemon, "was deleted"), 1);
    drop(inbox);
    daemon.stop().await;
}
