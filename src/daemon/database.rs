//! Opening the database at a start.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{DaemonError, service};
use crate::config::Config;
use crate::journal_ids;
use crate::store::{OpenMode, Store, StoreError};

/// How long a start waits for a database that another program has locked.
const LOCKED_AT_START: Duration = Duration::from_secs(60);
/// Opening waits by itself; this is for locks that SQLite does not wait for.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// Opens the store. A database that another program has locked is waited for: the program may be at work on it, as we are
/// when we add what is missing. `None`: a signal came first.
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
            Ok(Err(error @ StoreError::Busy(_))) if begun.elapsed() < LOCKED_AT_START => {
                if !std::mem::replace(&mut logged, true) {
                    let message_id = journal_ids::DATABASE_LOCKED;
                    tracing::warn!(message_id, %error, "the start waits for the database");
                }
                service::starting(LOCKED_AT_START);
                tokio::time::sleep(TRY_AGAIN).await;
            }
            Ok(outcome) => return Ok(Some(outcome?)),
            Err(panicked) => return Err(DaemonError::Broken(panicked.to_string())),
        }
    }
}
