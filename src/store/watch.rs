//! Notices commits of other programs to `state.db`. inotify on the home reports writes to the database, its log or its
//! journal. The store then tells whether another program has committed.
//!
//! Everything runs on one thread, and the looks are rationed. However much others write, they cost a few percent of a
//! core. A single commit is found at once.

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

/// The bytes of a commit reach the log before the database counts them. The delay is the time of a disk flush, and no
/// event marks its end. So after a write without a visible commit, look again at this interval while a disk may be
/// flushing,
const OFTEN: Duration = Duration::from_micros(200);
const OFTEN_LOOKS: u32 = 40;
/// and then at doubling intervals up to this one.
const SELDOM: Duration = Duration::from_secs(4);
/// The number of the first look if no request is likely. It comes some milliseconds later.
const UNHURRIED: u32 = OFTEN_LOOKS + 5;

/// The pause before the look of this number. `None` after the last look.
fn pause_before(look: u32) -> Option<Duration> {
    let doublings = look.saturating_sub(OFTEN_LOOKS);
    Some(OFTEN.saturating_mul(1 << doublings.min(20))).filter(|pause| *pause <= SELDOM)
}

/// Our own writes raise events too. While we write, take only one event in this time.
const BREATH: Duration = Duration::from_millis(2);
/// The looks without a pause, and then one look in this time.
const LOOKS: Ration = Ration::of(400, Duration::from_millis(1));

/// Calls `changed` after each commit of another program, until `stop`. Without inotify, as on a network file system,
/// logs a warning and returns. Then only the caller's poll notices requests.
pub async fn run(
    store: Store,
    changed: impl Fn() + Send + Sync + 'static,
    stop: CancellationToken,
) {
    let outcome = match start(store, changed) {
        Ok((running, mut ended)) => tokio::select! {
            () = stop.cancelled() => {
                // The thread notices the closed socket. It holds the store until then.
                drop(running);
                let _ = ended.await;
                return;
            }
            outcome = &mut ended => outcome.unwrap_or(Ok(())),
        },
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        tracing::warn!(%error, "cannot watch the database; requests of other programs are found by polling only");
    }
}

type Ended = oneshot::Receiver<std::io::Result<()>>;

fn start(
    store: Store,
    changed: impl Fn() + Send + Sync + 'static,
) -> std::io::Result<(UnixStream, Ended)> {
    let (running, stop) = UnixStream::pair()?;
    let (outcome_sender, ended) = oneshot::channel();
    let runtime = Handle::current();
    let commits = store.foreign_commits().map_err(std::io::Error::other)?;
    std::thread::Builder::new()
        .name("database-watch".into())
        .spawn(move || {
            // `run` drops the store and the connection before the outcome is sent.
            let watch = Watch {
                store,
                commits,
                runtime,
                stop,
                ration: LOOKS,
            };
            let outcome = watch.run(&changed);
            let _ = outcome_sender.send(outcome);
        })?;
    Ok((running, ended))
}

struct Watch {
    store: Store,
    commits: ForeignCommits,
    runtime: Handle,
    /// Readable when the watch has to end.
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
        // The directory, because the log comes and goes with the programs that use the database.
        let home = self.store.path().parent().unwrap_or(Path::new("."));
        let home = home.to_owned();
        let mut inotify = Inotify::init()?;
        // One event at a time: a commit raises dozens, and so do our own.
        let once = WatchMask::MODIFY
            | WatchMask::CREATE
            | WatchMask::MOVED_TO
            | WatchMask::DELETE
            | WatchMask::ONESHOT;
        let mut looks = u32::MAX;
        inotify.watches().add(&home, once)?;
        // The first look finds commits from before the watch began.
        let mut due = Some(Duration::ZERO);
        loop {
            match self.wait(Some(&inotify), due)? {
                Woken::Stop => return Ok(()),
                Woken::Time => looks = looks.saturating_add(1),
                Woken::Events => {
                    let (written, ended) = events(&mut inotify)?;
                    // Taken before the rest, while our last write is still recent.
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
                        // While we write, the event is most likely ours. Then the first look may come later.
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
                // It may be a request, whose first step is a write. In a stream of changes this is not worthwhile.
                if self.ration.is_plenty(Instant::now()) {
                    self.store.expect_write();
                }
                changed();
                // Further commits need no hurry.
                looks = UNHURRIED;
            }
            due = pause_before(looks);
        }
    }

    /// Waits for events (if `inotify` is given), for the time, or for the stop.
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

    /// Whether another program has committed since the last look. True, once, if the database does not answer.
    fn look(&mut self) -> bool {
        match self.commits.look() {
            Ok(Commits::None) => false,
            Ok(Commits::Foreign) => true,
            // The end of that commit raises an event too.
            Ok(Commits::InProgress) => false,
            Ok(Commits::Unsure) | Err(_) => {
                let asked = self.runtime.block_on(self.store.foreign_version());
                self.commits.is_new(asked.ok())
            }
        }
    }
}

/// Whether the database was written, and whether the watch has ended.
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

/// Whether it is a file of the database. Without a log, a commit ends when its journal is deleted.
fn is_database(name: &std::ffi::OsStr) -> bool {
    ["state.db", "state.db-wal", "state.db-journal"]
        .iter()
        .any(|database| name == *database)
}
