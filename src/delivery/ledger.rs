//! Sending one ledger row to its chat. Who calls records the outcome, together with what hangs on it.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::platform::{
    CallEffort, CallFailure, Dedup, OutboundMessage, Platform, PlatformError, RetryPolicy,
    with_retries,
};
use crate::store::{Delivery, DeliveryState, Store, StoreError};

/// What stands before a message that may be in the chat already: some platforms cannot tell whether an interrupted
/// send arrived, and a doubled message is better than a lost one as long as the reader can see it.
pub const MAYBE_REPEATED: &str = "(this may be a repeat) ";

/// How long a cancellation waits for a call that is under way: a message that is cut off would be sent once more, and a thread
/// would be left that no record knows.
pub(crate) const LAST_CALL: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    #[error("it could not be sent to {platform}: {reason}")]
    Failed { platform: String, reason: String },
    /// The thread that it was for is no longer there.
    #[error("it could not be sent to {platform}: {reason}")]
    Gone { platform: String, reason: String },
    /// Somebody stopped it, or it is no longer to be sent.
    #[error("cancelled")]
    Cancelled,
    /// The platform does not accept our credentials now. It is still to be sent.
    #[error("it could not be sent now: {0}")]
    Unauthorized(String),
    /// The daemon stops before it could be sent. The next start sends it.
    #[error("hermesd is stopping")]
    Stopping,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What ends a delivery early.
#[derive(Clone, Copy)]
pub struct Interrupts<'a> {
    /// It ends now; a call under way gets a moment more.
    pub cancel: &'a CancellationToken,
    /// The daemon stops: a call under way goes on, and no other try follows it.
    pub draining: &'a CancellationToken,
}

/// Sends what is not sent yet and returns the platform's message id.
pub async fn deliver(
    store: &Store,
    platform: &dyn Platform,
    delivery: &Delivery,
    tries: RetryPolicy,
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
    // Where the platform knows the key of a message, sending it twice is harmless: it needs no mark and no row first.
    let idempotent = platform.capabilities().send_dedup == Dedup::Always;
    let wanted = if idempotent {
        store.delivery_wanted(delivery.id)?
    } else {
        store.delivery_started(delivery.id).await?
    };
    if !wanted {
        return Err(DeliverError::Cancelled);
    }
    let way = Way::default();
    let mut handing = pin!(hand_over(
        platform, delivery, tries, metrics, draining, &way
    ));
    let outcome = tokio::select! {
        outcome = &mut handing => outcome,
        () = cancel.cancelled() => {
            if idempotent {
                return Err(DeliverError::Cancelled);
            }
            if !way.underway.load(Ordering::Relaxed) {
                put_back(store, delivery, &way).await?;
                return Err(DeliverError::Cancelled);
            }
            let last = tokio::time::timeout(LAST_CALL, handing).await;
            last.map_err(|_| DeliverError::Cancelled)?
        }
    };
    let platform = platform.name().to_owned();
    let (kind, outcome) = match outcome {
        Ok(id) if way.repeated.load(Ordering::Relaxed) => ("repeated", Ok(id)),
        Ok(id) => ("sent", Ok(id)),
        Err(CallFailure::Unauthorized(reason)) if tries == RetryPolicy::Endless => {
            if !idempotent {
                put_back(store, delivery, &way).await?;
            }
            return Err(DeliverError::Unauthorized(reason));
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
                put_back(store, delivery, &way).await?;
            }
            return Err(DeliverError::Stopping);
        }
    };
    metrics.delivery_ended(&platform, kind);
    outcome
}

/// If it never went out, the next try is the first.
async fn put_back(store: &Store, delivery: &Delivery, way: &Way) -> Result<(), StoreError> {
    if delivery.state == DeliveryState::Pending && !way.unsure.load(Ordering::Relaxed) {
        store.delivery_put_back(delivery.id).await?;
    }
    Ok(())
}

/// How far a message has come.
#[derive(Default)]
struct Way {
    /// The platform has been called and has not answered.
    underway: AtomicBool,
    /// It may have arrived though nobody knows of it.
    unsure: AtomicBool,
    /// It was sent with the mark of one that may be in the chat already.
    repeated: AtomicBool,
}

/// When a message was handed to the platform for the first time, perhaps by an earlier daemon.
struct FirstTry {
    /// How many seconds before `since` that was.
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

    /// The seconds since the first try. It is now if there was none.
    fn age(&mut self) -> f64 {
        let since = self.since.get_or_insert_with(Instant::now);
        self.before + since.elapsed().as_secs_f64()
    }
}

async fn hand_over(
    platform: &dyn Platform,
    delivery: &Delivery,
    tries: RetryPolicy,
    metrics: &Metrics,
    draining: &CancellationToken,
    way: &Way,
) -> Result<String, CallFailure> {
    let (to, extra) = (&delivery.source, &delivery.extra);
    let ready = || platform.ready_for(to);
    if let Some(shown) = &extra.replaces {
        // What the chat was shown of it becomes the whole, which can be repeated as often as need be.
        let edit = |_| platform.edit(to, shown, outgoing(delivery, &delivery.text));
        match with_retries(platform.name(), tries, metrics, draining, ready, edit).await {
            Ok(()) => return Ok(shown.clone()),
            Err(CallFailure::Stopping) => return Err(CallFailure::Stopping),
            Err(reason) => {
                tracing::info!(%reason, platform = platform.name(), "what was shown of an answer cannot be changed; it is sent anew");
            }
        }
    }
    let dedup = platform.capabilities().send_dedup;
    let interrupted = delivery.state == DeliveryState::Sending;
    let mut first_try = FirstTry::of(delivery);
    let marked = format!("{MAYBE_REPEATED}{}", delivery.text);
    let send = |unsure: bool| {
        let age = first_try.age();
        let unrecognised = (interrupted || unsure) && !dedup.covers(age);
        let repeated = unrecognised || (extra.maybe_shown && dedup != Dedup::Always);
        if repeated {
            way.repeated.store(true, Ordering::Relaxed);
            tracing::warn!(
                message_id = journal_ids::REPLY_MAYBE_REPEATED,
                platform = platform.name(),
                chat = to.chat_id,
                session = delivery.session_id,
                "a message is sent that may be a repeat"
            );
        }
        let text = if repeated { &marked } else { &delivery.text };
        let sending = platform.send(to, outgoing(delivery, text), &delivery.send_key);
        async {
            way.underway.store(true, Ordering::Relaxed);
            let sent = sending.await;
            way.underway.store(false, Ordering::Relaxed);
            if let Err(PlatformError::Transient { unsure: true, .. }) = &sent {
                way.unsure.store(true, Ordering::Relaxed);
            }
            sent
        }
    };
    let effort = match extra.file {
        Some(_) => CallEffort::file(tries),
        None => CallEffort::from(tries),
    };
    with_retries(platform.name(), effort, metrics, draining, ready, send).await
}

fn outgoing<'a>(delivery: &'a Delivery, text: &'a str) -> OutboundMessage<'a> {
    OutboundMessage {
        text,
        file: delivery.extra.file.as_deref(),
        buttons: &delivery.extra.buttons,
    }
}
