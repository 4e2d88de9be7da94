//! What clients may have under way at once. A connection that reaches a limit of its own is not read until there is room.
//! A request that reaches a limit of all connections together gets an error: waiting for other clients could last for ever.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::protocol::{Call, MAX_FRAME};

/// What a request costs the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It reads and changes nothing. It ends with its connection.
    Read,
    /// It waits for the end of a handoff, which costs next to nothing. It ends with its connection.
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
            Call::PlatformExamine(_)
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

/// RequestBudget for requests: that of one connection, or that of all of them.
pub struct RequestBudget {
    reads: Arc<Semaphore>,
    waits: Arc<Semaphore>,
    actions: Arc<Semaphore>,
    /// The requests themselves.
    bytes: Arc<Semaphore>,
}

/// The place of one request, given back when it is dropped.
pub(super) struct Place {
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
        let room = |size| Arc::new(Semaphore::new(size));
        RequestBudget {
            reads: room(reads),
            waits: room(waits),
            actions: room(actions),
            bytes: room(bytes),
        }
    }

    fn slots(&self, kind: Kind) -> Arc<Semaphore> {
        match kind {
            Kind::Read => self.reads.clone(),
            Kind::Wait => self.waits.clone(),
            Kind::Action => self.actions.clone(),
        }
    }

    /// Waits for a place. `None`: the daemon stops.
    pub(super) async fn place(&self, kind: Kind, bytes: usize) -> Option<Place> {
        Some(Place {
            _slot: self.slots(kind).acquire_owned().await.ok()?,
            _bytes: self
                .bytes
                .clone()
                .acquire_many_owned(size(bytes))
                .await
                .ok()?,
        })
    }

    /// A place, when there is one at once.
    pub(super) fn try_place(&self, kind: Kind, bytes: usize) -> Option<Place> {
        Some(Place {
            _slot: self.slots(kind).try_acquire_owned().ok()?,
            _bytes: self
                .bytes
                .clone()
                .try_acquire_many_owned(size(bytes))
                .ok()?,
        })
    }
}

/// Reads of one connection at a time: one fewer than there are threads for them, so that one client alone holds up no
/// other.
const READS: usize = 3;

/// Never more than a frame, which always fits.
fn size(bytes: usize) -> u32 {
    u32::try_from(bytes.min(MAX_FRAME)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_free_again_when_it_is_given_back() {
        let room = RequestBudget::of_a_connection();
        let mut reads: Vec<Place> = (0..READS)
            .map(|_| room.try_place(Kind::Read, 100).expect("room"))
            .collect();
        assert!(room.try_place(Kind::Read, 100).is_none());
        assert!(room.try_place(Kind::Wait, 100).is_some());
        reads.pop();
        assert!(room.place(Kind::Read, 100).await.is_some());
    }

    #[test]
    fn bytes_are_limited_whatever_the_requests_are() {
        let room = RequestBudget::of_a_connection();
        let large: Vec<Place> = (0..4)
            .map(|_| room.try_place(Kind::Action, MAX_FRAME).expect("room"))
            .collect();
        assert!(room.try_place(Kind::Wait, 1).is_none());
        drop(large);
        assert!(room.try_place(Kind::Wait, 1).is_some());
    }
}
