//! Checkpoints the write-ahead log on a thread of its own. A checkpoint flushes the disk, and commits wait for that.
//! So it runs in a moment without writes.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

use super::StoreError;

/// Pages in the log that make a checkpoint worthwhile, as in SQLite's own rule.
const WORTH_IT: u32 = 1000;
/// The time without writes before a checkpoint.
const QUIET: Duration = Duration::from_millis(250);
/// A log of this many pages (32 MB) is checkpointed even during writes.
const LONG: u32 = 8_000;
/// At this many pages (128 MB) the writer itself runs a checkpoint that empties the log.
const TOO_LONG: u32 = 32_000;

pub(super) struct Checkpoints {
    log: Arc<Log>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    /// The length of the log at the last request for a checkpoint.
    asked: Cell<u32>,
}

/// Set by the hook of the writer's commits.
#[derive(Default)]
struct Log {
    pages: AtomicU32,
    commits: AtomicU64,
}

impl Checkpoints {
    /// `own` is a connection for checkpoints only. The writer's connection must not checkpoint automatically.
    pub(super) fn start(
        writer: &mut Connection,
        own: Connection,
    ) -> Result<Checkpoints, StoreError> {
        let log = Arc::new(Log::default());
        let hooked = log.clone();
        writer.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
            hooked
                .pages
                .store(u32::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            hooked.commits.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))?;
        let (wake, woken) = sync_channel(1);
        let watched = log.clone();
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".into())
            .spawn(move || {
                while woken.recv().is_ok() && wait_for_quiet(&watched, &woken) {
                    // The next checkpoint does what this one cannot.
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
        // The log is shorter if a checkpoint has emptied it.
        let asked = self.asked.get().min(pages);
        self.asked.set(asked);
        if pages < asked + WORTH_IT {
            return;
        }
        self.asked.set(pages);
        if pages >= TOO_LONG {
            let _ = writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        } else if let Some(wake) = &self.wake {
            // A full channel means that a request is waiting already.
            let _ = wake.try_send(());
        }
    }
}

/// Waits until writes pause or the log is too long to wait. False if the store closes.
fn wait_for_quiet(log: &Log, woken: &Receiver<()>) -> bool {
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
