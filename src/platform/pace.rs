//! Keeping to a platform's limits before it has to complain.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// So many messages at once, and then one in every so often.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub every: Duration,
    pub burst: u32,
}

impl Rate {
    /// So many in any one second at the most, a fifth of them at once.
    pub fn per_second(count: u32) -> Rate {
        let count = count.max(1);
        let burst = (count / 5).max(1);
        Rate {
            every: Duration::from_secs(1) / (count - burst + 1),
            burst,
        }
    }
}

/// When each chat, and the platform as a whole, may be sent to. Who waits has their place: first come, first served.
pub struct Pace {
    whole: Rate,
    times: Mutex<Times>,
}

#[derive(Default)]
struct Times {
    /// The time by which all that was sent is paid for, at one message in every `every`.
    whole: Option<Instant>,
    chats: HashMap<String, Instant>,
}

/// Chats are forgotten when there are more than this and they owe nothing.
const REMEMBERED: usize = 1000;

impl Pace {
    pub fn new(whole: Rate) -> Pace {
        Pace {
            whole,
            times: Mutex::default(),
        }
    }

    /// Waits for its place. One of the whole is taken only when the chat's has come: a chat that has to wait for long keeps
    /// no other waiting.
    pub async fn ready(&self, chat: &str, rate: Rate) {
        let at = self.place_in(chat, rate, Instant::now());
        tokio::time::sleep_until(at).await;
        let at = self.place(Instant::now());
        tokio::time::sleep_until(at).await;
    }

    /// The platform wants this chat left alone for a while.
    pub fn hold(&self, chat: &str, rate: Rate, pause: Duration) {
        let paid = Instant::now() + pause + rate.every * rate.burst.saturating_sub(1);
        let mut times = self.locked();
        let chat = times.chats.entry(chat.to_owned()).or_insert(paid);
        *chat = (*chat).max(paid);
    }

    fn place_in(&self, chat: &str, rate: Rate, now: Instant) -> Instant {
        let mut times = self.locked();
        if times.chats.len() > REMEMBERED {
            times.chats.retain(|_, paid| *paid > now);
        }
        let of_chat = times.chats.entry(chat.to_owned()).or_insert(now);
        next(of_chat, rate, now)
    }

    fn place(&self, now: Instant) -> Instant {
        let mut times = self.locked();
        next(times.whole.get_or_insert(now), self.whole, now)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Times> {
        self.times
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Takes the next place: at once while the burst lasts, else when enough is paid for.
fn next(paid: &mut Instant, rate: Rate, now: Instant) -> Instant {
    let free = rate.every * rate.burst.saturating_sub(1);
    let begin = (*paid).max(now);
    let at = begin.checked_sub(free).unwrap_or(now).max(now);
    *paid = begin + rate.every;
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(every: Duration, burst: u32) -> Rate {
        Rate { every, burst }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_waits_its_turn() {
        let pace = Pace::new(rate(SECOND / 100, 100));
        let begun = Instant::now();
        let mut at = Vec::new();
        for _ in 0..5 {
            pace.ready("a", rate(SECOND, 3)).await;
            at.push(begun.elapsed().as_secs());
        }
        assert_eq!(at, [0, 0, 0, 1, 2]);
        // Another chat owes nothing, and after a rest neither does this one.
        pace.ready("b", rate(SECOND, 3)).await;
        assert_eq!(begun.elapsed().as_secs(), 2);
        tokio::time::sleep(SECOND * 10).await;
        pace.ready("a", rate(SECOND, 3)).await;
        assert_eq!(begun.elapsed().as_secs(), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn all_chats_together_keep_to_the_limit_of_the_whole() {
        let pace = Pace::new(rate(SECOND / 10, 10));
        let begun = Instant::now();
        for n in 0..31 {
            pace.ready(&format!("chat {n}"), rate(SECOND, 3)).await;
        }
        assert!(
            begun.elapsed() >= SECOND * 2 && begun.elapsed() < SECOND * 3,
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_chat_that_is_held_waits_and_the_others_do_not() {
        let pace = Pace::new(rate(SECOND / 100, 100));
        let begun = Instant::now();
        pace.hold("a", rate(SECOND, 3), SECOND * 7);
        let held = async {
            pace.ready("a", rate(SECOND, 3)).await;
            assert_eq!(begun.elapsed().as_secs(), 7);
        };
        let other = async {
            pace.ready("b", rate(SECOND, 3)).await;
            assert!(begun.elapsed() < SECOND);
        };
        tokio::join!(held, other);
    }

    #[tokio::test(start_paused = true)]
    async fn no_second_has_more_than_was_said() {
        for count in [1, 2, 7, 25, 1000] {
            let pace = Pace::new(Rate::per_second(count));
            let begun = Instant::now();
            let mut at = Vec::new();
            for n in 0..3 * count {
                pace.ready(&format!("chat {n}"), rate(SECOND, 3)).await;
                at.push(begun.elapsed());
            }
            for window in at.windows(count as usize + 1) {
                let took = window[count as usize] - window[0];
                assert!(took >= SECOND, "{count}: {took:?}");
            }
            assert!(begun.elapsed() <= 5 * SECOND, "{count}");
        }
    }
}
