//! Remembers what Discord says about its rate limits: a limit per bucket of a route, and one for all calls.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::HeaderMap;
use tokio::time::Instant;

/// The most buckets that are remembered. Each thread has some of its own.
const MOST: usize = 2000;
/// A longer wait is left to the caller.
const LONGEST: Duration = Duration::from_secs(10);

pub(super) struct Buckets<K> {
    state: Mutex<State<K>>,
}

struct State<K> {
    /// The buckets without room, and when they have room again.
    full: HashMap<K, Instant>,
    /// The end of a global limit.
    all: Option<Instant>,
}

impl<K: Hash + Eq> Default for Buckets<K> {
    fn default() -> Self {
        let state = State {
            full: HashMap::new(),
            all: None,
        };
        Buckets {
            state: Mutex::new(state),
        }
    }
}

impl<K: Hash + Eq> Buckets<K> {
    fn state(&self) -> std::sync::MutexGuard<'_, State<K>> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits until the bucket has room, as far as Discord has said. Returns the time to wait if it is long.
    pub(super) async fn wait(&self, bucket: &K) -> Result<(), Duration> {
        loop {
            let now = Instant::now();
            let until = {
                let state = self.state();
                let until = state.full.get(bucket).copied().max(state.all);
                until.filter(|until| *until > now)
            };
            let Some(until) = until else { return Ok(()) };
            if until - now > LONGEST {
                return Err(until - now);
            }
            tokio::time::sleep_until(until).await;
        }
    }

    /// Reads the headers of an answer.
    pub(super) fn answered(&self, bucket: K, headers: &HeaderMap) {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<f64>().ok();
        if number("x-ratelimit-remaining") == Some(0.0)
            && let Some(after) = number("x-ratelimit-reset-after").and_then(seconds)
        {
            self.fill(bucket, after);
        }
    }

    /// A call was refused because of its rate.
    pub(super) fn refused(&self, bucket: K, pause: Duration, global: bool) {
        match global {
            true => self.state().all = Some(Instant::now() + pause),
            false => self.fill(bucket, pause),
        }
    }

    fn fill(&self, bucket: K, pause: Duration) {
        let now = Instant::now();
        let mut state = self.state();
        if state.full.len() >= MOST {
            state.full.retain(|_, until| *until > now);
        }
        state.full.insert(bucket, now + pause);
    }
}

/// `None`: the number is no time.
pub(super) fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_bucket_delays_its_own_calls_and_a_global_limit_all() {
        let buckets = Buckets::default();
        let start = Instant::now();
        buckets.refused("a", Duration::from_secs(2), false);
        buckets.wait(&"b").await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
        buckets.wait(&"a").await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        buckets.refused("a", Duration::from_secs(3), true);
        buckets.wait(&"b").await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        buckets.refused("a", Duration::from_secs(60), false);
        assert_eq!(buckets.wait(&"a").await, Err(Duration::from_secs(60)));
    }
}
