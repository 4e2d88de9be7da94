//! Waiting for a database that is locked or a disk that is full: nothing that was said is lost for that.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::store::StoreError;

const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Does `work` until the store takes it or refuses for good. [`StoreError::Cancelled`]: the daemon stops first.
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
                tracing::warn!(%error, "a turn waits for the database");
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
