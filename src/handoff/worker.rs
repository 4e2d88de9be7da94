//! One row at work: how it is claimed, how others stop it, and how the queue learns that it has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::domain::Handoff;
use crate::handoff::pipeline::{self, Context};
use crate::store::retry_while_busy;
use crate::store::{Claim, Orphan, Pending, StoreError};

/// What the rest of the daemon holds of the queue.
#[derive(Clone, Default)]
pub struct Handle {
    pub(super) wake: Arc<Notify>,
    /// Rows that need not be looked for.
    asked: Arc<Mutex<Vec<Pending>>>,
    pub(super) foreign: Arc<Notify>,
    /// Some handoff of this daemon has ended.
    ends: Arc<Notify>,
    running: Arc<Mutex<HashMap<i64, CancellationToken>>>,
}

impl Handle {
    /// This daemon has written a pending row.
    pub fn requested(&self, handoff: &Handoff) {
        let asked = Pending {
            session_id: handoff.session_id.clone(),
            platform: handoff.platform.clone(),
            after_turn: handoff.after_turn,
            foreign: false,
        };
        self.asked
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(asked);
        self.wake.notify_one();
    }

    pub(super) fn take_asked(&self) -> Vec<Pending> {
        std::mem::take(
            &mut self
                .asked
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    /// Another program has written to the database.
    pub fn wake_foreign(&self) {
        self.foreign.notify_one();
    }

    /// Stops the work on a handoff whose cancellation stands in the store.
    pub fn cancel(&self, id: i64) {
        if let Some(token) = self.locked(|running| running.get(&id).cloned()) {
            token.cancel();
        }
    }

    pub fn running(&self) -> usize {
        self.locked(|running| running.len())
    }

    fn locked<T>(&self, work: impl FnOnce(&mut HashMap<i64, CancellationToken>) -> T) -> T {
        work(
            &mut self
                .running
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }
}

/// A row to take: freshly pending, or left behind by somebody.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Pending(String),
    Orphan(Orphan),
}

impl Work {
    pub(super) fn session_id(&self) -> &str {
        match self {
            Work::Pending(id) => id,
            Work::Orphan(orphan) => &orphan.session_id,
        }
    }
}

/// A place among the handoffs that run at one time. One that only waits for another gives it up meanwhile.
pub(super) struct Slot {
    slots: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    handle: Handle,
}

impl Slot {
    /// `None`: all are taken.
    pub(super) fn free(slots: &Arc<Semaphore>, handle: &Handle) -> Option<Slot> {
        Some(Slot {
            permit: Some(slots.clone().try_acquire_owned().ok()?),
            slots: slots.clone(),
            handle: handle.clone(),
        })
    }

    pub(super) fn give_up(&mut self) {
        self.permit = None;
        // The queue may have work for it.
        self.handle.wake.notify_one();
    }

    pub(super) async fn take_back(&mut self) {
        if self.permit.is_none() {
            self.permit = self.slots.clone().acquire_owned().await.ok();
        }
    }

    /// Notified when a handoff of this daemon ends.
    pub(super) fn ends(&self) -> Arc<Notify> {
        self.handle.ends.clone()
    }
}

/// Tells the queue that a session's work has ended, also when a stage panics: else the session would be taken for ever.
pub(super) struct Done {
    pub(super) session_id: String,
    pub(super) done: mpsc::UnboundedSender<String>,
    pub(super) slot: Slot,
}

impl Drop for Done {
    fn drop(&mut self) {
        // Free before the queue looks for more work.
        self.slot.permit = None;
        let _ = self.done.send(std::mem::take(&mut self.session_id));
    }
}

/// Claims the row and walks it through its stages.
pub(super) async fn perform(
    context: &Context,
    handle: &Handle,
    work: Work,
    (owner, lease): (String, Duration),
    slot: &mut Slot,
) {
    // A lock of another program delays the claim: nothing else may come back to this row.
    let claim = || claim(context, &work, &owner, lease);
    let claim: Claim = match retry_while_busy(&context.shutdown.draining, claim).await {
        Ok(Some(claim)) => claim,
        Ok(None) | Err(StoreError::Cancelled) => return,
        Err(error) => {
            tracing::warn!(%error, session = work.session_id(), "a handoff could not be claimed; it is tried again");
            return;
        }
    };
    let (id, cancel) = (claim.handoff.id, CancellationToken::new());
    if claim.handoff.cancel_requested {
        cancel.cancel();
    }
    handle.locked(|running| running.insert(id, cancel.clone()));
    let _forget = Forget { handle, id };
    pipeline::run(context, claim, &cancel, slot).await;
}

/// `None`: another program or owner was faster.
async fn claim(
    context: &Context,
    work: &Work,
    owner: &str,
    lease: Duration,
) -> Result<Option<Claim>, StoreError> {
    let (store, platforms) = (&context.store, context.platforms.clone());
    let home_of = move |platform: &str| platforms.home(platform);
    let until = clock::now() + lease.as_secs_f64();
    match work {
        Work::Pending(session_id) => store.claim_handoff(session_id, owner, until, home_of).await,
        Work::Orphan(orphan) => store.take_over(orphan, owner, until, home_of).await,
    }
}

struct Forget<'a> {
    handle: &'a Handle,
    id: i64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.handle.locked(|running| running.remove(&self.id));
        self.handle.ends.notify_waiters();
    }
}
