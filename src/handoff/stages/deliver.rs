//! Sends the reply to the chat through the ledger. The next step, `settle`, records that it arrived.

use tokio_util::sync::CancellationToken;

use crate::delivery::file_note;
use crate::delivery::{DeliverError, Interrupts, deliver};
use crate::handoff::pipeline::{Context, StageError};
use crate::platform::{Priority, RetryPolicy};
use crate::store::{Claim, DeliveryState};

pub(in crate::handoff) async fn run(
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
    let open = |state| state != DeliveryState::Failed;
    for delivery in claim.deliveries.iter_mut().filter(|d| open(d.state)) {
        let delivered = deliver(
            &context.store,
            platform.as_ref(),
            delivery,
            (RetryPolicy::Few, Priority::HandoffReply),
            &context.metrics,
            interrupts,
        );
        let id = match (delivered.await, &delivery.extra.file) {
            (Ok(id), _) => id,
            // The text was sent, so a file that cannot be sent does not fail the handoff.
            (Err(DeliverError::Failed { reason, .. }), Some(file)) => {
                tracing::warn!(reason, "file of the reply not sent");
                let note = file_note(delivery, file, &reason);
                let noted = context.store.delivery_failed(delivery.id, &reason, note);
                if let Some(note) = noted.await? {
                    context.chat_queue.post(note);
                }
                delivery.state = DeliveryState::Failed;
                continue;
            }
            (Err(error), _) => return Err(failed(error)),
        };
        // The claim remembers what it has sent, because a database error may repeat this step.
        delivery.state = DeliveryState::Sent;
        delivery.message_id = Some(id.clone());
        sent.push((delivery.id, id));
    }
    claim.sent = Some(sent);
    Ok(())
}

fn failed(error: DeliverError) -> StageError {
    match error {
        DeliverError::Store(e) => StageError::from(e),
        DeliverError::Cancelled => StageError::Cancelled,
        DeliverError::Stopping => StageError::Stopping,
        closed @ DeliverError::WindowClosed { .. } => StageError::Failed(format!(
            "the reply was ready, but {closed}. Write there first, then hand off again"
        )),
        failed @ (DeliverError::Failed { .. }
        | DeliverError::Gone { .. }
        | DeliverError::Unauthorized(_)) => {
            StageError::Failed(format!("the reply was ready, but {failed}"))
        }
    }
}
