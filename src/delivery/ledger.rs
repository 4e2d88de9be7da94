//! Sends one ledger row to its chat. The caller records the outcome.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::platform::{
    CallEffort, CallFailure, Dedup, OutboundMessage, Platform, PlatformError, Priority,
    RetryPolicy, with_retries,
};
use crate::store::{Delivery, DeliveryState, Store, StoreError};

/// Precedes a message that may already be in the chat. Some platforms cannot say whether an interrupted send arrived. A
/// doubled message is better than a lost one, if the reader can see that it may be a repeat.
pub const MAYBE_REPEATED: &str = "(this may be a repeat) ";

/// How long a cancellation waits for a call in progress. Without the wait, a message would be sent again, and an opened
/// thread would be unknown.
pub(crate) const LAST_CALL: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    #[error("it could not be sent to {platform}: {reason}")]
    Failed { platform: String, reason: String },
    /// The thread of the message no longer exists.
    #[error("it could not be sent to {platform}: {reason}")]
    Gone { platform: String, reason: String },
    /// The vendor accepts it only after the person writes in that chat. The row stays unsent.
    #[error("{platform} accepts no message there until the person writes: {reason}")]
    WindowClosed { platform: String, reason: String },
    /// The delivery was cancelled, or the row is no longer to be sent.
    #[error("cancelled")]
    Cancelled,
    /// The platform does not accept our credentials now. The row stays unsent.
    #[error("it could not be sent now: {0}")]
    Unauthorized(String),
    /// The daemon stops before the message is sent. The next start sends it.
    #[error("hermesd is stopping")]
    Stopping,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Signals that end a delivery early.
#[derive(Clone, Copy)]
pub struct Interrupts<'a> {
    /// Ends it now. A call in progress gets up to `LAST_CALL`.
    pub cancel: &'a CancellationToken,
    /// The daemon stops. A call in progress continues, and no other attempt follows.
    pub draining: &'a CancellationToken,
}

/// Sends the message, unless it is already sent, and returns the platform's message id.
pub async fn deliver(
    store: &Store,
    platform: &dyn Platform,
    delivery: &Delivery,
    (tries, priority): (RetryPolicy, Priority),
    metrics: &Metrics,
    interrupts: Interrupts<'_>,
) -> Result<String, DeliverError> {
    let Interrupts { cancel, draining } = interrupts;
    if let (DeliveryState::Sent, Some(id)) = (delivery.state, &delivery.message_id) {
        return Ok(id.clone());
    }
    if cancel.is_cancelled() {
        return Err(DeliverError::Cancelled);
    }
    // If the platform always recognises the key, sending twice is harmless. Then the row needs no mark before the send.
    let idempotent = platform.capabilities().send_dedup == Dedup::Always;
    let wanted = if idempotent {
        store.delivery_wanted(delivery.id)?
    } else {
        store.delivery_started(delivery.id).await?
    };
    if !wanted {
        return Err(DeliverError::Cancelled);
    }
    let progress = Progress::default();
    let mut sending = pin!(call_platform(
        platform,
        delivery,
        (tries, priority),
        metrics,
        draining,
        &progress
    ));
    let outcome = tokio::select! {
        outcome = &mut sending => outcome,
        () = cancel.cancelled() => {
            if idempotent {
                return Err(DeliverError::Cancelled);
            }
            if !progress.underway.load(Ordering::Relaxed) {
                unmark(store, delivery, &progress).await?;
                return Err(DeliverError::Cancelled);
            }
            let last = tokio::time::timeout(LAST_CALL, sending).await;
            last.map_err(|_| DeliverError::Cancelled)?
        }
    };
    let platform = platform.name().to_owned();
    let (kind, outcome) = match outcome {
        Ok(id) if progress.repeated.load(Ordering::Relaxed) => ("repeated", Ok(id)),
        Ok(id) => ("sent", Ok(id)),
        Err(CallFailure::Unauthorized(reason)) if tries == RetryPolicy::Endless => {
            if !idempotent {
                unmark(store, delivery, &progress).await?;
            }
            return Err(DeliverError::Unauthorized(reason));
        }
        Err(CallFailure::WindowClosed(reason)) => {
            if !idempotent {
                unmark(store, delivery, &progress).await?;
            }
            return Err(DeliverError::WindowClosed { platform, reason });
        }
        Err(CallFailure::Failed(reason) | CallFailure::Unauthorized(reason)) => {
            let platform = platform.clone();
            ("failed", Err(DeliverError::Failed { platform, reason }))
        }
        Err(CallFailure::Gone(reason)) => {
            let platform = platform.clone();
            ("gone", Err(DeliverError::Gone { platform, reason }))
        }
        Err(CallFailure::Stopping) => {
            if !idempotent {
                unmark(store, delivery, &progress).await?;
            }
            return Err(DeliverError::Stopping);
        }
    };
    metrics.delivery_ended(&platform, kind);
    outcome
}

