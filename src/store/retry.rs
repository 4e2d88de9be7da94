//! Retries while the database is locked or the disk is full, so that no turn is lost because of that.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::StoreError;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Repeats `work` until it succeeds or fails with a lasting error. [`StoreError::Cancelled`] if `stop` comes first.
pub(crate) async fn retry_while_busy<T, F>(
    stop: &CancellationToken,
    mut work: impl FnMut() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut wait = FIRST_WAIT;
    loop {
        match work().await {
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "waiting for the database");
            }
            outcome => return outcome,
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return Err(StoreError::Cancelled),
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}
