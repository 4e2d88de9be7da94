//! Stage `bound`: binds the chat to this session, under the key of the person's next message there.

use std::pin::pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::session_key;
use crate::domain::{Handoff, HandoffStage};
use crate::handoff::pipeline::{Context, StageError};
use crate::handoff::worker::Slot;
use crate::store::Claim;
use crate::turn::SessionLock;

/// How often to check a chat that another handoff uses. The end of a handoff in this daemon is noticed at once.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(in crate::handoff) async fn run(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
    slot: &mut Slot,
    lock: &mut Option<SessionLock>,
) -> Result<(), StageError> {
    let source = context.destination(&claim.handoff)?;
    if context.keys.lacks_person(&source) {
        let name = &source.platform;
        return Err(StageError::Failed(format!(
            "the home channel is a group in which each person has a session of their own, and its owner is not known: \
             set platforms.{name}.owner, or let allowed users say /sethome there with platforms.{name}.trusted = \"allowed_users\""
        )));
    }
    let key = session_key(&source, &context.keys);
    context.before(HandoffStage::Bound).await;
    loop {
        // Subscribes before it checks, so that no end is missed.
        let ends = slot.ends();
        let mut ended = pin!(ends.notified());
        ended.as_mut().enable();
        *lock = free_lease(context, &claim.handoff)?;
        let store = lock.as_ref().map(|lock| lock.store(&context.store));
        let store = store.as_ref().unwrap_or(&context.store);
        if store.record_binding(claim, &key, &source).await? {
            break;
        }
        *lock = None;
        tracing::debug!(key, "waiting for another handoff to this chat");
        slot.give_up();
        let again = async {
            tokio::select! {
                () = ended => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
            slot.take_back().await;
        };
        tokio::select! {
            () = again => {}
            () = cancel.cancelled() => return Err(StageError::Cancelled),
            () = context.shutdown.draining.cancelled() => return Err(StageError::Stopping),
        }
    }
    claim.handoff.session_key = Some(key);
    claim.handoff.stage = Some(HandoffStage::Bound);
    Ok(())
}

/// The lock for the turn that follows, if it is free. The transaction of the binding then also takes the turn lease,
/// which other programs see. `None`: the next stage waits for it.
fn free_lease(context: &Context, handoff: &Handoff) -> Result<Option<SessionLock>, StageError> {
    let (store, turns) = (&context.store, &context.turns);
    if !store.has_turn_leases()? {
        return Ok(None);
    }
    let (id, platform) = (&handoff.session_id, &handoff.platform);
    let remembered = store.remembered_agent(id)?;
    let chosen = turns.agents().choose(remembered.as_deref(), platform);
    let (Ok(agent), Some(mut lock)) = (chosen, turns.try_lock(id)?) else {
        return Ok(None);
    };
    // The binding moves the session to this platform.
    lock.share(store.turn_lease(id, platform, agent.transcript_writer(platform)));
    Ok(Some(lock))
}
