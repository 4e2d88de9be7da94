//! Retries calls to a platform: with backoff, or at the time that the platform names.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::PlatformError;
use crate::metrics::{Metrics, WaitReason};

/// Attempts before a call fails.
const ATTEMPTS: u32 = 5;
/// The same if the platform names the time to wait, since a retry then is likely to succeed.
const ASKED_TO_WAIT: u32 = 20;
/// Attempts to send a file that may each have arrived.
const FILE_TRIES: u32 = 3;
/// Attempts with refused credentials. After these, the registry finds out whether they are valid.
const REFUSED: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait if the fault is on this machine. Such attempts do not count.
const LONGEST_OWN_WAIT: Duration = Duration::from_secs(5);

/// How often a call is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// A person waits for the outcome.
    Few,
    /// Until the platform accepts or refuses it, because no one would ask again.
    Endless,
}

/// How a call is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEffort {
    tries: RetryPolicy,
    /// The call moves a file. A repeat is expensive, so only a few attempts that may have arrived are made.
    file: bool,
}

impl CallEffort {
    pub fn file(tries: RetryPolicy) -> CallEffort {
        CallEffort { tries, file: true }
    }
}

impl From<RetryPolicy> for CallEffort {
    fn from(tries: RetryPolicy) -> CallEffort {
        CallEffort { tries, file: false }
    }
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// With the reason, and the number of attempts if there were several.
    Failed(String),
    /// The thread or message no longer exists.
    Gone(String),
    /// The platform does not accept our credentials now.
    Unauthorized(String),
    /// The vendor accepts no message for this chat until the person writes there again.
    WindowClosed(String),
    /// The daemon stops, and the call needs another attempt.
    Stopping,
}

impl std::fmt::Display for CallFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallFailure::Failed(reason)
            | CallFailure::Gone(reason)
            | CallFailure::WindowClosed(reason)
            | CallFailure::Unauthorized(reason) => f.write_str(reason),
            CallFailure::Stopping => f.write_str("hermesd is stopping"),
        }
    }
}

/// Makes the call until it succeeds or fails. `call` gets `true` if an earlier attempt may have had its effect. When
/// `draining` is cancelled, a call in progress continues, and no other attempt follows.
pub async fn with_retries<T, F>(
    platform: &str,
    effort: impl Into<CallEffort>,
    metrics: &Metrics,
    draining: &CancellationToken,
    mut call: impl FnMut(bool) -> F,
) -> Result<T, CallFailure>
where
    F: Future<Output = Result<T, PlatformError>>,
{
    let CallEffort { tries, file } = effort.into();
    let mut wait = FIRST_WAIT;
    let (mut failed, mut put_off, mut lost, mut refused) = (0, 0, 0, 0);
    loop {
        let (reason, retry_after) = match call(lost > 0).await {
            Ok(value) => return Ok(value),
            Err(PlatformError::Permanent(reason)) => return Err(CallFailure::Failed(reason)),
            Err(PlatformError::Gone(reason)) => return Err(CallFailure::Gone(reason)),
            Err(PlatformError::WindowClosed(reason)) => {
                return Err(CallFailure::WindowClosed(reason));
            }
            Err(PlatformError::Transient {
                reason,
                retry_after,
                unsure,
            }) => {
                lost += u32::from(unsure);
                (reason, retry_after)
            }
            Err(PlatformError::Storage(reason)) => {
                tracing::warn!(platform, reason, "call waits for local storage");
                pause(wait, draining).await?;
                wait = (wait * 2).min(LONGEST_OWN_WAIT);
                continue;
            }
            Err(PlatformError::Unauthorized(reason)) => {
                refused += 1;
                if refused >= REFUSED {
                    return Err(CallFailure::Unauthorized(reason));
                }
                (reason, None)
            }
        };
        match retry_after {
            Some(after) => {
                put_off += 1;
                metrics.waited(platform, WaitReason::Asked, after);
            }
            None => failed += 1,
        }
        if tries == RetryPolicy::Few && (failed >= ATTEMPTS || put_off >= ASKED_TO_WAIT) {
            return Err(CallFailure::Failed(format!(
                "{reason} ({} attempts)",
                failed + put_off
            )));
        }
        if file && lost >= FILE_TRIES {
            return Err(CallFailure::Failed(format!(
                "{reason} ({lost} attempts, each of which may have arrived)"
            )));
        }
        metrics.retried(platform);
        tracing::warn!(
            platform,
            attempt = failed + put_off,
            reason,
            "call failed, will retry"
        );
        pause(retry_after.unwrap_or(wait), draining).await?;
        if retry_after.is_none() {
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

/// Waits before the next attempt, unless the daemon stops.
async fn pause(wait: Duration, draining: &CancellationToken) -> Result<(), CallFailure> {
    tokio::select! {
        biased;
        () = draining.cancelled() => Err(CallFailure::Stopping),
        () = tokio::time::sleep(wait) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tried<F>(effort: CallEffort, call: impl FnMut(bool) -> F) -> Result<u32, CallFailure>
    where
        F: Future<Output = Result<u32, PlatformError>>,
    {
        let (metrics, draining) = (Metrics::default(), CancellationToken::new());
        with_retries("telegram", effort, &metrics, &draining, call).await
    }

    fn lost() -> PlatformError {
        PlatformError::Transient {
            reason: "no answer".into(),
            retry_after: None,
            unsure: true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_may_have_arrived_is_repeated_a_few_times_and_others_without_end() {
        let mut calls = 0;
        let unsent = tried(CallEffort::file(RetryPolicy::Endless), |_| {
            calls += 1;
            async { Err(lost()) }
        });
        let unsent = unsent.await;
        assert!(matches!(unsent, Err(CallFailure::Failed(_))), "{unsent:?}");
        assert_eq!(calls, FILE_TRIES);
        // A call that never reached the platform is retried without limit.
        for effort in [
            CallEffort::file(RetryPolicy::Endless),
            RetryPolicy::Endless.into(),
        ] {
            let mut calls = 0;
            let sent = tried(effort, |_| {
                calls += 1;
                let outcome = match calls {
                    100 => Ok(calls),
                    _ => Err(PlatformError::transient("no network")),
                };
                async { outcome }
            });
            assert_eq!(sent.await, Ok(100));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_credentials_are_given_back_to_the_supervision() {
        let mut calls = 0;
        let unsent = tried(RetryPolicy::Endless.into(), |_| {
            calls += 1;
            async { Err(PlatformError::Unauthorized("no such token".into())) }
        });
        let unsent = unsent.await;
        assert!(
            matches!(unsent, Err(CallFailure::Unauthorized(_))),
            "{unsent:?}"
        );
        assert_eq!(calls, REFUSED);
    }
}
