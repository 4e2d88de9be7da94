//! The road from a chat to the agent and back: the session of that chat, one message at a time, answered and delivered.
//!
//! A message is kept in the store before anything else happens to it, so a restart takes up what was not answered.

mod patience;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::patience::patiently;
use crate::agent::Prompt;
use crate::events::Bus;
use crate::platform::{Platforms, local};
use crate::session::{KeyRules, session_key};
use crate::store::{Delivery, Inbound, LocalMessage, NewDelivery, Store, StoreError};
use crate::turn::deliver::{DeliverError, deliver};
use crate::turn::{Lease, TurnError, Turns};

/// The longest message that a person may send.
pub const LONGEST_MESSAGE: usize = 100_000;

#[derive(Clone)]
pub struct Router {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    platforms: Platforms,
    turns: Arc<Turns>,
    keys: KeyRules,
    bus: Bus,
    tracker: TaskTracker,
    stop: CancellationToken,
    /// Messages that wait, by chat; a chat that is here has a worker.
    waiting: Mutex<HashMap<String, VecDeque<Inbound>>>,
}

impl Router {
    pub fn new(
        store: Store,
        platforms: Platforms,
        turns: Arc<Turns>,
        keys: KeyRules,
        bus: Bus,
        stop: CancellationToken,
    ) -> Router {
        let inner = Inner {
            store,
            platforms,
            turns,
            keys,
            bus,
            tracker: TaskTracker::new(),
            stop,
            waiting: Mutex::default(),
        };
        Router {
            inner: Arc::new(inner),
        }
    }

    /// Takes up what the last run of the daemon left: unanswered messages, and replies that were not sent.
    pub async fn recover(&self) -> Result<(), StoreError> {
        let unsent = self.inner.store.open_deliveries().await?;
        let unanswered = self.inner.store.open_inbound().await?;
        if !unsent.is_empty() || !unanswered.is_empty() {
            tracing::info!(
                unsent = unsent.len(),
                unanswered = unanswered.len(),
                "taking up what was left"
            );
        }
        let this = self.clone();
        self.inner
            .tracker
            .spawn(async move { this.inner.send_all(unsent).await });
        for inbound in unanswered {
            self.dispatch(inbound);
        }
        Ok(())
    }

    /// Words typed into a local chat. Returns when they are kept.
    pub async fn say_local(
        &self,
        chat_id: &str,
        thread_id: Option<&str>,
        text: &str,
    ) -> Result<LocalMessage, StoreError> {
        let source = local::source(chat_id, thread_id);
        let key = session_key(&source, &self.inner.keys);
        let (said, inbound) = self.inner.store.say_local(&key, &source, text).await?;
        self.inner.bus.tell(local::told(&said));
        self.dispatch(inbound);
        Ok(said)
    }

    /// Hands a kept message to its chat's worker; messages of one chat are answered in order.
    fn dispatch(&self, inbound: Inbound) {
        let key = inbound.session_key.clone();
        let mut waiting = self.inner.locked();
        if let Some(queue) = waiting.get_mut(&key) {
            queue.push_back(inbound);
            return;
        }
        waiting.insert(key.clone(), VecDeque::from([inbound]));
        drop(waiting);
        let inner = self.inner.clone();
        self.inner
            .tracker
            .spawn(async move { inner.work_through(&key).await });
    }

    /// Waits for the work at hand; `stop` has been given.
    pub async fn drain(&self) {
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
    }
}

impl Inner {
    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, VecDeque<Inbound>>> {
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn work_through(self: Arc<Self>, key: &str) {
        loop {
            let next = {
                let mut waiting = self.locked();
                match waiting.get_mut(key).and_then(VecDeque::pop_front) {
                    Some(inbound) => inbound,
                    None => {
                        waiting.remove(key);
                        return;
                    }
                }
            };
            if self.stop.is_cancelled() {
                return;
            }
            // On its own, so that a panic costs one message and not the chat.
            let (this, id) = (self.clone(), next.id);
            let handled = tokio::spawn(async move { this.handle(&next).await }).await;
            match handled {
                Ok(Ok(()) | Err(StoreError::Cancelled)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, message = id, "a message waits for the next start")
                }
                Err(error) => {
                    tracing::error!(%error, message = id, "a message stopped its worker; it waits for the next start")
                }
            }
        }
    }

    /// One message from its chat to its answer. Begins again when its session is deleted under it.
    async fn handle(&self, inbound: &Inbound) -> Result<(), StoreError> {
        loop {
            let Some((session_id, lease)) = self.session_under_lease(inbound).await? else {
                return Ok(());
            };
            match self.answer(inbound, &session_id, lease).await {
                Ok(Some(sends)) => {
                    self.send_all(sends).await;
                    return Ok(());
                }
                Ok(None) => return Ok(()),
                Err(StoreError::Cancelled) => return Ok(()),
                Err(error) => {
                    let session = || self.store.session(&session_id);
                    if patiently(&self.stop, session).await?.is_some() {
                        return Err(error);
                    }
                    tracing::warn!(%error, session = session_id, "a session was deleted while it was spoken to");
                }
            }
        }
    }

