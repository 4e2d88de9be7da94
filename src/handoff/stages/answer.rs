//! Stage `answered`: asks the agent with the whole transcript and a notice of the handoff, and stores notice and reply.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::agent::Prompt;
use crate::delivery::Address;
use crate::delivery::ChatQuestionDisplay;
use crate::delivery::show_typing;
use crate::domain::Reply;
use crate::domain::Session;
use crate::domain::ThreadOutcome;
use crate::domain::TranscriptWriter;
use crate::domain::transcript::Transcript;
use crate::domain::{Handoff, HandoffStage, handoff_notice};
use crate::handoff::pipeline::{Context, StageError};
use crate::handoff::worker::Slot;
use crate::store::retry_while_busy;
use crate::store::{Answer, Claim, HeldBy, Store, StoreError, TurnLease, TurnStart};
use crate::turn::{SessionLock, Streamed, TurnError, WaitOutcome};

/// Follows the reply in a thread that may be the second of its name.
const MAYBE_ANOTHER: &str = "\n\n(I was interrupted while I opened this thread. \
                             There may be an empty one of the same name.)";

pub(in crate::handoff) async fn run(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
    slot: &mut Slot,
    lock: &mut Option<SessionLock>,
) -> Result<(), StageError> {
    let id = &claim.handoff.session_id;
    let mut lock = match lock.take() {
        Some(lock) => lock,
        None => tokio::select! {
            lock = context.turns.lock(id) => lock?,
            () = cancel.cancelled() => return Err(StageError::Cancelled),
            () = context.shutdown.draining.cancelled() => return Err(StageError::Stopping),
        },
    };
    let (mut session, mut transcript) = briefing(context, id).await?;
    let notice = notice(&claim.session_name, &claim.handoff);
    let platform = &claim.handoff.platform;
    let (agent, transcript_writer) = context
        .turns
        .agent_of(&session.id, platform)?
        .map_err(failed)?;
    let is_shared =
        |shared: &TurnLease| shared.transcript_writer() == transcript_writer && shared.is_begun();
    let shared_before = lock.shared().is_some_and(is_shared);
    if !shared_before {
        lock.share(
            context
                .store
                .turn_lease(&session.id, platform, transcript_writer),
        );
    }
    let begun = begin(context, &lock, &session.id, &notice, cancel, slot).await?;
    if !shared_before && context.store.has_turn_leases()? {
        // Another program may have run a turn meanwhile.
        (session, transcript) = briefing(context, id).await?;
    }
    let store = &lock.store(&context.store);
    let destination = context.destination(&claim.handoff)?;
    let cwd = context.store.cwd_of(&session.id)?;
    let prompt = Prompt {
        session: &session,
        transcript: &transcript,
        message: &notice,
        attachments: &[],
        handoff: true,
    };
    let shows = ChatQuestionDisplay {
        metrics: context.metrics.clone(),
        platform: context.adapter(&claim.handoff)?,
        to: destination.clone(),
        draining: context.shutdown.draining.clone(),
    };
    let reply = match earlier_reply(context, store, &session.id, &notice, begun).await? {
        Some(reply) => reply,
        None => {
            let (done, streamed) = (CancellationToken::new(), Streamed::default());
            let answer = async {
                let _done = done.clone().drop_guard();
                let turns = &context.turns;
                turns
                    .run(
                        &lock,
                        agent.as_ref(),
                        prompt,
                        &streamed,
                        Some(&shows),
                        cancel,
                    )
                    .await
            };
            let typing = show_typing(shows.platform.as_ref(), &destination, &done);
            tokio::join!(answer, typing).0.map_err(failed)
        }
    };
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => {
            // The conversation has not moved, so the rows that the agent wrote for this turn do not belong to it.
            if transcript_writer == TranscriptWriter::Agent {
                claim.notice_stays = !retract(context, &session.id).await?;
            }
            return Err(error);
        }
    };
    let to = Address {
        key: format!("handoff:{}", claim.handoff.id),
        source: &destination,
        session_id: &session.id,
        handoff_id: Some(claim.handoff.id),
    };
    let mut text = reply.shown();
    if let Some(ThreadOutcome::Thread { repeated: true, .. }) = &claim.handoff.thread {
        text.push_str(MAYBE_ANOTHER);
    }
    let answer = Answer {
        notice,
        reply: reply.clone(),
        deliveries: context.outbox.reply_messages(&to, &text, cwd).await,
        transcript_writer,
    };
    let recorded = tokio::select! {
        () = context.before(HandoffStage::Answered) => {
            // The answer is paid for. A locked or full database delays its commit, and the agent is not asked again.
            let record = || store.record_answer(claim, answer.clone());
            retry_while_busy(cancel, record).await.map_err(unrecorded)
        }
        () = cancel.cancelled() => Err(StageError::Cancelled),
    };
    let recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            // The journal does not know the agent's rows, so the rollback would not find them.
            if transcript_writer == TranscriptWriter::Agent {
                claim.notice_stays = !retract(context, &session.id).await?;
            }
            return Err(error);
        }
    };
    claim.deliveries = recorded.deliveries;
    claim.handoff.session_id = recorded.session_id;
    claim.handoff.reply = Some(reply.text);
    claim.handoff.stage = Some(HandoffStage::Answered);
    Ok(())
}

