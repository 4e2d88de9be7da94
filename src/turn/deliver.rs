//! Sending one ledger row to its chat: marked before, marked after, tried again while there is hope.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::platform::{Platform, PlatformError};
use crate::store::{Delivery, DeliveryState, Store, StoreError};

/// Tries before a send counts as failed.
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A platform call that takes longer counts as failed for now.
const PATIENCE: Duration = Duration::from_secs(60);

/// What stands before a message that may be in the chat already: some platforms cannot tell whether an interrupted
/// send arrived, and a doubled message is better than a lost one as long as the reader can see it.
pub const MAYBE_REPEATED: &str = "(this may be a repeat) ";

#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    #[error("it could not be sent to {platform}: {reason}")]
    Failed { platform: String, reason: String },
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sends what is not sent yet and returns the platform's message id.
pub async fn deliver(
    store: &Store,
    platform: &dyn Platform,
    delivery: &Delivery,
    cancel: &CancellationToken,
) -> Result<String, DeliverError> {
    if let (DeliveryState::Sent, Some(id)) = (delivery.state, &delivery.message_id) {
        return Ok(id.clone());
    }
    let uncertain =
        delivery.state == DeliveryState::Sending && !platform.capabilities().idempotent_sends;
    let text = if uncertain {
        format!("{MAYBE_REPEATED}{}", delivery.text)
    } else {
        delivery.text.clone()
    };
    store.delivery_started(delivery.id).await?;
    let outcome = tokio::select! {
        outcome = attempts(platform, delivery, &text) => outcome,
        () = cancel.cancelled() => return Err(DeliverError::Cancelled),
    };
    store.delivery_ended(delivery.id, outcome.clone()).await?;
    outcome.map_err(|reason| DeliverError::Failed {
        platform: platform.name().to_owned(),
        reason,
    })
}

async fn attempts(
    platform: &dyn Platform,
    delivery: &Delivery,
    text: &str,
) -> Result<String, String> {
    let mut wait = FIRST_WAIT;
    for attempt in 1.. {
        let sent = tokio::time::timeout(
            PATIENCE,
            platform.send(&delivery.source, text, &delivery.send_key),
        )
        .await;
        let (reason, retry_after) = match sent {
            Ok(Ok(id)) => return Ok(id),
            Ok(Err(PlatformError::Permanent(reason))) => return Err(reason),
            Ok(Err(PlatformError::Transient {
                reason,
                retry_after,
            })) => (reason, retry_after),
            Err(_) => (format!("no answer within {} s", PATIENCE.as_secs()), None),
        };
        if attempt >= ATTEMPTS {
            return Err(format!("{reason} ({attempt} tries)"));
        }
        tracing::warn!(
            platform = platform.name(),
            attempt,
            reason,
            "sending failed, trying again"
        );
        tokio::time::sleep(retry_after.unwrap_or(wait)).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    Err("never tried".into())
}
