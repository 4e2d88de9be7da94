//! The queue: finds pending and orphaned handoffs and runs them side by side, each on its own.
//!
//! One loop owns all bookkeeping. It is woken by the socket, by the watcher and by the clock, and its own progress is
//! what feeds the watchdog.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::pipeline::{self, Context, unavailable};
use super::request::turn_elsewhere;
pub use super::work::Handle;
use super::work::{Done, Work, perform};
use super::{Handoff, State};
use crate::clock;
use crate::config::HandoffConfig;
use crate::daemon::identity::Identity;
use crate::events::Event;
use crate::message_id;
use crate::platform::Availability;
use crate::store::{Orphan, Pending, StoreError};

/// How long after its end a handed-off session is guarded against the terminal that leaves it.
const GUARD_SECONDS: f64 = 600.0;

/// A row that waits for somebody else.
struct FirstSeen {
    at: Instant,
    /// The clock's pass that last met it.
    pass: u64,
}

pub struct Queue {
    context: Arc<Context>,
    config: HandoffConfig,
    identity: Identity,
    handle: Handle,
    /// Called after every pass that went through the store.
    progress: Box<dyn Fn() + Send + Sync>,
    /// Passes happen at least this often.
    tick: Duration,
    backlog: VecDeque<Work>,
    /// Sessions in the backlog or at work: a second scan must not take them again.
    taken: HashSet<String>,
    at_work: usize,
    /// The last scan may have left rows behind.
    more: bool,
    /// A request waits for the end of a turn.
    after_turns: bool,
    /// When a running row that nobody owns, or a pending one of a platform that is not up, was first seen.
    first_seen: HashMap<String, FirstSeen>,
    /// Counts the passes of the clock, to forget what is no longer there.
    passes: u64,
    /// Another program has written something that was not looked at yet.
    others_wrote: bool,
    /// The database's version when the clock last asked.
    version: Option<i64>,
    renewed: Instant,
    tracker: TaskTracker,
    /// Sessions whose work has ended.
    done: mpsc::Sender<String>,
    finished: mpsc::Receiver<String>,
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
        let (done, finished) = mpsc::channel(config.parallel.max(1));
        Queue {
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
            passes: 0,
            others_wrote: false,
            version: None,
            renewed: Instant::now(),
            tracker: TaskTracker::new(),
            done,
            finished,
        }
    }

    /// Runs until the daemon stops, then waits for the work in progress. An error is a reason to end.
    pub async fn run(mut self) -> Result<(), StoreError> {
        let mut fatal = None;
        let shutdown = self.context.shutdown.clone();
        let mut clock = tokio::time::interval(self.tick);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let pass = tokio::select! {
                () = shutdown.draining.cancelled() => break,
                _ = clock.tick() => Pass::Clock,
                () = self.handle.wake.notified() => Pass::Woken,
                () = self.handle.foreign.notified() => Pass::Foreign,
                () = self.context.platforms.changed() => Pass::Changed,
                () = self.context.turns.leases.freed(), if self.after_turns => Pass::TurnEnded,
                Some(session_id) = self.finished.recv() => {
                    self.finish(&session_id);
                    while let Ok(session_id) = self.finished.try_recv() {
                        self.finish(&session_id);
                    }
                    Pass::Finished
                }
            };
            match self.pass(pass).await {
                Ok(()) => (self.progress)(),
                Err(error @ StoreError::Replaced(_)) => {
                    fatal = Some(error);
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the queue could not look into the database; it looks again")
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

    /// Takes nothing new, and keeps the claims of what is in progress.
    async fn finish_work(&mut self, mut clock: tokio::time::Interval) {
        let tracker = self.tracker.clone();
        tracker.close();
        loop {
            tokio::select! {
                () = tracker.wait() => return,
                _ = clock.tick() => match self.renew_leases().await {
                    Ok(()) => (self.progress)(),
                    Err(error) => tracing::warn!(%error, "the claims could not be renewed; tried again"),
                },
            }
        }
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
            // The request first, which somebody waits for.
            Pass::Foreign => {
                self.others_wrote = true;
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
                // Each looks at other rows: a fault in one must not keep the others from being seen.
                let mut outcome = self.renew_leases().await;
                outcome = outcome.and(self.scan_orphans().await);
                if self.config.poll_interval.is_some() {
                    let version = self.context.store.foreign_version().await.ok();
                    self.others_wrote |= version.is_none() || version != self.version;
                    self.version = version;
                    outcome = outcome.and(self.scan_pending().await);
                    self.start_work();
                }
                if self.others_wrote {
                    outcome = outcome.and(self.yield_to_others().await);
                }
                outcome = outcome.and(self.check_waiting().await);
                // Whatever this pass did not meet waits no more.
                self.first_seen.retain(|_, seen| seen.pass == self.passes);
                self.passes += 1;
                outcome
            }
        }
    }

    /// When the row of this session was first met waiting.
    fn waiting_since(&mut self, session_id: &str) -> Instant {
        let new = FirstSeen {
            at: Instant::now(),
            pass: self.passes,
        };
        let seen = self.first_seen.entry(session_id.to_owned()).or_insert(new);
        seen.pass = self.passes;
        seen.at
    }

    /// What other programs did to rows of ours: a withdrawn handoff stops, a session that a chat owns stays open.
    async fn yield_to_others(&mut self) -> Result<(), StoreError> {
        self.others_wrote = false;
        let context = self.context.clone();
        let notes = move |handoff: &Handoff| {
            let reason = handoff.error.as_deref().unwrap_or_default();
            pipeline::failure_notes(&context, handoff, reason)
        };
        for (handoff, notes) in self.context.store.close_overtaken(notes).await? {
            self.handle.cancel(handoff.id);
            tracing::warn!(
                message_id = message_id::HANDOFF_FAILED,
                handoff = handoff.id,
                session = handoff.session_id,
                platform = handoff.platform,
                "handoff withdrawn by another program"
            );
            self.context.bus.tell_requested(&handoff);
            self.tell_failed(
                handoff.id,
                handoff.session_id.clone(),
                handoff.platform.clone(),
                handoff.error.clone(),
            );
            for note in notes {
                self.context.router.post(note);
            }
        }
        for session in self
            .context
            .store
            .reopen_handed_off(clock::now() - GUARD_SECONDS)
            .await?
        {
            tracing::info!(
                session,
                "reopened: a chat or a terminal owns this session, another program only left it"
            );
        }
        Ok(())
    }

    fn tell_failed(&self, id: i64, session_id: String, platform: String, error: Option<String>) {
        let reason = error.as_deref().unwrap_or("unknown");
        self.context.metrics.handoff_ended(&platform, Some(reason));
        self.context.bus.tell(Event::HandoffEnded {
            id,
            session_id,
            platform,
            state: State::Failed,
            error,
        });
    }

    async fn renew_leases(&mut self) -> Result<(), StoreError> {
        if self.at_work > 0 && self.renewed.elapsed() >= self.config.lease / 3 {
            self.context
                .store
                .renew_leases(&self.identity.to_string(), self.lease_until())
                .await?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    fn lease_until(&self) -> f64 {
        clock::now() + self.config.lease.as_secs_f64()
    }

    async fn scan_pending(&mut self) -> Result<(), StoreError> {
        loop {
            // A little more than can start at once, so that a burst is not read again for each of its rows.
            let limit = self.config.parallel * 4 + self.taken.len();
            let except = self.context.platforms.connecting();
            let rows = self.context.store.pending_handoffs(limit, &except)?;
            self.more = rows.len() == limit;
            let turned_away = self.consider(rows).await?;
            // Those that were turned away made room for others to be seen.
            if !self.more || turned_away == 0 {
                return Ok(());
            }
        }
    }

    /// Pending rows: those that can run are put in line, those that never can are turned away. Returns how many of these.
    async fn consider(&mut self, rows: Vec<Pending>) -> Result<usize, StoreError> {
        let mut turned_away = 0;
        for row in rows {
            let waits = row.after_turn && self.in_a_turn(&row.session_id)?;
            self.after_turns |= waits;
            let Pending {
                session_id,
                platform,
                ..
            } = row;
            if self.taken.contains(&session_id) {
                // Asked for again before the last one has quite ended: look once more when it has.
                self.more = true;
                continue;
            }
            match self.context.platforms.availability(&platform) {
                // The end of that turn, or the clock, comes back to it.
                Availability::Up if waits => {}
                Availability::Up => self.enqueue(Work::Pending(session_id)),
                // Its platform's change, or the clock, comes back to it.
                Availability::Connecting(_) => {}
                other => {
                    self.turn_away(&session_id, &platform, &unavailable(&platform, &other))
                        .await?;
                    turned_away += 1;
                }
            }
        }
        Ok(turned_away)
    }

    /// Whether somebody, here or elsewhere, is in the middle of a turn of this session.
    fn in_a_turn(&self, session_id: &str) -> Result<bool, StoreError> {
        let here = self.context.turns.leases.is_busy(session_id);
        Ok(here || turn_elsewhere(&self.context.store, session_id)?.is_some())
    }

    fn enqueue(&mut self, work: Work) {
        self.first_seen.remove(work.session_id());
        self.taken.insert(work.session_id().to_owned());
        self.backlog.push_back(work);
    }

    /// Fails a pending row that cannot be run.
    async fn turn_away(
        &mut self,
        session_id: &str,
        platform: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        self.first_seen.remove(session_id);
        if self
            .context
            .store
            .withdraw_handoff(session_id, reason)
            .await?
        {
            let journal = self
                .context
                .store
                .list_handoffs(Some(session_id), false, 1)
                .await?
                .pop();
            if let Some(handoff) = &journal {
                self.context.bus.tell_requested(handoff);
            }
            let id = journal.map_or(0, |h| h.id);
            tracing::error!(
                message_id = message_id::HANDOFF_FAILED,
                handoff = id,
                session = session_id,
                platform,
                reason,
                "handoff failed"
            );
            self.tell_failed(
                id,
                session_id.to_owned(),
                platform.to_owned(),
                Some(reason.to_owned()),
            );
        }
        Ok(())
    }

    /// Rows for platforms that are still connecting wait for them, but not for ever.
    async fn check_waiting(&mut self) -> Result<(), StoreError> {
        let connecting = self.context.platforms.connecting();
        if connecting.is_empty() {
            return Ok(());
        }
        let rows = self
            .context
            .store
            .pending_handoffs(self.config.parallel * 64, &[])?;
        for row in rows
            .into_iter()
            .filter(|row| connecting.contains(&row.platform))
        {
            let Pending {
                session_id,
                platform,
                ..
            } = row;
            let since = self.waiting_since(&session_id);
            if since.elapsed() >= self.config.pickup_timeout {
                let reason =
                    unavailable(&platform, &self.context.platforms.availability(&platform));
                let reason = format!("{reason} (waited {} s)", since.elapsed().as_secs());
                self.turn_away(&session_id, &platform, &reason).await?;
            }
        }
        Ok(())
    }

    /// Rows that run without anybody at work on them are resumed.
    async fn scan_orphans(&mut self) -> Result<(), StoreError> {
        for row in self.context.store.running_handoffs().await? {
            if self.taken.contains(&row.session_id) || !self.is_abandoned(&row) {
                continue;
            }
            tracing::warn!(
                session = row.session_id,
                platform = row.platform,
                owner = row.owner,
                "taking over a handoff whose owner is gone"
            );
            self.enqueue(Work::Orphan(row));
        }
        Ok(())
    }

    fn is_abandoned(&mut self, row: &Orphan) -> bool {
        let now = clock::now();
        let ownerless = match (&row.journal, row.owner.as_deref()) {
            // Another program's: no lease tells when it died, so it gets time from when it was first seen here.
            (None, _) => self.waiting_since(&row.session_id).elapsed() >= self.config.orphan_grace,
            (Some(_), None) => true,
            // Ours, and yet nobody here is at it: its worker must have come to grief.
            (Some(_), Some(owner)) if owner == self.identity.to_string() => true,
            // A lease that ends later than any could was given by a wrong clock.
            (Some(_), Some(owner)) => {
                let longest = now + self.config.lease.as_secs_f64().max(86_400.0);
                Identity::is_gone(owner)
                    || row
                        .lease_until
                        .is_none_or(|until| until < now || until > longest)
            }
        };
        // A platform that is still connecting gets the time that a fresh request would give it.
        let connecting = matches!(
            self.context.platforms.availability(&row.platform),
            Availability::Connecting(_)
        );
        ownerless
            && (!connecting
                || self.waiting_since(&row.session_id).elapsed() >= self.config.pickup_timeout)
    }

    fn start_work(&mut self) {
        while self.at_work < self.config.parallel {
            let Some(work) = self.backlog.pop_front() else {
                return;
            };
            self.at_work += 1;
            let (context, handle) = (self.context.clone(), self.handle.clone());
            let done = self.done.clone();
            let (owner, until) = (self.identity.to_string(), self.lease_until());
            let session_id = work.session_id().to_owned();
            self.tracker.spawn(async move {
                let _done = Done { session_id, done };
                perform(context, handle, work, owner, until).await;
            });
        }
    }
}

enum Pass {
    Clock,
    /// Requests of this daemon's own.
    Woken,
    /// A platform came up or went down.
    Changed,
    /// Some turn has ended, and a request waits for one.
    TurnEnded,
    /// Another program has written.
    Foreign,
    Finished,
}
