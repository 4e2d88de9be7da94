//! Runs one handoff from its claim to its end: its stages in order, and what an error of a stage means.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::clock;
use crate::delivery::{Address, ChatQueue, Outbox};
use crate::domain::ThreadOutcome;
use crate::domain::{Handoff, HandoffStage, HandoffState};
use crate::domain::{KeyRules, Source};
use crate::events::{Bus, Event};
use crate::handoff::empty_thread;
use crate::handoff::stages::{answer, bind, deliver, settle, thread};
use crate::handoff::test_hooks::{self, Side};
use crate::handoff::worker::Slot;
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::panic_guard::catch_panic;
use crate::platform::{Availability, NOT_SET_UP, Platform, Platforms};
use crate::shutdown::Shutdown;
use crate::store::{Claim, Delivery, NewDelivery, Store, StoreError, failure_key};
use crate::turn::{SessionLock, Turns};

/// Waits between attempts while the database is locked or the disk is full.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Why a handoff fails when a Hermes gateway starts on our home. A gateway never touches a `running` row.
const YIELDED: &str = "a Hermes gateway has taken over from hermesd: ask again";

/// The services that every stage uses. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    pub store: Store,
    pub platforms: Platforms,
    pub turns: Arc<Turns>,
    /// Composes messages.
    pub outbox: Outbox,
    /// Sends notes to chats, for example that the session has moved to another chat.
    pub chat_queue: Arc<dyn ChatQueue>,
    pub bus: Bus,
    pub metrics: Arc<Metrics>,
    pub keys: KeyRules,
    pub home: PathBuf,
    pub shutdown: Shutdown,
}

#[derive(Debug)]
pub(super) enum StageError {
    /// The handoff fails and is rolled back.
    Failed(String),
    /// A person cancelled the handoff.
    Cancelled,
    /// The claim is no longer ours, or another program took the row. The row must not be changed.
    Lost(String),
    /// The database cannot be written now. The stage is retried.
    Later(StoreError),
    /// The daemon stops while this stage only waits. The next start resumes it.
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
    /// The platform was up when the handoff was claimed. It may be down since.
    pub(super) fn adapter(&self, handoff: &Handoff) -> Result<Arc<dyn Platform>, StageError> {
        let name = &handoff.platform;
        self.platforms.adapter(name).ok_or_else(|| {
            StageError::Failed(unavailable(name, &self.platforms.availability(name)))
        })
    }

