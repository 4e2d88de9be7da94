//! Getting up: the session is finalised. A turn in progress is cut off and what there is of it kept, the hook hears of the
//! end, and the row ends with its reason. Each step is taken whatever became of the one before it; a second time nothing
//! is left to do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Seat, Terminals};
use crate::events::Event;
use crate::session::TERMINAL_SOURCES;
use crate::store::StoreError;
use crate::turn::patiently;

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
    /// Finalises the session of a seat; returns when that is done.
    pub async fn leave(&self, seat: &Arc<Seat>, reason: Reason) {
        {
            // Under the lock that a turn is taken under: none begins any more.
            let _seats = self.inner.seats();
            if seat.leaving.swap(true, Ordering::Relaxed) {
                return;
            }
        }
        let interrupted = self.cut_off(seat).await;
        // Where nothing was ever said there is nothing that could end.
        if *seat.born.lock().await {
            self.finalise(&seat.session_id, interrupted, reason).await;
        }
        // Only now may somebody else sit down here: their session would have been ended.
        self.inner.seats().remove(&seat.session_id);
    }

    /// The client of this seat, if it has one, is gone. Nobody waits but the daemon's stop.
    pub fn abandon(&self, seat: impl Future<Output = Option<Arc<Seat>>> + Send + 'static) {
        let this = self.clone();
        self.inner.tracker.spawn(async move {
            if let Some(seat) = seat.await {
                this.leave(&seat, Reason::Closed).await;
            }
        });
    }

    /// The daemon stops, and every terminal with it.
    pub async fn drain(&self) {
        let seats: Vec<Arc<Seat>> = self.inner.seats().values().cloned().collect();
        for seat in seats {
            self.leave(&seat, Reason::Closed).await;
        }
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }

    /// Finalises what a daemon left that did not get to it. To be called once; terminals wait for it.
    pub fn recover(&self) {
        let this = self.clone();
        self.inner.tracker.spawn(async move {
            let _recovered = this.inner.recovered.clone().drop_guard();
            let (store, stop) = (&this.inner.store, &this.inner.stop);
            let left = match patiently(stop, || store.open_terminals()).await {
                Ok(left) => left,
                Err(error) => {
                    tracing::error!(%error, "the sessions of the last run could not be finalised");
                    return;
                }
            };
            for session in left {
                // A turn of the chat that has the session by now is taken up there.
                let at_home = matches!(
                    patiently(stop, || store.session(&session)).await,
                    Ok(Some(s)) if TERMINAL_SOURCES.contains(&s.source.as_str())
                );
                let interrupted = at_home
                    && patiently(stop, || store.end_left_turn(&session))
                        .await
                        .unwrap_or_else(|error| {
                            tracing::error!(%error, session, "what was streamed could not be kept");
                            true
                        });
                this.finalise(&session, interrupted, Reason::Closed).await;
            }
        });
    }

    async fn finalise(&self, session_id: &str, interrupted: bool, reason: Reason) {
        let (store, stop) = (&self.inner.store, &self.inner.stop);
        let session = store.session(session_id).await.ok().flatten();
        // A chat that owns the session by now goes on with it.
        let ends = session
            .as_ref()
            .is_none_or(|s| TERMINAL_SOURCES.contains(&s.source.as_str()));
        if ends {
            let model = session.as_ref().and_then(|s| s.model.clone());
            self.inner.bus.tell(Event::SessionEnded {
                session_id: session_id.to_owned(),
                platform: session.map_or_else(|| "cli".to_owned(), |s| s.source),
                model,
                interrupted,
            });
        }
        let close = || store.close_terminal(session_id, reason.as_str());
        match patiently(stop, close).await {
            Ok(_) => {}
            Err(StoreError::Cancelled) => {
                tracing::warn!(
                    session = session_id,
                    "the next start ends this session: the database is busy"
                );
            }
            Err(error) => {
                tracing::error!(%error, session = session_id, "a session could not be ended")
            }
        }
    }
}
