//! Notices what other programs write into `state.db`: inotify on the home says that a program wrote the database, its log or
//! its journal, and the store says whether it was another one.
//!
//! All of it happens on one thread, and the looks are rationed: however much others write, they cost a few percent of a
//! core, while a single commit is found at once.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use inotify::{EventMask, Inotify, WatchMask};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::ration::Ration;
use crate::store::{Commits, ForeignCommits, Store};

/// A commit's bytes reach the log before the database counts them, by as long as a disk takes to flush, and nothing
/// tells when it does: after a write that changed nothing yet, look again, this often while a disk may be at it,
const OFTEN: Duration = Duration::from_micros(200);
const OFTEN_LOOKS: u32 = 40;
/// and then twice as late each time, up to this.
const SELDOM: Duration = Duration::from_secs(4);
/// Where to begin when no request is likely: at a look that comes some milliseconds later.
const UNHURRIED: u32 = OFTEN_LOOKS + 5;

/// How long to wait before the look of this number; `None` when it has been enough.
fn pause_before(look: u32) -> Option<Duration> {
    let doublings = look.saturating_sub(OFTEN_LOOKS);
    Some(OFTEN.saturating_mul(1 << doublings.min(20))).filter(|pause| *pause <= SELDOM)
}

/// Our own writes raise events too. While there are any, an event now and then is enough.
const BREATH: Duration = Duration::from_millis(2);
/// Looks at one go, and then one in this time.
const LOOKS: Ration = Ration::of(400, Duration::from_millis(1));

/// Calls `changed` whenever another program has committed, until `stop`. Without inotify (a network file system, say) the
/// caller's poll has to do, and the log says so.
pub async fn run(
    store: Store,
    changed: impl Fn() + Send + Sync + 'static,
    stop: CancellationToken,
) {
    let outcome = match start(store, changed) {
        Ok((running, mut ended)) => tokio::select! {
            () = stop.cancelled() => {
                // The thread sees that this end is closed. It holds the store until then.
                drop(running);
                let _ = ended.await;
                return;
            }
            outcome = &mut ended => outcome.unwrap_or(Ok(())),
        },
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        tracing::warn!(%error, "other programs' requests are noticed by polling only");
    }
}

type Ended = oneshot::Receiver<std::io::Result<()>>;

fn start(
    store: Store,
    changed: impl Fn() + Send + Sync + 'static,
) -> std::io::Result<(UnixStream, Ended)> {
    let (running, stop) = UnixStream::pair()?;
    let (tell, ended) = oneshot::channel();
    let runtime = Handle::current();
    let commits = store.foreign_commits().map_err(std::io::Error::other)?;
    std::thread::Builder::new()
        .name("database-watch".into())
        .spawn(move || {
            // Both are dropped before the end is told: the store is in use no more.
            let watch = Watch {
                store,
                commits,
                runtime,
                stop,
                ration: LOOKS,
            };
            let outcome = watch.run(&changed);
            let _ = tell.send(outcome);
        })?;
    Ok((running, ended))
}

struct Watch {
    store: Store,
    commits: ForeignCommits,
    runtime: Handle,
    /// Readable when the watch is to end.
    stop: UnixStream,
    ration: Ration,
}

enum Woken {
    Events,
    Time,
    Stop,
}

impl Watch {
    fn run(mut self, changed: &dyn Fn()) -> std::io::Result<()> {
        // The directory, not the log itself: that comes and goes with the programs that use the database.
        let home = self.store.path().parent().unwrap_or(Path::new("."));
        let home = home.to_owned();
        let mut inotify = Inotify::init()?;
        // One event at a time: a commit raises dozens, and our own would drown us in them.
        let once = WatchMask::MODIFY
            | WatchMask::CREATE
            | WatchMask::MOVED_TO
            | WatchMask::DELETE
            | WatchMask::ONESHOT;
        let mut looks = u32::MAX;
        inotify.watches().add(&home, once)?;
        // What was written before the watch stood is found by the first look.
        let mut due = Some(Duration::ZERO);
        loop {
            match self.wait(Some(&inotify), due)? {
                Woken::Stop => return Ok(()),
                Woken::Time => looks = looks.saturating_add(1),
                Woken::Events => {
                    let (written, ended) = events(&mut inotify)?;
                    // As it was when the event came: after a rest our last write is past, and the event is still ours.
                    let quiet_for = self.store.quiet_for();
                    if ended {
                        if quiet_for < BREATH * 2
                            && matches!(self.wait(None, Some(BREATH))?, Woken::Stop)
                        {
                            return Ok(());
                        }
                        inotify.watches().add(&home, once)?;
                    }
                    if written {
                        // Most likely our own while we write; then the first look may be later.
                        looks = match quiet_for < BREATH {
                            true => UNHURRIED,
                            false => 0,
                        };
                    }
                }
            }
            let rest = self.ration.take(Instant::now());
            if !rest.is_zero() && matches!(self.wait(None, Some(rest))?, Woken::Stop) {
                return Ok(());
            }
            if self.look() {
                // The request of a person, say, whose first step is a write; not when there is one change after the other.
                if self.ration.is_plenty(Instant::now()) {
                    self.store.expect_write();
                }
                changed();
                // That was it; what may follow is found soon enough.
                looks = UNHURRIED;
            }
            due = pause_before(looks);
        }
    }

    /// Waits for events, unless there is nothing to hear them with, for the time, or for the end.
    fn wait(&self, inotify: Option<&Inotify>, time: Option<Duration>) -> std::io::Result<Woken> {
        let deadline = time.map(|time| Instant::now() + time);
        loop {
            let mut sources = vec![PollFd::new(self.stop.as_fd(), PollFlags::POLLIN)];
            sources.extend(inotify.map(|i| PollFd::new(i.as_fd(), PollFlags::POLLIN)));
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match ppoll(&mut sources, left.map(TimeSpec::from_duration), None) {
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            let ready = |at: usize| sources.get(at).is_some_and(|s| s.any() == Some(true));
            return Ok(match (ready(0), ready(1)) {
                (true, _) => Woken::Stop,
                (_, true) => Woken::Events,
                _ => Woken::Time,
            });
        }
    }

    /// Whether another program has committed since the last look. Where that cannot be said, it may have.
    fn look(&mut self) -> bool {
        match self.commits.look() {
            Ok(Commits::None) => false,
            Ok(Commits::Foreign) => true,
            // The end of that commit is an event too.
            Ok(Commits::InProgress) => false,
            Ok(Commits::Unsure) | Err(_) => {
                let asked = self.runtime.block_on(self.store.foreign_version());
                self.commits.is_new(asked.ok())
            }
        }
    }
}

/// Whether the database was written, and whether the watch has ended with that.
fn events(inotify: &mut Inotify) -> std::io::Result<(bool, bool)> {
    let (mut written, mut ended) = (false, false);
    let mut buffer = [0; 4096];
    let events = match inotify.read_events(&mut buffer) {
        Ok(events) => events,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok((false, false)),
        Err(error) => return Err(error),
    };
    for event in events {
        let lost = event.mask.contains(EventMask::Q_OVERFLOW);
        written |= lost || event.name.is_some_and(is_database);
        ended |= event.mask.contains(EventMask::IGNORED);
    }
    Ok((written, ended))
}

/// Without a log, a commit is done when its journal is gone.
fn is_database(name: &std::ffi::OsStr) -> bool {
    ["state.db", "state.db-wal", "state.db-journal"]
        .iter()
        .any(|database| name == *database)
}
