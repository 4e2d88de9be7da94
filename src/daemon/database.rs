//! Opens the database at the start, and waits while another program locks it.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{DaemonError, service};
use crate::config::Config;
use crate::journal_ids;
use crate::store::{OpenMode, Store, StoreError};

/// The longest wait of the start for a locked database.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// SQLite waits for most locks itself. This is the pause after those that it does not wait for.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Opens the store. Waits for a database that another program has locked, for example to change its schema. `None` if
/// the daemon is asked to stop first.
pub(super) async fn open(
    config: &Config,
    stop: &CancellationToken,
) -> Result<Option<Store>, DaemonError> {
    let (begun, mut logged) = (Instant::now(), false);
    loop {
        let (home, options) = (config.home.clone(), config.store.clone());
        let opening = move || Store::open(&home, OpenMode::Create, &options);
        let opened = tokio::select! {
            opened = tokio::task::spawn_blocking(opening) => opened,
            () = stop.cancelled() => return Ok(None),
        };
        match opened {
            Ok(Err(error @ StoreError::Busy(_))) if begun.elapsed() < START_TIMEOUT => {
                if !std::mem::replace(&mut logged, true) {
                    let message_id = journal_ids::DATABASE_LOCKED;
                    tracing::warn!(message_id, %error, "start waits for the locked database");
                }
                service::starting(START_TIMEOUT);
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Ok(outcome) => return Ok(Some(outcome?)),
            Err(panicked) => return Err(DaemonError::Broken(panicked.to_string())),
        }
    }
}
