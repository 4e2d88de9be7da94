//! Rate limits. Slack documents tiers, and one message a second in each channel. A limit holds only where a test sets one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::errors;
use super::methods::{self, METHODS, Tier};
use super::request::Call;
use crate::support::fake::Refusal;

/// At most `count` calls in a window, which begins with the first call in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub count: usize,
    pub window: Duration,
}

#[derive(Default)]
pub struct RateLimits {
    /// The limits that are set, by the name of their method.
    pub methods: HashMap<String, Limit>,
    windows: HashMap<String, (Instant, usize)>,
}

impl RateLimits {
    /// Sets all limits that Slack documents.
    pub fn documented(&mut self) {
        for method in METHODS {
            let (count, window) = method.tier.allows();
            let limit = Limit { count, window };
            self.methods.insert(method.name.to_owned(), limit);
        }
    }

    /// Counts a call for its method and workspace. Posts count for their channel.
    pub fn admit(&mut self, call: &Call, now: Instant) -> Result<(), Refusal> {
        let name = call.method.name;
        let Some(limit) = self.methods.get(name).copied() else {
            return Ok(());
        };
        let channel = match methods::find(name).map(|method| method.tier) {
            Some(Tier::Posts) => call.text("channel").unwrap_or_default(),
            _ => String::new(),
        };
        let key = format!("{name} {} {channel}", call.team);
        let window = self.windows.entry(key).or_insert((now, 0));
        if now - window.0 >= limit.window {
            *window = (now, 0);
        }
        if window.1 >= limit.count {
            return Err(errors::rate_limited(window.0 + limit.window - now));
        }
        window.1 += 1;
        Ok(())
    }
}
