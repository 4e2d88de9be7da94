//! Sending one ledger row to its chat. Who calls records the outcome, together with what hangs on it.

use tokio_util::sync::CancellationToken;

use crate::platform::{Platform, with_retries};
use crate::store::{Delivery, DeliveryState, Store, StoreError};

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
    let mut text = delivery.text.clone();
    // Where the platform knows the key of a message, sending it twice is harmless and needs no mark.
    if !platform.capabilities().idempotent_sends {
        if delivery.state == DeliveryState::Sending {
            text.insert_str(0, MAYBE_REPEATED);
        }
        store.delivery_started(delivery.id).await?;
    }
    let send = || platform.send(&delivery.source, &text, &delivery.send_key);
    let outcome = tokio::select! {
        outcome = with_retries(platform.name(), send) => outcome,
        () = cancel.cancelled() => return Err(DeliverError::Cancelled),
    };
    outcome.map_err(|reason| DeliverError::Failed {
        platform: platform.name().to_owned(),
        reason,
    })
}
