//! Queues the calls to a platform, and decides which call may start next, and when.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::window::Window;
use super::{HoldScope, Limit, Priority};

/// Idle chats are forgotten when there are more chats than this.
const MOST_CHATS: usize = 1000;
/// An upper bound for waits that nothing else ends. It only protects against an endless sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What a call needs before it starts.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallNeeds<'a> {
    pub(super) chat: &'a str,
    /// The limit of that chat.
    pub(super) limit: Option<Limit>,
    /// Whether the vendor counts the call.
    pub(super) counted: bool,
    /// Reserves the place of the message that follows.
    pub(super) reserves_reply: bool,
    /// The place that an earlier call has reserved for this one.
    pub(super) reservation: Option<Instant>,
    pub(super) priority: Priority,
}

impl CallNeeds<'_> {
    fn places(&self) -> u32 {
        u32::from(self.counted) + u32::from(self.reserves_reply)
    }
}

/// The position of a call in the queue: calls with a reserved place first, then by priority, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    has_no_reservation: bool,
    priority: Priority,
    number: u64,
}

/// There is no room, and a call of this priority does not wait longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom {
    /// The time until there may be room.
    pub(super) retry_after: Duration,
}

pub(super) struct RateLimiter {
    state: Mutex<State>,
}

struct State {
    overall: Window,
    chats: HashMap<String, Window>,
    /// In the order in which they are served.
    waiting: BTreeMap<Position, Waiting>,
    last_number: u64,
    /// The start of this limiter.
    known_since: Instant,
}

struct Waiting {
    chat: String,
    counted: bool,
    reserves_reply: bool,
    reservation: Option<Instant>,
    places: u32,
    seat: Arc<Seat>,
}

/// The state that a waiting call and the queue share.
#[derive(Default)]
struct Seat {
    granted: AtomicBool,
    /// The place that is reserved for the reply.
    reserved: Mutex<Option<Instant>>,
    wake: Notify,
}

impl Seat {
    fn reserved(&self) -> Option<Instant> {
        *self.reserved.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn set_reserved(&self, at: Instant) {
        *self.reserved.lock().unwrap_or_else(|e| e.into_inner()) = Some(at);
    }
}

impl RateLimiter {
    pub(super) fn new(overall: Option<Limit>) -> RateLimiter {
        let known_since = Instant::now();
        RateLimiter {
            state: Mutex::new(State {
                overall: Window::new(overall, known_since),
                known_since,
                chats: HashMap::new(),
                waiting: BTreeMap::new(),
                last_number: 0,
            }),
        }
    }

    /// Waits until the call can start. A call that is dropped while it waits gives up its place in the queue.
    pub(super) async fn acquire(self: &Arc<Self>, needs: CallNeeds<'_>) -> Result<Permit, NoRoom> {
        let started = Instant::now();
        let ticket = self.enqueue(needs);
        let mut waited = Duration::ZERO;
        loop {
            let now = Instant::now();
            let next = {
                let mut state = self.locked();
                state.serve(now);
                if ticket.seat.granted.load(Ordering::Relaxed) {
                    drop(state);
                    return Ok(ticket.into_permit(waited));
                }
                state.next_change(&ticket.chat, now)
            };
            let next = next.unwrap_or(now + LONGEST_SLEEP);
            if let Some(patience) = needs.priority.patience()
                && started + patience <= now
            {
                return Err(NoRoom {
                    retry_after: next.saturating_duration_since(now),
                });
            }
            let deadline = needs.priority.patience().map(|patience| started + patience);
            let until = deadline.map_or(next, |deadline| deadline.min(next));
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = ticket.seat.wake.notified() => {}
            }
            waited = started.elapsed();
        }
    }

    /// Frees a place that was reserved and is not needed.
    pub(super) fn release(&self, chat: &str, reserved: Instant) {
        let now = Instant::now();
        let mut state = self.locked();
        if let Some(window) = state.chats.get_mut(chat) {
            window.release(reserved, now);
        }
        state.changed(now);
    }

