//! Notices what other programs write into `state.db`: inotify on the write-ahead log says that somebody wrote, and
//! `PRAGMA data_version` on the writing connection says whether it was somebody else.

use std::path::Path;
use std::time::Duration;

use inotify::{EventMask, Inotify, WatchMask};
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// A commit's bytes reach the log before the database counts them, by as long as a disk takes to flush, and nothing
/// tells when it does: after a write that changed nothing yet, look again, this often while a disk may be at it,
const OFTEN: Duration = Duration::from_micros(200);
const OFTEN_LOOKS: u32 = 40;
/// and then twice as late each time, up to this.
const SELDOM: Duration = Duration::from_secs(4);
/// Where to begin when nobody is known to wait: at a look that comes some milliseconds later.
const UNHURRIED: u32 = OFTEN_LOOKS + 5;

/// How long to wait before the look of this number; `None` when it has been enough.
fn pause_before(look: u32) -> Option<Duration> {
    let doublings = look.saturating_sub(OFTEN_LOOKS);
    Some(OFTEN.saturating_mul(1 << doublings.min(20))).filter(|pause| *pause <= SELDOM)
}

/// Our own writes raise events too. While there are any, an event now and then is enough.
const BREATH: Duration = Duration::from_millis(2);
/// The runtime's own timers are no finer than this.
const TIMER: Duration = Duration::from_millis(1);

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
    // The directory, not the log itself: that comes and goes with the programs that use the database.
    let home = store.path().parent().unwrap_or(Path::new("."));
    let mut events = Inotify::init()?.into_event_stream([0; 4096])?;
    // One event at a time: a commit raises dozens, and our own would drown us in them.
    let once = WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO | WatchMask::ONESHOT;
    // Nothing is known to be seen yet: what was written before the watch stood is told with the first look.
    let mut seen = None;
    let mut looks = u32::MAX;
    loop {
        events.watches().add(home, once)?;
        // Also for what was written while nobody watched.
        if look(store, &mut seen, changed).await {
            looks = UNHURRIED;
        }
        loop {
            let wait = pause_before(looks);
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => {
                        let lost = event.mask.contains(EventMask::Q_OVERFLOW);
                        if lost || event.name.as_ref().is_some_and(|name| is_database(name)) {
                            // Most likely our own while we write; then nobody waits for the first look.
                            looks = if store.quiet_for() < BREATH { UNHURRIED } else { 0 };
                        }
                        // The watch has ended with its one event.
                        if event.mask.contains(EventMask::IGNORED) {
                            break;
                        }
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Ok(()),
                },
                () = nap(wait.unwrap_or_default()), if wait.is_some() => {
                    looks += 1;
                    if look(store, &mut seen, changed).await {
                        // That was it; what may follow is found soon enough.
                        looks = UNHURRIED;
                    }
                }
            }
        }
        if store.quiet_for() < BREATH * 2 {
            tokio::time::sleep(BREATH).await;
        }
    }
}

/// Whether another program has committed since the last look; then it is told.
async fn look(store: &Store, seen: &mut Option<i64>, changed: &(impl Fn() + Send)) -> bool {
    let version = store.foreign_version().await.ok();
    let new = version != *seen;
    if new {
        *seen = version;
        changed();
    }
    new
}

/// A sleep that may be shorter than the runtime's timers can tell.
async fn nap(time: Duration) {
    if time >= TIMER {
        return tokio::time::sleep(time).await;
    }
    let _ = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
}

fn is_database(name: &std::ffi::OsStr) -> bool {
    name == "state.db-wal" || name == "state.db"
}
