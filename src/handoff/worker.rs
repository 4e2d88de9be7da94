//! Works on one row: claims it, runs its pipeline, lets others cancel it, and reports its end to the queue.

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

/// The queue's interface for the rest of the daemon.
#[derive(Clone, Default)]
pub struct Handle {
    pub(super) wake: Arc<Notify>,
    /// New requests of this daemon, so that the queue need not search for them.
    asked: Arc<Mutex<Vec<Pending>>>,
    pub(super) foreign: Arc<Notify>,
    /// Notified when a handoff of this daemon ends.
    ends: Arc<Notify>,
    running: Arc<Mutex<HashMap<i64, CancellationToken>>>,
}

impl Handle {
    /// Tells the queue that this daemon has written a pending row.
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

    /// Tells the queue that another program has written to the database.
    pub fn wake_foreign(&self) {
        self.foreign.notify_one();
    }

    /// Stops the work on a handoff. The caller has recorded the cancellation in the store.
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

/// A row to claim: a pending one, or a running one whose owner is gone.
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

/// The right to run, which a limited number of handoffs have at one time. A handoff that only waits gives it up.
pub(super) struct Slot {
    slots: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
    handle: Handle,
}

impl Slot {
    /// `None`: no slot is free.
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

/// Tells the queue that a session's work has ended, even if a stage panics. Otherwise the session would stay taken.
pub(super) struct Done {
    pub(super) session_id: String,
    pub(super) done: mpsc::UnboundedSender<String>,
    pub(super) slot: Slot,
}

impl Drop for Done {
    fn drop(&mut self) {
        // Frees the slot before the queue looks for more work.
        self.slot.permit = None;
        let _ = self.done.send(std::mem::take(&mut self.session_id));
    }
}

/// Claims the row and runs its pipeline.
pub(super) async fn perform(
    context: &Context,
    handle: &Handle,
    work: Work,
    (owner, lease): (String, Duration),
    slot: &mut Slot,
) {
    // Another program's lock delays the claim. The claim is retried here, since the queue may not find this row again.
    let claim = || claim(context, &work, &owner, lease);
    let claim: Claim = match retry_while_busy(&context.shutdown.draining, claim).await {
        Ok(Some(claim)) => claim,
        Ok(None) | Err(StoreError::Cancelled) => return,
        Err(error) => {
            tracing::warn!(%error, session = work.session_id(), "handoff not claimed, will retry");
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

/// `None`: another program or owner has claimed it.
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