    fn enqueue(self: &Arc<Self>, needs: CallNeeds<'_>) -> Ticket {
        let now = Instant::now();
        let mut state = self.locked();
        if state.chats.len() > MOST_CHATS {
            let wanted: HashSet<String> = state.waiting.values().map(|w| w.chat.clone()).collect();
            state
                .chats
                .retain(|chat, window| wanted.contains(chat) || !window.is_idle(now));
        }
        let known_since = state.known_since;
        state
            .chats
            .entry(needs.chat.to_owned())
            .or_insert_with(|| Window::new(needs.limit, known_since));
        state.last_number += 1;
        let at = Position {
            has_no_reservation: needs.reservation.is_none(),
            priority: needs.priority,
            number: state.last_number,
        };
        let seat = Arc::new(Seat::default());
        state.waiting.insert(
            at,
            Waiting {
                chat: needs.chat.to_owned(),
                counted: needs.counted,
                reserves_reply: needs.reserves_reply,
                reservation: needs.reservation,
                places: needs.places(),
                seat: seat.clone(),
            },
        );
        Ticket {
            limiter: self.clone(),
            at,
            chat: needs.chat.to_owned(),
            counted: needs.counted,
            seat,
            is_open: true,
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    /// Lets all calls start that can, in their order. A call that cannot start blocks the later ones of its chat only,
    /// unless it waits for the overall limit.
    fn serve(&mut self, now: Instant) {
        let mut blocked = HashSet::new();
        let mut granted = Vec::new();
        for (at, waiting) in &self.waiting {
            if blocked.contains(&waiting.chat) {
                continue;
            }
            let Some(window) = self.chats.get_mut(&waiting.chat) else {
                continue;
            };
            let reservation = waiting
                .reservation
                .filter(|at| window.has_reservation(*at, now));
            let allowed = window.allowed(now);
            let places = match reservation {
                Some(_) => 0,
                None => waiting.places,
            };
            if !window.has_room(places, at.priority.spare(allowed), now) {
                blocked.insert(waiting.chat.clone());
                continue;
            }
            if !self.overall.has_room(u32::from(waiting.counted), 0, now) {
                break;
            }
            if let Some(reservation) = reservation {
                window.release(reservation, now);
            }
            if waiting.counted {
                window.start();
                self.overall.start();
            }
            if waiting.reserves_reply && allowed >= waiting.places {
                window.reserve(now);
                waiting.seat.set_reserved(now);
            }
            waiting.seat.granted.store(true, Ordering::Relaxed);
            waiting.seat.wake.notify_one();
            granted.push(*at);
        }
        for at in &granted {
            self.waiting.remove(at);
        }
        if !granted.is_empty() {
            self.wake_first();
        }
    }

    /// Call this after any change that calls may wait for.
    fn changed(&mut self, now: Instant) {
        self.serve(now);
        self.wake_first();
    }

    /// Wakes the first call of each chat, so that it computes its wait again.
    fn wake_first(&self) {
        let mut chats = HashSet::new();
        for waiting in self.waiting.values() {
            if chats.insert(&waiting.chat) {
                waiting.seat.wake.notify_one();
            }
        }
    }

    fn next_change(&self, chat: &str, now: Instant) -> Option<Instant> {
        let of_chat = self.chats.get(chat).and_then(|w| w.next_change(now));
        let overall = self.overall.next_change(now);
        of_chat
            .into_iter()
            .chain(overall)
            .filter(|at| *at > now)
            .min()
    }

    fn end(&mut self, chat: &str, now: Instant) {
        if let Some(window) = self.chats.get_mut(chat) {
            window.end(now);
        }
        self.overall.end(now);
    }

    fn give_back(&mut self, chat: &str) {
        if let Some(window) = self.chats.get_mut(chat) {
            window.give_back();
        }
        self.overall.give_back();
    }
}

/// A place in the queue.
struct Ticket {
    limiter: Arc<RateLimiter>,
    at: Position,
    chat: String,
    counted: bool,
    seat: Arc<Seat>,
    is_open: bool,
}

impl Ticket {
    fn into_permit(mut self, waited: Duration) -> Permit {
        self.is_open = false;
        Permit {
            limiter: self.limiter.clone(),
            chat: self.chat.clone(),
            counted: self.counted,
            reserved: self.seat.reserved(),
            waited,
            is_open: true,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let now = Instant::now();
        let mut state = self.limiter.locked();
        state.waiting.remove(&self.at);
        // It may have been granted at the moment when its caller was dropped.
        if self.seat.granted.load(Ordering::Relaxed) {
            if self.counted {
                state.give_back(&self.chat);
            }
            if let (Some(reserved), Some(window)) =
                (self.seat.reserved(), state.chats.get_mut(&self.chat))
            {
                window.release(reserved, now);
            }
        }
        state.changed(now);
    }
}

/// The right to make one call. Dropping it ends the call.
pub(super) struct Permit {
    limiter: Arc<RateLimiter>,
    chat: String,
    counted: bool,
    /// The place that is reserved for the reply.
    reserved: Option<Instant>,
    /// Zero if there was room at once.
    waited: Duration,
    is_open: bool,
}

impl Permit {
    pub(super) fn waited(&self) -> Duration {
        self.waited
    }

    /// The call was not made.
    pub(super) fn give_back(mut self) {
        self.is_open = false;
        let now = Instant::now();
        let mut state = self.limiter.locked();
        if self.counted {
            state.give_back(&self.chat);
        }
        if let (Some(reserved), Some(window)) = (self.reserved, state.chats.get_mut(&self.chat)) {
            window.release(reserved, now);
        }
        state.changed(now);
    }

    /// The call has ended. Returns the place that is reserved for the reply.
    pub(super) fn into_reservation(mut self) -> Option<Instant> {
        self.reserved.take()
    }

    /// The vendor refused the call and named the time to wait, which holds for all callers. `shrinks` lowers the limit
    /// if it seemed to have room. Returns whether it did.
    pub(super) fn refused(mut self, pause: Duration, scope: HoldScope, shrinks: bool) -> bool {
        self.is_open = false;
        let now = Instant::now();
        let mut state = self.limiter.locked();
        let counted = self.counted;
        let held = match scope {
            HoldScope::Chat => state.chats.get_mut(&self.chat),
            HoldScope::Platform => Some(&mut state.overall),
        };
        let had_room = held.is_some_and(|window| {
            let had_room = window.hold(pause, counted, now);
            if had_room && shrinks {
                window.shrink(now);
            }
            had_room
        });
        if counted {
            state.give_back(&self.chat);
        }
        if let (Some(reserved), Some(window)) = (self.reserved, state.chats.get_mut(&self.chat)) {
            window.release(reserved, now);
        }
        state.changed(now);
        had_room
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let now = Instant::now();
        let mut state = self.limiter.locked();
        if self.counted {
            state.end(&self.chat, now);
        }
        if let (Some(reserved), Some(window)) = (self.reserved, state.chats.get_mut(&self.chat)) {
            window.release(reserved, now);
        }
        state.changed(now);
    }
}
