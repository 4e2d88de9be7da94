//! Rate limits. Discord documents the shape of its headers and one number: 50 calls a second to all routes together. Each answer
//! has the headers. A limit holds only where a test sets one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};
use jiff::Timestamp;

use super::errors::{self, LimitScope};
use super::routes::Call;
use crate::support::fake::Refusal;

/// At most `count` calls in a window, which begins with the first call in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub count: usize,
    pub window: Duration,
}

/// A limit that no test reaches, so that a client that reads the headers never waits.
const UNREACHED: Limit = Limit {
    count: 10_000,
    window: Duration::from_secs(1),
};

#[derive(Default)]
pub struct RateLimits {
    /// The limits that are set, by the name of their route.
    pub routes: HashMap<String, Limit>,
    /// For all routes together. Interactions do not count.
    pub global: Option<Limit>,
    /// The limits of resources that others use too, by the name of their route.
    pub shared: HashMap<String, Limit>,
    windows: HashMap<String, (Instant, usize)>,
}

/// How a bucket is after a call.
pub struct Standing {
    limit: usize,
    remaining: usize,
    reset_after: Duration,
    bucket: String,
}

impl RateLimits {
    /// Counts a call. The headers are for its answer, whether it is refused or not. A global refusal has none.
    pub fn admit(&mut self, call: &Call, now: Instant) -> (Option<Standing>, Result<(), Refusal>) {
        let (name, major) = (call.name, call.major());
        let limit = self.routes.get(name).copied().unwrap_or(UNREACHED);
        let global = self.global.filter(|_| !call.is_interaction());
        let over = global.and_then(|limit| self.count("global", limit, now).err());
        if let Some(left) = over {
            return (
                None,
                Err(errors::too_many_requests(left, LimitScope::Global)),
            );
        }
        let bucket = bucket(name);
        let counted = self.count(&format!("{name} {major}"), limit, now);
        let shared = self.shared.get(name).copied();
        let shared =
            shared.and_then(|of| self.count(&format!("shared {name} {major}"), of, now).err());
        let (remaining, reset_after) = counted.unwrap_or_else(|left| (0, left));
        let standing = Standing {
            limit: limit.count,
            remaining,
            reset_after,
            bucket,
        };
        let allowed = match (counted, shared) {
            (Err(left), _) => Err(errors::too_many_requests(left, LimitScope::User)),
            (Ok(_), Some(left)) => Err(errors::too_many_requests(left, LimitScope::Shared)),
            (Ok(_), None) => Ok(()),
        };
        (Some(standing), allowed)
    }

    /// Gives how many calls are left and for how long, or the time to wait.
    fn count(
        &mut self,
        key: &str,
        limit: Limit,
        now: Instant,
    ) -> Result<(usize, Duration), Duration> {
        let window = self.windows.entry(key.to_owned()).or_insert((now, 0));
        if now - window.0 >= limit.window {
            *window = (now, 0);
        }
        let left = window.0 + limit.window - now;
        if window.1 >= limit.count {
            return Err(left);
        }
        window.1 += 1;
        Ok((limit.count - window.1, left))
    }
}

/// The name of a bucket says nothing, and is the same for the same route.
fn bucket(route: &str) -> String {
    let sum = route.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{sum:016x}")
}

impl Standing {
    pub fn write(&self, headers: &mut HeaderMap) {
        let now = Timestamp::now().as_millisecond() as f64 / 1000.0;
        let after = self.reset_after.as_secs_f64();
        let values = [
            ("x-ratelimit-limit", self.limit.to_string()),
            ("x-ratelimit-remaining", self.remaining.to_string()),
            ("x-ratelimit-reset", format!("{:.3}", now + after)),
            ("x-ratelimit-reset-after", format!("{after:.3}")),
            ("x-ratelimit-bucket", self.bucket.clone()),
        ];
        for (name, value) in values {
            headers.insert(name, HeaderValue::from_str(&value).expect("plain text"));
        }
    }
}
