//! Detaches a terminal and finalises its session. First a turn in progress is cut off and its partial reply is stored.
//! Then the end is published, for hooks. Then the row ends with its reason. Each step runs even if the one before it
//! failed. While a handoff of the session is in flight, the end of the handoff decides.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{AttachedTerminal, Terminals};
use crate::domain::TERMINAL_SOURCES;
use crate::events::Event;
use crate::store::retry_while_busy;
use crate::store::{StoreError, Terminal};

/// The interval of checks for the end of a handoff that another program may have ended, without an event.
const HANDOFF_CHECK: Duration = Duration::from_secs(5);

/// Why a terminal's session ends, in Hermes' own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The terminal was closed, or its connection ended.
    Closed,
    /// The person began another session.
    NewSession,
    /// The person resumed another session.
    ResumedOther,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Reason::Closed => "cli_close",
            Reason::NewSession => "new_session",
            Reason::ResumedOther => "resumed_other",
        }
    }
}

impl Terminals {
    /// Finalises the session of a terminal. Returns when that is done.
    pub async fn leave(&self, terminal: &Arc<AttachedTerminal>, reason: Reason) {
        {
            // The lock under which a turn begins, so none begins after this.
            let _attached = self.inner.attached();
            if terminal.leaving.swap(true, Ordering::Relaxed) {
                return;
            }
        }
        let interrupted = self.cut_off(terminal).await;
        // A session without a row has nothing to end.
        if *terminal.has_row.lock().await {
            self.close(&terminal.session_id(), interrupted, reason.as_str())
                .await;
        }
        // Only now may another terminal attach: before, its session would have been ended.
        self.inner.attached().remove(&terminal.conversation);
    }

    /// Finalises in the background, after the client has gone. Only the daemon's stop waits for it.
    pub fn abandon(
        &self,
        terminal: impl Future<Output = Option<Arc<AttachedTerminal>>> + Send + 'static,
    ) {
        let this = self.clone();
        self.inner.tracker.spawn(async move {
            if let Some(terminal) = terminal.await {
                this.leave(&terminal, Reason::Closed).await;
            }
        });
    }

    /// Waits for the turns in progress. The daemon already drains, so no other begins.
    pub async fn finish_turns(&self) {
        let attached: Vec<Arc<AttachedTerminal>> =
            self.inner.attached().values().cloned().collect();
        for terminal in attached {
            let turn = terminal.turn().clone();
            if let Some(turn) = turn {
                turn.ended.cancelled().await;
            }
        }
    }

    /// Finalises all sessions when the daemon stops.
    pub async fn drain(&self) {
        let attached: Vec<Arc<AttachedTerminal>> =
            self.inner.attached().values().cloned().collect();
        for terminal in attached {
            self.leave(&terminal, Reason::Closed).await;
        }
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }

    /// Finalises the sessions that the last run left open. Call it once. Terminals attach only after it.
    pub fn recover(&self) {
        let this = self.clone();
        self.inner.tracker.spawn(async move {
            let _recovered = this.inner.recovered.clone().drop_guard();
            let (store, stop) = (&this.inner.store, &this.inner.draining);
            let left = match retry_while_busy(stop, || store.open_terminals()).await {
                Ok(left) => left,
                Err(error) => {
                    tracing::error!(%error, "sessions of the last run not finalised");
                    return;
                }
            };
            for terminal in left {
                this.recover_one(terminal).await;
            }
        });
    }

    async fn recover_one(&self, terminal: Terminal) {
        let (store, stop) = (&self.inner.store, &self.inner.stop);
        let id = &terminal.session_id;
        if let Some((reason, interrupted)) = &terminal.left {
            return self.close(id, *interrupted, reason).await;
        }
        // If a chat owns the session by now, `inbound` resumes the turn.
        let is_terminal_session = matches!(
            retry_while_busy(stop, || store.session(id)).await,
            Ok(Some(s)) if TERMINAL_SOURCES.contains(&s.source.as_str())
        );
        let interrupted = is_terminal_session
            && retry_while_busy(stop, || store.end_left_turn(id))
                .await
                .unwrap_or_else(|error| {
                    tracing::error!(%error, session = id, "partial reply not stored");
                    true
                });
        self.close(id, interrupted, Reason::Closed.as_str()).await;
    }

