//! Runs reads on threads of their own, each with a read-only connection. The daemon and its clients have separate
//! threads, so neither waits for the other or for tokio's blocking pool.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use super::StoreError;
use super::open::{self, File, JournalMode};

const DAEMON_THREADS: usize = 3;
/// One more than a single connection may use (`control::limits`).
const CLIENT_THREADS: usize = 4;
/// The steps of a statement between two checks whether the caller still waits.
const STEPS: i32 = 1000;
/// How long closing waits for interrupted reads. A single step may take long.
const LAST_READS: Duration = Duration::from_secs(1);

/// The threads for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadsFor {
    Daemon,
    Clients,
}

pub(super) struct Readers {
    file: File,
    journal: JournalMode,
    /// Connections for [`Readers::look`]. `None` if the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
    daemon: Pool,
    clients: Pool,
}

impl Readers {
    pub(super) fn new(file: File, journal: JournalMode) -> Readers {
        Readers {
            journal,
            idle: Mutex::new(Some(Vec::new())),
            daemon: Pool::new("store-reader", DAEMON_THREADS, file.clone()),
            clients: Pool::new("client-reader", CLIENT_THREADS, file.clone()),
            file,
        }
    }

    /// Runs `work` on a reader thread. Dropping the future cancels it, even in the middle of a statement.
    pub(super) async fn run<T, F>(&self, reads_for: ReadsFor, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let pool = match reads_for {
            ReadsFor::Daemon => &self.daemon,
            ReadsFor::Clients => &self.clients,
        };
        // Exists as long as this future.
        let waits = Arc::new(());
        let wanted = Arc::downgrade(&waits);
        let (reply, answer) = oneshot::channel();
        pool.submit(Box::new(move |reader| {
            if wanted.strong_count() > 0 {
                let _ = reply.send(reader.read(wanted, work));
            }
        }));
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs `work` on the calling thread. For single rows by their key, which take less time than waking another
    /// thread. With a log, a reader never waits for a writer. Without one it may, so tokio then moves other tasks off
    /// this thread.
    pub(super) fn look<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if fails_for_a_test(&self.file) {
            return Err(StoreError::Busy(Duration::ZERO));
        }
        let lent = match self.idle.lock() {
            Ok(mut idle) => idle.as_mut().ok_or(StoreError::Closed)?.pop(),
            Err(_) => None,
        };
        let connection = match lent {
            Some(connection) => connection,
            None => connect(&self.file)?,
        };
        let result = match self.journal == JournalMode::Rollback && can_block_in_place() {
            true => tokio::task::block_in_place(|| work(&connection)),
            false => work(&connection),
        };
        if let Ok(mut idle) = self.idle.lock()
            && let Some(idle) = idle.as_mut()
        {
            idle.push(connection);
        }
        result
    }

    /// Closes the connections. Interrupts reads in progress. Later reads fail.
    pub(super) fn close(&self) {
        if let Ok(mut idle) = self.idle.lock() {
            idle.take();
        }
        self.daemon.close();
        self.clients.close();
    }
}

type Job = Box<dyn FnOnce(&mut Reader) + Send>;

/// Threads that start on demand and end with the store.
struct Pool {
    name: &'static str,
    most: usize,
    shared: Arc<Shared>,
}

struct Shared {
    file: File,
    state: Mutex<State>,
    work: Condvar,
    /// Interrupts reads in progress, because the store closes.
    closing: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Pool {
    fn new(name: &'static str, most: usize, file: File) -> Pool {
        Pool {
            name,
            most,
            shared: Arc::new(Shared {
                file,
                state: Mutex::default(),
                work: Condvar::new(),
                closing: Arc::default(),
            }),
        }
    }

    fn submit(&self, job: Job) {
        let mut state = self.shared.state();
        if state.closed {
            return;
        }
        state.waiting.push_back(job);
        if state.waiting.len() <= state.idle {
            self.shared.work.notify_one();
        } else if state.threads.len() < self.most {
            let shared = self.shared.clone();
            let thread = std::thread::Builder::new().name(self.name.into());
            match thread.spawn(move || serve(&shared)) {
                Ok(thread) => state.threads.push(thread),
                // Without any thread the job would wait for ever. Dropping it returns `Closed` to its caller.
                Err(error) if state.threads.is_empty() => {
                    tracing::error!(%error, "cannot start a thread for reading the database");
                    state.waiting.clear();
                }
                Err(_) => {}
            }
        }
    }
}

impl Pool {
    /// Ends the threads. Waiting callers get `Closed`. A thread that ignores the interruption is abandoned, because a
    /// stop must not wait for it.
    fn close(&self) {
        let mut state = self.shared.state();
        state.closed = true;
        state.waiting.clear();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.work.notify_all();
        let begun = Instant::now();
        while begun.elapsed() < LAST_READS && !threads.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// The loop of one thread.
fn serve(shared: &Shared) {
    let mut reader = Reader {
        file: shared.file.clone(),
        closing: shared.closing.clone(),
        connection: None,
    };
    let mut state = shared.state();
    while !state.closed {
        let Some(job) = state.waiting.pop_front() else {
            state.idle += 1;
            state = shared
                .work
                .wait(state)
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            state.idle -= 1;
            continue;
        };
        drop(state);
        // A panic loses only the job: its caller gets `Closed`, and the connection is replaced.
        if catch_unwind(AssertUnwindSafe(|| job(&mut reader))).is_err() {
            reader.connection = None;
        }
        state = shared.state();
    }
}

struct Reader {
    file: File,
    closing: Arc<AtomicBool>,
    connection: Option<Connection>,
}

impl Reader {
    fn read<T>(
        &mut self,
        wanted: Weak<()>,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if fails_for_a_test(&self.file) {
            return Err(StoreError::Busy(Duration::ZERO));
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.file)?,
        };
        let closing = self.closing.clone();
        let unwanted = move || wanted.strong_count() == 0 || closing.load(Ordering::Relaxed);
        connection.progress_handler(STEPS, Some(unwanted))?;
        let result = work(&connection);
        connection.progress_handler(0, None::<fn() -> bool>)?;
        self.connection = Some(connection);
        result
    }
}

fn can_block_in_place() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

fn connect(file: &File) -> Result<Connection, StoreError> {
    // SQLite would take the other file's log index for its own and truncate it, which kills the writer.
    if file.path.exists() && file.is_replaced() {
        return Err(StoreError::Replaced(file.path.clone()));
    }
    let connection = open::beside(&file.path)?;
    // A small cache (512 KiB), because readers seldom read the same pages again.
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -512;")?;
    Ok(connection)
}

/// Makes reads fail in tests: in debug builds, with `HERMESD_FAIL_READS` set, while the home has a file `unreadable`.
#[cfg(debug_assertions)]
fn fails_for_a_test(file: &File) -> bool {
    std::env::var_os("HERMESD_FAIL_READS").is_some()
        && file.path.with_file_name("unreadable").exists()
}

#[cfg(not(debug_assertions))]
fn fails_for_a_test(_file: &File) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Counts for hours.
    const ENDLESS: &str =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

