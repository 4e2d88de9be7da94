//! One handoff from its claim to its end: runs the stages in order, and decides what a stage's error means.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::clock;
use crate::delivery::{Address, ChatQueue, Outbox};
use crate::domain::{Handoff, HandoffStage, HandoffState};
use crate::domain::{KeyRules, Source};
use crate::events::{Bus, Event};
use crate::handoff::stages::{answer, bind, deliver, settle, thread};
use crate::handoff::test_hooks::{self, Side};
use crate::handoff::worker::Slot;
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::panic_guard::caught;
use crate::platform::{Availability, Platform, Platforms};
use crate::shutdown::Shutdown;
use crate::store::{Claim, Delivery, NewDelivery, Store, StoreError, failure_key};
use crate::turn::{SessionLock, Turns};

/// Waits between tries while the database is locked or the disk is full.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Why a handoff fails when a Hermes gateway starts on our home. The gateway would not touch a row that is left running.
const YIELDED: &str = "a Hermes gateway has taken over from hermesd: ask again";

/// What every stage works with. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub store: Store,
    pub platforms: Platforms,
    pub turns: Arc<Turns>,
    /// Makes and sends messages.
    pub outbox: Outbox,
    /// Tells a chat that its session has gone on to another.
    pub chat_queue: Arc<dyn ChatQueue>,
    pub bus: Bus,
    pub metrics: Arc<Metrics>,
    pub keys: KeyRules,
    pub home: PathBuf,
    pub shutdown: Shutdown,
}

#[derive(Debug)]
pub(super) enum StageError {
    /// The handoff ends, and everything is put back.
    Failed(String),
    /// Somebody asked for it to stop.
    Cancelled,
    /// The claim is no longer ours, or another program took the row: leave it alone.
    Lost(String),
    /// The database cannot be written now; the stage is tried again.
    Later(StoreError),
    /// The daemon stops while this stage only waits: the next start takes it up.
    Stopping,
}

impl StageError {
    pub(super) fn damaged() -> StageError {
        StageError::Failed("the journal of this handoff is incomplete".into())
    }
}

impl From<StoreError> for StageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Conflict(reason) => StageError::Lost(reason),
            StoreError::Cancelled => StageError::Cancelled,
            e if e.is_transient() => StageError::Later(e),
            e => StageError::Failed(e.to_string()),
        }
    }
}

impl Context {
    /// A claimed handoff names a platform that was up a moment ago; it may have gone since.
    pub(super) fn adapter(&self, handoff: &Handoff) -> Result<Arc<dyn Platform>, StageError> {
        let name = &handoff.platform;
        self.platforms.adapter(name).ok_or_else(|| {
            StageError::Failed(unavailable(name, &self.platforms.availability(name)))
        })
    }

    /// Where in the chat the reply goes.
    pub(super) fn destination(&self, handoff: &Handoff) -> Result<Source, StageError> {
        let (home, opened) = handoff
            .home
            .as_ref()
            .zip(handoff.thread.as_ref())
            .ok_or_else(StageError::damaged)?;
        Ok(self.adapter(handoff)?.destination(home, opened))
    }

    pub(super) async fn before(&self, stage: HandoffStage) {
        test_hooks::point(Side::Before, stage, &self.home).await;
    }
}

/// Why a platform cannot take a handoff, with the remedy.
pub(super) fn unavailable(name: &str, availability: &Availability) -> String {
    match availability {
        Availability::Unknown => {
            let known = crate::platform::NAMES.join(", ");
            format!("there is no platform called {name:?}: choose one of {known}")
        }
        Availability::Off(reason) => format!("{name} is not available: {reason}"),
        Availability::NoHome => {
            format!(
                "{name} has no home channel: set platforms.{name}.home_channel, or say /sethome in the chat"
            )
        }
        Availability::Connecting(Some(detail)) => format!("{name} is still connecting: {detail}"),
        Availability::Connecting(None) => format!("{name} is still connecting"),
        Availability::Up => format!("{name} is up"),
    }
}

/// Runs until the handoff ends, is lost to another owner, or is left for the next start because the daemon stops.
pub(super) async fn run(
    context: &Context,
    mut claim: Claim,
    cancel: &CancellationToken,
    slot: &mut Slot,
) {
    // As all spans that say what a line is about, one that no log.level takes away from an error.
    let span = tracing::error_span!(
        "handoff",
        handoff = claim.handoff.id,
        session = claim.handoff.session_id,
        platform = claim.handoff.platform,
        chat = claim.handoff.home.as_ref().map(|home| &home.chat_id)
    );
    walk(context, &mut claim, cancel, slot)
        .instrument(span)
        .await;
}

