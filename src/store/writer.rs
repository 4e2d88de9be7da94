//! Passes writes to the one thread that writes. Jobs that wait together are committed and flushed together.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::StoreError;
use super::checkpoint::Checkpoints;
use super::commit::Committer;
use super::open::{File, JournalMode, OpenedDatabase};
use crate::config::StoreOptions;
use crate::metrics::Database;
use crate::store::write_health::WriteHealth;

/// The capacity of the queue. Beyond it, callers wait to submit.
const QUEUE: usize = 1024;
/// How long a caller that has the writer to itself polls for its answer before it sleeps.
const ATTENTION: Duration = Duration::from_micros(500);

/// For the benchmark only: no commit flushes the disk, which shows the cost of flushes.
const NO_FLUSHES: &str = "HERMESD_BENCH_NO_FLUSHES";

/// Stands for a cookie if our writes were not rehearsed.
pub(super) const NOT_REHEARSED: i64 = i64::MIN;

/// What a job needs of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// A commit that is on the disk before the caller gets its answer.
    DurableCommit,
    /// A commit that survives the end of this process. The next durable commit flushes it.
    Commit,
    /// An answer of the connection, without a transaction.
    Answer,
}

pub(super) struct Writer {
    jobs: mpsc::Sender<Box<dyn Job>>,
    /// Waits for locks of other programs are short.
    hurry: Arc<AtomicBool>,
    /// Accepts no more jobs.
    closed: Arc<AtomicBool>,
    asleep: Arc<AtomicBool>,
    last_write: Arc<AtomicU64>,
    groups: Arc<AtomicU64>,
    rehearsed: Arc<AtomicI64>,
    /// The file and the reason, if all writes are refused.
    refusal: Option<(PathBuf, String)>,
    /// The number of callers that wait for a write.
    waiting: AtomicUsize,
    started: Instant,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Counts a waiting caller until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A unit of work, its result, and its waiting caller.
pub(super) trait Job: Send {
    /// Runs in a transaction. False if the transaction must be rolled back.
    fn run(&mut self, connection: &Connection) -> bool;
    /// Answers the caller: with the job's result if it was committed, else with the reason.
    fn finish(self: Box<Self>, commit: Result<(), StoreError>);
    /// The error of the job, if it failed.
    fn fault(&self) -> Option<&StoreError>;
    fn needs(&self) -> Needs;
    /// Whether another job is likely to follow soon.
    fn keeps_awake(&self) -> bool {
        self.needs() != Needs::Answer
    }
    /// When its caller submitted it.
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
        // The caller may have gone away.
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

/// Wakes the thread, and does nothing else.
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
        opened: OpenedDatabase,
        options: StoreOptions,
        file: File,
        checkpoints: Option<Checkpoints>,
        meter: Database,
    ) -> Writer {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (hurry, closed) = <(Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let asleep = Arc::<AtomicBool>::default();
        let (last_write, started) = (Arc::<AtomicU64>::default(), Instant::now());
        let groups = Arc::<AtomicU64>::default();
        let rehearsed = Arc::new(AtomicI64::new(opened.rehearsed.unwrap_or(NOT_REHEARSED)));
        let committer = Committer {
            flushes: Cell::new(opened.journal == JournalMode::Rollback),
            connection: opened.connection,
            journal: opened.journal,
            rehearsed: rehearsed.clone(),
            options,
            file,
            checkpoints,
            never_flush: std::env::var_os(NO_FLUSHES).is_some(),
            hurry: hurry.clone(),
            closed: closed.clone(),
            asleep: asleep.clone(),
            last_write: last_write.clone(),
            groups: groups.clone(),
            started,
            write_health: WriteHealth::default(),
            meter,
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || committer.serve(queue));
        Writer {
            jobs,
            hurry,
            closed,
            asleep,
            last_write,
            groups,
            rehearsed,
            refusal: None,
            waiting: AtomicUsize::new(0),
            started,
            thread: Mutex::new(thread.ok()),
        }
    }

    /// A writer that refuses everything, for a database that can only be read.
    pub(super) fn refusing(path: PathBuf, why: String) -> Writer {
        Writer {
            jobs: mpsc::channel(1).0,
            hurry: Arc::default(),
            closed: Arc::default(),
            asleep: Arc::default(),
            last_write: Arc::default(),
            groups: Arc::default(),
            rehearsed: Arc::default(),
            refusal: Some((path, why)),
            waiting: AtomicUsize::new(0),
            started: Instant::now(),
            thread: Mutex::default(),
        }
    }

    /// The time since the last write of this program. About zero during a write.
    pub(super) fn quiet_for(&self) -> Duration {
        let last = Duration::from_micros(self.last_write.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(last)
    }

    /// Increases when a group of writes begins and when it ends, so it is odd during a write.
    pub(super) fn groups(&self) -> u64 {
        self.groups.load(Ordering::SeqCst)
    }

    /// Whether our writes were rehearsed with the schema of this cookie.
    pub(super) fn has_rehearsed(&self, cookie: i64) -> bool {
        self.rehearsed.load(Ordering::Relaxed) == cookie
    }

    /// Shortens the waits for locks of other programs.
    pub(super) fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    /// Accepts no more jobs, commits the waiting ones, and closes the connection. Returns after that.
    pub(super) fn close(&self) {
        self.hurry();
        self.closed.store(true, Ordering::Release);
        // A full queue keeps the thread awake.
        let _ = self.jobs.try_send(Box::new(Nothing));
        let thread = self.thread.lock().ok().and_then(|mut it| it.take());
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    /// Wakes the writer, because a write will follow soon.
    pub(super) fn wake(&self) {
        if self.asleep.load(Ordering::Relaxed) {
            // A full queue keeps the thread awake.
            let _ = self.jobs.try_send(Box::new(Nothing));
        }
    }

    /// `data_version` on the writing connection changes only with commits of others.
    pub(super) async fn data_version(&self) -> Result<i64, StoreError> {
        self.run(Needs::Answer, |c| {
            Ok(c.pragma_query_value(None, "data_version", |row| row.get(0))?)
        })
        .await
    }

    /// Submits a write without waiting for it. It is dropped if the queue is full.
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
        if let Some((path, why)) = self.refusal.clone() {
            return Err(StoreError::Unservable { path, why });
        }
        let (reply, mut answer) = oneshot::channel();
        let job = Box::new(Work {
            work,
            needs,
            asked: Instant::now(),
            result: None,
            reply,
        });
        // A question is not part of a chain of writes, so its caller does not poll. It does not count as a waiting
        // write either.
        let is_write = needs != Needs::Answer;
        let alone = is_write && self.waiting.fetch_add(1, Ordering::Relaxed) == 0;
        let _waits = is_write.then(|| Waits(&self.waiting));
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        if alone {
            let asked = Instant::now();
            while asked.elapsed() < ATTENTION {
                match answer.try_recv() {
                    Ok(result) => return result,
                    // Other tasks continue meanwhile, and may join the next commit.
                    Err(oneshot::error::TryRecvError::Empty) => {
                        tokio::task::yield_now().await;
                        // The writer may need this core.
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
    /// Waiting jobs are still committed before the connection closes.
    fn drop(&mut self) {
        self.close();
    }
}
