//! Queues the messages of each chat. Each chat has one worker, which processes them in order.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use crate::domain::session_key;
use crate::domain::slash_command::{self, Command, ParsedInput, Place};
use crate::inbound::questions::Matched;
use crate::inbound::{Chat, Inner, Work};
use crate::store::retry_while_busy;
use crate::store::{Delivery, Inbound, StoreError};

impl Inner {
    pub(super) async fn recover_left(self: &Arc<Self>) -> Result<(), StoreError> {
        let unsent = retry_while_busy(&self.draining, || self.store.open_deliveries()).await?;
        let unanswered = retry_while_busy(&self.draining, || self.store.open_inbound()).await?;
        if !unsent.is_empty() || !unanswered.is_empty() {
            tracing::info!(
                unsent = unsent.len(),
                unanswered = unanswered.len(),
                "resuming work of the last run"
            );
        }
        for delivery in unsent {
            self.post(delivery);
        }
        for (key, id) in unanswered {
            self.add_work(&key, |chat| {
                chat.unanswered.insert(id);
            });
        }
        Ok(())
    }

    pub(super) fn post(self: &Arc<Self>, delivery: Delivery) {
        let key = session_key(&delivery.source, &self.keys);
        self.add_work(&key, |chat| chat.unsent.push_back(delivery));
    }

    /// Queues a stored message for its chat. `/stop`, and `/status` during an answer, do not wait in the queue. `at` is
    /// the time when it was sent.
    pub(super) async fn queue_inbound(self: &Arc<Self>, inbound: Inbound, at: f64) {
        let typed = slash_command::read(&inbound.text, Place::Chat);
        let at_once = match typed {
            ParsedInput::Command(Command::Stop, _) => true,
            ParsedInput::Command(Command::Status, _) => {
                self.answering().contains_key(&inbound.session_key)
            }
            _ => false,
        };
        let is_words = matches!(typed, ParsedInput::Words);
        if at_once {
            let inner = self.clone();
            self.tracker.spawn(async move {
                if let Err(error) = inner.handle(inbound.id).await {
                    tracing::error!(%error, inbound = inbound.id, "will process the message at next start");
                }
            });
            return;
        }
        // Before the next event is accepted, so that no message overtakes another.
        let matched = match is_words {
            true => self.match_answer(&inbound, at).await,
            false => Ok(Matched::Message(None)),
        };
        match matched {
            Ok(Matched::Answer) => {}
            Ok(Matched::Message(None)) | Err(StoreError::Cancelled) => self.push(&inbound),
            Ok(Matched::Message(Some(note))) => {
                self.push(&inbound);
                self.note(&inbound, note);
            }
            Err(error) => {
                tracing::error!(%error, inbound = inbound.id, "will process the message at next start");
            }
        }
    }

    fn push(self: &Arc<Self>, inbound: &Inbound) {
        let waits = self.add_work(&inbound.session_key, |chat| {
            chat.unanswered.insert(inbound.id);
        });
        if waits {
            self.acknowledge(inbound);
        }
    }

    /// Shows that a message is received although another is answered first. Best effort: nothing waits for it.
    fn acknowledge(&self, inbound: &Inbound) {
        let Some(platform) = self.platforms.adapter(&inbound.source.platform) else {
            return;
        };
        let (source, id) = (inbound.source.clone(), inbound.message_id.clone());
        self.tracker.spawn(async move {
            if let Err(error) = platform.acknowledge(&source, &id).await {
                tracing::debug!(%error, inbound = id, "waiting message not acknowledged");
            }
        });
    }

    /// Adds work to a chat, and starts its worker if it has none. True: the worker is busy.
    fn add_work(self: &Arc<Self>, key: &str, add: impl FnOnce(&mut Chat)) -> bool {
        let mut chats = self.locked();
        let has_worker = chats.contains_key(key);
        add(chats.entry(key.to_owned()).or_default());
        drop(chats);
        if !has_worker {
            let (inner, key) = (self.clone(), key.to_owned());
            self.tracker.spawn(async move { inner.run(&key).await });
        }
        has_worker
    }

    /// The next work of a chat. `None`: there is no more, the chat is removed, and its worker has to end.
    fn next(&self, key: &str) -> Option<Work> {
        let mut chats = self.locked();
        let chat = chats.get_mut(key)?;
        let unanswered = &mut chat.unanswered;
        let unsent = chat.unsent.pop_front().map(Box::new);
        let next = unsent
            .map(Work::Send)
            .or_else(|| unanswered.pop_first().map(Work::Answer));
        if next.is_none() {
            chats.remove(key);
        }
        next
    }

    pub(super) fn locked(&self) -> MutexGuard<'_, HashMap<String, Chat>> {
        self.chats
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn run(self: Arc<Self>, key: &str) {
        self.recovered.cancelled().await;
        while !self.draining.is_cancelled() {
            let Some(work) = self.next(key) else { return };
            let what = match &work {
                Work::Send(delivery) => format!("reply {}", delivery.id),
                Work::Answer(id) => format!("message {id}"),
            };
            let this = self.clone();
            // In a task of its own, so that a panic affects one message and not the chat.
            let done = tokio::spawn(async move {
                match work {
                    Work::Send(delivery) => {
                        this.outbox.send(&delivery).await;
                        Ok(())
                    }
                    Work::Answer(id) => this.handle(id).await,
                }
            });
            match done.await {
                Ok(Ok(()) | Err(StoreError::Cancelled)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, key, what, "will retry at next start");
                }
                Err(error) => {
                    tracing::error!(%error, key, what, "task panicked, will retry at next start");
                }
            }
        }
    }
}
