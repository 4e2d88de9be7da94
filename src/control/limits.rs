//! Limits the requests in progress. A connection at its own limit is not read until a request ends. A request beyond
//! the limit of all connections gets an error, because waiting for other clients could last for ever.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::protocol::{Call, MAX_FRAME};

/// What a request costs the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It reads and changes nothing. It ends with its connection.
    Read,
    /// It waits for the end of a handoff, which costs little. It ends with its connection.
    Wait,
    /// It changes something. Once begun, it is finished.
    Action,
}

impl Kind {
    pub(super) fn of(call: &Call) -> Kind {
        match call {
            Call::HandoffWait(_) => Kind::Wait,
            Call::Hello(_)
            | Call::EventsSubscribe(_)
            | Call::Status(_)
            | Call::Metrics(_)
            | Call::PlatformList(_)
            | Call::AgentList(_)
            | Call::PairList(_)
            | Call::SessionList(_)
            | Call::SessionShow(_)
            | Call::SessionTranscript(_)
            | Call::SessionSearch(_)
            | Call::HandoffList(_)
            | Call::HandoffShow(_)
            | Call::LocalThreads(_)
            | Call::LocalRead(_) => Kind::Read,
            Call::ConfigReload(_)
            | Call::PlatformExamine(_)
            | Call::AgentTest(_)
            | Call::PairApprove(_)
            | Call::PairRevoke(_)
            | Call::SessionRename(_)
            | Call::SessionResume(_)
            | Call::ChatOpen(_)
            | Call::ChatSay(_)
            | Call::ChatAnswer(_)
            | Call::ChatStop(_)
            | Call::ChatLeave(_)
            | Call::HandoffRequest(_)
            | Call::HandoffCancel(_)
            | Call::HandoffRetry(_)
            | Call::LocalSay(_) => Kind::Action,
        }
    }
}

/// The requests that one connection, or all connections together, may have in progress.
pub struct RequestBudget {
    reads: Arc<Semaphore>,
    waits: Arc<Semaphore>,
    actions: Arc<Semaphore>,
    /// The size of the requests.
    bytes: Arc<Semaphore>,
}

/// The share of one request. Dropping it returns the share.
pub(super) struct Permit {
    _slot: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
}

impl RequestBudget {
    pub(super) fn of_a_connection() -> RequestBudget {
        RequestBudget::new(READS, 2048, 1024, 4 * MAX_FRAME)
    }

    pub fn of_all_connections() -> RequestBudget {
        RequestBudget::new(1024, 32_768, 4096, 64 * MAX_FRAME)
    }

    fn new(reads: usize, waits: usize, actions: usize, bytes: usize) -> RequestBudget {
        let semaphore = |size| Arc::new(Semaphore::new(size));
        RequestBudget {
            reads: semaphore(reads),
            waits: semaphore(waits),
            actions: semaphore(actions),
            bytes: semaphore(bytes),
        }
    }

    fn slots(&self, kind: Kind) -> Arc<Semaphore> {
        match kind {
            Kind::Read => self.reads.clone(),
            Kind::Wait => self.waits.clone(),
            Kind::Action => self.actions.clone(),
        }
    }

    /// Waits until the request fits. `None` if the daemon stops.
    pub(super) async fn acquire(&self, kind: Kind, bytes: usize) -> Option<Permit> {
        Some(Permit {
            _slot: self.slots(kind).acquire_owned().await.ok()?,
            _bytes: self
                .bytes
                .clone()
                .acquire_many_owned(size(bytes))
                .await
                .ok()?,
        })
    }

    /// `None` if the request does not fit now.
    pub(super) fn try_acquire(&self, kind: Kind, bytes: usize) -> Option<Permit> {
        Some(Permit {
            _slot: self.slots(kind).try_acquire_owned().ok()?,
            _bytes: self
                .bytes
                .clone()
                .try_acquire_many_owned(size(bytes))
                .ok()?,
        })
    }
}

/// The concurrent reads of one connection: one fewer than the store's threads for clients, so that one client cannot
/// block the others.
const READS: usize = 3;

/// Capped at the size of a frame, which always fits.
fn size(bytes: usize) -> u32 {
    u32::try_from(bytes.min(MAX_FRAME)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_free_again_when_it_is_given_back() {
        let budget = RequestBudget::of_a_connection();
        let mut reads: Vec<Permit> = (0..READS)
            .map(|_| budget.try_acquire(Kind::Read, 100).expect("a permit"))
            .collect();
        assert!(budget.try_acquire(Kind::Read, 100).is_none());
        assert!(budget.try_acquire(Kind::Wait, 100).is_some());
        reads.pop();
        assert!(budget.acquire(Kind::Read, 100).await.is_some());
    }

    #[test]
    fn bytes_are_limited_whatever_the_requests_are() {
        let budget = RequestBudget::of_a_connection();
        let large: Vec<Permit> = (0..4)
            .map(|_| {
                budget
                    .try_acquire(Kind::Action, MAX_FRAME)
                    .expect("a permit")
            })
            .collect();
        assert!(budget.try_acquire(Kind::Wait, 1).is_none());
        drop(large);
        assert!(budget.try_acquire(Kind::Wait, 1).is_some());
    }
}