    /// Finalises a session whose terminal has left. If a handoff of it is in flight, a task waits for its end.
    async fn close(&self, session_id: &str, interrupted: bool, reason: &str) {
        let (store, stop) = (&self.inner.store, &self.inner.stop);
        let defer = || store.defer_close(session_id, reason, interrupted);
        match retry_while_busy(stop, defer).await {
            Ok(true) => {
                let (this, id) = (self.clone(), session_id.to_owned());
                self.inner
                    .tracker
                    .spawn(async move { this.close_after_handoff(&id).await });
            }
            Ok(false) => self.finalise(session_id, interrupted, reason).await,
            Err(StoreError::Cancelled) => self.not_closed(session_id, &StoreError::Cancelled),
            Err(error) => {
                self.not_closed(session_id, &error);
                self.finalise(session_id, interrupted, reason).await;
            }
        }
    }

    /// Finalises the session when its handoff has ended, unless a terminal has attached again. After a stop, the next
    /// start does it.
    async fn close_after_handoff(&self, session_id: &str) {
        let (store, stop) = (&self.inner.store, &self.inner.stop);
        loop {
            let look = || async { store.terminal(session_id) };
            // Subscribes before it reads the store, so that it misses no end.
            let handoff = retry_while_busy(stop, look).await.ok().flatten();
            let mut ending = handoff
                .and_then(|terminal| terminal.handoff)
                .map(|id| self.inner.bus.ending(id));
            let ended = async {
                match &mut ending {
                    Some(ending) => ending.ended().await,
                    None => std::future::pending().await,
                }
            };
            match retry_while_busy(stop, look).await {
                Ok(Some(terminal)) if terminal.in_flight => {}
                Ok(Some(Terminal {
                    left: Some((reason, interrupted)),
                    ..
                })) => {
                    return self
                        .finalise_unattached(session_id, interrupted, &reason)
                        .await;
                }
                Ok(_) => return,
                Err(error) => return self.not_closed(session_id, &error),
            }
            tokio::select! {
                () = ended => {}
                () = tokio::time::sleep(HANDOFF_CHECK) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Holds the terminal's slot meanwhile: a terminal that attached now would lose its session.
    async fn finalise_unattached(&self, session_id: &str, interrupted: bool, reason: &str) {
        let conversation = match self.inner.store.root(session_id) {
            Ok(conversation) => conversation,
            Err(error) => return self.not_closed(session_id, &error),
        };
        let id = session_id.to_owned();
        let place = AttachedTerminal::new(conversation.clone(), id, None, None, None, true);
        match self.inner.attached().entry(conversation.clone()) {
            Entry::Occupied(_) => return,
            Entry::Vacant(vacant) => vacant.insert(place),
        };
        self.finalise(session_id, interrupted, reason).await;
        self.inner.attached().remove(&conversation);
    }

    fn not_closed(&self, session_id: &str, error: &StoreError) {
        match error {
            StoreError::Cancelled => tracing::warn!(
                session = session_id,
                "database busy, next start will end this session"
            ),
            error => {
                tracing::error!(%error, session = session_id, "session not ended")
            }
        }
    }

    async fn finalise(&self, session_id: &str, interrupted: bool, reason: &str) {
        let (store, stop) = (&self.inner.store, &self.inner.stop);
        let tip = store.tip(session_id).await;
        let session_id = &tip.unwrap_or_else(|_| session_id.to_owned());
        let session = store.session(session_id).await.ok().flatten();
        // A chat that owns the session by now continues it.
        let ends = session
            .as_ref()
            .is_none_or(|s| TERMINAL_SOURCES.contains(&s.source.as_str()));
        if ends {
            let model = session.as_ref().and_then(|s| s.model.clone());
            self.inner.bus.publish(Event::SessionEnded {
                session_id: session_id.to_owned(),
                platform: session.map_or_else(|| "cli".to_owned(), |s| s.source),
                model,
                interrupted,
            });
        }
        let close = || store.close_terminal(session_id, reason);
        if let Err(error) = retry_while_busy(stop, close).await {
            self.not_closed(session_id, &error);
        }
    }
}