/// Removes the mark of a message that has certainly not arrived, so that it is not repeated as an uncertain one.
async fn unmark(store: &Store, delivery: &Delivery, progress: &Progress) -> Result<(), StoreError> {
    if delivery.state == DeliveryState::Pending && !progress.unsure.load(Ordering::Relaxed) {
        store.delivery_put_back(delivery.id).await?;
    }
    Ok(())
}

/// The progress of a message.
#[derive(Default)]
struct Progress {
    /// The vendor has been called and has not answered.
    underway: AtomicBool,
    /// It may have arrived, although a call has failed.
    unsure: AtomicBool,
    /// It was sent with [`MAYBE_REPEATED`].
    repeated: AtomicBool,
}

/// The time of the first attempt to send a message, perhaps by an earlier daemon.
struct FirstTry {
    /// The seconds from the first attempt to `since`.
    before: f64,
    since: Option<Instant>,
}

impl FirstTry {
    fn of(delivery: &Delivery) -> FirstTry {
        match delivery.started_at {
            Some(at) => FirstTry {
                before: clock::now() - at,
                since: Some(Instant::now()),
            },
            None => FirstTry {
                before: 0.0,
                since: None,
            },
        }
    }

    /// The seconds since the first attempt. If there was none, this is the first.
    fn age(&mut self) -> f64 {
        let since = self.since.get_or_insert_with(Instant::now);
        self.before + since.elapsed().as_secs_f64()
    }
}

async fn call_platform(
    platform: &dyn Platform,
    delivery: &Delivery,
    (tries, priority): (RetryPolicy, Priority),
    metrics: &Metrics,
    draining: &CancellationToken,
    progress: &Progress,
) -> Result<String, CallFailure> {
    let (to, extra) = (&delivery.source, &delivery.extra);
    if let Some(shown) = &extra.replaces {
        // The preview becomes the whole reply. An edit can be repeated without harm.
        let edit = |_| platform.edit(to, shown, outgoing(delivery, &delivery.text, priority));
        match with_retries(platform.name(), tries, metrics, draining, edit).await {
            Ok(()) => return Ok(shown.clone()),
            Err(CallFailure::Stopping) => return Err(CallFailure::Stopping),
            Err(reason) => {
                tracing::info!(%reason, platform = platform.name(), "preview cannot be edited, sending the reply as a new message");
            }
        }
    }
    let dedup = platform.capabilities().send_dedup;
    if let Some(draft) = &extra.draft
        && extra.file.is_none()
        && dedup.covers(clock::now() - draft.at)
    {
        // The key gives the id of the preview if it arrived. Otherwise this is its first send. Both can be repeated.
        let what = || outgoing(delivery, &delivery.text, priority);
        let first_try = || OutboundMessage {
            first_tried: Some(draft.at),
            ..what()
        };
        let send = |_| platform.send(to, first_try(), &draft.send_key);
        let found = with_retries(platform.name(), tries, metrics, draining, send).await?;
        let edit = |_| platform.edit(to, &found, what());
        match with_retries(platform.name(), tries, metrics, draining, edit).await {
            Ok(()) => return Ok(found.clone()),
            Err(CallFailure::Stopping) => return Err(CallFailure::Stopping),
            Err(reason) => {
                tracing::info!(%reason, platform = platform.name(), "preview cannot be edited, sending the reply as a new message");
            }
        }
    }
    let interrupted = delivery.state == DeliveryState::Sending;
    let mut first_try = FirstTry::of(delivery);
    let marked = format!("{MAYBE_REPEATED}{}", delivery.text);
    let send = |unsure: bool| {
        let age = first_try.age();
        let unrecognised = (interrupted || unsure) && !dedup.covers(age);
        let repeated = unrecognised || (extra.maybe_shown && dedup != Dedup::Always);
        if repeated {
            progress.repeated.store(true, Ordering::Relaxed);
            tracing::warn!(
                message_id = journal_ids::REPLY_MAYBE_REPEATED,
                platform = platform.name(),
                chat = to.chat_id,
                session = delivery.session_id,
                "sending a message that may be a repeat"
            );
        }
        let text = if repeated { &marked } else { &delivery.text };
        let what = OutboundMessage {
            first_tried: (interrupted || unsure).then(|| clock::now() - age),
            underway: Some(&progress.underway),
            ..outgoing(delivery, text, priority)
        };
        let sending = platform.send(to, what, &delivery.send_key);
        async {
            let sent = sending.await;
            if let Err(PlatformError::Transient { unsure: true, .. }) = &sent {
                progress.unsure.store(true, Ordering::Relaxed);
            }
            sent
        }
    };
    let effort = match extra.file {
        Some(_) => CallEffort::file(tries),
        None => CallEffort::from(tries),
    };
    with_retries(platform.name(), effort, metrics, draining, send).await
}

fn outgoing<'a>(delivery: &'a Delivery, text: &'a str, priority: Priority) -> OutboundMessage<'a> {
    OutboundMessage {
        text,
        file: delivery.extra.file.as_deref(),
        buttons: &delivery.extra.buttons,
        answers: delivery.answers(),
        continues: !delivery.is_first_piece(),
        priority,
        ..OutboundMessage::default()
    }
}