    fn readers() -> (tempfile::TempDir, Arc<Readers>) {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("state.db");
        Connection::open(&path).expect("a database");
        (
            home,
            Arc::new(Readers::new(File::new(path), JournalMode::Wal)),
        )
    }

    /// A read that reports its start and would take hours.
    fn endless(
        readers: &Arc<Readers>,
        reads_for: ReadsFor,
    ) -> (tokio::task::JoinHandle<()>, mpsc::Receiver<()>) {
        let (begun, begins) = mpsc::channel();
        let readers = readers.clone();
        let task = tokio::spawn(async move {
            let read = readers.run(reads_for, move |c| {
                let _ = begun.send(());
                Ok(c.query_row(ENDLESS, [], |row| row.get::<_, i64>(0))?)
            });
            let _ = read.await;
        });
        (task, begins)
    }

    async fn answers(readers: &Readers, reads_for: ReadsFor) -> i64 {
        let read = readers.run(reads_for, |c| {
            Ok(c.query_row("SELECT 42", [], |row| row.get(0))?)
        });
        read.await.expect("an answer")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn the_daemon_reads_while_clients_keep_all_their_threads_busy() {
        let (_home, readers) = readers();
        let (tasks, begun): (Vec<_>, Vec<_>) = (0..CLIENT_THREADS + 2)
            .map(|_| endless(&readers, ReadsFor::Clients))
            .unzip();
        for begun in &begun[..CLIENT_THREADS] {
            tokio::task::block_in_place(|| begun.recv()).expect("a read that begins");
        }
        assert_eq!(answers(&readers, ReadsFor::Daemon).await, 42);
        // Waiting reads end with their callers. They end first here, because an interrupted read makes room for one of them.
        let mut running = tasks;
        for waiting in running.split_off(CLIENT_THREADS) {
            waiting.abort();
            let _ = waiting.await;
        }
        // Running reads are interrupted.
        for task in running {
            task.abort();
        }
        assert_eq!(answers(&readers, ReadsFor::Clients).await, 42);
        assert!(begun[CLIENT_THREADS..].iter().all(|b| b.recv().is_err()));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_close_interrupts_what_is_read_and_refuses_what_comes_later() {
        let (_home, readers) = readers();
        let (task, begun) = endless(&readers, ReadsFor::Daemon);
        tokio::task::block_in_place(|| begun.recv()).expect("a read that begins");
        tokio::task::block_in_place(|| readers.close());
        task.await.expect("an end");
        let late = readers.run(ReadsFor::Daemon, |_| Ok(())).await;
        assert!(matches!(late, Err(StoreError::Closed)));
        let look = readers.look(|_| Ok(()));
        assert!(matches!(look, Err(StoreError::Closed)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_close_does_not_wait_for_a_step_without_an_end() {
        let (_home, readers) = readers();
        let ((begun, begins), (release, held)) = (mpsc::channel(), mpsc::channel::<()>());
        let reading = readers.clone();
        let task = tokio::spawn(async move {
            let read = reading.run(ReadsFor::Clients, move |_| {
                let _ = begun.send(());
                let _ = held.recv();
                Ok(())
            });
            read.await
        });
        tokio::task::block_in_place(|| begins.recv()).expect("a read that begins");
        tokio::task::block_in_place(|| readers.close());
        drop(release);
        assert!(task.await.expect("an end").is_ok());
    }

    #[tokio::test]
    async fn a_panic_costs_one_read() {
        let (_home, readers) = readers();
        for _ in 0..2 * DAEMON_THREADS {
            let read = readers.run(ReadsFor::Daemon, |_| -> Result<(), _> { panic!("a fault") });
            assert!(matches!(read.await, Err(StoreError::Closed)));
        }
        assert_eq!(answers(&readers, ReadsFor::Daemon).await, 42);
    }

    #[tokio::test]
    async fn reads_do_not_wait_for_the_blocking_pool() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        let (release, held) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || held.recv());
        let (_home, readers) = readers();
        let answer = runtime.spawn(async move { answers(&readers, ReadsFor::Daemon).await });
        assert_eq!(answer.await.expect("an answer"), 42);
        drop(release);
        runtime.shutdown_background();
    }
}
