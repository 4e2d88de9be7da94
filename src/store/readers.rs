//! A few read-only connections, lent to blocking tasks one at a time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::StoreError;
use super::open::{self, File};

const READERS: usize = 4;
/// How long closing waits for reads in progress.
const LAST_READS: Duration = Duration::from_secs(1);

/// Connections that wait for their next use. `None`: the store is closed.
type Idle = Mutex<Option<Vec<Connection>>>;

pub(super) struct Readers {
    file: File,
    idle: Arc<Idle>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(file: File) -> Readers {
        Readers {
            file,
            idle: Arc::new(Mutex::new(Some(Vec::new()))),
            permits: Arc::new(Semaphore::new(READERS)),
        }
    }

    pub(super) async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = self
            .permits
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| StoreError::Closed)?;
        let (file, idle) = (self.file.clone(), self.idle.clone());
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            lend(&file, &idle, work)
        });
        task.await.map_err(|_| StoreError::Closed)?
    }

    /// Closes the connections. Reads in progress are waited for, but not long.
    pub(super) fn close(&self) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.take();
        }
        let begun = Instant::now();
        while self.permits.available_permits() < READERS && begun.elapsed() < LAST_READS {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The same on the caller's own thread: for looks at single rows by their key, which take less time than handing them
    /// to another thread. A reader never waits for a writer.
    pub(super) fn look<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        lend(&self.file, &self.idle, work)
    }
}

fn lend<T>(
    file: &File,
    idle: &Idle,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    if fails_for_a_test(file) {
        return Err(StoreError::Busy(Duration::ZERO));
    }
    let lent = match idle.lock() {
        Ok(mut idle) => idle.as_mut().ok_or(StoreError::Closed)?.pop(),
        Err(_) => None,
    };
    let connection = match lent {
        Some(connection) => connection,
        None => connect(file)?,
    };
    let result = work(&connection);
    if let Ok(mut idle) = idle.lock()
        && let Some(idle) = idle.as_mut()
    {
        idle.push(connection);
    }
    result
}

fn connect(file: &File) -> Result<Connection, StoreError> {
    // SQLite would take the other file's index of the log for its own and cut it short under the writer, which dies of it.
    if file.path.exists() && file.is_replaced() {
        return Err(StoreError::Replaced(file.path.clone()));
    }
    let connection = open::beside(&file.path)?;
    // Half a megabyte each: what they read once is seldom read again.
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -512;")?;
    Ok(connection)
}

/// Only debug builds have it: with `HERMESD_FAIL_READS` set, reads fail while there is a file `unreadable` in the home.
#[cfg(debug_assertions)]
fn fails_for_a_test(file: &File) -> bool {
    std::env::var_os("HERMESD_FAIL_READS").is_some()
        && file.path.with_file_name("unreadable").exists()
}

#[cfg(not(debug_assertions))]
fn fails_for_a_test(_file: &File) -> bool {
    false
}
