//! Calls to a platform that may fail for a while: tried again with backoff, or when the platform says so.

use std::time::Duration;

use super::PlatformError;

/// Tries before a call counts as failed.
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Between tries that do not count, since the fault is in our own house.
const LONGEST_OWN_WAIT: Duration = Duration::from_secs(5);
/// A call that takes longer counts as failed for now.
const PATIENCE: Duration = Duration::from_secs(60);

/// The call's result, or why there will be none. The error says how often it was tried. The call is told whether an
/// earlier try got no answer, so that nobody knows what became of it.
pub async fn with_retries<T, F>(
    platform: &str,
    mut call: impl FnMut(bool) -> F,
) -> Result<T, String>
where
    F: Future<Output = Result<T, PlatformError>>,
{
    let mut wait = FIRST_WAIT;
    let mut attempt = 1;
    let mut unsure = false;
    loop {
        let (reason, retry_after) = match tokio::time::timeout(PATIENCE, call(unsure)).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(PlatformError::Permanent(reason))) => return Err(reason),
            Ok(Err(PlatformError::Transient {
                reason,
                retry_after,
            })) => (reason, retry_after),
            Ok(Err(PlatformError::NotYet(reason))) => {
                tracing::warn!(platform, reason, "a call has to wait");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_OWN_WAIT);
                continue;
            }
            Err(_) => {
                unsure = true;
                (format!("no answer within {} s", PATIENCE.as_secs()), None)
            }
        };
        if attempt >= ATTEMPTS {
            return Err(format!("{reason} ({attempt} tries)"));
        }
        tracing::warn!(platform, attempt, reason, "a call failed, trying again");
        tokio::time::sleep(retry_after.unwrap_or(wait)).await;
        wait = (wait * 2).min(LONGEST_WAIT);
        attempt += 1;
    }
}
