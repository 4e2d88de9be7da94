//! The one thread that writes. Jobs that wait together are committed together, and reach the disk together.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::Checkpoints;
use super::open::File;
use super::trouble::Trouble;
use super::{REBUILD, StoreError, fulltext, messages};
use crate::message_id;
use crate::metrics::Database;

/// Jobs that may wait; past it callers wait to hand theirs over.
const QUEUE: usize = 1024;
/// Jobs committed together at the most: a transaction has to stay short for the other programs.
const GROUP: usize = 64;
/// How long other programs' locks are waited out before the caller is told,
const PATIENCE: Duration = Duration::from_secs(10);
/// and how long when the daemon is on its way out.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// Waking a sleeping thread can cost more than a small transaction takes. A handoff is a chain of those, so for this long
/// the writer looks for the next one before it goes to sleep,
const STAYS_AWAKE: Duration = Duration::from_millis(1);
/// and whoever has the writer to itself looks for its answer.
const ATTENTION: Duration = Duration::from_micros(500);

/// Set by the benchmark alone: no commit flushes the disk, which shows what the flushes cost.
const NO_FLUSHES: &str = "HERMESD_BENCH_NO_FLUSHES";

/// What a job needs of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// A commit that is on the disk before the caller hears of it.
    DurableCommit,
    /// A commit that survives the end of this process; the next durable one brings it to the disk.
    Commit,
    /// Only an answer of the connection: no transaction.
    Answer,
}

pub(super) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
    /// Locks of other programs are waited for only briefly.
    hurry: Arc<AtomicBool>,
    /// No more jobs are accepted.
    closed: Arc<AtomicBool>,
    asleep: Arc<AtomicBool>,
    last_write: Arc<AtomicU64>,
    groups: Arc<AtomicU64>,
    /// Callers that wait for a write of theirs.
    waiting: AtomicUsize,
    started: Instant,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// One of those who wait for a write, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A unit of work, its result, and the caller who waits for it.
trait Job: Send {
    /// Runs inside a transaction; false means that its changes must be undone.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Tells the caller: its own result when committed, else the reason.
    fn finish(self: Box<Self>, commit: Result<(), StoreError>);
    /// Why it failed, if it did.
    fn fault(&self) -> Option<&StoreError>;
    fn needs(&self) -> Needs;
    /// Whether another job is likely to follow in a moment.
    fn keeps_awake(&self) -> bool {
        self.needs() != Needs::Answer
    }
    /// Since when its caller waits.
    fn asked(&self) -> Instant;
}

struct Work<T, F> {
    work: F,
    needs: Needs,
    asked: Instant,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Work<T, F>
where
    T: Send,
    F: Fn(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, connection: &Connection) -> bool {
        let result = (self.work)(connection);
        let ok = result.is_ok();
        self.result = Some(result);
        ok
    }

    fn finish(self: Box<Self>, commit: Result<(), StoreError>) {
        let result = match (self.result, commit) {
            (Some(Err(own)), _) => Err(own.explained()),
            (_, Err(commit)) => Err(commit.explained()),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Closed),
        };
        // A caller that went away no longer wants to know.
        let _ = self.reply.send(result);
    }

    fn fault(&self) -> Option<&StoreError> {
        self.result.as_ref()?.as_ref().err()
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn asked(&self) -> Instant {
        self.asked
    }
}

/// Only there to be received: a write follows.
struct Nothing;

impl Job for Nothing {
    fn run(&mut self, _connection: &Connection) -> bool {
        true
    }

    fn finish(self: Box<Self>, _commit: Result<(), StoreError>) {}

    fn fault(&self) -> Option<&StoreError> {
        None
    }

    fn needs(&self) -> Needs {
        Needs::Answer
    }

    fn keeps_awake(&self) -> bool {
        true
    }

