//! What the tests share: temporary homes, real daemon processes, and waiting on conditions.

pub mod acp;
pub mod bot;
mod daemon;
pub mod discord;
pub mod discord_bot;
mod discord_talk;
pub mod endpoint;
pub mod fake;
pub mod journald;
pub mod log;
mod mounts;
mod program;
pub mod prometheus;
pub mod pty;
mod running;
pub mod scripted;
mod seed;
pub mod slack;
pub mod slack_bot;
mod taker;
mod talk;
pub mod telegram;
pub mod traced;
mod wire;

use std::io::Write;
use std::time::{Duration, Instant};

pub use daemon::{Daemon, Home, Ran};
pub use program::{program, told};
pub use running::Running;
pub use seed::{SESSION, TITLE, add_session, home_channel, no_thread, picture, seed_session};
pub use taker::Taker;
pub use wire::{Wire, hello, request, somebody_hands_off};

/// How long a condition may take to come true before the test fails. Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Says that a test proves nothing on this machine, and why. Past the harness, which shows what a passing test prints to nobody.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("skipped {}: {why}\n", thread.name().unwrap_or_default());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Waits until `look` finds something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// [`until`] for conditions that have to be awaited.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
