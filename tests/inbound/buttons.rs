//! The press of a button is acknowledged in the time that the platform gives, whatever the database does.

use std::collections::BTreeSet;
use std::time::Duration;

use hermesd::domain::{ChatType, Source};
use hermesd::platform::{ButtonPress, InboundEvent, ReplyHandle};

use crate::support::scripted::InProcess;
use crate::support::{Home, SESSION, eventually, seed_session};

/// The owner presses the button that brings a session here.
fn press(secret: &str, lasts: Duration) -> InboundEvent {
    InboundEvent::Pressed(ButtonPress {
        source: Source {
            user_id: Some("77".into()),
            ..Source::new("telegram", ChatType::Dm, "77")
        },
        roles: BTreeSet::new(),
        id: format!("event-{}", secret.len()),
        handle: ReplyHandle::new(secret, Some(lasts)),
        data: format!("resume:{SESSION}"),
        message_id: "5".into(),
        text: "Sessions".into(),
    })
}

#[tokio::test]
async fn a_press_is_acknowledged_before_anything_is_stored() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let inbox = daemon.platform.inbox().await;
    let lock = home.sqlite();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let accepting = tokio::spawn(async move {
        let lasts = Duration::from_secs(600);
        inbox.accept(press("secret-1", lasts)).await
    });
    let acknowledged = eventually("the press is acknowledged", || async {
        daemon
            .platform
            .acknowledged
            .lock()
            .unwrap()
            .first()
            .cloned()
    })
    .await;
    assert_eq!(acknowledged, ("secret-1".to_owned(), String::new()));
    assert!(!accepting.is_finished(), "the store is locked");
    lock.execute_batch("ROLLBACK").unwrap();
    accepting.await.unwrap().unwrap();
    // The handle is in no row.
    let ids = "SELECT group_concat(message_id || source || text) FROM hermesd_inbound";
    let kept: String = home.sqlite().query_row(ids, [], |row| row.get(0)).unwrap();
    assert!(kept.contains(SESSION), "{kept}");
    assert!(!kept.contains("secret-1"), "{kept}");
    daemon.stop().await;
}

#[tokio::test]
async fn an_expired_handle_is_not_used_and_the_press_counts() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let inbox = daemon.platform.inbox().await;
    inbox.accept(press("late", Duration::ZERO)).await.unwrap();
    let lasts = Duration::from_secs(600);
    inbox.accept(press("in-time", lasts)).await.unwrap();
    eventually("both are answered", || async {
        (daemon.platform.sent.lock().unwrap().len() >= 2).then_some(())
    })
    .await;
    eventually("a press is acknowledged", || async {
        let acknowledged = daemon.platform.acknowledged.lock().unwrap();
        (!acknowledged.is_empty()).then_some(())
    })
    .await;
    let acknowledged = daemon.platform.acknowledged.lock().unwrap().clone();
    assert_eq!(acknowledged, [("in-time".to_owned(), String::new())]);
    drop(inbox);
    daemon.stop().await;
}
