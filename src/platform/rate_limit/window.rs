//! One sliding window: the calls that count against one limit.
//!
//! The vendor counts a call when it arrives. We only know that it arrives between its start and its end, so a call
//! occupies its place from its start until one window after its end. The vendor then never sees more calls than the
//! limit allows.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::Limit;

/// A limit that the vendor has shown to be lower than documented.
#[derive(Debug, Clone, Copy)]
struct LearnedLimit {
    count: u32,
    since: Instant,
}

#[derive(Debug)]
pub(super) struct Window {
    /// `None`: calls are not limited.
    limit: Option<Limit>,
    learned: Option<LearnedLimit>,
    /// We know our own calls since then. The vendor may also count calls of an earlier process.
    known_since: Instant,
    /// Calls that have started and not ended.
    underway: u32,
    /// The ends of calls within the window, and places that are reserved since then. The oldest is first.
    ended: VecDeque<Instant>,
    /// The vendor refuses all calls until then.
    held_until: Option<Instant>,
}

impl Window {
    pub(super) fn new(limit: Option<Limit>, known_since: Instant) -> Window {
        Window {
            limit,
            known_since,
            learned: None,
            underway: 0,
            ended: VecDeque::new(),
            held_until: None,
        }
    }

    /// The calls that are allowed in one window. A learned limit grows by one in each window.
    pub(super) fn allowed(&self, now: Instant) -> u32 {
        let Some(limit) = self.limit else {
            return u32::MAX;
        };
        let Some(learned) = self.learned else {
            return limit.count;
        };
        let windows = (now - learned.since).as_nanos() / limit.window.as_nanos().max(1);
        let grown = learned
            .count
            .saturating_add(u32::try_from(windows).unwrap_or(u32::MAX));
        grown.min(limit.count)
    }

    pub(super) fn used(&mut self, now: Instant) -> u32 {
        self.expire(now);
        self.underway + u32::try_from(self.ended.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_held(&self, now: Instant) -> bool {
        self.held_until.is_some_and(|until| until > now)
    }

    /// Whether so many calls can start now and leave `spare` places. A call that needs more places than there are gets
    /// all of them. A call that does not count needs none.
    pub(super) fn has_room(&mut self, places: u32, spare: u32, now: Instant) -> bool {
        if self.is_held(now) {
            return false;
        }
        let allowed = self.allowed(now);
        let wanted = places.saturating_add(spare).min(allowed);
        places == 0 || self.used(now).saturating_add(wanted) <= allowed
    }

    /// The next time at which there may be more room. `None`: only the end of a call can make room.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        if let Some(until) = self.held_until.filter(|until| *until > now) {
            return Some(until);
        }
        let window = self.limit?.window;
        let expiry = self.ended.front().map(|end| *end + window);
        let growth = self.learned.map(|learned| {
            let passed = (now - learned.since).as_nanos() / window.as_nanos().max(1);
            let next = u32::try_from(passed + 1).unwrap_or(u32::MAX);
            learned.since + window.saturating_mul(next)
        });
        expiry.into_iter().chain(growth).min()
    }

    pub(super) fn start(&mut self) {
        self.underway += 1;
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.underway = self.underway.saturating_sub(1);
        if self.limit.is_some() {
            self.ended.push_back(now);
        }
    }

    /// The call was not made, or the vendor did not count it.
    pub(super) fn give_back(&mut self) {
        self.underway = self.underway.saturating_sub(1);
    }

    /// Reserves a place, for at most one window.
    pub(super) fn reserve(&mut self, now: Instant) {
        if self.limit.is_some() {
            self.ended.push_back(now);
        }
    }

    /// Whether a place that was reserved at that time is still reserved.
    pub(super) fn has_reservation(&mut self, reserved: Instant, now: Instant) -> bool {
        self.expire(now);
        self.ended.contains(&reserved)
    }

    /// Frees a place that was reserved at that time.
    pub(super) fn release(&mut self, reserved: Instant, now: Instant) {
        self.expire(now);
        let at = self.ended.iter().position(|end| *end == reserved);
        if let Some(at) = at {
            self.ended.remove(at);
        }
    }

    /// Refuses all calls for `pause`, because the vendor refused one. Returns whether the limit seemed to have room for
    /// it. If so, the vendor allows less than we thought, or counts calls that we do not count.
    pub(super) fn hold(&mut self, pause: Duration, counted: bool, now: Instant) -> bool {
        let until = now + pause;
        self.held_until = Some(self.held_until.map_or(until, |held| held.max(until)));
        let limit = self
            .limit
            .filter(|limit| self.known_since + limit.window <= now);
        counted && limit.is_some() && self.used_before(now) < self.allowed(now)
    }

    /// Lowers the limit to the calls that the vendor has allowed before it refused one.
    pub(super) fn shrink(&mut self, now: Instant) {
        self.learned = Some(LearnedLimit {
            count: self.used_before(now),
            since: self.held_until.unwrap_or(now),
        });
    }

    /// The calls before the refused one, which is among the used ones.
    fn used_before(&mut self, now: Instant) -> u32 {
        self.used(now).saturating_sub(1).max(1)
    }

    /// Whether the window has no state that a new one would lack.
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        let learned = self
            .limit
            .is_some_and(|limit| self.allowed(now) < limit.count);
        self.used(now) == 0 && !self.is_held(now) && !learned
    }

    fn expire(&mut self, now: Instant) {
        let Some(limit) = self.limit else { return };
        while self
            .ended
            .front()
            .is_some_and(|end| *end + limit.window <= now)
        {
            self.ended.pop_front();
        }
        if self.learned.is_some() && self.allowed(now) == limit.count {
            self.learned = None;
        }
    }
}