    /// The session that the chat is on, and the right to run its turn. While that was waited for, the chat may have
    /// moved; then it is waited for again. `None`: the daemon stops.
    async fn session_under_lease(
        &self,
        inbound: &Inbound,
    ) -> Result<Option<(String, Lease)>, StoreError> {
        let mut wanted = patiently(&self.stop, || self.session_of(inbound)).await?;
        loop {
            tracing::debug!(
                message = inbound.id,
                session = wanted,
                "a message waits for its turn"
            );
            let lease = tokio::select! {
                lease = self.turns.leases.take(&wanted) => lease,
                () = self.stop.cancelled() => return Ok(None),
            };
            let now = patiently(&self.stop, || self.session_of(inbound)).await?;
            if now == wanted {
                return Ok(Some((wanted, lease)));
            }
            wanted = now;
        }
    }

    /// Where the message belongs: where its words stand already, else where the chat is now, else in a fresh session.
    async fn session_of(&self, inbound: &Inbound) -> Result<String, StoreError> {
        if let Some(begun) = self.store.session_of_inbound(inbound.id).await? {
            return Ok(begun);
        }
        let key = &inbound.session_key;
        if let Some(live) = self.store.live_session(key).await? {
            return Ok(live);
        }
        self.store.bind_fresh_session(key, &inbound.source).await
    }

    /// Runs the turn and returns what is to be sent. `None`: it is answered already, or the daemon stops and it will be
    /// answered after the next start.
    async fn answer(
        &self,
        inbound: &Inbound,
        session_id: &str,
        lease: Lease,
    ) -> Result<Option<Vec<Delivery>>, StoreError> {
        let (store, stop) = (&self.store, &self.stop);
        let begin = || store.begin_inbound(inbound.id, session_id);
        // What a recovery and its own dispatch both found is answered once.
        let Some(row) = patiently(stop, begin).await? else {
            return Ok(None);
        };
        let briefing = || store.briefing(session_id, Some(row));
        let Some((session, transcript)) = patiently(stop, briefing).await? else {
            return Err(StoreError::Conflict(format!(
                "session {session_id} is gone"
            )));
        };
        let prompt = Prompt {
            session: &session,
            transcript: &transcript,
            message: &inbound.text,
            handoff: false,
        };
        let reply = self.turns.run(&lease, prompt, &self.stop).await;
        drop(transcript);
        let send = |text: String| NewDelivery {
            send_key: format!("inbound:{}:0", inbound.id),
            source: inbound.source.clone(),
            session_id: session_id.to_owned(),
            handoff_id: None,
            text,
        };
        let sends = match reply {
            Ok(reply) => {
                let sends = vec![send(reply.clone())];
                let keep = || store.answer_inbound(inbound.id, session_id, &reply, sends.clone());
                patiently(stop, keep).await?
            }
            Err(TurnError::Cancelled) => return Ok(None),
            Err(error) => {
                tracing::warn!(%error, session = session_id, "a turn failed");
                let text = format!("I could not answer: {error}. Say it again to try once more.");
                let (reason, sends) = (error.to_string(), vec![send(text)]);
                let keep = || store.fail_inbound(inbound.id, &reason, sends.clone());
                patiently(stop, keep).await?
            }
        };
        Ok(Some(sends))
    }

    async fn send_all(&self, deliveries: Vec<Delivery>) {
        for delivery in deliveries {
            let name = &delivery.source.platform;
            let Some(platform) = self.platforms.adapter(name) else {
                tracing::warn!(
                    platform = name,
                    "a reply waits: the platform is not available"
                );
                continue;
            };
            let send = || async {
                match deliver(&self.store, platform.as_ref(), &delivery, &self.stop).await {
                    Err(DeliverError::Store(error)) => Err(error),
                    outcome => Ok(outcome),
                }
            };
            let outcome = patiently(&self.stop, send).await;
            let outcome = match outcome.unwrap_or_else(|error| Err(DeliverError::Store(error))) {
                Ok(id) => Ok(id),
                Err(DeliverError::Failed { reason, .. }) => Err(reason),
                // It stays in the ledger for the next start.
                Err(_) if self.stop.is_cancelled() => return,
                // It is no longer to be sent.
                Err(DeliverError::Cancelled) => continue,
                Err(DeliverError::Store(error)) => {
                    tracing::error!(%error, platform = name, "a reply waits for the next start");
                    continue;
                }
            };
            if let Err(reason) = &outcome {
                tracing::error!(
                    reason,
                    platform = name,
                    session = delivery.session_id,
                    "a reply was not delivered"
                );
            }
            let end = || self.store.delivery_ended(delivery.id, outcome.clone());
            if let Err(error) = patiently(&self.stop, end).await {
                tracing::error!(%error, "the outcome of a delivery could not be recorded");
            }
        }
    }
}
