//! Runs pending and orphaned handoffs in parallel, each in a task of its own.
//!
//! One loop owns all bookkeeping. The control socket, the watcher of the store and the clock wake it. The store's
//! answers to it feed the watchdog.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use super::pipeline::Context;
use crate::clock;
use crate::config::HandoffConfig;
pub use crate::handoff::worker::Handle;
use crate::handoff::worker::{Done, Slot, Work, perform};
use crate::process_identity::Identity;
use crate::ration::Passes;
use crate::store::StoreError;

/// Wait after a pass that failed.
const AGAIN: Duration = Duration::from_secs(1);
/// The largest number of handoffs that may wait without a slot.
const MOST_WAITING: usize = 1000;

/// A row that waits for a platform, another daemon or its owner.
pub(super) struct FirstSeen {
    pub(super) at: Instant,
    /// The pass of the clock that last found it.
    pub(super) pass: u64,
}

pub struct Queue {
    pub(super) context: Arc<Context>,
    pub(super) config: HandoffConfig,
    pub(super) identity: Identity,
    pub(super) handle: Handle,
    /// Called when the store has answered.
    progress: Box<dyn Fn() + Send + Sync>,
    /// The longest time between two passes.
    tick: Duration,
    pub(super) backlog: VecDeque<Work>,
    /// Sessions in the backlog or at work. A scan skips them.
    pub(super) taken: HashSet<String>,
    at_work: usize,
    /// Limits how many handoffs run at one time.
    slots: Arc<Semaphore>,
    /// The last scan may have left rows behind.
    pub(super) more: bool,
    /// A request waits for the end of a turn.
    pub(super) after_turns: bool,
    /// When a running row without an owner, or a pending row of a platform that is not up, was first seen.
    pub(super) first_seen: HashMap<String, FirstSeen>,
    /// Sessions whose row cannot be failed. Each is logged once.
    pub(super) stuck: HashSet<String>,
    /// Counts the passes of the clock, to remove old entries of `first_seen`.
    pub(super) passes: u64,
    /// Another program has written since `yield_to_others` last succeeded.
    pub(super) others_wrote: bool,
    foreign_passes: Passes,
    /// When to run the next pass after one that failed.
    again: Option<tokio::time::Instant>,
    /// The database's version at the last pass of the clock.
    version: Option<i64>,
    renewed: Instant,
    tracker: TaskTracker,
    /// Sessions whose work has ended.
    done: mpsc::UnboundedSender<String>,
    finished: mpsc::UnboundedReceiver<String>,
}

impl Queue {
    pub fn new(
        context: Arc<Context>,
        config: HandoffConfig,
        identity: Identity,
        handle: Handle,
        watchdog: Option<Duration>,
        progress: Box<dyn Fn() + Send + Sync>,
    ) -> Queue {
        // Often enough for the poll, for the leases and for the watchdog.
        let tick = [
            config.poll_interval,
            Some(config.lease / 3),
            watchdog.map(|w| w / 2),
        ];
        let tick = tick.into_iter().flatten().min().unwrap_or(config.lease / 3);
        let (done, finished) = mpsc::unbounded_channel();
        Queue {
            slots: Arc::new(Semaphore::new(config.parallel.max(1))),
            context,
            config,
            identity,
            handle,
            progress,
            tick,
            backlog: VecDeque::new(),
            taken: HashSet::new(),
            at_work: 0,
            more: false,
            after_turns: false,
            first_seen: HashMap::new(),
            stuck: HashSet::new(),
            passes: 0,
            others_wrote: false,
            foreign_passes: Passes::default(),
            again: None,
            version: None,
            renewed: Instant::now(),
            tracker: TaskTracker::new(),
            done,
            finished,
        }
    }

