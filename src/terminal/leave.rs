//! Getting up: the session is finalised. A turn in progress is cut off and what there is of it kept, the hook hears of the
//! end, and the row ends with its reason. Each step is taken whatever became of the one before it; a second time nothing
//! is left to do. While a handoff of the session is in flight, its owner is not known: the handoff's end decides.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{AttachedTerminal, Terminals};
use crate::domain::TERMINAL_SOURCES;
use crate::events::Event;
use crate::store::retry_while_busy;
use crate::store::{StoreError, Terminal};

/// How often the end of a handoff is looked for when no event tells of it: another program may have ended it.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Why a terminal's session ends, in Hermes' own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The terminal was closed, by whatever.
    Closed,
    /// The person began another session.
    NewSession,
    /// The person went on with another session.
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
    /// Finalises the session of a terminal; returns when that is done.
    pub async fn leave(&self, terminal: &Arc<AttachedTerminal>, reason: Reason) {
        {
            // Under the lock that a turn is taken under: none begins any more.
            let _seats = self.inner.attached();
            if terminal.leaving.swap(true, Ordering::Relaxed) {
                return;
            }
        }
        let interrupted = self.cut_off(terminal).await;
        // Where nothing was ever said there is nothing that could end.
        if *terminal.born.lock().await {
            self.close(&terminal.session_id(), interrupted, reason.as_str())
                .await;
        }
        // Only now may somebody else sit down here: their session would have been ended.
        self.inner.attached().remove(&terminal.conversation);
    }

    /// The client of this terminal, if it has one, is gone. Nobody waits but the daemon's stop.
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

    /// Waits for the turns in progress; none begins any more. A terminal without one is not waited for.
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

    /// The daemon stops, and every terminal with it.
    pub async fn drain(&self) {
        let attached: Vec<Arc<AttachedTerminal>> =
            self.inner.attached().values().cloned().collect();
        for terminal in attached {
            self.leave(&terminal, Reason::Closed).await;
        }
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }

    /// Finalises what a daemon left that did not get to it. To be called once; terminals wait for it.
    pub fn recover(&self) {
        let this = self.clone();
        self.inner.tracker.spawn(async move {
            let _recovered = this.inner.recovered.clone().drop_guard();
            let (store, stop) = (&this.inner.store, &this.inner.draining);
            let left = match retry_while_busy(stop, || store.open_terminals()).await {
                Ok(left) => left,
                Err(error) => {
                    tracing::error!(%error, "the sessions of the last run could not be finalised");
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
        // A turn of the chat that has the session by now is taken up there.
        let at_home = matches!(
            retry_while_busy(stop, || store.session(id)).await,
            Ok(Some(s)) if TERMINAL_SOURCES.contains(&s.source.as_str())
        );
        let interrupted = at_home
            && retry_while_busy(stop, || store.end_left_turn(id))
                .await
                .unwrap_or_else(|error| {
                    tracing::error!(%error, session = id, "what was streamed could not be kept");
                    true
                });
        self.close(id, interrupted, Reason::Closed.as_str()).await;
    }

    /// Finalises a session whose terminal has left. While a handoff of it is in flight, this waits for the handoff's end.
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

    /// Finalises the session when no handoff of it is in flight any more, if its terminal has not come back since. A stop
    /// leaves that to the next start.
    async fn close_after_handoff(&self, session_id: &str) {
        let (store, stop) = (&self.inner.store, &self.inner.stop);
        loop {
            let look = || async { store.terminal(session_id) };
            // Listens before it looks, so that no end falls in between.
            let handoff = retry_while_busy(stop, look).await.ok().flatten();
            let mut ending = handoff
                .and_then(|terminal| terminal.handoff)
                .map(|id| self.inner.bus.ending(id));
            let ended = async {
                match &mut ending {
                    Some(ending) => ending.told().await,
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
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Keeps the place meanwhile: a terminal that opened the session now would have it ended.
    async fn finalise_unattached(&self, session_id: &str, interrupted: bool, reason: &str) {
        let conversation = match self.inner.store.root(session_id) {
            Ok(conversation) => conversation,
            Err(error) => return self.not_closed(session_id, &error),
        };
        let id = session_id.to_owned();
        let place = AttachedTerminal::new(conversation.clone(), id, None, None, true);
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
                "the next start ends this session: the database is busy"
            ),
            error => {
                tracing::error!(%error, session = session_id, "a session could not be ended")
            }
        }
    }

    async fn finalise(&self, session_id: &str, interrupted: bool, reason: &str) {
        let (store, stop) = (&self.inner.store, &self.inner.stop);
        let tip = store.tip(session_id).await;
        let session_id = &tip.unwrap_or_else(|_| session_id.to_owned());
        let session = store.session(session_id).await.ok().flatten();
        // A chat that owns the session by now goes on with it.
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
