//! One row at work: how it is claimed, how others stop it, and how the queue learns that it has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::Handoff;
use super::pipeline::{self, Context};
use crate::store::{Claim, Orphan, Pending};

/// What the rest of the daemon holds of the queue.
#[derive(Clone, Default)]
pub struct Handle {
    pub(super) wake: Arc<Notify>,
    /// Rows that need not be looked for.
    asked: Arc<Mutex<Vec<Pending>>>,
    pub(super) foreign: Arc<Notify>,
    running: Arc<Mutex<HashMap<i64, CancellationToken>>>,
}

impl Handle {
    /// This daemon has written a pending row.
    pub fn requested(&self, handoff: &Handoff) {
        let asked = Pending {
            session_id: handoff.session_id.clone(),
            platform: handoff.platform.clone(),
            after_turn: handoff.after_turn,
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

/// Tells the queue that a session's work has ended, also when a stage panics: else its place would be lost for ever.
pub(super) struct Done {
    pub(super) session_id: String,
    pub(super) done: mpsc::Sender<String>,
}

impl Drop for Done {
    fn drop(&mut self) {
        // There is room for as many as can be at work.
        let _ = self.done.try_send(std::mem::take(&mut self.session_id));
    }
}

/// Claims the row and walks it through its stages.
pub(super) async fn perform(
    context: Arc<Context>,
    handle: Handle,
    work: Work,
    owner: String,
    lease_until: f64,
) {
    let (store, platforms) = (&context.store, context.platforms.clone());
    let home_of = move |platform: &str| platforms.home(platform);
    let claimed = match &work {
        Work::Pending(session_id) => {
            store
                .claim_handoff(session_id, &owner, lease_until, home_of)
                .await
        }
        Work::Orphan(orphan) => store.take_over(orphan, &owner, lease_until, home_of).await,
    };
    let claim: Claim = match claimed {
        Ok(Some(claim)) => claim,
        Ok(None) => return,
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
    let _forget = Forget {
        handle: &handle,
        id,
    };
    pipeline::run(&context, claim, &cancel).await;
}

struct Forget<'a> {
    handle: &'a Handle,
    id: i64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.handle.locked(|running| running.remove(&self.id));
    }
}
