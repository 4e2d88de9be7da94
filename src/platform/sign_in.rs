//! Checks credentials at the beginning of a connection.

use std::time::Duration;

use super::PlatformError;

/// The wait before refused credentials are checked a second time.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// Checks refused credentials a second time, because a server that restarts may refuse any. If it refuses them twice,
/// the failure is permanent.
pub(super) async fn sign_in<T, F>(
    platform: &str,
    mut check: impl FnMut() -> F,
) -> Result<T, PlatformError>
where
    F: Future<Output = Result<T, PlatformError>>,
{
    let first = check().await;
    let Err(PlatformError::Unauthorized(_)) = first else {
        return first;
    };
    tracing::warn!(platform, "token refused, checking it again");
    tokio::time::sleep(SECOND_LOOK).await;
    match check().await {
        Err(PlatformError::Unauthorized(reason)) => Err(PlatformError::Permanent(reason)),
        second => second,
    }
}
