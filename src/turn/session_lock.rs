//! Locks conversations: each has one turn at a time, across chats, handoffs and terminals. Waiters get the lock in
//! order. The root row of a session's lineage names its conversation, so a compressed row and the row that continues
//! it share a lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedMutexGuard};

use crate::store::{Store, TurnLease};

type Gate = Arc<tokio::sync::Mutex<()>>;

#[derive(Clone, Default)]
pub struct SessionLocks {
    gates: Arc<Mutex<HashMap<String, Gate>>>,
    freed: Arc<Notify>,
}

/// The right to run a turn of one conversation. Dropping it passes the lock to the next waiter.
pub struct SessionLock {
    /// The lease that excludes other programs.
    shared: Option<TurnLease>,
    guard: Option<OwnedMutexGuard<()>>,
    conversation: String,
    gates: Arc<Mutex<HashMap<String, Gate>>>,
    freed: Arc<Notify>,
}

impl SessionLocks {
    /// Waits for the lock. Waiters get it in order of arrival.
    pub async fn acquire(&self, conversation: &str) -> SessionLock {
        // Made before the wait, so that its drop cleans up if the caller gives up.
        let mut lock = SessionLock {
            shared: None,
            guard: None,
            conversation: conversation.to_owned(),
            gates: self.gates.clone(),
            freed: self.freed.clone(),
        };
        let gate = self.locked(|gates| gates.entry(conversation.to_owned()).or_default().clone());
        lock.guard = Some(gate.lock_owned().await);
        lock
    }

    /// Takes the lock only if no other caller holds it or waits for it.
    pub fn try_take(&self, conversation: &str) -> Option<SessionLock> {
        let guard = self.locked(|gates| {
            if gates.contains_key(conversation) {
                return None;
            }
            let gate = gates.entry(conversation.to_owned()).or_default();
            gate.clone().try_lock_owned().ok()
        })?;
        Some(SessionLock {
            shared: None,
            guard: Some(guard),
            conversation: conversation.to_owned(),
            gates: self.gates.clone(),
            freed: self.freed.clone(),
        })
    }

    /// Whether a caller holds the lock of this conversation or waits for it.
    pub fn is_busy(&self, conversation: &str) -> bool {
        self.locked(|gates| gates.contains_key(conversation))
    }

    /// Resolves when a lock is free and has no waiters. Only one task may listen: the queue.
    pub async fn freed(&self) {
        self.freed.notified().await;
    }

    pub fn count(&self) -> usize {
        self.locked(|gates| gates.len())
    }

    fn locked<T>(&self, work: impl FnOnce(&mut HashMap<String, Gate>) -> T) -> T {
        work(
            &mut self
                .gates
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }
}

impl SessionLock {
    /// The conversation that this lock is for.
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Adds the lease that excludes other programs.
    pub fn share(&mut self, shared: TurnLease) {
        self.shared = Some(shared);
    }

    pub fn shared(&self) -> Option<&TurnLease> {
        self.shared.as_ref()
    }

    /// The session of the turn.
    pub fn session_id(&self) -> &str {
        let shared = self.shared.as_ref();
        shared.map_or(&self.conversation, |shared| shared.session_id())
    }

    /// The store for the writes of this turn.
    pub fn store(&self, store: &Store) -> Store {
        match &self.shared {
            Some(shared) => shared.store(),
            None => store.clone(),
        }
    }

    /// Resolves when another program has taken over the conversation.
    pub async fn lost(&self) {
        match &self.shared {
            Some(shared) => shared.lost().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        self.shared = None;
        drop(self.guard.take());
        let mut gates = self
            .gates
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        // Waiters hold the gate too, so the last of them removes it.
        if gates
            .get(&self.conversation)
            .is_some_and(|gate| Arc::strong_count(gate) == 1)
        {
            gates.remove(&self.conversation);
            self.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_of_one_session_wait_in_order_and_leave_nothing_behind() {
        let leases = SessionLocks::default();
        let first = leases.acquire("a").await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for n in 0..5 {
            let (leases, order) = (leases.clone(), order.clone());
            waiting.push(tokio::spawn(async move {
                let _lease = leases.acquire("a").await;
                order.lock().unwrap().push(n);
            }));
            tokio::task::yield_now().await;
        }
        let _other = leases.acquire("b").await;
        assert!(leases.is_busy("a") && order.lock().unwrap().is_empty());
        drop(first);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
        assert!(!leases.is_busy("a") && leases.is_busy("b"));
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let leases = SessionLocks::default();
        let first = leases.acquire("a").await;
        let waiter = {
            let leases = leases.clone();
            tokio::spawn(async move { leases.acquire("a").await })
        };
        tokio::task::yield_now().await;
        waiter.abort();
        assert!(waiter.await.is_err());
        drop(first);
        assert!(!leases.is_busy("a"));
    }
}
