//! Bringing the write-ahead log into the database, beside the writer instead of within its commits: a checkpoint waits for
//! the disk, and nobody who asked for a handoff should.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::StoreError;

/// A log of this size is worth a checkpoint.
const WORTH_IT: u64 = 4 << 20;
/// A log of this size has outrun the checkpoints: the writer itself waits for one.
const TOO_LONG: u64 = 64 << 20;

pub(super) struct Checkpoints {
    log: PathBuf,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// `connection` is for this alone; the writer's own must not checkpoint by itself.
    pub(super) fn start(
        database: &Path,
        connection: Connection,
    ) -> Result<Checkpoints, StoreError> {
        let (wake, woken) = sync_channel::<()>(1);
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || {
                for () in woken {
                    // Whatever it could not do now is left for the next time.
                    let _ = connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
                }
            });
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Ok(Checkpoints {
            log: log.into(),
            wake: Some(wake),
            thread: thread.ok(),
        })
    }

    pub(super) fn after_commit(&self, writer: &Connection) {
        let length = self.log.metadata().map_or(0, |m| m.len());
        if length >= TOO_LONG {
            let _ = writer.execute_batch("PRAGMA wal_checkpoint(RESTART)");
        } else if length >= WORTH_IT
            && let Some(wake) = &self.wake
        {
            // One that waits already will do.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
