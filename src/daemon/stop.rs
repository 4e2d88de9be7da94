//! Handles the signals that stop the daemon, and limits how long work in progress may continue.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::DaemonError;
use crate::shutdown::Shutdown;

/// The last part of the drain, reserved for writing and closing: agents finish, and their programs end.
const LONGEST_RESERVE: Duration = Duration::from_secs(7);

/// How the work in progress ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// All of it was finished or undone.
    Clean,
    /// Some of it was cut off.
    CutOff,
}

/// Waits for the work in progress. `None` if its time is over or a second signal arrived. Then the caller cuts it off.
pub(super) async fn finish<T>(
    work: impl Future<Output = T>,
    stop: &Shutdown,
    drain_timeout: Duration,
) -> Option<T> {
    let time_for_work = drain_timeout - reserve(drain_timeout);
    tokio::select! {
        biased;
        ended = work => Some(ended),
        () = stop.cut.cancelled() => {
            tracing::warn!("second stop signal received, cutting off work in progress, will resume at next start");
            None
        }
        () = tokio::time::sleep(time_for_work) => {
            tracing::warn!("work in progress took too long, cutting it off, will resume at next start");
            None
        }
    }
}

fn reserve(drain_timeout: Duration) -> Duration {
    (drain_timeout / 2).min(LONGEST_RESERVE)
}

/// The first signal begins the stop, the second cuts off the work in progress. Returns the stream of SIGHUP, which no
/// longer ends the process.
pub(super) fn on_signals(stop: &Shutdown) -> Result<Signal, DaemonError> {
    let failed = |source| DaemonError::Io {
        what: "cannot handle signals",
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
