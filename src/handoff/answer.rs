//! Stage `answered`: the agent gets the whole transcript and a notice of what happened; both it and the reply are kept.

use tokio_util::sync::CancellationToken;

use super::Stage;
use super::pipeline::{Context, StageError};
use crate::agent::Prompt;
use crate::store::{Answer, Claim, NewDelivery};
use crate::turn::{Streamed, TurnError};

pub(super) async fn run(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
) -> Result<(), StageError> {
    let lease = tokio::select! {
        lease = context.turns.leases.take(&claim.handoff.session_id) => lease,
        () = cancel.cancelled() => return Err(StageError::Cancelled),
    };
    let id = &claim.handoff.session_id;
    let (session, transcript) = context
        .store
        .briefing(id, None)
        .await?
        .ok_or_else(|| StageError::Failed(format!("session {id} is gone")))?;
    let notice = notice(
        &session.name(),
        &claim.handoff.platform,
        claim.handoff.note.as_deref(),
    );
    let prompt = Prompt {
        session: &session,
        transcript: &transcript,
        message: &notice,
        handoff: true,
    };
    let reply = context
        .turns
        .run(&lease, prompt, &Streamed::default(), cancel)
        .await
        .map_err(|e| match e {
            TurnError::Cancelled => StageError::Cancelled,
            other => StageError::Failed(other.to_string()),
        })?;
    let delivery = NewDelivery {
        send_key: format!("handoff:{}:0", claim.handoff.id),
        source: context.destination(&claim.handoff)?,
        session_id: session.id,
        handoff_id: Some(claim.handoff.id),
        text: reply.clone(),
    };
    tokio::select! {
        () = context.before(Stage::Answered) => {}
        () = cancel.cancelled() => return Err(StageError::Cancelled),
    }
    let answer = Answer {
        notice,
        reply: reply.clone(),
        deliveries: vec![delivery],
    };
    claim.deliveries = context.store.record_answer(claim, answer).await?;
    claim.handoff.reply = Some(reply);
    claim.handoff.stage = Some(Stage::Answered);
    Ok(())
}

fn notice(session: &str, platform: &str, note: Option<&str>) -> String {
    let mut text = format!(
        "[Handoff] The session \"{session}\" has moved from the terminal to this {platform} chat, its history is above. \
         Say briefly that you are here and where things stand."
    );
    if let Some(note) = note.filter(|n| !n.trim().is_empty()) {
        text.push_str(&format!("\nThe user's note: {note}"));
    }
    text
}
