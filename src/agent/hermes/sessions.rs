//! Tracks the sessions that Hermes' backend has in memory. Each costs threads and megabytes, so few stay open. Idle
//! sessions are surplus, and so are the least recently used ones beyond [`MOST_OPEN`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

/// Sessions that may stay open between turns.
pub(super) const MOST_OPEN: usize = 8;

/// A session that the backend has in its memory.
#[derive(Debug, Clone)]
pub(super) struct Open {
    /// The backend's id of the session.
    pub(super) live: String,
    /// The last reply. If the transcript does not end with it, another program has written since. `None` if the
    /// backend's memory may differ from the transcript.
    pub(super) said: Option<String>,
    /// The directory that the backend works in, if it is known.
    pub(super) cwd: Option<String>,
}

/// One session. A turn locks it for as long as it runs. Closing the session locks it too.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) open: Option<Open>,
    used: Instant,
}

impl Slot {
    pub(super) fn touch(&mut self) {
        self.used = Instant::now();
    }
}

#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Slot>>>>);

impl Sessions {
    /// Reserves a session for a turn. Waits while it is being closed.
    pub(super) async fn reserve(&self, session_id: &str) -> OwnedMutexGuard<Slot> {
        let fresh = || {
            Arc::new(tokio::sync::Mutex::new(Slot {
                open: None,
                used: Instant::now(),
            }))
        };
        let slot = self
            .locked()
            .entry(session_id.to_owned())
            .or_insert_with(fresh)
            .clone();
        let mut slot = slot.lock_owned().await;
        slot.touch();
        slot
    }

    /// Sessions without a turn that you should close: those unused for `idle`, and the least recently used ones beyond
    /// `most`.
    pub(super) fn surplus(
        &self,
        most: usize,
        idle: Duration,
    ) -> Vec<(String, OwnedMutexGuard<Slot>)> {
        let mut resting = Vec::new();
        let mut slots = self.locked();
        slots.retain(|id, slot| {
            let unshared = Arc::strong_count(slot) == 1;
            match slot.clone().try_lock_owned() {
                Ok(slot) if slot.open.is_some() => resting.push((id.clone(), slot)),
                // Its turn ended before it opened the session.
                Ok(_) => return !unshared,
                Err(_) => {}
            }
            true
        });
        let open = slots.len();
        resting.sort_by_key(|(_, slot)| slot.used);
        let mut beyond = open.saturating_sub(most);
        resting.retain(|(_, slot)| {
            let over = beyond > 0;
            beyond = beyond.saturating_sub(1);
            over || slot.used.elapsed() >= idle
        });
        resting
    }

    /// Releases the slot of a closed session and removes it if no turn waits for it.
    pub(super) fn forget(&self, session_id: &str, slot: OwnedMutexGuard<Slot>) {
        let mut slots = self.locked();
        drop(slot);
        // A waiting turn has its own reference, and needs the same slot.
        if slots
            .get(session_id)
            .is_some_and(|slot| Arc::strong_count(slot) == 1)
        {
            slots.remove(session_id);
        }
    }

    /// All open sessions without a turn, for the end of the process.
    pub(super) fn resting(&self) -> Vec<Open> {
        let slots = self.surplus(0, Duration::ZERO);
        slots
            .into_iter()
            .filter_map(|(_, slot)| slot.open.clone())
            .collect()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Arc<tokio::sync::Mutex<Slot>>>> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    async fn use_once(sessions: &Sessions, id: &str) {
        let mut slot = sessions.reserve(id).await;
        slot.open = Some(Open {
            live: format!("live-{id}"),
            said: None,
            cwd: None,
        });
        slot.touch();
    }

    fn ids(sessions: &Sessions, most: usize) -> Vec<String> {
        let surplus = sessions.surplus(most, IDLE);
        surplus.into_iter().map(|(id, _)| id).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_recently_used_are_surplus_and_one_in_a_turn_never_is() {
        let sessions = Sessions::default();
        for id in ["a", "b", "c", "d"] {
            use_once(&sessions, id).await;
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        use_once(&sessions, "a").await;
        assert_eq!(ids(&sessions, 2), ["b", "c"]);
        let turn = sessions.reserve("b").await;
        assert_eq!(ids(&sessions, 2), ["c", "d"]);
        tokio::time::advance(2 * IDLE).await;
        assert_eq!(ids(&sessions, 4), ["c", "d", "a"]);
        drop(turn);
        assert!(ids(&sessions, 4).contains(&"b".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_waits_for_the_closing_of_its_session_and_then_finds_it_closed() {
        let sessions = Arc::new(Sessions::default());
        use_once(&sessions, "a").await;
        let (id, mut slot) = sessions.surplus(0, IDLE).pop().unwrap();
        let turn = tokio::spawn({
            let sessions = sessions.clone();
            async move { sessions.reserve("a").await.open.is_none() }
        });
        tokio::task::yield_now().await;
        assert!(!turn.is_finished());
        slot.open = None;
        sessions.forget(&id, slot);
        assert!(turn.await.unwrap());
        assert!(sessions.surplus(0, IDLE).is_empty());
        assert!(sessions.locked().is_empty());
    }
}
