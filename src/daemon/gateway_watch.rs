//! Notices a Hermes gateway that starts on the home that we serve, and keeps Hermes' lock file in our hands meanwhile.
//!
//! Hermes unlinks a lock file without a record of a gateway, also when a person only asks for the gateway's status. So a
//! missing lock file means nothing yet. A gateway that starts makes a new file and writes its record into it.

use std::path::Path;
use std::time::{Duration, Instant};

use inotify::{EventStream, Inotify, WatchMask};
use tokio_stream::StreamExt;

use super::gateway::{GatewayLock, LockError, PREFIX};
use crate::home_files::{live_gateway, recorded_holder};

/// How long a lock file stays lost before we take it again: a gateway that starts takes it within this time.
const GRACE: Duration = Duration::from_secs(1);
/// A lock that another process holds for this long belongs to a gateway, also without a record that we can check: the
/// gateway may run in a container of its own.
const HELD_FOR_GOOD: Duration = Duration::from_secs(3);
/// Between two looks while the lock file is lost, and without inotify.
const SOON: Duration = Duration::from_millis(50);
const WITHOUT_EVENTS: Duration = Duration::from_secs(1);
/// Between two looks when nothing happens: the net under inotify.
const SELDOM: Duration = Duration::from_secs(10);

/// Returns when a gateway lives on the home, with its process id if a record tells it.
pub(super) async fn appeared(home: &Path, lock: &mut GatewayLock) -> Option<u64> {
    let mut events = Events::of(home);
    let mut lost: Option<Lost> = None;
    loop {
        if let Some(pid) = live_gateway(home) {
            return Some(pid);
        }
        let rest = if lock.is_in_place() {
            lost = None;
            events.rest()
        } else {
            // Read, not locked to see who has it: the gateway would find its own lock taken.
            if let Some(pid) = recorded_holder(home) {
                return Some(pid);
            }
            let lost = lost.get_or_insert_with(Lost::now);
            if lost.since.elapsed() >= GRACE && lost.is_held_for_good(lock) {
                return None;
            }
            SOON
        };
        tokio::select! {
            () = events.next() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Another file, or none, is where our lock file was.
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

    /// Tries to take the lock. Returns whether another process holds it.
    fn is_held_for_good(&mut self, lock: &mut GatewayLock) -> bool {
        match lock.take_again() {
            Ok(()) => tracing::debug!("Hermes removed gateway.lock; it is locked again"),
            Err(LockError::Held) => return self.since.elapsed() >= HELD_FOR_GOOD,
            Err(error) if !std::mem::replace(&mut self.warned, true) => {
                tracing::warn!(%error, "gateway.lock cannot be locked again");
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
            // No event for a write to the database, whose log stays open.
            let changes = WatchMask::CREATE
                | WatchMask::DELETE
                | WatchMask::MOVED_TO
                | WatchMask::CLOSE_WRITE
                | WatchMask::ONLYDIR;
            inotify.watches().add(home, changes)?;
            inotify.into_event_stream([0; 1024])
        };
        let stream = watch().inspect_err(|error| {
            tracing::info!(%error, "a Hermes gateway that starts is noticed by polling only");
        });
        Events(stream.ok())
    }

    fn rest(&self) -> Duration {
        match self.0 {
            Some(_) => SELDOM,
            None => WITHOUT_EVENTS,
        }
    }

    /// Returns when a file of a gateway has changed.
    async fn next(&mut self) {
        while let Some(stream) = &mut self.0 {
            match stream.next().await {
                Some(Ok(event)) => {
                    let name = event.name.as_deref().and_then(std::ffi::OsStr::to_str);
                    // An event without a name: some were lost.
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
