//! Replaces the rates for tests that run a built daemon.
//!
//! Only debug builds have this. `HERMESD_TEST_RATES=unlimited` removes all limits. `HERMESD_TEST_RATES=20/2000` allows
//! 20 calls in 2000 milliseconds to each chat and leaves the overall limit.

use super::Rates;

#[cfg(debug_assertions)]
pub(super) fn apply(rates: Rates) -> Rates {
    use super::Limit;
    use std::time::Duration;

    let Ok(wanted) = std::env::var("HERMESD_TEST_RATES") else {
        return rates;
    };
    let number = |text: &str| text.parse::<u32>().ok();
    let limit = wanted.split_once('/').and_then(|(count, window)| {
        let window = Duration::from_millis(number(window)?.into());
        Some(Limit::new(number(count)?, window))
    });
    Rates {
        overall: limit.and(rates.overall),
        private_chat: rates.private_chat.and(limit),
        group: rates.group.and(limit),
        ..rates
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn apply(rates: Rates) -> Rates {
    rates
}
