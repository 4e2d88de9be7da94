//! Follows groups that have become supergroups. Such a group has a new id but is the same chat: calls for the old id go
//! to the new one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::Telegram;
use super::failure::Failure;
use crate::domain::Source;
use crate::platform::PlatformError;

#[derive(Default)]
pub(super) struct Moves {
    /// The new id for each old id.
    known: Mutex<HashMap<String, String>>,
    /// Moves that a refused call has shown, and that are not reported to the inbox yet.
    unreported: Mutex<Vec<(String, String)>>,
    news: Notify,
}

impl Moves {
    pub(super) fn remember(&self, from: &str, to: &str) {
        locked(&self.known).insert(from.to_owned(), to.to_owned());
    }

    /// Remembers a move that a refused call has shown, and queues its report.
    fn learn(&self, from: &str, to: &str) {
        self.remember(from, to);
        locked(&self.unreported).push((from.to_owned(), to.to_owned()));
        self.news.notify_one();
    }

    /// Resolves when there may be unreported moves.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub(super) fn unreported(&self) -> Vec<(String, String)> {
        std::mem::take(&mut locked(&self.unreported))
    }

    /// Puts back moves that could not be reported.
    pub(super) fn report_again(&self, unreported: Vec<(String, String)>) {
        locked(&self.unreported).extend(unreported);
    }

    /// The present id of a chat.
    pub(super) fn current(&self, id: &str) -> String {
        let known = locked(&self.known);
        known.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Telegram {
    /// Makes a call for a chat, with its new id if the chat has moved.
    pub(super) async fn following<T, F>(
        &self,
        to: &Source,
        call: impl Fn(Source) -> F + Send,
    ) -> Result<T, PlatformError>
    where
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let id = to.chat_id.as_deref().unwrap_or_default();
        let at = |id: String| Source {
            chat_id: Some(id),
            ..to.clone()
        };
        let id = self.moves.current(id);
        let outcome = match call(at(id.clone())).await {
            Err(Failure::Moved(new)) => {
                let new = new.to_string();
                tracing::info!(from = id, to = new, "group became a supergroup");
                self.moves.learn(&id, &new);
                call(at(new)).await
            }
            outcome => outcome,
        };
        outcome.map_err(PlatformError::from)
    }
}