    /// The chat or thread that the reply goes to.
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

/// Why a platform cannot receive a handoff, with the remedy.
pub(super) fn unavailable(name: &str, availability: &Availability) -> String {
    match availability {
        Availability::Unknown => {
            let known = crate::platform::NAMES.join(", ");
            format!("there is no platform called {name:?}: choose one of {known}")
        }
        Availability::Off(reason) if reason.starts_with(NOT_SET_UP) => {
            format!("{} is {reason}", capitalised(name))
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

/// The name of a platform at the beginning of a sentence.
fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Runs until the handoff ends, another owner takes it, or the daemon stops and leaves it for the next start.
pub(super) async fn run(
    context: &Context,
    mut claim: Claim,
    cancel: &CancellationToken,
    slot: &mut Slot,
) {
    // An error span: no log.level disables it, so every error has these fields.
    let span = tracing::error_span!(
        "handoff",
        handoff = claim.handoff.id,
        session = claim.handoff.session_id,
        platform = claim.handoff.platform,
        chat = claim.handoff.home.as_ref().map(|home| &home.chat_id)
    );
    run_steps(context, &mut claim, cancel, slot)
        .instrument(span)
        .await;
}

async fn run_steps(
    context: &Context,
    claim: &mut Claim,
    cancel: &CancellationToken,
    slot: &mut Slot,
) {
    let Shutdown { draining, cut, .. } = &context.shutdown;
    let mut wait = FIRST_WAIT;
    // A resumed handoff publishes only its present stage. The former owner has published those before it.
    let (published, took) = match claim.fence {
        1 => {
            context.bus.publish_requested(&claim.handoff);
            (None, Some(clock::now() - claim.handoff.requested_at))
        }
        _ => {
            tracing::warn!(
                message_id = journal_ids::HANDOFF_RESUMED,
                "handoff resumed after its owner was gone"
            );
            (claim.handoff.stage.and_then(HandoffStage::previous), None)
        }
    };
    report_stages(context, claim, published, took).await;
    // The binding takes it for the turn that follows.
    let mut lease = None;
    let mut since = Instant::now();
    while let Some(step) = next_step(claim) {
        if cut.is_cancelled() || (draining.is_cancelled() && !step.is_after_answer()) {
            return leave(context, claim).await;
        }
        let before = claim.handoff.stage;
        let outcome = if cancel.is_cancelled() && step != Step::Settle {
            Err(StageError::Cancelled)
        } else {
            tokio::select! {
                outcome = run_step(context, claim, step, cancel, slot, &mut lease).instrument(step.span()) => outcome,
                () = cut.cancelled(), if step != Step::Settle => return leave(context, claim).await,
            }
        };
        match outcome {
            Ok(()) => {
                wait = FIRST_WAIT;
                if claim.handoff.stage != before {
                    let took = since.elapsed().as_secs_f64();
                    report_stages(context, claim, before, Some(took)).await;
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
                tracing::warn!(reason, "handoff owned by another process");
                return empty_thread::delete_unrecorded(context, claim);
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

/// A step of the pipeline. Each commits its result, except `Deliver`: `Settle` commits its result.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    OpenThread,
    Bind,
    Answer,
    Deliver,
    Settle,
}

impl Step {
    /// The stage that the handoff has when the step is done.
    fn leads_to(self) -> HandoffStage {
        match self {
            Step::OpenThread => HandoffStage::Threaded,
            Step::Bind => HandoffStage::Bound,
            Step::Answer => HandoffStage::Answered,
            Step::Deliver => HandoffStage::Delivered,
            Step::Settle => HandoffStage::Settled,
        }
    }

    /// Whether the agent has answered before this step. Such a step also runs while the daemon stops.
    fn is_after_answer(self) -> bool {
        matches!(self, Step::Deliver | Step::Settle)
    }

    /// Adds the stage to every line that the step logs.
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

async fn run_step(
    context: &Context,
    claim: &mut Claim,
    step: Step,
    cancel: &CancellationToken,
    slot: &mut Slot,
    lease: &mut Option<SessionLock>,
) -> Result<(), StageError> {
    let work = async {
        match step {
            Step::OpenThread => thread::run(context, claim, cancel, slot).await,
            Step::Bind => bind::run(context, claim, cancel, slot, lease).await,
            Step::Answer => answer::run(context, claim, cancel, slot, lease).await,
            Step::Deliver => deliver::run(context, claim, cancel).await,
            Step::Settle => settle::run(context, claim).await,
        }
    };
    // A panic fails the handoff. Otherwise the queue would resume it again and again.
    catch_panic(work)
        .await
        .unwrap_or_else(|panicked| Err(StageError::Failed(format!("{step:?}: {panicked}"))))
}

/// Logs, counts and publishes every stage after `before` that the journal has now. They were committed together, so the
/// first of them counts all seconds of `took`. `None`: they are counted already.
async fn report_stages(
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
            no_thread: match &handoff.thread {
                Some(ThreadOutcome::Chat { reason, .. }) if stage == HandoffStage::Threaded => {
                    Some(reason.clone())
                }
                _ => None,
            },
        });
    }
    if let Some(stage) = handoff.stage.filter(|stage| Some(*stage) > before) {
        test_hooks::point(Side::After, stage, &context.home).await;
    }
}

/// Handles a stop of the daemon before the handoff has ended.
async fn leave(context: &Context, claim: &mut Claim) {
    match context.shutdown.yielding.is_cancelled() {
        true => fail(context, claim, YIELDED).await,
        false => release(context, claim).await,
    }
}

async fn release(context: &Context, claim: &Claim) {
    tracing::info!("handoff stays at its stage, will resume at next start");
    if let Err(error) = context.store.release_handoff(claim).await {
        tracing::warn!(%error, "claim not released, its lease will expire");
    }
}

/// Rolls the handoff back and reports why. Retries until the database accepts it: no handoff stays half done.
async fn fail(context: &Context, claim: &mut Claim, reason: &str) {
    let mut wait = FIRST_WAIT;
    let (reason, notes) = loop {
        match roll_back(context, claim, reason).await {
            Ok(recorded) => break recorded,
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "waiting for the database to roll back the handoff");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(StoreError::Conflict(why)) => {
                tracing::warn!(why, "handoff owned by another process");
                return empty_thread::delete_unrecorded(context, claim);
            }
            Err(error) => {
                tracing::error!(%error, "handoff not rolled back, will retry at next start");
                return;
            }
        }
    };
    context.outbox.forget_copies(&claim.deliveries);
    log_failure(&reason);
    publish_end(context, claim, HandoffState::Failed, Some(reason));
    empty_thread::delete_or_note(context, &claim.handoff, notes);
}

/// Returns the recorded reason and the notes for the chat.
async fn roll_back(
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

/// A cancelled handoff is no error: it needs no attention.
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

/// The note that tells the readers of the thread that the handoff failed. Empty if no thread or chat was reached. It
/// goes to the ledger, so it is paced and retried like every message.
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
        // A failed handoff abandons the rows that name it. This row must be sent.
        handoff_id: None,
    };
    let text = format!(
        "The handoff to this thread failed ({reason}). The conversation stays where it was."
    );
    context.outbox.text_messages(&to, &text)
}
