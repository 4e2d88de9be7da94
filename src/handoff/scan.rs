//! What the queue looks for: pending rows that can run, rows that never can, rows whose owner is gone, and rows that other
//! programs have changed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::pipeline::{self, unavailable};
use super::queue::{FirstSeen, Queue};
use crate::clock;
use crate::domain::{Handoff, HandoffState};
use crate::events::Event;
use crate::handoff::worker::Work;
use crate::journal_ids;
use crate::platform::Availability;
use crate::process_identity::Identity;
use crate::sessions::turn_elsewhere;
use crate::store::{Orphan, Pending, StoreError};

/// How long after its end a handed-off session is guarded against the terminal that leaves it.
const GUARD_SECONDS: f64 = 600.0;
/// How long after its end a completed handoff is guarded against the timeout of Hermes' CLI. A newer request cannot time out
/// that soon: the CLI waits for 60 seconds.
const LATE_TIMEOUT_SECONDS: f64 = 50.0;
/// How long another program's request for a platform that this daemon does not serve is left to other daemons on the same
/// database. Shorter than the 60 seconds that Hermes' CLI waits, so that it learns the reason.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(30);
/// Waiting rows that one pass of the clock looks at.
const MOST_WAITING: usize = 4096;

impl Queue {
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

    /// What other programs did to rows of ours: a withdrawn handoff stops, a completed one stays completed, and a session that
    /// a chat owns stays open.
    pub(super) async fn yield_to_others(&mut self) -> Result<(), StoreError> {
        let context = self.context.clone();
        let notes = move |handoff: &Handoff| {
            let reason = handoff.error.as_deref().unwrap_or_default();
            pipeline::failure_notes(&context, handoff, reason)
        };
        let (closed, outcome) = self.context.store.close_overtaken(notes).await;
        let mut outcome = self.heard(outcome);
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
            for note in notes {
                self.context.chat_queue.post(note);
            }
        }
        let (store, now) = (&self.context.store, clock::now());
        match self.heard(store.restore_completed(now - LATE_TIMEOUT_SECONDS).await) {
            Ok(sessions) => {
                for session in sessions {
                    tracing::info!(
                        session,
                        "completed again: another program timed out after the end of the handoff"
                    );
                }
            }
            Err(error) => outcome = outcome.and(Err(error)),
        }
        match self.heard(store.reopen_handed_off(now - GUARD_SECONDS).await) {
            Ok(sessions) => {
                for session in sessions {
                    tracing::info!(
                        session,
                        "reopened: a chat or a terminal owns this session, another program only left it"
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

    /// Looks at pending rows until there is enough to do. Rows that have to wait hide none of those behind them.
    pub(super) async fn scan_pending(&mut self) -> Result<(), StoreError> {
        // A little more than can start at once, so that a burst is not read again for each of its rows.
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
            // A request that came before the last one of its session has quite ended: look once more when it has.
            self.more = full || met_taken;
            seen.extend(rows.iter().map(|row| row.session_id.clone()));
            outcome = outcome.and(self.consider(rows).await);
            if !full || self.backlog.len() >= enough {
                return outcome;
            }
            page *= 2;
        }
    }

    /// Puts pending rows that can run into the backlog and fails those that never can. One whose row cannot be changed costs
    /// the others nothing.
    pub(super) async fn consider(&mut self, rows: Vec<Pending>) -> Result<(), StoreError> {
        let (mut outcome, mut hopeless) = (Ok(()), Vec::new());
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
                // The end of that turn, or the clock, comes back to it.
                (Ok(true), Availability::Up) => self.after_turns = true,
                (Ok(false), Availability::Up) => self.enqueue(Work::Pending(row.session_id)),
                // Its platform's change, or the clock, comes back to it.
                (_, Availability::Connecting(_)) => {}
                // Another daemon may serve it. The clock comes back to it.
                (_, other) if is_left_to_others(&row, &other) => {
                    self.waiting_since(&row.session_id);
                }
                (_, other) => hopeless.push((unavailable(&row.platform, &other), row)),
            }
        }
        // Those that can run do not wait for the others.
        self.start_work();
        for (reason, row) in hopeless {
            let done = self
                .turn_away(&row.session_id, &row.platform, &reason)
                .await;
            let locked = matches!(done, Err(StoreError::Busy(_)));
            outcome = outcome.and(done);
            // The lock holds for all rows.
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

    /// Whether this session is in the backlog or at work. It may have been put there before compression split it.
    fn is_taken(&self, session_id: &str) -> Result<bool, StoreError> {
        let lineage = self.context.store.lineage(session_id)?;
        Ok(lineage.iter().any(|id| self.taken.contains(id)))
    }

    fn enqueue(&mut self, work: Work) {
        self.first_seen.remove(work.session_id());
        self.taken.insert(work.session_id().to_owned());
        self.backlog.push_back(work);
    }

    /// Fails a pending row that cannot be run. An error is a reason to try again soon.
    async fn turn_away(
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
        match self.heard(withdrawn) {
            Ok(true) => {}
            Ok(false) => {
                self.first_seen.remove(session_id);
                return Ok(());
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                if self.stuck.insert(session_id.to_owned()) {
                    tracing::error!(%error, session = session_id, platform, "a request that cannot run could not be failed");
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

    /// Rows wait for a platform that is still connecting, or for another daemon, but not for ever.
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
                .turn_away(&row.session_id, &row.platform, &reason)
                .await;
            let locked = matches!(done, Err(StoreError::Busy(_)));
            outcome = outcome.and(done);
            if locked {
                break;
            }
        }
        outcome
    }

    /// Rows that run without anybody at work on them are resumed.
    pub(super) async fn scan_orphans(&mut self) -> Result<(), StoreError> {
        for row in self.heard(self.context.store.running_handoffs().await)? {
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
        let patience = match self.context.platforms.availability(&row.platform) {
            // What a fresh request would get.
            Availability::Connecting(_) => self.config.pickup_timeout,
            // The daemon that served it may come back.
            Availability::Off(_) | Availability::Unknown => self.config.orphan_grace,
            Availability::Up | Availability::NoHome => return ownerless,
        };
        ownerless && self.waiting_since(&row.session_id).elapsed() >= patience
    }
}

/// Whether another program asks for a platform that this daemon does not serve.
fn is_left_to_others(row: &Pending, availability: &Availability) -> bool {
    row.foreign && matches!(availability, Availability::Off(_) | Availability::Unknown)
}
