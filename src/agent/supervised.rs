//! Keeps a program running that serves many turns. Starts it on demand, restarts it after a crash with growing pauses,
//! and ends it when it is idle.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::AgentError;
use crate::journal_ids;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A program that [`Supervised`] keeps running.
#[async_trait]
pub(super) trait Served: Send + Sync + 'static {
    fn is_alive(&self) -> bool;

    /// Ends the program in an orderly way.
    async fn close(&self);
}

pub(super) struct Supervised<T> {
    name: &'static str,
    idle: Duration,
    state: Arc<Mutex<State<T>>>,
}

struct State<T> {
    running: Option<Arc<T>>,
    used: Instant,
    /// Consecutive starts without a successful turn.
    failures: u32,
    not_before: Option<Instant>,
}

impl<T> State<T> {
    /// Forgets a program that ended by itself, and logs that.
    fn discard_ended(&mut self, name: &str) {
        if self.running.take().is_some() {
            tracing::warn!(
                message_id = journal_ids::AGENT_CRASHED,
                agent = name,
                "agent exited, will start again when needed"
            );
        }
    }
}

impl<T: Served> Supervised<T> {
    pub(super) fn new(name: &'static str, idle: Duration) -> Supervised<T> {
        Supervised {
            name,
            idle,
            state: Arc::new(Mutex::new(State {
                running: None,
                used: Instant::now(),
                failures: 0,
                not_before: None,
            })),
        }
    }

    /// The running program, or the one that `start` starts.
    pub(super) async fn get<F>(&self, start: impl FnOnce() -> F) -> Result<Arc<T>, AgentError>
    where
        F: Future<Output = Result<T, AgentError>>,
    {
        let mut state = self.state.lock().await;
        state.used = Instant::now();
        if let Some(running) = state.running.clone().filter(|running| running.is_alive()) {
            return Ok(running);
        }
        state.discard_ended(self.name);
        if let Some(wait) = state
            .not_before
            .and_then(|at| at.checked_duration_since(Instant::now()))
        {
            return Err(AgentError::Failed(format!(
                "{} has ended {} times in a row; the next start is possible in {} s",
                self.name,
                state.failures,
                wait.as_secs() + 1
            )));
        }
        // Counts as a failure until a turn succeeds.
        state.failures += 1;
        if state.failures > 1 {
            let pause = FIRST_PAUSE.saturating_mul(1 << (state.failures - 2).min(16));
            state.not_before = Some(Instant::now() + pause.min(LONGEST_PAUSE));
        }
        let started = Arc::new(start().await?);
        tracing::info!(agent = self.name, "agent started");
        state.running = Some(started.clone());
        tokio::spawn(end_when_idle(self.name, self.state.clone(), self.idle));
        Ok(started)
    }

    /// Records a successful turn.
    pub(super) async fn worked(&self) {
        let mut state = self.state.lock().await;
        state.used = Instant::now();
        state.failures = 0;
        state.not_before = None;
    }

    pub(super) async fn close(&self) {
        let running = self.state.lock().await.running.take();
        if let Some(running) = running {
            running.close().await;
        }
    }
}

async fn end_when_idle<T: Served>(name: &str, state: Arc<Mutex<State<T>>>, idle: Duration) {
    loop {
        let rest = {
            let mut state = state.lock().await;
            let in_use = match &state.running {
                Some(running) if running.is_alive() => Arc::strong_count(running) > 1,
                // The next start spawns its own task.
                _ => return state.discard_ended(name),
            };
            let rested = state.used.elapsed();
            if !in_use && rested >= idle {
                if let Some(running) = state.running.take() {
                    tracing::info!(agent = name, "idle agent ended");
                    running.close().await;
                }
                return;
            }
            if in_use {
                state.used = Instant::now();
            }
            idle.saturating_sub(rested).max(Duration::from_millis(100))
        };
        tokio::time::sleep(rest).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Thing {
        dead: AtomicBool,
    }

    #[async_trait]
    impl Served for Thing {
        fn is_alive(&self) -> bool {
            !self.dead.load(Ordering::Relaxed)
        }

        async fn close(&self) {
            self.dead.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_crashes_is_started_anew_with_growing_pauses_until_a_turn_goes_well() {
        let things = Supervised::new("thing", Duration::from_secs(60));
        let starts = AtomicUsize::new(0);
        let get = || {
            things.get(|| async {
                starts.fetch_add(1, Ordering::Relaxed);
                Ok(Thing::default())
            })
        };
        let first = get().await.unwrap();
        assert!(Arc::ptr_eq(&first, &get().await.unwrap()));
        first.close().await;
        // The second start is immediate, the third has to wait.
        get().await.unwrap().close().await;
        assert_eq!(starts.load(Ordering::Relaxed), 2);
        let error = get().await.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("2 times in a row"), "{error}");
        tokio::time::advance(Duration::from_millis(1100)).await;
        let third = get().await.unwrap();
        things.worked().await;
        third.close().await;
        get().await.unwrap();
        assert_eq!(starts.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_needs_ends_and_what_is_in_use_does_not() {
        let things = Supervised::new("thing", Duration::from_secs(60));
        let used = things.get(|| async { Ok(Thing::default()) }).await.unwrap();
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(used.is_alive());
        let watched = Arc::downgrade(&used);
        drop(used);
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert!(watched.upgrade().is_none());
    }
}
