//! The vendor's limits on messages.
//!
//! Documented, in the vendor's FAQ for bots:
//! - In one chat, a bot should send at most one message a second. Short bursts may pass.
//! - To one group, a bot cannot send more than 20 messages a minute.
//! - To all chats together, a bot can send about 30 messages a second.
//! - `retry_after` is the number of whole seconds until the bot may call again.
//!
//! Stated by the maintainer of the Bot API server in public issues of tdlib/td and tdlib/telegram-bot-api:
//! - Edits share the limit of the chat with new messages.
//! - A new topic counts, because it sends a message about itself.
//! - `answerCallbackQuery` has no limit.
//! - The limits of deletions are out of reach for a sane bot.
//!
//! Experience of bot developers, and not confirmed by the vendor:
//! - The limit of groups holds for channels too.
//! - Calls during a ban renew it: bots that came back too early saw `retry_after` grow from seconds to an hour.
//! - Reactions and chat actions can be refused too, at a rate that no source gives.
//!
//! This fake therefore counts new messages, files, edits and topics. It also counts a topic that is renamed, closed or
//! reopened, because that sends a service message; no source says so. It neither counts nor refuses reactions, chat actions,
//! deletions and answers to buttons. The rate of one chat holds here for private chats only: in a group, its own limit decides.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::rules;
use super::world::{ChatKind, World};
use crate::support::fake::Refusal;

/// At most `count` messages in any time of the length `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub count: usize,
    pub window: Duration,
    pub early_calls: EarlyCalls,
}

/// What a call does to the ban that it meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyCalls {
    /// The ban ends when it was announced to end.
    KeepBan,
    /// The ban starts again, with its full length.
    RenewBan,
}

impl RateLimit {
    pub fn new(count: usize, window: Duration) -> RateLimit {
        RateLimit {
            count,
            window,
            early_calls: EarlyCalls::KeepBan,
        }
    }

    pub fn renewing_bans(self) -> RateLimit {
        RateLimit {
            early_calls: EarlyCalls::RenewBan,
            ..self
        }
    }
}

/// The limits that are enforced. The default is none.
#[derive(Debug, Clone, Default)]
pub struct VendorLimits {
    /// For each group, supergroup and channel.
    pub group: Option<RateLimit>,
    /// For each private chat.
    pub private_chat: Option<RateLimit>,
    /// For all chats together.
    pub overall: Option<RateLimit>,
    /// A new topic counts as a message. The vendor documents neither answer.
    pub counts_topics: bool,
}

impl VendorLimits {
    /// The limits of the FAQ. A burst of five messages passes in a private chat; the FAQ gives no number for it.
    pub fn documented() -> VendorLimits {
        let seconds = Duration::from_secs;
        VendorLimits {
            group: Some(RateLimit::new(20, seconds(60)).renewing_bans()),
            private_chat: Some(RateLimit::new(5, seconds(5)).renewing_bans()),
            overall: Some(RateLimit::new(30, seconds(1))),
            counts_topics: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scope {
    Overall,
    Chat(i64),
}

#[derive(Clone, Copy)]
struct Ban {
    length: Duration,
    until: Instant,
}

/// Counts messages and refuses those beyond the limits.
#[derive(Default)]
pub struct RateLimiter {
    pub limits: VendorLimits,
    sent: HashMap<Scope, VecDeque<Instant>>,
    bans: HashMap<Scope, Ban>,
}

impl RateLimiter {
    /// Counts a message, or gives the time to wait.
    pub fn admit(&mut self, chat: i64, is_private: bool, now: Instant) -> Result<(), Duration> {
        let of_chat = match is_private {
            true => self.limits.private_chat,
            false => self.limits.group,
        };
        let limits = [
            (Scope::Chat(chat), of_chat),
            (Scope::Overall, self.limits.overall),
        ];
        for (scope, limit) in limits {
            if let Some(limit) = limit {
                self.check(scope, limit, now)?;
            }
        }
        for (scope, _) in limits {
            self.sent.entry(scope).or_default().push_back(now);
        }
        Ok(())
    }

    fn check(&mut self, scope: Scope, limit: RateLimit, now: Instant) -> Result<(), Duration> {
        if let Some(ban) = self.bans.get_mut(&scope).filter(|ban| ban.until > now) {
            if limit.early_calls == EarlyCalls::RenewBan {
                ban.until = now + ban.length;
            }
            return Err(ban.until - now);
        }
        let sent = self.sent.entry(scope).or_default();
        sent.retain(|at| now - *at < limit.window);
        if sent.len() < limit.count {
            return Ok(());
        }
        // Room comes when the oldest of the last `count` messages leaves the window.
        let oldest = sent[sent.len() - limit.count];
        let length = whole_seconds(limit.window - (now - oldest));
        let until = now + length;
        self.bans.insert(scope, Ban { length, until });
        Err(length)
    }
}

impl World {
    /// Counts a new topic of the bot in this chat, where topics count.
    pub fn count_topic(&mut self, chat: i64) -> Result<(), Refusal> {
        match self.limiter.limits.counts_topics {
            true => self.count_message(chat),
            false => Ok(()),
        }
    }

    /// Counts a message of the bot to this chat, unless that is too many.
    pub fn count_message(&mut self, chat: i64) -> Result<(), Refusal> {
        let is_private = self.chats[&chat].kind == ChatKind::Private;
        let admitted = self.limiter.admit(chat, is_private, Instant::now());
        admitted.map_err(rules::too_many_requests)
    }
}

/// The vendor announces whole seconds, so a ban lasts whole seconds.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs_f64().ceil().max(1.0) as u64)
}
