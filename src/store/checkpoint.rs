//! Bringing the write-ahead log into the database, beside the writer instead of within its commits: a checkpoint waits for
//! the disk, and nobody who asked for a handoff should.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::StoreError;

/// Commits after which a checkpoint is worth it; about as many pages as SQLite's own rule of a thousand.
const WORTH_IT: u32 = 150;
/// A log of this size has outrun the checkpoints: the writer itself waits for one that empties it.
const TOO_LONG: u64 = 64 << 20;

pub(super) struct Checkpoints {
    log: PathBuf,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Commits since the last.
    commits: Cell<u32>,
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
            commits: Cell::new(0),
        })
    }

    pub(super) fn after_commit(&self, writer: &Connection) {
        self.commits.set(self.commits.get() + 1);
        if self.commits.get() < WORTH_IT {
            return;
        }
        self.commits.set(0);
        if self.log.metadata().is_ok_and(|m| m.len() >= TOO_LONG) {
            let _ = writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        } else if let Some(wake) = &self.wake {
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
