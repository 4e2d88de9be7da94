//! The one thread that writes. Jobs that wait together are committed together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::Checkpoints;
use super::trouble::Trouble;
use super::{StoreError, messages};
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
/// the writer looks for the next one, and whoever has the writer to itself for its answer, before they go to sleep.
const ATTENTION: Duration = Duration::from_micros(500);

pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    closing: Arc<AtomicBool>,
    asleep: Arc<AtomicBool>,
    last_write: Arc<AtomicU64>,
    started: Instant,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A unit of work, its result, and the caller who waits for it.
trait Job: Send {
    /// Runs inside a transaction; false means that its changes must be undone.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Tells the caller: its own result when committed, else the reason.
    fn finish(self: Box<Self>, commit: Result<(), StoreError>);
    /// Why it failed, if it did.
    fn fault(&self) -> Option<&StoreError>;
    /// Jobs that only ask something of the connection need no transaction.
    fn transactional(&self) -> bool;
}

struct Work<T, F> {
    work: F,
    transactional: bool,
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

    fn transactional(&self) -> bool {
        self.transactional
    }
}

/// Only there to be received.
struct Nothing;

impl Job for Nothing {
    fn run(&mut self, _connection: &Connection) -> bool {
        true
    }

    fn finish(self: Box<Self>, _commit: Result<(), StoreError>) {}

    fn fault(&self) -> Option<&StoreError> {
        None
    }

    fn transactional(&self) -> bool {
        false
    }
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        checkpoints: Checkpoints,
        meter: Database,
    ) -> Writer {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (closing, asleep) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let (last_write, started) = (Arc::<AtomicU64>::default(), Instant::now());
        let desk = Desk {
            connection,
            checkpoints,
            closing: closing.clone(),
            asleep: asleep.clone(),
            last_write: last_write.clone(),
            started,
            trouble: Trouble::default(),
            meter,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || desk.serve(queue));
        Writer {
            jobs: Some(jobs),
            closing,
            asleep,
            last_write,
            started,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// How long ago this program last wrote anything; nothing while it is at it.
    pub(super) fn quiet_for(&self) -> Duration {
        let last = Duration::from_micros(self.last_write.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last)
    }

    /// Locks of other programs are waited out only briefly from now on.
    pub(super) fn hurry(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// A write will come in a moment: it should not find the writer asleep.
    pub(super) fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed)
            && let Some(jobs) = &self.jobs
        {
            // A queue that is full keeps it awake anyway.
            let _ = jobs.try_send(Box::new(Nothing));
        }
    }

    pub(super) async fn run<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.submit(work, true).await
    }

    /// Asked on the writing connection, `data_version` moves only for commits that are not ours.
    pub(super) async fn data_version(&self) -> Result<i64, StoreError> {
        self.submit(
            |c| Ok(c.pragma_query_value(None, "data_version", |row| row.get(0))?),
            false,
        )
        .await
    }

    async fn submit<T, F>(&self, work: F, transactional: bool) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, mut answer) = oneshot::channel();
        let job = Box::new(Work {
            work,
            transactional,
            result: None,
            reply,
        });
        let jobs = self.jobs.as_ref().ok_or(StoreError::Closed)?;
        let alone = jobs.capacity() == jobs.max_capacity();
        jobs.send(job).await.map_err(|_| StoreError::Closed)?;
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
        self.hurry();
        drop(self.jobs.take());
        let thread = self.thread.get_mut().ok().and_then(Option::take);
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Desk {
    connection: Connection,
    checkpoints: Checkpoints,
    closing: Arc<AtomicBool>,
    asleep: Arc<AtomicBool>,
    last_write: Arc<AtomicU64>,
    started: Instant,
    trouble: Trouble,
    meter: Database,
}

impl Desk {
    fn serve(self, mut queue: mpsc::Receiver<Box<dyn Job>>) {
        let mut group: Vec<Box<dyn Job>> = Vec::with_capacity(GROUP);
        while let Some(first) = self.next_job(&mut queue) {
            group.push(first);
            while group.len() < GROUP {
                match queue.try_recv() {
                    Ok(job) => group.push(job),
                    Err(_) => break,
                }
            }
            let (writes, questions): (Vec<_>, Vec<_>) =
                group.drain(..).partition(|job| job.transactional());
            if !writes.is_empty() {
                self.note_write();
                self.commit(writes);
                self.note_write();
                self.checkpoints.after_commit(&self.connection);
            }
            for mut question in questions {
                question.run(&self.connection);
                question.finish(Ok(()));
            }
        }
        drop(self.checkpoints);
        // Errors here would only repeat what the last commit said.
        let _ = self
            .connection
            .execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
    }

    /// The next job, for which the thread stays awake a moment; `None` when there will be none.
    fn next_job(&self, queue: &mut mpsc::Receiver<Box<dyn Job>>) -> Option<Box<dyn Job>> {
        let idle = Instant::now();
        while idle.elapsed() < ATTENTION {
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
        let outcome = self.transaction(&mut group);
        if let Ok(Done::Committed) = outcome {
            self.meter.commit.observe(begun.elapsed().as_secs_f64());
            self.meter.group.observe(group.len() as f64);
        }
        let failed = group.iter().find_map(|job| job.fault());
        self.trouble.tell(outcome.as_ref().err().or(failed));
        // Nothing was even begun: what holds for one holds for all.
        if let Err(StoreError::Busy(waited)) = outcome {
            return group
                .into_iter()
                .for_each(|job| job.finish(Err(StoreError::Busy(waited))));
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

    fn transaction(&self, group: &mut [Box<dyn Job>]) -> Result<Done, StoreError> {
        let connection = &self.connection;
        self.begin()?;
        let outcome = if group.iter_mut().all(|job| job.run(connection)) {
            self.finish().map(|()| Done::Committed)
        } else {
            Ok(Done::RolledBack)
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

    fn begin(&self) -> Result<(), StoreError> {
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
            let patience = match self.closing.load(Ordering::Relaxed) {
                false => PATIENCE,
                true => LAST_PATIENCE,
            };
            if started.elapsed() > patience {
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
