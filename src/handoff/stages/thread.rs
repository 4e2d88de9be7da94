//! Stage `threaded`: a fresh thread in the home, or the home chat itself when the platform has or grants none.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::delivery::LAST_CALL;
use crate::domain::HandoffStage;
use crate::domain::{HomeChannel, ThreadOutcome};
use crate::handoff::pipeline::{Context, StageError, unavailable};
use crate::platform::{Availability, CallFailure, Dedup, Platform, RetryPolicy, with_retries};
use crate::store::Claim;
use crate::store::retry_while_busy;

pub(in crate::handoff) async fn run(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
) -> Result<(), StageError> {
    let platform = context.adapter(&claim.handoff)?;
    // The claim has found it, if there is one.
    let Some(home) = claim.handoff.home.clone() else {
        let reason = unavailable(platform.name(), &Availability::NoHome);
        return Err(StageError::Failed(reason));
    };
    let opened = if platform.capabilities().threads {
        open(context, claim, platform.as_ref(), &home, cancel).await?
    } else {
        ThreadOutcome::chat(format!("{} has no threads", platform.name()))
    };
    // From here on a failure is noted in the thread, whether the journal knows of it or not.
    claim.handoff.thread = Some(opened.clone());
    context.before(HandoffStage::Threaded).await;
    // The thread is open. A locked or full database delays its record; no second thread is opened.
    retry_while_busy(cancel, || context.store.record_thread(claim, &opened)).await?;
    claim.handoff.stage = Some(HandoffStage::Threaded);
    Ok(())
}

/// Opens a thread. A cancellation ends every wait at once; a call under way gets a moment to finish, so that the thread that
/// it opens is known.
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
    let open_key = format!("handoff:{}", claim.handoff.id);
    // A platform that does not recognise the key any more cannot tell whether an interrupted try has opened a thread. The
    // reader of the next one is warned.
    let first_try = match dedup {
        Dedup::Always => None,
        Dedup::None | Dedup::For(_) => context.store.thread_wanted(claim).await?,
    };
    let now = Instant::now();
    let before = first_try.map_or(0.0, |at| clock::now() - at);
    let repeated = AtomicBool::new(first_try.is_some() && !dedup.covers(before));
    let underway = AtomicBool::new(false);
    let call = |unsure: bool| {
        let age = before + now.elapsed().as_secs_f64();
        repeated.fetch_or(unsure && !dedup.covers(age), Ordering::Relaxed);
        let opening = platform.open_thread(home, &title, &open_key);
        let underway = &underway;
        async move {
            underway.store(true, Ordering::Relaxed);
            let opened = opening.await;
            underway.store(false, Ordering::Relaxed);
            opened
        }
    };
    let ready = || std::future::ready(());
    let (metrics, draining) = (&context.metrics, &context.shutdown.draining);
    let mut opening = pin!(with_retries(
        name,
        RetryPolicy::Few,
        metrics,
        draining,
        ready,
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