/// Takes the agent's rows of the turn out of the transcript. Waits while the database is locked. False: they stay.
async fn retract(context: &Context, session_id: &str) -> Result<bool, StageError> {
    let never = CancellationToken::new();
    let retract = || context.store.retract_turn(session_id);
    let retracted = retry_while_busy(&never, retract).await?;
    if !retracted {
        tracing::warn!(
            "notice of the handoff not found in the compacted transcript, nothing retracted"
        );
    }
    Ok(retracted)
}

/// Takes out the agent's rows of a daemon that died before it could do so.
pub(in crate::handoff) async fn retract_left(
    context: &Context,
    claim: &mut Claim,
) -> Result<(), StoreError> {
    let (session_id, mark) = (&claim.handoff.session_id, mark(claim.handoff.id));
    let retracted = context.store.retract_turn_with(session_id, &mark).await?;
    claim.notice_stays |= !retracted;
    Ok(())
}

async fn briefing(context: &Context, id: &str) -> Result<(Session, Transcript), StageError> {
    let briefing = context.store.briefing(id, None).await?;
    briefing.ok_or_else(|| StageError::Failed(format!("session {id} is gone")))
}

/// Begins the turn when no other program has a turn of this conversation. Gives up its slot while it waits.
async fn begin(
    context: &Context,
    lock: &SessionLock,
    session_id: &str,
    notice: &str,
    cancel: &CancellationToken,
    slot: &mut Slot,
) -> Result<TurnStart, StageError> {
    let draining = &context.shutdown.draining;
    let stopped = || match cancel.is_cancelled() {
        true => StageError::Cancelled,
        false => StageError::Stopping,
    };
    let quit = async {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = draining.cancelled() => {}
        }
    };
    let store = lock.store(&context.store);
    let begin = || async {
        match lock.shared() {
            Some(shared) if shared.transcript_writer() == TranscriptWriter::Agent => {
                store
                    .begin_turn(session_id, notice, TranscriptWriter::Agent)
                    .await
            }
            Some(shared) => shared.take().await.map(|()| TurnStart::Ask(None)),
            None => Ok(TurnStart::Ask(None)),
        }
    };
    let on_wait = |_: &HeldBy, _: Duration| slot.give_up();
    let turns = &context.turns;
    let begun = match turns.when_free(lock, cancel, quit, on_wait, begin).await? {
        WaitOutcome::Begun(begun) => begun,
        WaitOutcome::Quit => return Err(stopped()),
        WaitOutcome::StillHeld(by) => {
            return Err(StageError::Failed(format!(
                "another program kept the conversation busy for too long: {by}"
            )));
        }
    };
    tokio::select! {
        () = slot.take_back() => Ok(begun),
        () = cancel.cancelled() => Err(StageError::Cancelled),
        () = draining.cancelled() => Err(StageError::Stopping),
    }
}

/// A lost turn lease fails the handoff, like every failure of its turn.
fn unrecorded(error: StoreError) -> StageError {
    match error {
        StoreError::TurnLost => StageError::Failed(TurnError::Lost.to_string()),
        error => error.into(),
    }
}

fn failed(error: TurnError) -> StageError {
    match error {
        TurnError::Cancelled => StageError::Cancelled,
        other => StageError::Failed(other.to_string()),
    }
}

/// The reply that an agent gave to a daemon that died before it was recorded, if the agent writes the rows itself. An
/// unfinished turn is retracted, and `None` makes the caller ask again.
async fn earlier_reply(
    context: &Context,
    store: &Store,
    session_id: &str,
    notice: &str,
    begun: TurnStart,
) -> Result<Option<Result<Reply, StageError>>, StageError> {
    match begun {
        TurnStart::Ask(_) => Ok(None),
        TurnStart::Asked(Some(reply)) => Ok(Some(Ok(Reply::from(reply)))),
        TurnStart::Asked(None) => {
            retract(context, session_id).await?;
            let begin = store.begin_turn(session_id, notice, TranscriptWriter::Agent);
            begin.await?;
            Ok(None)
        }
    }
}

/// Makes the notice of each handoff unique, so that it can be found in a compacted transcript.
fn mark(id: i64) -> String {
    format!("(handoff {id})")
}

/// The message to the agent.
fn notice(session: &str, handoff: &Handoff) -> String {
    let (platform, mark) = (&handoff.platform, mark(handoff.id));
    let mut text = format!(
        "{} {mark}, its history is above. \
         Say briefly that you are here and where things stand.",
        handoff_notice(session, platform)
    );
    let note = handoff.note.as_deref();
    if let Some(note) = note.filter(|note| !note.trim().is_empty()) {
        text.push_str(&format!("\nThe user's note: {note}"));
    }
    text
}
