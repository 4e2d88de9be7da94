//! Groups that have become supergroups. Such a group has another id and is the same chat: what is for the old id goes to the
//! new one, and settings that name the old one hold for the new one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::Telegram;
use super::failure::Failure;
use crate::domain::Source;
use crate::platform::PlatformError;

#[derive(Default)]
pub(super) struct Moves {
    /// The new id of each old one.
    known: Mutex<HashMap<String, String>>,
    /// Those that a refusal told of, and that the rest of the daemon has still to learn.
    unreported: Mutex<Vec<(String, String)>>,
    news: Notify,
}

impl Moves {
    pub(super) fn remember(&self, from: &str, to: &str) {
        locked(&self.known).insert(from.to_owned(), to.to_owned());
    }

    /// A call was refused for it.
    fn learn(&self, from: &str, to: &str) {
        self.remember(from, to);
        locked(&self.unreported).push((from.to_owned(), to.to_owned()));
        self.news.notify_one();
    }

    /// Resolves when there may be something unreported.
    pub(super) async fn news(&self) {
        self.news.notified().await;
    }

    pub(super) fn unreported(&self) -> Vec<(String, String)> {
        std::mem::take(&mut locked(&self.unreported))
    }

    /// Puts back what could not be told.
    pub(super) fn report_again(&self, unreported: Vec<(String, String)>) {
        locked(&self.unreported).extend(unreported);
    }

    /// The id under which a chat is reached now.
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
    /// Makes a call about a chat. Where the chat has moved, the call is made about the new one.
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
                tracing::info!(from = id, to = new, "a group has become a supergroup");
                self.moves.learn(&id, &new);
                call(at(new)).await
            }
            outcome => outcome,
        };
        outcome.map_err(PlatformError::from)
    }
}
