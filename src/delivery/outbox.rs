//! Sends the replies of the ledger to their chats. Retries while that can help, and redirects a reply whose thread is
//! gone to the chat around it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::config::{ChatsConfig, Config};
use crate::delivery::closed_windows::ClosedWindows;
use crate::delivery::{DeliverError, Interrupts, deliver};
use crate::domain::{KeyRules, Session, Source, session_key};
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::platform::{Platform, Platforms, Priority, RetryPolicy, thread_word};
use crate::reloadable::Reloadable;
use crate::shutdown::Shutdown;
use crate::store::retry_while_busy;
use crate::store::{Delivery, DeliveryExtra, NewDelivery, Store, StoreError};

/// Composes messages and sends the rows of the ledger. Cheap to clone.
#[derive(Clone)]
pub struct Outbox {
    pub(super) store: Store,
    pub(super) platforms: Platforms,
    metrics: Arc<Metrics>,
    keys: KeyRules,
    pub(super) home: PathBuf,
    /// A reload may replace them.
    pub(super) limits: Arc<Reloadable<ChatsConfig>>,
    shutdown: Shutdown,
    closed_windows: Arc<ClosedWindows>,
}

/// Sends a note of the ledger in the order of its chat, after the messages that already wait there.
pub trait ChatQueue: Send + Sync {
    fn post(&self, note: Delivery);
}

/// How long a reply waits before it is retried with credentials that were refused.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// The result of an attempt to send a reply.
#[derive(PartialEq, Eq)]
enum Attempt {
    /// The reply was sent, never will be, or waits for the next start.
    Over,
    Later,
    /// The vendor accepts it after the person writes there.
    WhenTheyWrite,
}

/// The message that replaces a file.
pub(crate) fn file_note(delivery: &Delivery, file: &Path, reason: &str) -> NewDelivery {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    NewDelivery {
        send_key: format!("{}:unsent", delivery.send_key),
        source: delivery.source.clone(),
        session_id: delivery.session_id.clone(),
        handoff_id: None,
        text: format!("(The file `{name}` could not be sent: {reason})"),
        extra: DeliveryExtra::default(),
    }
}

impl Outbox {
    pub fn new(
        config: &Config,
        store: Store,
        platforms: Platforms,
        metrics: Arc<Metrics>,
        shutdown: Shutdown,
    ) -> Outbox {
        Outbox {
            store,
            platforms,
            metrics,
            keys: config.keys.clone(),
            home: config.home.clone(),
            limits: Arc::new(Reloadable::new(config.chats.clone())),
            shutdown,
            closed_windows: Arc::default(),
        }
    }

    /// Call this when a person has written in this chat. The vendor then accepts messages for it again.
    pub fn person_wrote(&self, source: &Source) {
        self.closed_windows.open(source);
    }

    /// Uses these limits from now on.
    pub fn reload(&self, limits: ChatsConfig) {
        self.limits.set(limits);
    }

    /// Sends a reply when its platform is up. A reply that cannot be sent now stays in the ledger for the next start.
    pub async fn send(&self, delivery: &Delivery) {
        let span = tracing::error_span!(
            "reply",
            platform = delivery.source.platform,
            chat = delivery.source.chat_id,
            session = delivery.session_id
        );
        async {
            loop {
                // Registers before the attempt, so that a message that arrives meanwhile counts.
                let written = self.closed_windows.when_they_write(&delivery.source);
                match self.try_to_send(delivery).await {
                    Attempt::Over => return,
                    Attempt::Later => tokio::select! {
                        () = tokio::time::sleep(REFUSED_PAUSE) => {}
                        () = self.shutdown.draining.cancelled() => return,
                    },
                    Attempt::WhenTheyWrite => tokio::select! {
                        () = written.opened() => {}
                        () = self.shutdown.draining.cancelled() => return,
                    },
                }
            }
        }
        .instrument(span)
        .await;
    }

    async fn try_to_send(&self, delivery: &Delivery) -> Attempt {
        let name = &delivery.source.platform;
        let platform = tokio::select! {
            biased;
            platform = self.platforms.when_up(name) => platform,
            () = self.shutdown.draining.cancelled() => return Attempt::Over,
        };
        let Some(platform) = platform else {
            tracing::warn!("platform not available, will send the reply at next start");
            return Attempt::Over;
        };
        let interrupts = Interrupts {
            cancel: &self.shutdown.cut,
            draining: &self.shutdown.draining,
        };
        let attempt = || async {
            let (store, to, metrics) = (&self.store, platform.as_ref(), &self.metrics);
            match deliver(
                store,
                to,
                delivery,
                (RetryPolicy::Endless, Priority::Reply),
                metrics,
                interrupts,
            )
            .await
            {
                Err(DeliverError::Store(error)) => Err(error),
                outcome => Ok(outcome),
            }
        };
        let outcome = match retry_while_busy(&self.shutdown.cut, attempt).await {
            Ok(Ok(id)) => Ok(id),
            Ok(Err(DeliverError::Cancelled | DeliverError::Stopping))
            | Err(StoreError::Cancelled) => return Attempt::Over,
            // The registry finds out whether the token is valid.
            Ok(Err(DeliverError::Unauthorized(reason))) => {
                tracing::warn!(
                    reason,
                    "platform refused our credentials, will send the reply again"
                );
                return Attempt::Later;
            }
            Ok(Err(DeliverError::WindowClosed { reason, .. })) => {
                tracing::info!(reason, "reply waits until the person writes");
                return Attempt::WhenTheyWrite;
            }
            Ok(Err(failure @ (DeliverError::Failed { .. } | DeliverError::Gone { .. }))) => {
                let is_gone = matches!(failure, DeliverError::Gone { .. });
                let (DeliverError::Failed { reason, .. } | DeliverError::Gone { reason, .. }) =
                    failure
                else {
                    return Attempt::Over;
                };
                if let Some(to) = self.instead(platform.as_ref(), delivery, is_gone).await {
                    self.send_elsewhere(delivery, &to, &reason).await;
                    return Attempt::Over;
                }
                tracing::error!(
                    message_id = journal_ids::REPLY_NOT_DELIVERED,
                    reason,
                    "reply not delivered"
                );
                if let Some(file) = &delivery.extra.file {
                    self.report_unsent(delivery, file, &reason).await;
                    return Attempt::Over;
                }
                Err(reason)
            }
            Ok(Err(DeliverError::Store(error))) | Err(error) => {
                tracing::error!(%error, "will send the reply at next start");
                return Attempt::Over;
            }
        };
        let end = || self.store.delivery_ended(delivery.id, outcome.clone());
        match retry_while_busy(&self.shutdown.cut, end).await {
            Ok(()) => self.forget_copies([delivery]),
            Err(error) => {
                tracing::error!(%error, "delivery outcome not recorded");
            }
        }
        if outcome.is_ok() && delivery.is_farewell() {
            self.show_departure(platform, delivery).await;
        }
        Attempt::Over
    }

