//! Wakes tests and clients when something has changed.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use crate::support::PATIENCE;

#[derive(Default)]
pub struct ChangeSignal {
    /// Counts the changes that tests have to look at.
    count: Mutex<u64>,
    counted: Condvar,
    clients: watch::Sender<()>,
}

impl ChangeSignal {
    /// Call this after the change.
    pub fn wake_tests(&self) {
        *self.count.lock().unwrap() += 1;
        self.counted.notify_all();
    }

    /// Call this after the change.
    pub fn wake_clients(&self) {
        self.clients.send_replace(());
    }

    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.clients.subscribe()
    }

    /// Waits until `look` finds something. It looks at once, and after each change.
    pub fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = *self.count.lock().unwrap();
            if let Some(found) = look() {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let count = self.count.lock().unwrap();
            let unchanged = |count: &mut u64| *count == before;
            let (count, ended) = self
                .counted
                .wait_timeout_while(count, left, unchanged)
                .unwrap();
            drop(count);
            assert!(!ended.timed_out(), "waited in vain: {what}");
        }
    }
}
