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
/// Tries of a file that may have arrived, before no other follows.
const FILE_TRIES: u32 = 3;
/// Tries with credentials that are refused, before whoever supervises the platform is waited for.
const REFUSED: u32 = 3;
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

/// How a call is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    tries: Tries,
    /// What it moves is large. The adapter itself sees whether it stands still, and a repeat is dear: after a few tries that
    /// may have arrived no other follows.
    file: bool,
}

impl Effort {
    pub fn file(tries: Tries) -> Effort {
        Effort { tries, file: true }
    }
}

impl From<Tries> for Effort {
    fn from(tries: Tries) -> Effort {
        Effort { tries, file: false }
    }
}

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsent {
    /// With how often it was tried.
    Failed(String),
    /// The thread or message is no longer there.
    Gone(String),
    /// The platform does not accept our credentials now.
    Unauthorized(String),
    /// The daemon stops, and the call would have had to be tried again.
    Stopping,
}

impl std::fmt::Display for Unsent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unsent::Failed(reason) | Unsent::Gone(reason) | Unsent::Unauthorized(reason) => {
                f.write_str(reason)
            }
            Unsent::Stopping => f.write_str("hermesd is stopping"),
        }
    }
}

/// The call's result, or why there will be none. Before each try it waits for `ready`, which takes no time from the call's.
/// The call is told whether an earlier try got no answer, so that nobody
/// knows what became of it. Once the daemon is `draining`, a call under way goes on, and no other try follows it.
pub async fn with_retries<T, F, R>(
    platform: &str,
    effort: impl Into<Effort>,
    metrics: &Metrics,
    draining: &CancellationToken,
    ready: impl Fn() -> R,
    mut call: impl FnMut(bool) -> F,
) -> Result<T, Unsent>
where
    F: Future<Output = Result<T, PlatformError>>,
    R: Future<Output = ()>,
{
    let Effort { tries, file } = effort.into();
    let mut wait = FIRST_WAIT;
    let (mut failed, mut put_off, mut lost, mut refused) = (0, 0, 0, 0);
    loop {
        let asked = Instant::now();
        ready().await;
        metrics.waited(platform, Waited::Pace, asked.elapsed());
        let calling = call(lost > 0);
        let outcome = match file {
            true => Ok(calling.await),
            false => tokio::time::timeout(PATIENCE, calling).await,
        };
        let (reason, retry_after) = match outcome {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(PlatformError::Permanent(reason))) => return Err(Unsent::Failed(reason)),
            Ok(Err(PlatformError::Gone(reason))) => return Err(Unsent::Gone(reason)),
            Ok(Err(PlatformError::Transient {
                reason,
                retry_after,
                unsure,
            })) => {
                lost += u32::from(unsure);
                (reason, retry_after)
            }
            Ok(Err(PlatformError::NotYet(reason))) => {
                tracing::warn!(platform, reason, "a call has to wait");
                pause(wait, draining).await?;
                wait = (wait * 2).min(LONGEST_OWN_WAIT);
                continue;
            }
            Ok(Err(PlatformError::Unauthorized(reason))) => {
                refused += 1;
                if refused >= REFUSED {
                    return Err(Unsent::Unauthorized(reason));
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
        if file && lost >= FILE_TRIES {
            return Err(Unsent::Failed(format!(
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
async fn pause(wait: Duration, draining: &CancellationToken) -> Result<(), Unsent> {
    tokio::select! {
        biased;
        () = draining.cancelled() => Err(Unsent::Stopping),
        () = tokio::time::sleep(wait) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn tried<F>(effort: Effort, call: impl FnMut(bool) -> F) -> Result<u32, Unsent>
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
        assert_eq!(tried(Effort::file(Tries::Endless), slow).await, Ok(1));
        let unsent = tried(Tries::Few.into(), slow).await;
        assert!(matches!(unsent, Err(Unsent::Failed(_))), "{unsent:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_may_have_arrived_is_repeated_a_few_times_and_others_without_end() {
        let mut calls = 0;
        let unsent = tried(Effort::file(Tries::Endless), |_| {
            calls += 1;
            async { Err(lost()) }
        });
        let unsent = unsent.await;
        assert!(matches!(unsent, Err(Unsent::Failed(_))), "{unsent:?}");
        assert_eq!(calls, FILE_TRIES);
        // What never left us may be tried for as long as the network is away.
        for effort in [Effort::file(Tries::Endless), Tries::Endless.into()] {
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
        let unsent = tried(Tries::Endless.into(), |_| {
            calls += 1;
            async { Err(PlatformError::Unauthorized("no such token".into())) }
        });
        let unsent = unsent.await;
        assert!(matches!(unsent, Err(Unsent::Unauthorized(_))), "{unsent:?}");
        assert_eq!(calls, REFUSED);
    }
}