async fn walk(context: &Context, claim: &mut Claim, cancel: &CancellationToken, slot: &mut Slot) {
    let Shutdown { draining, cut, .. } = &context.shutdown;
    let mut wait = FIRST_WAIT;
    // Whoever resumes a handoff tells where it stands; what came before was told when it happened.
    let (told, took) = match claim.fence {
        1 => {
            context.bus.publish_requested(&claim.handoff);
            (None, Some(clock::now() - claim.handoff.requested_at))
        }
        _ => {
            tracing::warn!(
                message_id = journal_ids::HANDOFF_RESUMED,
                "handoff resumed: whoever was at it is gone"
            );
            (claim.handoff.stage.and_then(HandoffStage::previous), None)
        }
    };
    reached(context, claim, told, took).await;
    // Taken with the binding, for the turn that follows.
    let mut lease = None;
    let mut since = Instant::now();
    while let Some(step) = next_step(claim) {
        if cut.is_cancelled() || (draining.is_cancelled() && !step.is_an_end()) {
            return leave(context, claim).await;
        }
        let before = claim.handoff.stage;
        let outcome = if cancel.is_cancelled() && step != Step::Settle {
            Err(StageError::Cancelled)
        } else {
            tokio::select! {
                outcome = take(context, claim, step, cancel, slot, &mut lease).instrument(step.span()) => outcome,
                () = cut.cancelled(), if step != Step::Settle => return leave(context, claim).await,
            }
        };
        match outcome {
            Ok(()) => {
                wait = FIRST_WAIT;
                if claim.handoff.stage != before {
                    let took = since.elapsed().as_secs_f64();
                    reached(context, claim, before, Some(took)).await;
                    since = Instant::now();
                }
            }
            Err(StageError::Later(error)) => {
                tracing::warn!(%error, stage = step.leads_to().as_str(), "waiting for the database");
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = cut.cancelled() => {}
                    () = cancel.cancelled(), if step != Step::Settle => {}
                }
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(StageError::Stopping) => return leave(context, claim).await,
            Err(StageError::Lost(reason)) => {
                tracing::warn!(reason, "handoff left to others");
                return;
            }
            Err(StageError::Cancelled) => return fail(context, claim, "cancelled").await,
            Err(StageError::Failed(reason)) => return fail(context, claim, &reason).await,
        }
    }
    publish_end(context, claim, HandoffState::Completed, None);
    tracing::info!(
        message_id = journal_ids::HANDOFF_COMPLETED,
        key = claim.handoff.session_key,
        "handoff completed"
    );
}

/// What is done next. Each commits what it did, but for the sending, whose outcome is recorded with the end.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    OpenThread,
    Bind,
    Answer,
    Deliver,
    Settle,
}

impl Step {
    /// The stage that is reached when it is done.
    fn leads_to(self) -> HandoffStage {
        match self {
            Step::OpenThread => HandoffStage::Threaded,
            Step::Bind => HandoffStage::Bound,
            Step::Answer => HandoffStage::Answered,
            Step::Deliver => HandoffStage::Delivered,
            Step::Settle => HandoffStage::Settled,
        }
    }

    /// The agent has answered: what is left is done also while the daemon stops.
    fn is_an_end(self) -> bool {
        matches!(self, Step::Deliver | Step::Settle)
    }

    /// So that whatever is logged on the way says where that was.
    fn span(self) -> tracing::Span {
        tracing::error_span!("step", stage = self.leads_to().as_str())
    }
}

fn next_step(claim: &Claim) -> Option<Step> {
    match claim.handoff.stage {
        None | Some(HandoffStage::Claimed | HandoffStage::Homed) => Some(Step::OpenThread),
        Some(HandoffStage::Threaded) => Some(Step::Bind),
        Some(HandoffStage::Bound) => Some(Step::Answer),
        Some(HandoffStage::Answered) if claim.sent.is_none() => Some(Step::Deliver),
        Some(HandoffStage::Answered | HandoffStage::Delivered) => Some(Step::Settle),
        Some(HandoffStage::Settled) => None,
    }
}

async fn take(
    context: &Context,
    claim: &mut Claim,
    step: Step,
    cancel: &CancellationToken,
    slot: &mut Slot,
    lease: &mut Option<SessionLock>,
) -> Result<(), StageError> {
    let work = async {
        match step {
            Step::OpenThread => thread::run(context, claim, cancel).await,
            Step::Bind => bind::run(context, claim, cancel, slot, lease).await,
            Step::Answer => answer::run(context, claim, cancel, slot, lease).await,
            Step::Deliver => deliver::run(context, claim, cancel).await,
            Step::Settle => settle::run(context, claim).await,
        }
    };
    // Left to itself it would be taken up again and again.
    caught(work)
        .await
        .unwrap_or_else(|panicked| Err(StageError::Failed(format!("{step:?}: {panicked}"))))
}

