//! Deletes the thread of a failed handoff if nothing was sent there.

use tokio_util::sync::CancellationToken;

use crate::domain::{Handoff, HandoffStage, Source, ThreadOutcome};
use crate::handoff::pipeline::Context;
use crate::store::{Claim, Delivery, retry_while_busy};

/// Deletes the thread of a failed handoff if it is empty. Otherwise sends the notes about the failure there. The
/// failure is committed before, so nothing waits for this. If the daemon dies here, the thread stays, and the next
/// start sends the notes from the ledger.
pub(super) fn delete_or_note(context: &Context, handoff: &Handoff, notes: Vec<Delivery>) {
    let draining = context.shutdown.draining.is_cancelled();
    let destination = opened_thread(context, handoff).filter(|_| !draining);
    let Some(destination) = destination else {
        return post(context, notes);
    };
    let context = context.clone();
    tokio::spawn(async move {
        match delete(&context, &destination).await {
            Ok(()) => forget(&context, notes).await,
            Err(reason) => {
                tracing::debug!(reason, "thread of a failed handoff stays");
                post(&context, notes);
            }
        }
    });
}

/// Deletes a thread that was opened but not recorded, because another process took the row meanwhile.
pub(super) fn delete_unrecorded(context: &Context, claim: &Claim) {
    if claim.handoff.stage < Some(HandoffStage::Threaded) {
        delete_or_note(context, &claim.handoff, Vec::new());
    }
}

fn opened_thread(context: &Context, handoff: &Handoff) -> Option<Source> {
    match handoff.thread.as_ref()? {
        ThreadOutcome::Thread { .. } => context.destination(handoff).ok(),
        ThreadOutcome::Chat { .. } => None,
    }
}

/// The platform refuses if anyone has written there.
async fn delete(context: &Context, destination: &Source) -> Result<(), String> {
    let platform = context.platforms.adapter(&destination.platform);
    let platform = platform.ok_or("the platform is off")?;
    let deleted = platform.delete_thread(destination).await;
    deleted.map_err(|error| error.to_string())?;
    tracing::info!(
        platform = destination.platform,
        chat = destination.chat_id,
        thread = destination.thread_id,
        "empty thread of a failed handoff deleted"
    );
    Ok(())
}

/// The chat's worker sends them.
fn post(context: &Context, notes: Vec<Delivery>) {
    for note in notes {
        context.chat_queue.post(note);
    }
}

/// Ends the deliveries of notes whose thread is deleted.
async fn forget(context: &Context, notes: Vec<Delivery>) {
    let never = CancellationToken::new();
    for note in notes {
        let outcome = Err("its thread is deleted".to_owned());
        let end = || context.store.delivery_ended(note.id, outcome.clone());
        if let Err(error) = retry_while_busy(&never, end).await {
            tracing::warn!(%error, "delivery outcome not recorded");
        }
    }
}
