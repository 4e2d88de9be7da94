//! Stages `delivered` and `settled`: records that the reply is in the chat, and sets the row to `completed`.

use crate::domain::HandoffStage;
use crate::events::Event;
use crate::handoff::pipeline::{Context, StageError};
use crate::store::Claim;

pub(in crate::handoff) async fn run(
    context: &Context,
    claim: &mut Claim,
) -> Result<(), StageError> {
    context.before(HandoffStage::Delivered).await;
    let settled = context.store.complete_handoff(claim).await?;
    context.outbox.forget_copies(&claim.deliveries);
    if let Some(departure) = settled.departure {
        context.chat_queue.post(departure.note);
    }
    if let Some(replaced) = settled.replaced {
        context.chat_queue.post(replaced.note);
        context.bus.publish(Event::SessionReplaced {
            session_id: replaced.session_id,
            platform: claim.handoff.platform.clone(),
            by: claim.handoff.session_id.clone(),
        });
    }
    let sent = claim.sent.take().unwrap_or_default();
    let sent = sent.into_iter().map(|(_, message)| message);
    claim.handoff.sent_ids.extend(sent);
    claim.handoff.stage = Some(HandoffStage::Settled);
    Ok(())
}
