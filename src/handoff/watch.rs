//! Notices what other programs write into `state.db`: inotify on the write-ahead log says that somebody wrote, and
//! `PRAGMA data_version` on the writing connection says whether it was somebody else.

use std::path::Path;
use std::time::Duration;

use inotify::{Inotify, WatchMask};
use tokio::time::Instant;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// A commit's bytes reach the log before the database counts them, by as long as a disk takes to flush: after a write
/// that changed nothing yet, look again, at first every millisecond.
const LOOKS: [u64; 14] = [1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64];
/// Our own writes raise events too: a look a millisecond is enough.
const BREATH: Duration = Duration::from_millis(1);

/// Calls `changed` whenever another program has committed, until `stop`. Without inotify (a network file system, say) the
/// caller's poll has to do, and the log says so.
pub async fn run(store: Store, changed: impl Fn() + Send + 'static, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        outcome = watch(&store, &changed) => {
            if let Err(error) = outcome {
                tracing::warn!(%error, "other programs' requests are noticed by polling only");
            }
        }
    }
}

async fn watch(store: &Store, changed: &(impl Fn() + Send)) -> std::io::Result<()> {
    let inotify = Inotify::init()?;
    // The directory, not the log itself: that comes and goes with the programs that use the database.
    let home = store.path().parent().unwrap_or(Path::new("."));
    inotify.watches().add(
        home,
        WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO,
    )?;
    let mut events = inotify.into_event_stream([0; 4096])?;
    let mut seen = store.foreign_version().await.ok();
    let mut looks = LOOKS.len();
    let mut looked = Instant::now();
    loop {
        let wait = LOOKS.get(looks).copied().map(Duration::from_millis);
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) if event.name.as_ref().is_some_and(|name| is_database(name)) => {
                    looks = 0;
                    if looked.elapsed() < BREATH {
                        continue;
                    }
                }
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => looks += 1,
        }
        looked = Instant::now();
        let version = store.foreign_version().await.ok();
        if version != seen {
            seen = version;
            changed();
        }
    }
}

fn is_database(name: &std::ffi::OsStr) -> bool {
    name == "state.db-wal" || name == "state.db"
}
