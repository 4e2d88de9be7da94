//! Stage `threaded`: opens a thread in the home channel, or uses the channel itself if the platform gives no thread.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::delivery::LAST_CALL;
use crate::domain::HandoffStage;
use crate::domain::{HomeChannel, ThreadOutcome};
use crate::events::Event;
use crate::handoff::pipeline::{Context, StageError, unavailable};
use crate::handoff::worker::Slot;
use crate::platform::{
    Availability, CallFailure, Dedup, Platform, RetryPolicy, ThreadRoom, with_retries,
};
use crate::store::Claim;
use crate::store::retry_while_busy;

pub(in crate::handoff) async fn run(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
    slot: &mut Slot,
) -> Result<(), StageError> {
    let platform = context.adapter(&claim.handoff)?;
    // The claim has looked it up.
    let Some(home) = claim.handoff.home.clone() else {
        let reason = unavailable(platform.name(), &Availability::NoHome);
        return Err(StageError::Failed(reason));
    };
    let opened = if platform.capabilities().threads {
        let room = wait_for_room(context, claim, platform.as_ref(), &home, cancel, slot);
        let _room = room.await?;
        open(context, claim, platform.as_ref(), &home, cancel).await?
    } else {
        ThreadOutcome::chat(format!("{} has no threads", platform.name()))
    };
    // From here on, a failure is noted in the thread, even if the journal does not have it yet.
    claim.handoff.thread = Some(opened.clone());
    context.before(HandoffStage::Threaded).await;
    // The thread is open. A locked or full database delays its record, and no second thread is opened.
    retry_while_busy(cancel, || context.store.record_thread(claim, &opened)).await?;
    claim.handoff.stage = Some(HandoffStage::Threaded);
    Ok(())
}

fn open_key(claim: &Claim) -> String {
    format!("handoff:{}", claim.handoff.id)
}

/// Waits until the platform's rate limits have room for the thread and the reply in it. Nothing is opened before that,
/// so the handoff can be withdrawn without a trace. Other handoffs use its slot meanwhile.
async fn wait_for_room(
    context: &Context,
    claim: &Claim,
    platform: &dyn Platform,
    home: &HomeChannel,
    cancel: &CancellationToken,
    slot: &mut Slot,
) -> Result<ThreadRoom, StageError> {
    let key = open_key(claim);
    let mut room = pin!(platform.reserve_thread(home, &key));
    let waiting = async {
        tokio::select! {
            biased;
            room = &mut room => return room,
            () = std::future::ready(()) => {}
        }
        tracing::info!("handoff waits for the rate limits of the platform");
        context.bus.publish(Event::HandoffWaiting {
            id: claim.handoff.id,
            session_id: claim.handoff.session_id.clone(),
            platform: claim.handoff.platform.clone(),
            reason: format!(
                "the rate limit of {} has no room for a thread",
                platform.name()
            ),
        });
        slot.give_up();
        let room = room.await;
        slot.take_back().await;
        room
    };
    tokio::select! {
        biased;
        room = waiting => Ok(room),
        () = cancel.cancelled() => Err(StageError::Cancelled),
        () = context.shutdown.draining.cancelled() => Err(StageError::Stopping),
    }
}

/// Opens a thread. A cancellation ends every wait at once. A call in progress gets a moment to finish, so that the
/// thread that it opens is known.
async fn open(
    context: &Context,
    claim: &mut Claim,
    platform: &dyn Platform,
    home: &HomeChannel,
    cancel: &CancellationToken,
) -> Result<ThreadOutcome, StageError> {
    let name = platform.name();
    let dedup = platform.capabilities().thread_dedup;
    let title = format!("Hermes — {}", claim.session_name);
    let open_key = open_key(claim);
    // If the platform no longer recognises the key, an interrupted attempt may have opened a thread. The reply in the
    // next one says so.
    let first_try = match dedup {
        Dedup::Always => None,
        Dedup::None | Dedup::For(_) | Dedup::Search => context.store.thread_wanted(claim).await?,
    };
    let now = Instant::now();
    let before = first_try.map_or(0.0, |at| clock::now() - at);
    let repeated = AtomicBool::new(first_try.is_some() && !dedup.covers(before));
    let underway = AtomicBool::new(false);
    let mut has_room = true;
    let call = |unsure: bool| {
        let age = before + now.elapsed().as_secs_f64();
        repeated.fetch_or(unsure && !dedup.covers(age), Ordering::Relaxed);
        let had_room = std::mem::take(&mut has_room);
        let (underway, title, open_key) = (&underway, &title, &open_key);
        async move {
            let _room = match had_room {
                true => ThreadRoom::default(),
                false => platform.reserve_thread(home, open_key).await,
            };
            let opening = platform.open_thread(home, title, open_key);
            underway.store(true, Ordering::Relaxed);
            let opened = opening.await;
            underway.store(false, Ordering::Relaxed);
            opened
        }
    };
    let (metrics, draining) = (&context.metrics, &context.shutdown.draining);
    let mut opening = pin!(with_retries(
        name,
        RetryPolicy::Few,
        metrics,
        draining,
        call
    ));
    let (opened, cancelled) = tokio::select! {
        opened = &mut opening => (opened, false),
        () = cancel.cancelled() => {
            if !underway.load(Ordering::Relaxed) {
                return Err(StageError::Cancelled);
            }
            let last = tokio::time::timeout(LAST_CALL, opening).await;
            (last.map_err(|_| StageError::Cancelled)?, true)
        }
    };
    let mut opened = match opened {
        Ok(opened) => opened,
        Err(_) if cancelled => return Err(StageError::Cancelled),
        Err(CallFailure::Stopping) => return Err(StageError::Stopping),
        Err(reason) => {
            let reason = format!("no thread could be opened on {name}: {reason}");
            return Err(StageError::Failed(reason));
        }
    };
    if let ThreadOutcome::Thread { repeated: mark, .. } = &mut opened {
        *mark = repeated.load(Ordering::Relaxed);
    }
    if cancelled {
        claim.handoff.thread = Some(opened);
        return Err(StageError::Cancelled);
    }
    Ok(opened)
}