    /// Tells the chat that a file could not be sent. The messages after it are still sent.
    async fn report_unsent(&self, delivery: &Delivery, file: &Path, reason: &str) {
        let note = file_note(delivery, file, reason);
        let end = || {
            self.store
                .delivery_failed(delivery.id, reason, note.clone())
        };
        match retry_while_busy(&self.shutdown.cut, end).await {
            Ok(Some(note)) => {
                self.forget_copies([delivery]);
                Box::pin(self.send(&note)).await;
            }
            Ok(None) | Err(StoreError::Cancelled) => {}
            Err(error) => {
                tracing::error!(%error, "delivery outcome not recorded");
            }
        }
    }

    /// The chat that gets a reply which its own chat cannot get: the one that was told of the end of its chat, or the
    /// one around its thread. `None`: there is none, or the message is about the thread itself.
    async fn instead(
        &self,
        platform: &dyn Platform,
        delivery: &Delivery,
        is_gone: bool,
    ) -> Option<Source> {
        if delivery.is_farewell() || delivery.is_failure_note() || delivery.is_end_note() {
            return None;
        }
        let source = &delivery.source;
        let key = session_key(source, &self.keys);
        let told = || self.store.end_note_place(&source.platform, &key);
        let told = retry_while_busy(&self.shutdown.cut, told).await;
        let told = told.ok().flatten();
        let told = told.filter(|told| told.chat_id != source.chat_id);
        told.or_else(|| platform.parent(source).filter(|_| is_gone))
    }

    /// Lets the platform show that the session of a thread has left it. Nothing waits for it.
    async fn show_departure(&self, platform: Arc<dyn Platform>, farewell: &Delivery) {
        let thread = farewell.source.clone();
        let key = session_key(&thread, &self.keys);
        // A chat that continues an earlier conversation, or was resumed meanwhile, is in use.
        if thread.thread_id.is_none() || !matches!(self.store.left(&key).await, Ok(Some(_))) {
            return;
        }
        tokio::spawn(async move {
            if let Err(error) = platform.thread_left(&thread).await {
                tracing::warn!(%error, platform = thread.platform, chat = thread.chat_id, "departure from a thread not shown");
            }
        });
    }

    /// Sends a reply whose thread is gone to another chat. The conversation then has no chat.
    async fn send_elsewhere(&self, delivery: &Delivery, to: &Source, reason: &str) {
        let key = session_key(&delivery.source, &self.keys);
        tracing::warn!(
            key,
            reason,
            to = to.chat_id,
            "thread is gone, sending the reply to another chat"
        );
        let conversation = || self.conversation(delivery, &key);
        let conversation = retry_while_busy(&self.shutdown.cut, conversation)
            .await
            .ok()
            .flatten();
        let word = thread_word(&delivery.source.platform);
        let (notice, reference) = match &conversation {
            _ if !delivery.is_first_piece() => (String::new(), String::new()),
            Some(session) => {
                let name = session.label();
                (
                    format!(
                        "(The {word} of \"{name}\" is gone. Say `/resume {name}` in any chat to continue.)"
                    ),
                    format!("(From the {word} of \"{name}\".)"),
                )
            }
            None => {
                let gone = format!("(The {word} of this message is gone.)");
                (gone.clone(), gone)
            }
        };
        let session_id = conversation.map(|session| session.id).unwrap_or_default();
        let redirect = || {
            let before = (notice.as_str(), reference.as_str());
            self.store
                .redirect_delivery(delivery, to, &key, &session_id, before)
        };
        match retry_while_busy(&self.shutdown.cut, redirect).await {
            Ok(redirected) => Box::pin(self.send(&redirected)).await,
            Err(StoreError::Cancelled) => {}
            Err(error) => tracing::error!(%error, "will send the reply at next start"),
        }
    }

    /// The conversation that a reply belongs to. The daemon's own messages belong to the conversation of the chat.
    async fn conversation(
        &self,
        delivery: &Delivery,
        key: &str,
    ) -> Result<Option<Session>, StoreError> {
        let id = match delivery.session_id.as_str() {
            "" => self.store.live_session(key).await?,
            id => Some(id.to_owned()),
        };
        match id {
            Some(id) => self.store.session(&id).await,
            None => Ok(None),
        }
    }
}
