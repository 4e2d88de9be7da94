//! The thread behind the [`super::writer`]: commits jobs in groups, each alone where the group fails.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::checkpoint::Checkpoints;
use super::open::{self, File, Journal};
use super::writer::{Job, NOT_REHEARSED, Needs};
use super::{REBUILD, StoreError, fulltext, messages};
use crate::config::StoreOptions;
use crate::journal_ids;
use crate::metrics::Database;
use crate::store::write_health::WriteHealth;

/// Jobs committed together at the most: a transaction has to stay short for the other programs.
const GROUP: usize = 64;
/// How long other programs' locks are waited out before the caller is told,
const PATIENCE: Duration = Duration::from_secs(10);
/// and how long when the daemon is on its way out.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// Waking a sleeping thread can cost more than a small transaction takes. A handoff is a chain of those, so for this long
/// the thread looks for the next one before it goes to sleep.
const STAYS_AWAKE: Duration = Duration::from_millis(1);

/// What the thread works with.
pub(super) struct Committer {
    pub(super) connection: Connection,
    pub(super) journal: Journal,
    /// The cookie of the schema that our writes were rehearsed with.
    pub(super) rehearsed: Arc<AtomicI64>,
    pub(super) options: StoreOptions,
    pub(super) file: File,
    /// Where there is a log.
    pub(super) checkpoints: Option<Checkpoints>,
    /// Whether the connection flushes the disk at a commit.
    pub(super) flushes: Cell<bool>,
    pub(super) never_flush: bool,
    pub(super) hurry: Arc<AtomicBool>,
    pub(super) closed: Arc<AtomicBool>,
    pub(super) asleep: Arc<AtomicBool>,
    pub(super) last_write: Arc<AtomicU64>,
    pub(super) groups: Arc<AtomicU64>,
    pub(super) started: Instant,
    pub(super) write_health: WriteHealth,
    pub(super) meter: Database,
}

impl Committer {
    pub(super) fn serve(mut self, mut queue: mpsc::Receiver<Box<dyn Job>>) {
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
                if let Some(checkpoints) = &self.checkpoints {
                    checkpoints.after_commit(&self.connection);
                }
            }
            for mut question in questions {
                question.run(&self.connection);
                question.finish(Ok(()));
            }
            if keeps_awake {
                awake_since = Instant::now();
            }
        }
        if self.checkpoints.take().is_some() {
            // Errors here would only repeat what the last commit said. Where other programs use the log, as much is brought
            // in as they allow, without waiting for them.
            let _ = self
                .connection
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        }
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
    fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
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
                message_id = journal_ids::INDEX_DAMAGED,
                "the full-text index is damaged: messages are written without it. To repair search, {REBUILD}"
            );
        }
        if let Ok(Done::Committed) = outcome {
            self.meter.commit.observe(begun.elapsed().as_secs_f64());
            self.meter.group.observe(group.len() as f64);
        }
        let failed = group.iter().find_map(|job| job.fault());
        self.write_health.report(outcome.as_ref().err().or(failed));
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
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        first: impl Fn(&Connection) -> Result<bool, StoreError>,
    ) -> Result<Done, StoreError> {
        self.set_flushes(group.iter().any(|job| job.needs() == Needs::DurableCommit))?;
        self.begin(group)?;
        let outcome = self.within(group, first);
        // Some errors end the transaction by themselves.
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        outcome
    }

    fn within(
        &mut self,
        group: &mut [Box<dyn Job>],
        first: impl Fn(&Connection) -> Result<bool, StoreError>,
    ) -> Result<Done, StoreError> {
        // Hermes may be upgraded while we run.
        let cookie = open::cookie(&self.connection)?;
        let rehearsed = self.rehearsed.load(Ordering::Relaxed);
        if rehearsed != cookie {
            open::make_servable(&mut self.connection, &self.file.path, &self.options)?;
            if rehearsed != NOT_REHEARSED {
                tracing::info!("another program has changed the schema; it is served as it is now");
            }
        }
        let connection = &self.connection;
        if !first(connection)? || !group.iter_mut().all(|job| job.run(connection)) {
            return Ok(Done::RolledBack);
        }
        messages::put_in_place(connection)?;
        // This transaction may have changed the schema as well. Then the next one rehearses once more.
        let is_same = open::cookie(connection)? == cookie;
        self.finish()?;
        let rehearsed = if is_same { cookie } else { NOT_REHEARSED };
        self.rehearsed.store(rehearsed, Ordering::Relaxed);
        Ok(Done::Committed)
    }

    /// With a rollback journal a commit waits for those who read. SQLite lets no new ones begin meanwhile.
    fn finish(&self) -> Result<(), StoreError> {
        let begun = Instant::now();
        loop {
            let Err(error) = self.connection.prepare_cached("COMMIT")?.execute([]) else {
                return Ok(());
            };
            let error = StoreError::from(error);
            let patience = match self.hurry.load(Ordering::Relaxed) {
                false => PATIENCE,
                true => LAST_PATIENCE,
            };
            if !error.is_busy() || begun.elapsed() > patience {
                return Err(error);
            }
            self.meter.busy.inc();
            std::thread::sleep(Duration::from_micros(fastrand::u64(200..2_000)));
        }
    }

    /// Whether the next commit is on the disk when it returns. One flush brings all commits before it there as well.
    fn set_flushes(&self, wanted: bool) -> Result<(), StoreError> {
        // Without a log, less than a flush could cost the whole file.
        let wanted = (wanted || self.journal == Journal::Rollback) && !self.never_flush;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{OpenMode, Store};

    #[tokio::test]
    async fn every_commit_is_flushed_where_there_is_no_log() {
        for (create_in_wal, least) in [(true, 1), (false, 2)] {
            let home = tempfile::tempdir().expect("a directory");
            let options = StoreOptions {
                create_in_wal,
                ..StoreOptions::default()
            };
            let store = Store::open(home.path(), OpenMode::Create, &options).expect("a store");
            let flushes = store.write_unflushed(|c| {
                Ok(c.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?)
            });
            assert_eq!(flushes.await.expect("a number"), least, "{create_in_wal}");
        }
    }
}
