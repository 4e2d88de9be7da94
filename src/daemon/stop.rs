//! How a stop goes: what asks for it, and how long work in progress goes on.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::DaemonError;
use crate::shutdown::Shutdown;

/// The end of the drain that belongs to writing and closing: agents come to rest in it, and programs are ended.
const LONGEST_RESERVE: Duration = Duration::from_secs(7);

/// How the daemon came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything that was in progress was finished, or put back.
    Clean,
    /// Some of it was cut off.
    CutOff,
}

/// Waits for the work in progress. `None`: its time is over, or the stop was asked for again, and it has to be cut off.
pub(super) async fn finish<T>(
    work: impl Future<Output = T>,
    stop: &Shutdown,
    drain_timeout: Duration,
) -> Option<T> {
    let patience = drain_timeout - reserve(drain_timeout);
    tokio::select! {
        biased;
        ended = work => Some(ended),
        () = stop.cut.cancelled() => {
            tracing::warn!("asked again to stop: work in progress is cut off, and resumed at the next start");
            None
        }
        () = tokio::time::sleep(patience) => {
            tracing::warn!("work in progress took too long: it is cut off, and resumed at the next start");
            None
        }
    }
}

fn reserve(drain_timeout: Duration) -> Duration {
    (drain_timeout / 2).min(LONGEST_RESERVE)
}

/// The first signal begins the stop, the second cuts off what is in progress. Returns the signal that asks for a reload,
/// which from now on kills nobody.
pub(super) fn on_signals(stop: &Shutdown) -> Result<Signal, DaemonError> {
    let failed = |source| DaemonError::Io {
        what: "signals cannot be handled",
        source,
    };
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let (mut signals, stop) = (signal(kind).map_err(failed)?, stop.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                match stop.draining.is_cancelled() {
                    false => stop.begin(),
                    true => stop.cut_off(),
                }
            }
        });
    }
    signal(SignalKind::hangup()).map_err(failed)
}
