//! So many at one go, and then so many a second: what is done because of others costs no more, however much they do.

use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep_until;

#[derive(Debug, Clone)]
pub(super) struct Ration {
    burst: u32,
    /// One more is saved up in this time.
    every: Duration,
    /// When all will be saved up again.
    full_at: Option<Instant>,
}

impl Ration {
    pub(super) const fn of(burst: u32, every: Duration) -> Ration {
        Ration {
            burst,
            every,
            full_at: None,
        }
    }

    /// Takes one, and says how long to rest before it is used.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        self.spend(now, 1)
    }

    /// Whether most of it is left.
    pub(super) fn is_plenty(&self, now: Instant) -> bool {
        let spent = self.full_at.map(|at| at.saturating_duration_since(now));
        spent.is_none_or(|spent| spent < self.every * (self.burst / 2))
    }

    /// Takes what costs as much as `times` of them.
    pub(super) fn spend(&mut self, now: Instant, times: u32) -> Duration {
        let full_at = self.full_at.unwrap_or(now).max(now) + self.every * times;
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(self.every * self.burst)
    }
}

/// The queue's passes because of other programs' commits. Those that find nothing to do may take a tenth of a second at one
/// go, and then a twentieth of the time.
#[derive(Debug)]
pub(super) struct Passes {
    ration: Ration,
    /// The next one comes no sooner.
    from: Instant,
}

/// What they are counted in; the longest counts as so many.
const PART: Duration = Duration::from_micros(100);
const MOST_PARTS: u128 = 100;

impl Default for Passes {
    fn default() -> Self {
        Passes {
            ration: Ration::of(1000, PART * 20),
            from: Instant::now(),
        }
    }
}

impl Passes {
    /// Resolves when `commits` says that there are any, and a pass is due.
    pub(super) async fn next(&self, commits: &Notify) {
        // In this order: what is dropped while it rests has taken no news.
        sleep_until(self.from.into()).await;
        commits.notified().await;
    }

    pub(super) fn was_fruitless(&mut self, begun: Instant) {
        let now = Instant::now();
        let parts = (now - begun).as_micros() / PART.as_micros();
        let parts = u32::try_from(parts.clamp(1, MOST_PARTS)).unwrap_or(1);
        self.from = now + self.ration.spend(now, parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(10);

    #[test]
    fn a_few_come_at_once_and_many_come_in_time() {
        let (mut ration, start) = (Ration::of(5, EVERY), Instant::now());
        let rests: Vec<_> = (0..7).map(|_| ration.take(start)).collect();
        assert_eq!(rests[..5], [Duration::ZERO; 5]);
        assert_eq!(rests[5..], [EVERY, EVERY * 2]);
        // However long it goes on: a thousand more, each used when it was allowed.
        let (mut now, begun) = (start + EVERY * 2, start + EVERY * 2);
        for _ in 0..1000 {
            now += ration.take(now);
        }
        assert_eq!(now - begun, EVERY * 1000);
        // After a while without any, a few come at once again.
        let later = now + Duration::from_secs(1);
        assert!(ration.is_plenty(later));
        assert!((0..5).all(|_| ration.take(later).is_zero()));
        assert!(!ration.is_plenty(later));
        assert_eq!(ration.take(later), EVERY);
    }

    #[test]
    fn passes_that_find_nothing_push_the_next_one_back() {
        let mut passes = Passes::default();
        let start = passes.from;
        // Each counts as at least one part. The burst is spent long before so many.
        for _ in 0..100_000 {
            passes.was_fruitless(Instant::now());
        }
        let earliest = start + PART * 20 * (100_000 - 1000);
        assert!(passes.from >= earliest, "{:?}", passes.from - start);
    }
}
