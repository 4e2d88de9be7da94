//! Finds rows for the queue: pending rows that can run, rows that never can, rows whose owner is gone, and rows that
//! other programs have changed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::pipeline::{self, unavailable};
use super::queue::{FirstSeen, Queue};
use crate::clock;
use crate::domain::{Handoff, HandoffState};
use crate::events::Event;
use crate::handoff::empty_thread;
use crate::handoff::worker::Work;
use crate::journal_ids;
use crate::platform::Availability;
use crate::process_identity::Identity;
use crate::sessions::turn_elsewhere;
use crate::store::{Orphan, Pending, StoreError};

/// How long after its handoff a session is reopened if the terminal that leaves it ends its row.
const GUARD_SECONDS: f64 = 600.0;
/// How long after its end a handoff is restored to `completed` if Hermes' CLI writes its timeout over it. A newer
/// request cannot time out that soon: the CLI waits for 60 seconds.
const LATE_TIMEOUT_SECONDS: f64 = 50.0;
/// How long another program's request for a platform that this daemon does not serve waits for other daemons on the
/// same database. Hermes' CLI waits for 60 seconds, so it gets the reason in time.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(30);
/// The most waiting rows that one pass of the clock reads.
const MOST_WAITING: usize = 4096;

impl Queue {
    /// When the row of this session was first seen waiting.
    fn waiting_since(&mut self, session_id: &str) -> Instant {
        let new = FirstSeen {
            at: Instant::now(),
            pass: self.passes,
        };
        let seen = self.first_seen.entry(session_id.to_owned()).or_insert(new);
        seen.pass = self.passes;
        seen.at
    }

