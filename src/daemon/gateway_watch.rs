//! Detects a Hermes gateway that starts on our home. Until then it keeps Hermes' lock file locked.
//!
//! Hermes unlinks a lock file without a gateway's record, even if you only ask for the status of the gateway. So a
//! missing lock file is no proof of a gateway. A gateway that starts creates a new file and writes its record into it.

use std::path::Path;
use std::time::{Duration, Instant};

use inotify::{EventStream, Inotify, WatchMask};
use tokio_stream::StreamExt;

use super::gateway::{GatewayLock, LockError, PREFIX};
use crate::home_files::{live_gateway, recorded_holder};

/// The time before we lock a lost lock file again. A starting gateway locks it within this time.
const GRACE: Duration = Duration::from_secs(1);
/// A lock that another process holds for this long belongs to a gateway, even without a record that we can check. The
/// gateway may run in a container.
const HELD_BY_GATEWAY: Duration = Duration::from_secs(3);
/// The interval between checks while the lock file is lost.
const LOST_INTERVAL: Duration = Duration::from_millis(50);
/// The interval between checks without inotify.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The interval between checks with inotify, in case it misses an event.
const SAFETY_INTERVAL: Duration = Duration::from_secs(10);

/// Returns when a gateway runs on the home, with its process id if a record names it.
pub(super) async fn appeared(home: &Path, lock: &mut GatewayLock) -> Option<u64> {
    let mut events = Events::of(home);
    let mut lost: Option<Lost> = None;
    loop {
        if let Some(pid) = live_gateway(home) {
            return Some(pid);
        }
        let interval = if lock.is_in_place() {
            lost = None;
            events.interval()
        } else {
            // Do not try the lock to see whether it is held: a starting gateway would find its own lock taken.
            if let Some(pid) = recorded_holder(home) {
                return Some(pid);
            }
            let lost = lost.get_or_insert_with(Lost::now);
            if lost.since.elapsed() >= GRACE && lost.is_held_by_gateway(lock) {
                return None;
            }
            LOST_INTERVAL
        };
        tokio::select! {
            () = events.next() => {}
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// Our lock file was removed or replaced.
struct Lost {
    since: Instant,
    warned: bool,
}

impl Lost {
    fn now() -> Lost {
        Lost {
            since: Instant::now(),
            warned: false,
        }
    }

    /// Tries to lock the file again. Returns whether another process has held it long enough to be a gateway.
    fn is_held_by_gateway(&mut self, lock: &mut GatewayLock) -> bool {
        match lock.take_again() {
            Ok(()) => tracing::debug!("gateway.lock was removed by Hermes and is locked again"),
            Err(LockError::Held) => return self.since.elapsed() >= HELD_BY_GATEWAY,
            Err(error) if !std::mem::replace(&mut self.warned, true) => {
                tracing::warn!(%error, "cannot lock gateway.lock again");
            }
            Err(_) => {}
        }
        false
    }
}

/// Changes of a gateway's files in the home.
struct Events(Option<EventStream<[u8; 1024]>>);

impl Events {
    fn of(home: &Path) -> Events {
        let watch = || -> std::io::Result<EventStream<[u8; 1024]>> {
            let inotify = Inotify::init()?;
            // Writes to the database cause none of these events, because its log stays open.
            let changes = WatchMask::CREATE
                | WatchMask::DELETE
                | WatchMask::MOVED_TO
                | WatchMask::CLOSE_WRITE
                | WatchMask::ONLYDIR;
            inotify.watches().add(home, changes)?;
            inotify.into_event_stream([0; 1024])
        };
        let stream = watch().inspect_err(|error| {
            tracing::info!(%error, "inotify is not available, polling for a Hermes gateway");
        });
        Events(stream.ok())
    }

    fn interval(&self) -> Duration {
        match self.0 {
            Some(_) => SAFETY_INTERVAL,
            None => POLL_INTERVAL,
        }
    }

    /// Returns when a file of a gateway has changed.
    async fn next(&mut self) {
        while let Some(stream) = &mut self.0 {
            match stream.next().await {
                Some(Ok(event)) => {
                    let name = event.name.as_deref().and_then(std::ffi::OsStr::to_str);
                    // An event without a name means that events were lost.
                    if name.is_none_or(|name| name.starts_with(PREFIX)) {
                        return;
                    }
                }
                Some(Err(_)) | None => self.0 = None,
            }
        }
        std::future::pending().await
    }
}
