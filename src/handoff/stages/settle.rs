//! Stages `delivered` and `settled`: records that the reply is in the chat, and sets the row to `completed`.

use crate::domain::HandoffStage;
use crate::handoff::pipeline::{Context, StageError};
use crate::store::Claim;

pub(in crate::handoff) async fn run(
    context: &Context,
    claim: &mut Claim,
) -> Result<(), StageError> {
    context.before(HandoffStage::Delivered).await;
    let departure = context.store.complete_handoff(claim).await?;
    context.outbox.forget_copies(&claim.deliveries);
    if let Some(departure) = departure {
        context.chat_queue.post(departure.note);
    }
    let sent = claim.sent.take().unwrap_or_default();
    let sent = sent.into_iter().map(|(_, message)| message);
    claim.handoff.sent_ids.extend(sent);
    claim.handoff.stage = Some(HandoffStage::Settled);
    Ok(())
}