    /// Reacts to changes that other programs made to our rows: stops a withdrawn handoff, restores a completed one, and
    /// reopens a session that a chat or a terminal owns.
    pub(super) async fn yield_to_others(&mut self) -> Result<(), StoreError> {
        let context = self.context.clone();
        let notes = move |handoff: &Handoff| {
            let reason = handoff.error.as_deref().unwrap_or_default();
            pipeline::failure_notes(&context, handoff, reason)
        };
        let (closed, outcome) = self.context.store.close_overtaken(notes).await;
        let mut outcome = self.report_progress(outcome);
        for (handoff, notes) in closed {
            self.handle.cancel(handoff.id);
            tracing::warn!(
                message_id = journal_ids::HANDOFF_FAILED,
                handoff = handoff.id,
                session = handoff.session_id,
                platform = handoff.platform,
                "handoff withdrawn by another program"
            );
            self.context.bus.publish_requested(&handoff);
            self.publish_failed(
                handoff.id,
                handoff.session_id.clone(),
                handoff.platform.clone(),
                handoff.error.clone(),
            );
            empty_thread::delete_or_note(&self.context, &handoff, notes);
        }
        let (store, now) = (&self.context.store, clock::now());
        match self.report_progress(store.restore_completed(now - LATE_TIMEOUT_SECONDS).await) {
            Ok(sessions) => {
                for session in sessions {
                    tracing::info!(
                        session,
                        "handoff state restored to completed: another program timed out after its end"
                    );
                }
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
        match self.report_progress(store.reopen_handed_off(now - GUARD_SECONDS).await) {
            Ok(sessions) => {
                for session in sessions {
                    tracing::info!(
                        session,
                        "session reopened: another program ended it while a chat or a terminal owns it"
                    );
                }
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
        self.others_wrote = outcome.is_err();
        outcome
    }

    fn publish_failed(&self, id: i64, session_id: String, platform: String, error: Option<String>) {
        let reason = error.as_deref().unwrap_or("unknown");
        self.context.metrics.handoff_ended(&platform, Some(reason));
        self.context.bus.publish(Event::HandoffEnded {
            id,
            session_id,
            platform,
            state: HandoffState::Failed,
            error,
        });
    }

    /// Reads pending rows until the backlog is long enough. Rows that have to wait do not hide the rows behind them.
    pub(super) async fn scan_pending(&mut self) -> Result<(), StoreError> {
        // More than can start at once, so that a burst is not read again for each of its rows.
        let enough = self.config.parallel * 4;
        let (mut page, mut seen) = (enough, HashSet::new());
        let mut outcome = Ok(());
        loop {
            let connecting = self.context.platforms.connecting();
            let (taken, mut met_taken) = (&self.taken, false);
            let rows = self.context.store.pending_handoffs(page, |row| {
                let is_taken = taken.contains(&row.session_id);
                met_taken |= is_taken;
                !is_taken && !seen.contains(&row.session_id) && !connecting.contains(&row.platform)
            })?;
            let full = rows.len() == page;
            // A request may arrive before the last one of its session has ended. The next pass reads it.
            self.more = full || met_taken;
            seen.extend(rows.iter().map(|row| row.session_id.clone()));
            outcome = outcome.and(self.consider(rows).await);
            if !full || self.backlog.len() >= enough {
                return outcome;
            }
            page *= 2;
        }
    }

    /// Puts pending rows that can run into the backlog, and fails those that never can. A row that cannot be changed
    /// does not delay the others.
    pub(super) async fn consider(&mut self, rows: Vec<Pending>) -> Result<(), StoreError> {
        let (mut outcome, mut unservable) = (Ok(()), Vec::new());
        for row in rows {
            match self.is_taken(&row.session_id) {
                Ok(true) => {
                    self.more = true;
                    continue;
                }
                Ok(false) => {}
                Err(error) => {
                    outcome = outcome.and(Err(error));
                    continue;
                }
            }
            let waits = match row.after_turn {
                true => self.in_a_turn(&row.session_id),
                false => Ok(false),
            };
            match (waits, self.context.platforms.availability(&row.platform)) {
                (Err(error), _) => outcome = outcome.and(Err(error)),
                // The end of that turn, or the clock, reads it again.
                (Ok(true), Availability::Up) => self.after_turns = true,
                (Ok(false), Availability::Up) => self.enqueue(Work::Pending(row.session_id)),
                // A change of its platform, or the clock, reads it again.
                (_, Availability::Connecting(_)) => {}
                // Another daemon may serve it. The clock reads it again.
                (_, other) if is_left_to_others(&row, &other) => {
                    self.waiting_since(&row.session_id);
                }
                (_, other) => unservable.push((unavailable(&row.platform, &other), row)),
            }
        }
        // Rows that can run do not wait for the others.
        self.start_work();
        for (reason, row) in unservable {
            let done = self
                .fail_pending(&row.session_id, &row.platform, &reason)
                .await;
            let locked = matches!(done, Err(StoreError::Busy(_)));
            outcome = outcome.and(done);
            // A locked database is locked for all rows.
            if locked {
                break;
            }
        }
        outcome
    }

    /// Whether a turn of this session is in progress, here or in another program.
    fn in_a_turn(&self, session_id: &str) -> Result<bool, StoreError> {
        let here = self.context.turns.is_busy(session_id)?;
        Ok(here || turn_elsewhere(&self.context.store, session_id)?.is_some())
    }

    /// Whether this session is in the backlog or at work, under any id of its lineage: compression may have split it.
    fn is_taken(&self, session_id: &str) -> Result<bool, StoreError> {
        let lineage = self.context.store.lineage(session_id)?;
        Ok(lineage.iter().any(|id| self.taken.contains(id)))
    }

    fn enqueue(&mut self, work: Work) {
        self.first_seen.remove(work.session_id());
        self.taken.insert(work.session_id().to_owned());
        self.backlog.push_back(work);
    }

    /// Fails a pending row that cannot run. Retry on an error.
    async fn fail_pending(
        &mut self,
        session_id: &str,
        platform: &str,
        reason: &str,
    ) -> Result<(), StoreError> {
        let withdrawn = self
            .context
            .store
            .withdraw_handoff(session_id, reason)
            .await;
        match self.report_progress(withdrawn) {
            Ok(true) => {}
            Ok(false) => {
                self.first_seen.remove(session_id);
                return Ok(());
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                if self.stuck.insert(session_id.to_owned()) {
                    tracing::error!(%error, session = session_id, platform, "unservable request could not be failed");
                }
                return Ok(());
            }
        }
        self.first_seen.remove(session_id);
        self.stuck.remove(session_id);
        let store = &self.context.store;
        let journal = store.list_handoffs(Some(session_id), false, 1).await?.pop();
        if let Some(handoff) = &journal {
            self.context.bus.publish_requested(handoff);
        }
        let id = journal.map_or(0, |h| h.id);
        tracing::error!(
            message_id = journal_ids::HANDOFF_FAILED,
            handoff = id,
            session = session_id,
            platform,
            reason,
            "handoff failed"
        );
        self.publish_failed(
            id,
            session_id.to_owned(),
            platform.to_owned(),
            Some(reason.to_owned()),
        );
        Ok(())
    }

    /// Fails rows that have waited too long for a platform that is connecting, or for another daemon.
    pub(super) async fn check_waiting(&mut self) -> Result<(), StoreError> {
        let platforms = self.context.platforms.clone();
        let rows = self.context.store.pending_handoffs(MOST_WAITING, |row| {
            let availability = platforms.availability(&row.platform);
            matches!(availability, Availability::Connecting(_))
                || is_left_to_others(row, &availability)
        })?;
        let mut outcome = Ok(());
        for row in rows {
            let availability = platforms.availability(&row.platform);
            let patience = match is_left_to_others(&row, &availability) {
                true => LEFT_TO_OTHERS.min(self.config.pickup_timeout),
                false => self.config.pickup_timeout,
            };
            let waited = self.waiting_since(&row.session_id).elapsed();
            if waited < patience {
                continue;
            }
            let reason = unavailable(&row.platform, &availability);
            let reason = format!("{reason} (waited {} s)", waited.as_secs());
            let done = self
                .fail_pending(&row.session_id, &row.platform, &reason)
                .await;
            let locked = matches!(done, Err(StoreError::Busy(_)));
            outcome = outcome.and(done);
            if locked {
                break;
            }
        }
        outcome
    }

    /// Queues running rows whose owner is gone.
    pub(super) async fn scan_orphans(&mut self) -> Result<(), StoreError> {
        for row in self.report_progress(self.context.store.running_handoffs().await)? {
            if self.is_taken(&row.session_id)? || !self.is_abandoned(&row) {
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
            // Another program's row has no lease. Its grace period begins when it is first seen here.
            (None, _) => self.waiting_since(&row.session_id).elapsed() >= self.config.orphan_grace,
            (Some(_), None) => true,
            // It is ours, but no worker has it: its worker must have failed.
            (Some(_), Some(owner)) if owner == self.identity.to_string() => true,
            // A lease longer than any that we give comes from a wrong clock.
            (Some(_), Some(owner)) => {
                let longest = now + self.config.lease.as_secs_f64().max(86_400.0);
                Identity::is_gone(owner)
                    || row
                        .lease_until
                        .is_none_or(|until| until < now || until > longest)
            }
        };
        let patience = match self.context.platforms.availability(&row.platform) {
            // As long as a new request waits.
            Availability::Connecting(_) => self.config.pickup_timeout,
            // The daemon that served it may return.
            Availability::Off(_) | Availability::Unknown => self.config.orphan_grace,
            Availability::Up | Availability::NoHome => return ownerless,
        };
        ownerless && self.waiting_since(&row.session_id).elapsed() >= patience
    }
}

/// Whether another program requests a platform that this daemon does not serve.
fn is_left_to_others(row: &Pending, availability: &Availability) -> bool {
    row.foreign && matches!(availability, Availability::Off(_) | Availability::Unknown)
}
