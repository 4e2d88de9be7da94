//! Limits work that other programs cause, by a burst and a rate, however much they do.

use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep_until;

#[derive(Debug, Clone)]
pub(super) struct Ration {
    burst: u32,
    /// The time in which one unit is regained.
    every: Duration,
    /// When the whole burst is available again.
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

    /// Takes one unit. Returns how long to wait before you use it.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        self.spend(now, 1)
    }

    /// Whether more than half of the burst is available.
    pub(super) fn is_plenty(&self, now: Instant) -> bool {
        let spent = self.full_at.map(|at| at.saturating_duration_since(now));
        spent.is_none_or(|spent| spent < self.every * (self.burst / 2))
    }

    /// Takes `times` units. Returns how long to wait before you use them.
    pub(super) fn spend(&mut self, now: Instant, times: u32) -> Duration {
        let full_at = self.full_at.unwrap_or(now).max(now) + self.every * times;
        self.full_at = Some(full_at);
        (full_at - now).saturating_sub(self.every * self.burst)
    }
}

/// Limits the queue's passes that other programs' commits cause. Passes that find no work may take a tenth of a second
/// at once, and then a twentieth of the time.
#[derive(Debug)]
pub(super) struct Passes {
    ration: Ration,
    /// The earliest time of the next pass.
    from: Instant,
}

/// The unit in which passes are counted, and the limit of units per pass.
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
    /// Resolves when a pass is due and `commits` has a notification.
    pub(super) async fn next(&self, commits: &Notify) {
        // In this order: if this future is dropped while it sleeps, no notification is lost.
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
        let needs_time_to_stop: Vec<_> = (0..7).map(|_| ration.take(start)).collect();
        assert_eq!(needs_time_to_stop[..5], [Duration::ZERO; 5]);
        assert_eq!(needs_time_to_stop[5..], [EVERY, EVERY * 2]);
        // The rate holds for a thousand more, each used when it is allowed.
        let (mut now, begun) = (start + EVERY * 2, start + EVERY * 2);
        for _ in 0..1000 {
            now += ration.take(now);
        }
        assert_eq!(now - begun, EVERY * 1000);
        // After a pause, the burst is available again.
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
        // Each counts as at least one unit, so the burst is used up early.
        for _ in 0..100_000 {
            passes.was_fruitless(Instant::now());
        }
        let earliest = start + PART * 20 * (100_000 - 1000);
        assert!(passes.from >= earliest, "{:?}", passes.from - start);
    }
}
