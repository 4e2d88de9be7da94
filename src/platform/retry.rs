//! Calls to a platform that may fail for a while: tried again with backoff, or when the platform says so.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::PlatformError;
use crate::metrics::{Metrics, Waited};

/// Tries before a call counts as failed.
const ATTEMPTS: u32 = 5;
/// The same for a platform that asks for patience: what it says when is known to help.
const ASKED_TO_WAIT: u32 = 20;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Between tries that do not count, since the fault is in our own house.
const LONGEST_OWN_WAIT: Duration = Duration::from_secs(5);
/// A call that takes longer counts as failed for now.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it is worth trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tries {
    /// Somebody waits for the outcome.
    Few,
    /// Until it is done or refused: nothing else would become of it.
    Endless,
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsent {
    /// With how often it was tried.
    Failed(String),
    /// The thread or message is no longer there.
    Gone(String),
    /// The daemon stops, and the call would have had to be tried again.
    Stopping,
}

impl std::fmt::Display for Unsent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unsent::Failed(reason) | Unsent::Gone(reason) => f.write_str(reason),
            Unsent::Stopping => f.write_str("hermesd is stopping"),
        }
    }
}

/// The call's result, or why there will be none. Before each try it waits for `ready`, which takes no time from the call's.
/// The call is told whether an earlier try got no answer, so that nobody
/// knows what became of it. Once the daemon is `draining`, a call under way goes on, and no other try follows it.
pub async fn with_retries<T, F, R>(
    platform: &str,
    tries: Tries,
    metrics: &Metrics,
    draining: &CancellationToken,
    ready: impl Fn() -> R,
    mut call: impl FnMut(bool) -> F,
) -> Result<T, Unsent>
where
    F: Future<Output = Result<T, PlatformError>>,
    R: Future<Output = ()>,
{
    let mut wait = FIRST_WAIT;
    let (mut failed, mut put_off) = (0, 0);
    let mut unsure = false;
    loop {
        let asked = Instant::now();
        ready().await;
        metrics.waited(platform, Waited::Pace, asked.elapsed());
        let (reason, retry_after) = match tokio::time::timeout(PATIENCE, call(unsure)).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(PlatformError::Permanent(reason))) => return Err(Unsent::Failed(reason)),
            Ok(Err(PlatformError::Gone(reason))) => return Err(Unsent::Gone(reason)),
            Ok(Err(PlatformError::Transient {
                reason,
                retry_after,
                unsure: lost,
            })) => {
                unsure |= lost;
                (reason, retry_after)
            }
            Ok(Err(PlatformError::NotYet(reason))) => {
                tracing::warn!(platform, reason, "a call has to wait");
                pause(wait, draining).await?;
                wait = (wait * 2).min(LONGEST_OWN_WAIT);
                continue;
            }
            Err(_) => {
                unsure = true;
                (format!("no answer within {} s", PATIENCE.as_secs()), None)
            }
        };
        match retry_after {
            Some(after) => {
                put_off += 1;
                metrics.waited(platform, Waited::Asked, after);
            }
            None => failed += 1,
        }
        if tries == Tries::Few && (failed >= ATTEMPTS || put_off >= ASKED_TO_WAIT) {
            return Err(Unsent::Failed(format!(
                "{reason} ({} tries)",
                failed + put_off
            )));
        }
        metrics.retried(platform);
        tracing::warn!(
            platform,
            attempt = failed + put_off,
            reason,
            "a call failed, trying again"
        );
        pause(retry_after.unwrap_or(wait), draining).await?;
        if retry_after.is_none() {
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// Waits before the next try, unless the daemon stops.
async fn pause(wait: Duration, draining: &CancellationToken) -> Result<(), Unsent> {
    tokio::select! {
        biased;
        () = draining.cancelled() => Err(Unsent::Stopping),
        () = tokio::time::sleep(wait) => Ok(()),
    }
}
