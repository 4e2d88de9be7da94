//! What one run of the daemon leaves in the chats is taken up by the next, before anything new.

use std::sync::Arc;

use hermesd::agent::Agents;
use hermesd::config::Config;
use hermesd::delivery::Outbox;
use hermesd::domain::TranscriptWriter;
use hermesd::domain::{ChatType, Source, session_key};
use hermesd::events::Bus;
use hermesd::inbound::Chats;
use hermesd::platform::local::{self, Local};
use hermesd::platform::{Inbox, Platform, PlatformError, Platforms};
use hermesd::shutdown::Shutdown;
use hermesd::store::{DeliveryExtra, NewDelivery, NewInbound, Store, TurnEnd};
use hermesd::turn::Turns;
use tokio_util::task::TaskTracker;

use crate::inbound::chats::{KEY, WAITS, replies, spoken};
use crate::support::log::Log;
use crate::support::scripted::{Scripted, ScriptedAgent, configured};
use crate::support::{Home, eventually};

/// The chats and its platforms, without the queue: that ends a daemon whose database is moved away.
struct RunningChats {
    store: Store,
    config: Config,
    platform: Arc<Scripted>,
    chats: Chats,
    log: Log,
    stop: Shutdown,
}

impl RunningChats {
    fn new(home: &Home, platform: Scripted) -> RunningChats {
        let (config, store, bus) = (configured(home, &[]), home.store(), Bus::default());
        let platform = Arc::new(platform);
        let adapters: Vec<Arc<dyn Platform>> = vec![
            Arc::new(Local::new(store.clone(), bus.clone())),
            platform.clone(),
        ];
        let platforms = Platforms::new(&config, adapters, bus.clone(), Arc::default());
        let agents = Agents::only(Arc::new(ScriptedAgent::default()));
        let timeouts = config.agent.timeouts;
        let turns = Arc::new(Turns::new(
            store.clone(),
            agents,
            timeouts,
            bus.clone(),
            Arc::default(),
        ));
        let (log, stop) = (Log::start(), Shutdown::default());
        let outbox = Outbox::new(
            &config,
            store.clone(),
            platforms.clone(),
            Arc::default(),
            stop.clone(),
        );
        let chats = Chats::new(
            &config,
            store.clone(),
            platforms.clone(),
            turns,
            outbox,
            bus,
            stop.clone(),
        );
        let inbox: Arc<dyn Inbox> = Arc::new(chats.clone());
        platforms.connect_all(&inbox, &TaskTracker::new(), &stop.cut);
        RunningChats {
            store,
            config,
            platform,
            chats,
            log,
            stop,
        }
    }

    /// A message that the last run has answered with these words, without sending them.
    async fn leave_reply(&self, source: &Source, text: &str) {
        let key = session_key(source, &self.config.keys);
        let (store, id) = (&self.store, text);
        let accepted = store
            .accept_inbound(&key, source, said(id, "?"))
            .await
            .unwrap();
        let session = store
            .bind_fresh_session(&key, source)
            .await
            .unwrap()
            .session_id;
        let inbound = accepted.unwrap().id;
        store
            .begin_inbound(inbound, &session, TranscriptWriter::Daemon)
            .await
            .unwrap();
        let reply = NewDelivery {
            send_key: format!("inbound:{inbound}:0"),
            source: source.clone(),
            session_id: session.clone(),
            handoff_id: None,
            text: text.into(),
            extra: DeliveryExtra::default(),
        };
        let end = TurnEnd::Answered(text.to_owned().into());
        let kept = store.answer_inbound(inbound, &session, &end, vec![reply]);
        kept.await.unwrap();
    }

    /// What has arrived on the scripted platform.
    fn sent(&self) -> Vec<String> {
        let sent = self.platform.sent.lock().unwrap();
        sent.iter().map(|(_, text)| text.clone()).collect()
    }

    async fn arrived(&self, count: usize) -> Vec<String> {
        eventually("replies on the platform", || async {
            Some(self.sent()).filter(|sent| sent.len() >= count)
        })
        .await
    }

    async fn end(self) {
        self.stop.cut_off();
        self.chats.drain().await;
    }
}

fn telegram() -> Source {
    Source::new("telegram", ChatType::Dm, "77")
}

#[tokio::test]
async fn a_database_that_cannot_be_read_at_the_start_is_waited_for() {
    let home = Home::new();
    let chats = RunningChats::new(&home, Scripted::default());
    let source = local::source("home", None);
    chats.store.say_local(KEY, &source, "one").await.unwrap();
    // Out of reach for connections that are yet to be made.
    let (here, away) = (home.path().join("state.db"), home.path().join("away.db"));
    std::fs::rename(&here, &away).unwrap();
    chats.chats.recover();
    chats.log.says(WAITS, 2).await;
    std::fs::rename(&away, &here).unwrap();
    replies(&home, 1).await;
    chats.end().await;
}

#[tokio::test]
async fn a_message_that_comes_early_does_not_overtake_one_that_was_left() {
    let home = Home::new();
    let chats = RunningChats::new(&home, Scripted::default());
    let source = local::source("home", None);
    chats.store.say_local(KEY, &source, "one").await.unwrap();
    chats.chats.say_local("home", None, "two").await.unwrap();
    chats.chats.recover();
    replies(&home, 2).await;
    let session = chats.store.bound_session(KEY).await.unwrap().unwrap();
    assert_eq!(
        spoken(&home, &session),
        [
            "user: one",
            "assistant: I have 0 messages.",
            "user: two",
            "assistant: I have 2 messages."
        ]
    );
    chats.end().await;
}

#[tokio::test]
async fn a_reply_that_was_left_is_not_overtaken_by_the_next_one() {
    let home = Home::new();
    let chats = RunningChats::new(&home, Scripted::default());
    let source = telegram();
    chats.leave_reply(&source, "first").await;
    let key = session_key(&source, &chats.config.keys);
    let next = chats
        .store
        .accept_inbound(&key, &source, said("2", "more?"));
    next.await.unwrap();
    // Time enough to be overtaken.
    let busy = PlatformError::transient("busy");
    chats.platform.sends.lock().unwrap().push_back(busy);
    chats.chats.recover();
    assert_eq!(chats.arrived(2).await, ["first", "I have 2 messages."]);
    chats.end().await;
}

#[tokio::test]
async fn a_reply_waits_for_its_platform_and_keeps_no_other_from_being_sent() {
    let home = Home::new();
    let platform = Scripted {
        connected: tokio::sync::Semaphore::new(0),
        ..Scripted::default()
    };
    let chats = RunningChats::new(&home, platform);
    let off = Source::new("discord", ChatType::Dm, "5");
    for source in [&telegram(), &off, &local::source("home", None)] {
        chats.leave_reply(source, &source.platform).await;
    }
    chats.chats.recover();
    replies(&home, 1).await;
    let waits = r#"waiting for the platform to be up platform="telegram""#;
    chats.log.says(waits, 1).await;
    chats.log.says("platform not available", 1).await;
    assert!(chats.sent().is_empty());
    chats.platform.connected.add_permits(1);
    assert_eq!(chats.arrived(1).await, ["telegram"]);
    // What is off now may be on after the next start.
    let left = eventually("all but one have been sent", || async {
        let left = chats.store.open_deliveries().await.unwrap();
        Some(left).filter(|left| left.len() == 1)
    })
    .await;
    assert_eq!(left[0].text, "discord");
    chats.end().await;
}

fn said(message_id: &str, text: &str) -> NewInbound {
    NewInbound {
        message_id: message_id.into(),
        text: text.into(),
        files: Vec::new(),
    }
}
