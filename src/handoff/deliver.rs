//! Sends the reply to the chat, by way of the ledger. That it arrived is recorded when the handoff is settled.

use tokio_util::sync::CancellationToken;

use super::pipeline::{Context, StageError};
use crate::platform::Tries;
use crate::store::Claim;
use crate::turn::deliver::{DeliverError, deliver};

pub(super) async fn run(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
) -> Result<(), StageError> {
    let platform = context.adapter(&claim.handoff)?;
    let mut sent = Vec::new();
    let mut deliveries = std::mem::take(&mut claim.deliveries);
    if deliveries.is_empty() {
        deliveries = context.store.deliveries_of(claim.handoff.id).await?;
    }
    for delivery in deliveries {
        let delivered = deliver(
            &context.store,
            platform.as_ref(),
            &delivery,
            Tries::Few,
            &context.metrics,
            cancel,
        );
        let id = delivered.await.map_err(|e| match e {
            DeliverError::Store(e) => StageError::from(e),
            DeliverError::Cancelled => StageError::Cancelled,
            failed @ (DeliverError::Failed { .. } | DeliverError::Gone { .. }) => {
                StageError::Failed(format!("the reply was ready, but {failed}"))
            }
        })?;
        sent.push((delivery.id, id));
    }
    claim.sent = Some(sent);
    Ok(())
}
