//! Bringing the write-ahead log into the database, beside the writer instead of within its commits: a checkpoint flushes
//! the disk, and whoever writes meanwhile waits for it. So it looks for a moment in which nobody does.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::StoreError;

/// Pages in the log that make a checkpoint worth it; SQLite's own rule.
const WORTH_IT: u32 = 1000;
/// Nobody has written for so long: a good moment.
const QUIET: Duration = Duration::from_millis(250);
/// A log of so many pages (32 MB) is brought in although somebody writes.
const LONG: u32 = 8_000;
/// A log of so many pages (128 MB) has outrun the checkpoints: the writer itself waits for one that empties it.
const TOO_LONG: u32 = 32_000;

pub(super) struct Checkpoints {
    log: Arc<Log>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The log's length when a checkpoint was last asked for.
    asked: Cell<u32>,
}

/// What the writer's commits tell.
#[derive(Default)]
struct Log {
    pages: AtomicU32,
    commits: AtomicU64,
}

impl Checkpoints {
    /// `own` is for this alone; the writer's connection must not checkpoint by itself.
    pub(super) fn start(
        writer: &mut Connection,
        own: Connection,
    ) -> Result<Checkpoints, StoreError> {
        let log = Arc::new(Log::default());
        let told = log.clone();
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            told.pages
                .store(u32::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            told.commits.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))?;
        let (wake, woken) = sync_channel(1);
        let watched = log.clone();
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || {
                while woken.recv().is_ok() && good_moment(&watched, &woken) {
                    // Whatever it could not do now is left for the next time.
                    let _ = own.execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
                }
            });
        Ok(Checkpoints {
            log,
            wake: Some(wake),
            thread: thread.ok(),
            asked: Cell::new(0),
        })
    }

    pub(super) fn after_commit(&self, writer: &Connection) {
        let pages = self.log.pages.load(Ordering::Relaxed);
        // A log that was brought in whole begins anew.
        let asked = self.asked.get().min(pages);
        self.asked.set(asked);
        if pages < asked + WORTH_IT {
            return;
        }
        self.asked.set(pages);
        if pages >= TOO_LONG {
            let _ = writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        } else if let Some(wake) = &self.wake {
            // One that waits already will do.
            let _ = wake.try_send(());
        }
    }
}

/// Waits until nobody writes, or until the log is too long for waiting. False: the store closes.
fn good_moment(log: &Log, woken: &Receiver<()>) -> bool {
    loop {
        let commits = log.commits.load(Ordering::Relaxed);
        if log.pages.load(Ordering::Relaxed) >= LONG {
            return true;
        }
        match woken.recv_timeout(QUIET) {
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) if log.commits.load(Ordering::Relaxed) == commits => {
                return true;
            }
            _ => {}
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
