//! Holds one call, so that a test can act right before or right after it.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::{FakeServer, Outcome, ScriptedFault, Vendor};

/// On which side of its work a call is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

/// A call that is held, with all calls after it. Polls do not count and are not held.
pub struct HeldCall<'a, W> {
    server: &'a FakeServer<W>,
    /// How many calls there were before.
    earlier: usize,
    nth: usize,
    side: Side,
    permits: Arc<Semaphore>,
}

/// How many calls after the held one are held too.
const LATER: usize = 20;

impl<W: Vendor> FakeServer<W> {
    /// Holds the nth call from now on, the first being 0.
    pub fn hold(&self, nth: usize, side: Side) -> HeldCall<'_, W> {
        let permits = Arc::new(Semaphore::new(0));
        let earlier = self.calls().len();
        for _ in 0..nth {
            let open = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
            self.then_any(ScriptedFault::HoldAfter(open));
        }
        self.then_any(match side {
            Side::Before => ScriptedFault::HoldBefore(permits.clone()),
            Side::After => ScriptedFault::HoldAfter(permits.clone()),
        });
        for _ in 0..LATER {
            self.then_any(ScriptedFault::HoldBefore(permits.clone()));
        }
        HeldCall {
            server: self,
            earlier,
            nth,
            side,
            permits,
        }
    }
}

impl<W: Vendor> HeldCall<'_, W> {
    /// Whether the call has arrived there.
    pub fn reached(&self) -> bool {
        let calls = self.server.calls().split_off(self.earlier);
        let mut calls = calls
            .iter()
            .filter(|call| !W::POLLS.contains(&call.method.as_str()));
        calls
            .nth(self.nth)
            .is_some_and(|call| self.side == Side::Before || call.outcome != Outcome::Arrived)
    }

    pub fn let_go(self) {
        self.permits.add_permits(10_000);
    }
}