    /// Runs until the daemon stops, then waits for the work in progress. On an error, the daemon has to end.
    pub async fn run(mut self) -> Result<(), StoreError> {
        let mut fatal = None;
        let shutdown = self.context.shutdown.clone();
        let mut clock = tokio::time::interval(self.tick);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let again = self.again.unwrap_or_else(tokio::time::Instant::now);
            let pass = tokio::select! {
                () = shutdown.draining.cancelled() => break,
                _ = clock.tick() => Pass::Clock,
                () = tokio::time::sleep_until(again), if self.again.is_some() => Pass::Again,
                () = self.handle.wake.notified() => Pass::Woken,
                () = self.foreign_passes.next(&self.handle.foreign) => Pass::Foreign,
                () = self.context.platforms.changed() => Pass::Changed,
                () = self.context.turns.locks.freed(), if self.after_turns => Pass::TurnEnded,
                Some(session_id) = self.finished.recv() => {
                    self.finish(&session_id);
                    while let Ok(session_id) = self.finished.try_recv() {
                        self.finish(&session_id);
                    }
                    Pass::Finished
                }
            };
            let (is_foreign, begun) = (matches!(pass, Pass::Foreign), Instant::now());
            let work_before = self.at_work + self.backlog.len();
            let outcome = self.pass(pass).await;
            if is_foreign && self.at_work + self.backlog.len() <= work_before {
                self.foreign_passes.was_fruitless(begun);
            }
            match self.report_progress(outcome) {
                Ok(()) => {}
                Err(error @ (StoreError::Replaced(_) | StoreError::Unservable { .. })) => {
                    fatal = Some(error);
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "queue could not read the database, will retry");
                    self.again = Some(tokio::time::Instant::now() + AGAIN);
                }
            }
            self.start_work();
        }
        if let Some(error) = fatal {
            shutdown.cut_off();
            self.tracker.close();
            self.tracker.wait().await;
            return Err(error);
        }
        self.finish_work(clock).await;
        Ok(())
    }

    /// Starts no work, and renews the leases of the work in progress until it ends.
    async fn finish_work(&mut self, mut clock: tokio::time::Interval) {
        let tracker = self.tracker.clone();
        tracker.close();
        loop {
            tokio::select! {
                () = tracker.wait() => return,
                _ = clock.tick() => match self.renew_leases().await {
                    Ok(()) => (self.progress)(),
                    Err(error) => tracing::warn!(%error, "leases not renewed, will retry"),
                },
            }
        }
    }

    /// Feeds the watchdog if the store has answered. "Busy" is an answer. Nothing else feeds the watchdog. Call this
    /// for each request of a pass, since each may wait for another program's lock.
    pub(super) fn report_progress<T>(
        &self,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if answer.as_ref().err().is_none_or(StoreError::is_transient) {
            (self.progress)();
        }
        answer
    }

    fn finish(&mut self, session_id: &str) {
        self.at_work -= 1;
        self.taken.remove(session_id);
    }

    async fn pass(&mut self, pass: Pass) -> Result<(), StoreError> {
        match pass {
            Pass::Finished if self.more && self.backlog.is_empty() => self.scan_pending().await,
            Pass::Finished if self.others_wrote => self.yield_to_others().await,
            Pass::Finished => Ok(()),
            Pass::Woken => {
                let asked = self.handle.take_asked();
                self.consider(asked).await.map(|_| ())
            }
            Pass::TurnEnded => {
                self.after_turns = false;
                self.scan_pending().await
            }
            Pass::Changed => {
                let orphans = self.scan_orphans().await;
                self.scan_pending().await.and(orphans)
            }
            Pass::Again => {
                self.again = None;
                let outcome = self.scan_orphans().await.and(self.scan_pending().await);
                self.start_work();
                match self.others_wrote {
                    true => outcome.and(self.yield_to_others().await),
                    false => outcome,
                }
            }
            // Requests first, because a person waits for them.
            Pass::Foreign => {
                self.others_wrote = true;
                self.context.turns.others_wrote();
                self.context.store.check_schema().await?;
                let pending = self.scan_pending().await;
                if !self.backlog.is_empty() {
                    return pending;
                }
                self.yield_to_others().await.and(pending)
            }
            Pass::Clock => {
                if self.context.store.is_replaced() {
                    return Err(StoreError::Replaced(self.context.store.path().to_owned()));
                }
                self.context.store.check_schema().await?;
                // Each reads other rows. An error in one must not stop the others.
                let mut outcome = self.renew_leases().await;
                outcome = outcome.and(self.scan_orphans().await);
                if self.config.poll_interval.is_some() {
                    let version = self.context.store.foreign_version().await;
                    let version = self.report_progress(version).ok();
                    self.others_wrote |= version.is_none() || version != self.version;
                    self.version = version;
                    outcome = outcome.and(self.scan_pending().await);
                    self.start_work();
                }
                if self.others_wrote {
                    outcome = outcome.and(self.yield_to_others().await);
                }
                outcome = outcome.and(self.check_waiting().await);
                // Rows that this pass did not find no longer wait.
                self.first_seen.retain(|_, seen| seen.pass == self.passes);
                self.passes += 1;
                outcome
            }
        }
    }

    async fn renew_leases(&mut self) -> Result<(), StoreError> {
        if self.at_work > 0 && self.renewed.elapsed() >= self.config.lease / 3 {
            let renewed = self
                .context
                .store
                .renew_leases(&self.identity.to_string(), self.lease_until())
                .await;
            self.report_progress(renewed)?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    fn lease_until(&self) -> f64 {
        clock::now() + self.config.lease.as_secs_f64()
    }

    pub(super) fn start_work(&mut self) {
        while !self.backlog.is_empty() && self.at_work < self.config.parallel + MOST_WAITING {
            let Some(slot) = Slot::free(&self.slots, &self.handle) else {
                return;
            };
            let Some(work) = self.backlog.pop_front() else {
                return;
            };
            self.at_work += 1;
            let (context, handle) = (self.context.clone(), self.handle.clone());
            let owner = (self.identity.to_string(), self.config.lease);
            let mut done = Done {
                session_id: work.session_id().to_owned(),
                done: self.done.clone(),
                slot,
            };
            self.tracker.spawn(async move {
                perform(&context, &handle, work, owner, &mut done.slot).await;
            });
        }
    }
}

enum Pass {
    Clock,
    /// The last pass failed.
    Again,
    /// This daemon has written requests, or a slot is free.
    Woken,
    /// A platform came up or went down.
    Changed,
    /// A turn has ended, and a request waits for one.
    TurnEnded,
    /// Another program has written.
    Foreign,
    Finished,
}