/// Tells of every stage since `before` that the journal now holds. They were committed together, so that the first of them
/// `took` all of the seconds; `None` when they were counted before.
async fn reached(
    context: &Context,
    claim: &Claim,
    before: Option<HandoffStage>,
    mut took: Option<f64>,
) {
    let handoff = &claim.handoff;
    for stage in HandoffStage::ALL {
        if Some(stage) <= before || Some(stage) > handoff.stage {
            continue;
        }
        tracing::info!(stage = stage.as_str(), "handoff stage reached");
        if let Some(seconds) = &mut took {
            let metrics = &context.metrics;
            metrics.stage_reached(&handoff.platform, stage, std::mem::take(seconds));
        }
        context.bus.publish(Event::HandoffStage {
            id: handoff.id,
            session_id: handoff.session_id.clone(),
            platform: handoff.platform.clone(),
            stage,
        });
    }
    if let Some(stage) = handoff.stage.filter(|stage| Some(*stage) > before) {
        test_hooks::point(Side::After, stage, &context.home).await;
    }
}

/// The daemon stops before the handoff has ended.
async fn leave(context: &Context, claim: &mut Claim) {
    match context.shutdown.yielding.is_cancelled() {
        true => fail(context, claim, YIELDED).await,
        false => release(context, claim).await,
    }
}

async fn release(context: &Context, claim: &Claim) {
    tracing::info!("handoff left at its stage for the next start");
    if let Err(error) = context.store.release_handoff(claim).await {
        tracing::warn!(%error, "the claim was not released; its lease will run out");
    }
}

/// Puts everything back and says why. Tried until the database takes it: a handoff must not stay in between.
async fn fail(context: &Context, claim: &mut Claim, reason: &str) {
    let mut wait = FIRST_WAIT;
    let (reason, notes) = loop {
        match put_back(context, claim, reason).await {
            Ok(recorded) => break recorded,
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "waiting for the database to roll the handoff back");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(StoreError::Conflict(why)) => {
                tracing::warn!(why, "handoff left to others");
                return;
            }
            Err(error) => {
                tracing::error!(%error, "the handoff could not be rolled back; the next start tries again");
                return;
            }
        }
    };
    context.outbox.forget_copies(&claim.deliveries);
    log_failure(&reason);
    publish_end(context, claim, HandoffState::Failed, Some(reason));
    // The chat's own worker sends them: the session is free for another try meanwhile.
    for note in notes {
        context.chat_queue.post(note);
    }
}

/// Returns the reason as it is recorded, and what the chat is to hear of it.
async fn put_back(
    context: &Context,
    claim: &mut Claim,
    reason: &str,
) -> Result<(String, Vec<Delivery>), StoreError> {
    if claim.handoff.stage == Some(HandoffStage::Bound) {
        answer::retract_left(context, claim).await?;
    }
    let notes = failure_notes(context, &claim.handoff, reason);
    context.store.fail_handoff(claim, reason, notes).await
}

/// One that somebody stopped needs nobody's help.
fn log_failure(reason: &str) {
    let message_id = journal_ids::HANDOFF_FAILED;
    match reason.starts_with("cancelled") {
        true => tracing::info!(message_id, reason, "handoff failed"),
        false => tracing::error!(message_id, reason, "handoff failed"),
    }
}

fn publish_end(context: &Context, claim: &Claim, state: HandoffState, error: Option<String>) {
    let handoff = &claim.handoff;
    let metrics = &context.metrics;
    metrics.handoff_ended(&handoff.platform, error.as_deref());
    context.bus.publish(Event::HandoffEnded {
        id: handoff.id,
        session_id: handoff.session_id.clone(),
        platform: handoff.platform.clone(),
        state,
        error,
    });
}

/// What tells the readers of the thread that the agent does not come. None, if no thread or chat was reached. The ledger
/// keeps it, so it is paced and tried again as any other message.
pub(super) fn failure_notes(
    context: &Context,
    handoff: &Handoff,
    reason: &str,
) -> Vec<NewDelivery> {
    let Ok(source) = context.destination(handoff) else {
        return Vec::new();
    };
    let to = Address {
        key: failure_key(handoff.id),
        source: &source,
        session_id: "",
        // The ledger's rows of a failed handoff are abandoned, and this one is not.
        handoff_id: None,
    };
    let text = format!(
        "The handoff to this thread failed ({reason}). The conversation stays where it was."
    );
    context.outbox.text_messages(&to, &text)
}
