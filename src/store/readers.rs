//! A few read-only connections, lent to blocking tasks one at a time.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;

use super::StoreError;

const READERS: usize = 4;

pub(super) struct Readers {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Readers {
        Readers {
            path,
            idle: Arc::default(),
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
        let (path, idle) = (self.path.clone(), self.idle.clone());
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let lent = idle.lock().ok().and_then(|mut idle| idle.pop());
            let connection = match lent {
                Some(connection) => connection,
                None => connect(&path)?,
            };
            let result = work(&connection);
            if let Ok(mut idle) = idle.lock() {
                idle.push(connection);
            }
            result
        });
        task.await.map_err(|_| StoreError::Closed)?
    }
}

fn connect(path: &std::path::Path) -> Result<Connection, StoreError> {
    // Read-write at the file level, so that SQLite can recover the log of a program that died; queries alone may run.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}