    fn asked(&self) -> Instant {
        Instant::now()
    }
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        file: File,
        checkpoints: Checkpoints,
        meter: Database,
    ) -> Writer {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (hurry, closed) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let asleep = Arc::<AtomicBool>::default();
        let (last_write, started) = (Arc::<AtomicU64>::default(), Instant::now());
        let groups = Arc::<AtomicU64>::default();
        let desk = Desk {
            connection,
            file,
            checkpoints,
            flushes: Cell::new(false),
            never_flush: std::env::var_os(NO_FLUSHES).is_some(),
            hurry: hurry.clone(),
            closed: closed.clone(),
            asleep: asleep.clone(),
            last_write: last_write.clone(),
            groups: groups.clone(),
            started,
            trouble: Trouble::default(),
            meter,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || desk.serve(queue));
        Writer {
            jobs,
            hurry,
            closed,
            asleep,
            last_write,
            groups,
            waiting: AtomicUsize::new(0),
            started,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// How long ago this program last wrote anything; nothing while it is at it.
    pub(super) fn quiet_for(&self) -> Duration {
        let last = Duration::from_micros(self.last_write.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last)
    }

    /// Grows when a group of writes begins and when it has ended: odd while one is being written.
    pub(super) fn groups(&self) -> u64 {
        self.groups.load(Ordering::SeqCst)
    }

    /// Locks of other programs are waited out only briefly from now on.
    pub(super) fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    /// Takes no more jobs, commits those that wait, and closes the connection. Returns when that is done.
    pub(super) fn close(&self) {
        self.hurry();
        self.closed.store(true, Ordering::Release);
        // A queue that is full keeps the thread awake anyway.
        let _ = self.jobs.try_send(Box::new(Nothing));
        let thread = self.thread.lock().ok().and_then(|mut it| it.take());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// A write will come in a moment: it should not find the writer asleep.
    pub(super) fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            // A queue that is full keeps it awake anyway.
            let _ = self.jobs.try_send(Box::new(Nothing));
        }
    }

    /// Asked on the writing connection, `data_version` moves only for commits that are not ours.
    pub(super) async fn data_version(&self) -> Result<i64, StoreError> {
        self.run(Needs::Answer, |c| {
            Ok(c.pragma_query_value(None, "data_version", |row| row.get(0))?)
        })
        .await
    }

    /// Hands over a write that its caller does not wait for. When too many jobs wait, it is not done.
    pub(super) fn post<F>(&self, work: F)
    where
        F: Fn(&Connection) -> Result<(), StoreError> + Send + 'static,
    {
        let (reply, _) = oneshot::channel();
        let _ = self.jobs.try_send(Box::new(Work {
            work,
            needs: Needs::Commit,
            asked: Instant::now(),
            result: None,
            reply,
        }));
    }

    pub(super) async fn run<T, F>(&self, needs: Needs, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, mut answer) = oneshot::channel();
        let job = Box::new(Work {
            work,
            needs,
            asked: Instant::now(),
            result: None,
            reply,
        });
        // A question is not part of a chain of writes; the thread that asks it need not stay awake. Neither does it keep a
        // chain from being alone.
        let is_write = needs != Needs::Answer;
        let alone = is_write && self.waiting.fetch_add(1, Ordering::Relaxed) == 0;
        let _waits = is_write.then(|| Waits(&self.waiting));
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        if alone {
            let asked = Instant::now();
            while asked.elapsed() < ATTENTION {
                match answer.try_recv() {
                    Ok(result) => return result,
                    // Others go on meanwhile, and may join the next commit.
                    Err(oneshot::error::TryRecvError::Empty) => {
                        tokio::task::yield_now().await;
                        // The writer may want this very core.
                        std::thread::yield_now();
                    }
                    Err(oneshot::error::TryRecvError::Closed) => return Err(StoreError::Closed),
                }
            }
        }
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

impl Drop for Writer {
    /// Whatever was handed over is still written before the connection closes.
    fn drop(&mut self) {
        self.close();
    }
}

/// What the thread works with.
struct Desk {
    connection: Connection,
    file: File,
    checkpoints: Checkpoints,
    /// Whether the connection flushes the disk at a commit.
    flushes: Cell<bool>,
    never_flush: bool,
    hurry: Arc<AtomicBool>,
    closed: Arc<AtomicBool>,
    asleep: Arc<AtomicBool>,
    last_write: Arc<AtomicU64>,
    groups: Arc<AtomicU64>,
    started: Instant,
    trouble: Trouble,
    meter: Database,
}

impl Desk {
    fn serve(self, mut queue: mpsc::Receiver<Box<dyn Job>>) {
        let mut group: Vec<Box<dyn Job>> = Vec::with_capacity(GROUP);
        let mut awake_since = Instant::now();
        while let Some(first) = self.next_job(&mut queue, awake_since) {
            group.push(first);
            if self.closed.load(Ordering::Acquire) {
                // What waits is still done; then there is no next job.
                queue.close();
            }
            while group.len() < GROUP {
                match queue.try_recv() {
                    Ok(job) => group.push(job),
                    Err(_) => break,
                }
            }
            let keeps_awake = group.iter().any(|job| job.keeps_awake());
            let (writes, questions): (Vec<_>, Vec<_>) = group
                .drain(..)
                .partition(|job| job.needs() != Needs::Answer);
            if !writes.is_empty() {
                self.note_write();
                self.groups.fetch_add(1, Ordering::SeqCst);
                self.commit(writes);
                self.groups.fetch_add(1, Ordering::SeqCst);
                self.note_write();
                self.checkpoints.after_commit(&self.connection);
            }
            for mut question in questions {
                question.run(&self.connection);
                question.finish(Ok(()));
            }
            if keeps_awake {
                awake_since = Instant::now();
            }
        }
        drop(self.checkpoints);
        // Errors here would only repeat what the last commit said. Where other programs use the log, as much is brought in
        // as they allow, without waiting for them.
        let _ = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }

    /// The next job, for which the thread stays awake a moment; `None` when there will be none.
    fn next_job(
        &self,
        queue: &mut mpsc::Receiver<Box<dyn Job>>,
        awake_since: Instant,
    ) -> Option<Box<dyn Job>> {
        while awake_since.elapsed() < STAYS_AWAKE {
            match queue.try_recv() {
                Ok(job) => return Some(job),
                // Whoever has the next one may want this very core.
                Err(mpsc::error::TryRecvError::Empty) => std::thread::yield_now(),
                Err(mpsc::error::TryRecvError::Disconnected) => return None,
            }
        }
        self.asleep.store(true, Ordering::Relaxed);
        let job = queue.blocking_recv();
        self.asleep.store(false, Ordering::Relaxed);
        job
    }

    fn note_write(&self) {
        let now = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last_write.store(now, Ordering::Relaxed);
    }

    /// Commits all of them together, or, when one of them fails or the group cannot be committed, each alone.
    fn commit(&self, mut group: Vec<Box<dyn Job>>) {
        let (alone, begun) = (group.len() == 1, Instant::now());
        let mut outcome = self.transaction(&mut group, |_| Ok(true));
        let fault = outcome.as_ref().err();
        let fault = fault.or_else(|| group.iter().find_map(|job| job.fault()));
        // Where something else is wrong, it fails without the index too, and nothing is changed.
        if fault.is_some_and(StoreError::may_be_the_index)
            && let Ok(Done::Committed) = self.transaction(&mut group, fulltext::detach)
        {
            outcome = Ok(Done::Committed);
            tracing::error!(
                message_id = message_id::INDEX_DAMAGED,
                "the full-text index is damaged: messages are written without it. To repair search, {REBUILD}"
            );
        }
        if let Ok(Done::Committed) = outcome {
            self.meter.commit.observe(begun.elapsed().as_secs_f64());
            self.meter.group.observe(group.len() as f64);
        }
        let failed = group.iter().find_map(|job| job.fault());
        self.trouble.tell(outcome.as_ref().err().or(failed));
        // Nothing was even begun, and every caller has its answer.
        if group.is_empty() {
            return;
        }
        // A commit into a file that is no longer in its place is lost, so it must not be acknowledged.
        if self.file.is_replaced() {
            return group
                .into_iter()
                .for_each(|job| job.finish(Err(StoreError::Replaced(self.file.path.clone()))));
        }
        if !alone && !matches!(outcome, Ok(Done::Committed)) {
            // Savepoints would keep them apart too, but make the full-text index flush at every one.
            return group.into_iter().for_each(|job| self.commit(vec![job]));
        }
        let mut outcome = Some(outcome.map(|_| ()));
        for job in group {
            job.finish(outcome.take().unwrap_or(Ok(())));
        }
    }

    /// Runs `first`, and all of them if that says so, in one transaction.
    fn transaction(
        &self,
        group: &mut Vec<Box<dyn Job>>,
        first: impl Fn(&Connection) -> Result<bool, StoreError>,
    ) -> Result<Done, StoreError> {
        let connection = &self.connection;
        self.set_flushes(group.iter().any(|job| job.needs() == Needs::DurableCommit))?;
        self.begin(group)?;
        let outcome = match first(connection) {
            Ok(true) if group.iter_mut().all(|job| job.run(connection)) => {
                self.finish().map(|()| Done::Committed)
            }
            Ok(_) => Ok(Done::RolledBack),
            Err(error) => Err(error),
        };
        // Some errors end the transaction by themselves.
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK")?;
        }
        outcome
    }

    fn finish(&self) -> Result<(), StoreError> {
        messages::put_in_place(&self.connection)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Whether the next commit is on the disk when it returns. One flush brings all commits before it there as well.
    fn set_flushes(&self, wanted: bool) -> Result<(), StoreError> {
        let wanted = wanted && !self.never_flush;
        if self.flushes.get() != wanted {
            self.connection.execute_batch(match wanted {
                true => "PRAGMA synchronous = FULL",
                false => "PRAGMA synchronous = NORMAL",
            })?;
            self.flushes.set(wanted);
        }
        Ok(())
    }

    /// Waits for another program's lock. A job whose caller has waited long enough is answered and leaves the group, so
    /// that no answer takes longer than that, however many jobs wait.
    fn begin(&self, group: &mut Vec<Box<dyn Job>>) -> Result<(), StoreError> {
        let started = Instant::now();
        loop {
            let outcome = self
                .connection
                .prepare_cached("BEGIN IMMEDIATE")
                .and_then(|mut s| s.execute([]));
            let error = match outcome {
                Ok(_) => return Ok(()),
                Err(e) => StoreError::from(e),
            };
            if !error.is_busy() {
                return Err(error);
            }
            let hurry = self.hurry.load(Ordering::Relaxed);
            let overdue = |job: &mut Box<dyn Job>| match hurry {
                false => job.asked().elapsed() > PATIENCE,
                true => started.elapsed() > LAST_PATIENCE,
            };
            for job in group.extract_if(.., overdue) {
                let waited = job.asked().elapsed();
                job.finish(Err(StoreError::Busy(waited)));
            }
            if group.is_empty() {
                return Err(StoreError::Busy(started.elapsed()));
            }
            self.meter.busy.inc();
            // Jitter, so that several waiting programs do not try again in step.
            std::thread::sleep(Duration::from_micros(fastrand::u64(500..15_000)));
        }
    }
}

enum Done {
    Committed,
    /// A job failed, and holds the reason; nothing was changed.
    RolledBack,
}
