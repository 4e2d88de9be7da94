//! Describes how long a platform recognises a repeated call.

use std::time::Duration;

/// Whether a second call with the same key has the effect of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dedup {
    /// Each call counts.
    None,
    /// A repeat counts as one call for this time after the first one began.
    For(Duration),
    /// The adapter finds the message of an earlier attempt, if it is told that there may be one.
    Search,
    /// A repeat counts as one call at any time.
    Always,
}

impl Dedup {
    /// Whether the platform recognises a repeat of a call that began so many seconds ago. False for a negative time,
    /// which comes from a wrong clock.
    pub fn covers(self, seconds: f64) -> bool {
        match self {
            Dedup::None => false,
            Dedup::For(window) => (0.0..window.as_secs_f64()).contains(&seconds),
            Dedup::Search | Dedup::Always => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_recognised_within_the_window_alone() {
        let minutes = Dedup::For(Duration::from_secs(120));
        for (dedup, seconds, expected) in [
            (Dedup::None, 0.0, false),
            (minutes, 0.0, true),
            (minutes, 119.0, true),
            (minutes, 120.0, false),
            (minutes, -1.0, false),
            (Dedup::Search, 1e9, true),
            (Dedup::Always, 1e9, true),
            (Dedup::Always, -1.0, true),
        ] {
            assert_eq!(dedup.covers(seconds), expected, "{dedup:?} {seconds}");
        }
    }
}
