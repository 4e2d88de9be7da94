//! A reply whose thread is gone goes to the chat that the adapter names.

use hermesd::domain::{ChatType, Source};
use hermesd::platform::{InboundEvent, InboundMessage, MessageFacts, PlatformError};

use crate::support::scripted::{InProcess, Scripted};
use crate::support::{Home, SESSION, eventually, seed_session};

#[tokio::test]
async fn the_reply_to_a_gone_thread_goes_to_the_parent_that_the_adapter_names() {
    let home = Home::new();
    seed_session(&home).await;
    let around = Source::new("telegram", ChatType::Group, "100");
    let platform = Scripted {
        parent: Some(around.clone()),
        ..Scripted::default()
    };
    let daemon = InProcess::start_with(&home, &[], platform).await;
    let done = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(done.error, None);
    let thread = daemon.platform.sent_to.lock().unwrap()[0].clone();
    assert!(thread.thread_id.is_some());
    let gone = PlatformError::Gone("no such thread".into());
    daemon.platform.sends.lock().unwrap().push_back(gone);
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
    let inbox = daemon.platform.inbox().await;
    inbox.accept(InboundEvent::Message(said)).await.unwrap();
    let to = eventually("the reply arrives", || async {
        daemon.platform.sent_to.lock().unwrap().get(1).cloned()
    })
    .await;
    assert_eq!(
        (to.chat_type, to.chat_id),
        (around.chat_type, around.chat_id)
    );
    let text = daemon.platform.sent.lock().unwrap()[1].1.clone();
    assert!(text.contains("is gone"), "{text}");
    drop(inbox);
    daemon.stop().await;
}
