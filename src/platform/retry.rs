//! Calls to a platform that may fail for a while: tried again with backoff, or when the platform says so.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::PlatformError;
use crate::metrics::{Metrics, WaitReason};

/// Attempts before a call counts as failed.
const ATTEMPTS: u32 = 5;
/// The same for a platform that asks for patience: what it says when is known to help.
const ASKED_TO_WAIT: u32 = 20;
/// Attempts of a file that may have arrived, before no other follows.
const FILE_TRIES: u32 = 3;
/// Attempts with refused credentials. After them the caller waits for the supervision of the platform.
const REFUSED: u32 = 3;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Between tries that do not count, since the fault is in our own house.
const LONGEST_OWN_WAIT: Duration = Duration::from_secs(5);
/// A call that takes longer counts as failed for now.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it is worth trying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Somebody waits for the outcome.
    Few,
    /// Until it is done or refused: nothing else would become of it.
    Endless,
}

/// How a call is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEffort {
    tries: RetryPolicy,
    /// What it moves is large. The adapter itself sees whether it stands still, and a repeat is dear: after a few tries that
    /// may have arrived no other follows.
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

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallFailure {
    /// With how often it was tried.
    Failed(String),
    /// The thread or message is no longer there.
    Gone(String),
    /// The platform does not accept our credentials now.
    Unauthorized(String),
    /// The daemon stops, and the call would have had to be tried again.
    Stopping,
}

impl std::fmt::Display for CallFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallFailure::Failed(reason)
            | CallFailure::Gone(reason)
            | CallFailure::Unauthorized(reason) => f.write_str(reason),
            CallFailure::Stopping => f.write_str("hermesd is stopping"),
        }
    }
}

/// The call's result, or why there will be none. Before each try it waits for `ready`, which takes no time from the call's.
/// The call is told whether an earlier try got no answer, so that nobody
/// knows what became of it. Once the daemon is `draining`, a call under way goes on, and no other try follows it.
pub async fn with_retries<T, F, R>(
    platform: &str,
    effort: impl Into<CallEffort>,
    metrics: &Metrics,
    draining: &CancellationToken,
    ready: impl Fn() -> R,
    mut call: impl FnMut(bool) -> F,
) -> Result<T, CallFailure>
where
    F: Future<Output = Result<T, PlatformError>>,
    R: Future<Output = ()>,
{
    let CallEffort { tries, file } = effort.into();
    let mut wait = FIRST_WAIT;
    let (mut failed, mut put_off, mut lost, mut refused) = (0, 0, 0, 0);
    loop {
        let asked = Instant::now();
        ready().await;
        metrics.waited(platform, WaitReason::Pace, asked.elapsed());
        let calling = call(lost > 0);
        let outcome = match file {
            true => Ok(calling.await),
            false => tokio::time::timeout(PATIENCE, calling).await,
        };
        let (reason, retry_after) = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(PlatformError::Permanent(reason))) => return Err(CallFailure::Failed(reason)),
            Ok(Err(PlatformError::Gone(reason))) => return Err(CallFailure::Gone(reason)),
            Ok(Err(PlatformError::Transient {
                reason,
                retry_after,
                unsure,
            })) => {
                lost += u32::from(unsure);
                (reason, retry_after)
            }
            Ok(Err(PlatformError::Storage(reason))) => {
                tracing::warn!(platform, reason, "a call has to wait");
                pause(wait, draining).await?;
                wait = (wait * 2).min(LONGEST_OWN_WAIT);
                continue;
            }
            Ok(Err(PlatformError::Unauthorized(reason))) => {
                refused += 1;
                if refused >= REFUSED {
                    return Err(CallFailure::Unauthorized(reason));
                }
                (reason, None)
            }
            Err(_) => {
                lost += 1;
                (format!("no answer within {} s", PATIENCE.as_secs()), None)
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
                "{reason} ({} tries)",
                failed + put_off
            )));
        }
        if file && lost >= FILE_TRIES {
            return Err(CallFailure::Failed(format!(
                "{reason} ({lost} tries, one of which may have arrived)"
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
        let ready = || std::future::ready(());
        with_retries("telegram", effort, &metrics, &draining, ready, call).await
    }

    fn lost() -> PlatformError {
        PlatformError::Transient {
            reason: "no answer".into(),
            retry_after: None,
            unsure: true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_may_take_long_and_words_may_not() {
        let slow = |_| async {
            tokio::time::sleep(PATIENCE * 10).await;
            Ok(1)
        };
        assert_eq!(
            tried(CallEffort::file(RetryPolicy::Endless), slow).await,
            Ok(1)
        );
        let unsent = tried(RetryPolicy::Few.into(), slow).await;
        assert!(matches!(unsent, Err(CallFailure::Failed(_))), "{unsent:?}");
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
        // What never left us may be tried for as long as the network is away.
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
