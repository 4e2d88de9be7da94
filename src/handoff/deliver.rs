//! Sends the reply to the chat, by way of the ledger. That it arrived is recorded when the handoff is settled.

use tokio_util::sync::CancellationToken;

use super::pipeline::{Context, StageError};
use crate::platform::Tries;
use crate::store::{Claim, DeliveryState};
use crate::turn::deliver::{DeliverError, Interrupts, deliver};

pub(super) async fn run(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
) -> Result<(), StageError> {
    let platform = context.adapter(&claim.handoff)?;
    if claim.deliveries.is_empty() {
        claim.deliveries = context.store.deliveries_of(claim.handoff.id).await?;
    }
    let interrupts = Interrupts {
        cancel,
        draining: &context.shutdown.draining,
    };
    let mut sent = Vec::new();
    for delivery in &mut claim.deliveries {
        let delivered = deliver(
            &context.store,
            platform.as_ref(),
            delivery,
            Tries::Few,
            &context.metrics,
            interrupts,
        );
        let id = delivered.await.map_err(|e| match e {
            DeliverError::Store(e) => StageError::from(e),
            DeliverError::Cancelled => StageError::Cancelled,
            DeliverError::Stopping => StageError::Stopping,
            failed @ (DeliverError::Failed { .. } | DeliverError::Gone { .. }) => {
                StageError::Failed(format!("the reply was ready, but {failed}"))
            }
        })?;
        // The claim knows what it has sent, whatever becomes of the database: this stage may begin again.
        delivery.state = DeliveryState::Sent;
        delivery.message_id = Some(id.clone());
        sent.push((delivery.id, id));
    }
    claim.sent = Some(sent);
    Ok(())
}
