//! The thread of the [`super::writer`]. It commits jobs in groups, and each job alone if its group fails.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::mpsc;

use super::checkpoint::Checkpoints;
use super::open::{self, File, JournalMode};
use super::writer::{Job, NOT_REHEARSED, Needs};
use super::{REBUILD, StoreError, fulltext, messages};
use crate::config::StoreOptions;
use crate::journal_ids;
use crate::metrics::Database;
use crate::store::write_health::WriteHealth;

/// The largest group. A transaction must be short, because other programs wait for it.
const GROUP: usize = 64;
/// How long a job waits for locks of other programs before it fails,
const PATIENCE: Duration = Duration::from_secs(10);
/// and how long during a stop.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// How long the thread polls for the next job before it sleeps. Waking a thread can cost more than a small
/// transaction, and a handoff is a chain of those.
const STAYS_AWAKE: Duration = Duration::from_millis(1);

/// The state of the thread.
pub(super) struct Committer {
    pub(super) connection: Connection,
    pub(super) journal: JournalMode,
    /// The schema cookie of the last rehearsal.
    pub(super) rehearsed: Arc<AtomicI64>,
    pub(super) options: StoreOptions,
    pub(super) file: File,
    /// `None` if the database has no write-ahead log.
    pub(super) checkpoints: Option<Checkpoints>,
    /// Whether commits flush the disk at present.
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
                // The jobs in the queue still run. After them the queue ends.
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
            // An error here repeats what the last commit reported. If other programs use the log, this checkpoints
            // as much as they allow, without waiting for them.
            let _ = self
                .connection
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        }
    }

    /// The next job, or `None` when the queue has ended. Polls for a moment before it sleeps.
    fn next_job(
        &self,
        queue: &mut mpsc::Receiver<Box<dyn Job>>,
        awake_since: Instant,
    ) -> Option<Box<dyn Job>> {
        while awake_since.elapsed() < STAYS_AWAKE {
            match queue.try_recv() {
                Ok(job) => return Some(job),
                // The caller with the next job may need this core.
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

    /// Commits the jobs together. If a job fails or the group cannot be committed, commits each alone.
    fn commit(&mut self, mut group: Vec<Box<dyn Job>>) {
        let (alone, begun) = (group.len() == 1, Instant::now());
        let mut outcome = self.transaction(&mut group, |_| Ok(true));
        let fault = outcome.as_ref().err();
        let fault = fault.or_else(|| group.iter().find_map(|job| job.fault()));
        // If the index is not the cause, this fails too and changes nothing.
        if fault.is_some_and(StoreError::may_be_the_index)
            && let Ok(Done::Committed) = self.transaction(&mut group, fulltext::detach)
        {
            outcome = Ok(Done::Committed);
            tracing::error!(
                message_id = journal_ids::INDEX_DAMAGED,
                "full-text index is damaged: messages are written without it; to repair search, {REBUILD}"
            );
        }
        if let Ok(Done::Committed) = outcome {
            self.meter.commit.observe(begun.elapsed().as_secs_f64());
            self.meter.group.observe(group.len() as f64);
        }
        let failed = group.iter().find_map(|job| job.fault());
        self.write_health.report(outcome.as_ref().err().or(failed));
        // All callers have their answers, and no transaction was begun.
        if group.is_empty() {
            return;
        }
        // A commit to a replaced file is lost, so it must not be acknowledged.
        if self.file.is_replaced() {
            return group
                .into_iter()
                .for_each(|job| job.finish(Err(StoreError::Replaced(self.file.path.clone()))));
        }
        if !alone && !matches!(outcome, Ok(Done::Committed)) {
            // Savepoints would isolate the jobs too, but the full-text index would flush at each of them.
            return group.into_iter().for_each(|job| self.commit(vec![job]));
        }
        let mut outcome = Some(outcome.map(|_| ()));
        for job in group {
            job.finish(outcome.take().unwrap_or(Ok(())));
        }
    }

    /// Runs `first`, and then the jobs if it returns true, in one transaction.
    fn transaction(
        &mut self,
        group: &mut Vec<Box<dyn Job>>,
        first: impl Fn(&Connection) -> Result<bool, StoreError>,
    ) -> Result<Done, StoreError> {
        self.set_flushes(group.iter().any(|job| job.needs() == Needs::DurableCommit))?;
        self.begin(group)?;
        let outcome = self.within(group, first);
        // Some errors end the transaction.
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
        // Another program, such as an upgraded Hermes, may have changed the schema.
        let cookie = open::cookie(&self.connection)?;
        let rehearsed = self.rehearsed.load(Ordering::Relaxed);
        if rehearsed != cookie {
            open::make_servable(&mut self.connection, &self.file.path, &self.options)?;
            if rehearsed != NOT_REHEARSED {
                tracing::info!("another program has changed the schema; it was checked again");
            }
        }
        let connection = &self.connection;
        if !first(connection)? || !group.iter_mut().all(|job| job.run(connection)) {
            return Ok(Done::RolledBack);
        }
        messages::insert_staged(connection)?;
        // If a job has changed the schema, the next transaction rehearses again.
        let is_same = open::cookie(connection)? == cookie;
        self.finish()?;
        let rehearsed = if is_same { cookie } else { NOT_REHEARSED };
        self.rehearsed.store(rehearsed, Ordering::Relaxed);
        Ok(Done::Committed)
    }

    /// Commits. With a rollback journal a commit waits for readers, and SQLite lets no new ones begin meanwhile.
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

    /// Sets whether the next commit flushes the disk. A flush includes all earlier commits.
    fn set_flushes(&self, wanted: bool) -> Result<(), StoreError> {
        // A rollback journal without flushes could corrupt the file.
        let wanted = (wanted || self.journal == JournalMode::Rollback) && !self.never_flush;
        if self.flushes.get() != wanted {
            self.connection.execute_batch(match wanted {
                true => "PRAGMA synchronous = FULL",
                false => "PRAGMA synchronous = NORMAL",
            })?;
            self.flushes.set(wanted);
        }
        Ok(())
    }

    /// Begins a transaction and waits for locks of other programs. Answers overdue jobs and removes them from the
    /// group, so that every caller gets an answer within the same time, however many jobs wait.
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
            // Jitter, so that several waiting programs do not retry in step.
            std::thread::sleep(Duration::from_micros(fastrand::u64(500..15_000)));
        }
    }
}

enum Done {
    Committed,
    /// A job failed and has the reason. Nothing was changed.
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
