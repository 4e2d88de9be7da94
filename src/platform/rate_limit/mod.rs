//! Keeps an adapter within its vendor's rate limits. [`RateLimited`] wraps the adapter, so each call passes it.
//!
//! Libraries such as governor cannot express "20 at once, and never more than 20 in any minute": their bursts refill
//! evenly, so 20 at once are followed by more within the same minute. They also have no priorities. So this is an exact
//! sliding window with a queue.
//!
//! - A call waits until its chat and the whole platform have room. The queue orders by [`Priority`], then by arrival.
//! - Opening a thread also reserves the place of its first message, for at most one window.
//! - The vendor's `retry_after` holds the chat, or the platform, for all callers. If our window had room for the
//!   refused call, the limit shrinks to what the vendor allowed. It grows back by one call in each window.
//! - If threads that did not count can explain the refusal, threads count from then on, and the limit stays.

mod limited;
#[cfg(test)]
mod limited_tests;
mod limiter;
mod test_rates;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

pub use limited::RateLimited;

use crate::domain::ChatType;

/// At most `count` calls in any period of the length `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub count: u32,
    pub window: Duration,
}

impl Limit {
    pub fn new(count: u32, window: Duration) -> Limit {
        Limit {
            count: count.max(1),
            window,
        }
    }
}

/// The vendor's limits, as an adapter declares them. The default has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// For all chats together.
    pub overall: Option<Limit>,
    /// For each private chat.
    pub private_chat: Option<Limit>,
    /// For each group and channel.
    pub group: Option<Limit>,
    pub counted: CountedCalls,
    pub hold: HoldScope,
}

impl Rates {
    /// The limit of one chat of this type.
    pub fn of_chat(&self, chat_type: ChatType) -> Option<Limit> {
        match chat_type {
            ChatType::Dm => self.private_chat,
            ChatType::Group | ChatType::Channel | ChatType::Thread => self.group,
        }
    }
}

/// The calls that the vendor counts beside new messages, which always count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedCalls {
    /// `false`: a thread counts from the first refusal on that names a time to wait.
    pub open_thread: bool,
    pub edit: bool,
    pub acknowledge: bool,
    pub typing: bool,
}

/// Room for a thread and its first message. Dropping it gives the room back, unless the thread was opened.
#[derive(Default)]
pub struct ThreadRoom {
    give_back: Option<Box<dyn FnOnce() + Send>>,
}

impl Drop for ThreadRoom {
    fn drop(&mut self) {
        if let Some(give_back) = self.give_back.take() {
            give_back();
        }
    }
}

/// What a refusal with `retry_after` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HoldScope {
    #[default]
    Chat,
    Platform,
}

/// The order in which calls are served. The first is the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Priority {
    /// The reply in a handoff's thread.
    HandoffReply,
    /// Opening a handoff's thread. Threads that are open get their replies first.
    HandoffThread,
    /// Replies and notes to people.
    #[default]
    Reply,
    /// Questions of an agent, and changes of their messages.
    Question,
    /// A reply while it is written.
    Preview,
    Acknowledgement,
    Typing,
}

impl Priority {
    /// How long a call waits before it is dropped. `None`: it waits until there is room.
    fn patience(self) -> Option<Duration> {
        match self {
            Priority::HandoffReply
            | Priority::HandoffThread
            | Priority::Reply
            | Priority::Question => None,
            // A newer text replaces it soon.
            Priority::Preview => Some(Duration::ZERO),
            Priority::Acknowledgement => Some(Duration::from_secs(5)),
            Priority::Typing => Some(Duration::ZERO),
        }
    }

    /// The number of places that a call leaves for more urgent ones.
    fn spare(self, allowed: u32) -> u32 {
        match self {
            Priority::Preview | Priority::Acknowledgement | Priority::Typing => allowed / 4,
            _ => 0,
        }
    }
}
