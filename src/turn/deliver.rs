//! Sending one ledger row to its chat. Who calls records the outcome, together with what hangs on it.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Shows, in_words};
use crate::agent::Question;
use crate::clock;
use crate::platform::{Platform, with_retries};
use crate::session::Source;
use crate::store::{Delivery, DeliveryState, Store, StoreError};

/// What stands before a message that may be in the chat already: some platforms cannot tell whether an interrupted
/// send arrived, and a doubled message is better than a lost one as long as the reader can see it.
pub const MAYBE_REPEATED: &str = "(this may be a repeat) ";

/// Shows an agent's question in a chat.
pub struct InChat {
    pub platform: Arc<dyn Platform>,
    pub to: Source,
}

#[async_trait]
impl Shows for InChat {
    async fn show(&self, question: &Question) {
        // A question that is repeated after a crash is another one: whoever asked it is gone.
        let key = format!("question:{}", clock::now());
        if let Err(error) = self
            .platform
            .send(&self.to, &in_words(question), &key)
            .await
        {
            tracing::warn!(%error, platform = self.platform.name(), "a question of the agent's could not be shown");
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DeliverError {
    #[error("it could not be sent to {platform}: {reason}")]
    Failed { platform: String, reason: String },
    /// Somebody stopped it, or it is no longer to be sent.
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
    // Where the platform knows the key of a message, sending it twice is harmless: it needs no mark and no row first.
    let idempotent = platform.capabilities().idempotent_sends;
    let wanted = if idempotent {
        store.delivery_wanted(delivery.id)?
    } else {
        store.delivery_started(delivery.id).await?
    };
    if !wanted {
        return Err(DeliverError::Cancelled);
    }
    let interrupted = delivery.state == DeliveryState::Sending;
    let marked = format!("{MAYBE_REPEATED}{}", delivery.text);
    let send = |unsure: bool| {
        let repeated = !idempotent && (interrupted || unsure);
        let text = if repeated { &marked } else { &delivery.text };
        platform.send(&delivery.source, text, &delivery.send_key)
    };
    let outcome = tokio::select! {
        outcome = with_retries(platform.name(), send) => outcome,
        () = cancel.cancelled() => return Err(DeliverError::Cancelled),
    };
    outcome.map_err(|reason| DeliverError::Failed {
        platform: platform.name().to_owned(),
        reason,
    })
}
