//! One question that is open, the wait for its answer, and how it ends.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::whole::WholeFile;
use super::{QuestionId, Questions, Shown};
use crate::clock;
use crate::domain::{Question, QuestionAnswer};

/// An answer, and where it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub answer: QuestionAnswer,
    /// [`TERMINAL`], or the name of a platform.
    pub place: String,
}

/// How a question came to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Closed {
    Given(Given),
    TimedOut,
    /// The chat did not take it.
    NotShown,
    /// The agent, or the person who stopped it, gave it up.
    Withdrawn,
}

impl Closed {
    /// What the agent is told.
    pub(crate) fn answer(&self) -> QuestionAnswer {
        match self {
            Closed::Given(given) => given.answer.clone(),
            Closed::TimedOut | Closed::NotShown | Closed::Withdrawn => QuestionAnswer::Nobody,
        }
    }

    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Closed::Given(_) => "answered",
            Closed::TimedOut => "timed_out",
            Closed::NotShown => "not_shown",
            Closed::Withdrawn => "withdrawn",
        }
    }

    pub(crate) fn place(&self) -> Option<&str> {
        match self {
            Closed::Given(given) => Some(&given.place),
            _ => None,
        }
    }

    /// The answer in words: the choice, or what was said.
    pub(crate) fn in_words(&self, question: &Question) -> Option<String> {
        match self.answer() {
            QuestionAnswer::Choice(at) => question.choices.get(at).cloned(),
            QuestionAnswer::Words(words) => Some(words),
            QuestionAnswer::Nobody => None,
        }
    }
}

/// The wait for an answer.
pub(crate) struct Waiting {
    pub(super) answered: oneshot::Receiver<Given>,
    pub(super) patience: Option<Duration>,
}

impl Waiting {
    pub(crate) async fn closed(self) -> Closed {
        let answered = async {
            match self.answered.await {
                Ok(given) => Closed::Given(given),
                Err(_) => Closed::Withdrawn,
            }
        };
        match self.patience {
            Some(patience) => tokio::time::timeout(patience, answered)
                .await
                .unwrap_or(Closed::TimedOut),
            None => answered.await,
        }
    }
}

/// A question that is open. Dropped, it is withdrawn.
pub struct AskedQuestion {
    pub(crate) id: QuestionId,
    pub(crate) question: Arc<Question>,
    pub(super) whole: Option<WholeFile>,
    pub(crate) reminder: Option<Duration>,
    /// The messages that show it, also those that were on their way when it was answered.
    pub(super) shown: Mutex<Vec<Shown>>,
    pub(super) sending: watch::Sender<bool>,
    pub(super) questions: Questions,
}

impl AskedQuestion {
    /// The file with all of a question that is too long for a chat.
    pub(crate) fn whole(&self) -> Option<&std::path::Path> {
        self.whole.as_ref().map(WholeFile::path)
    }

    /// Says whether a message that shows the question is on its way.
    pub(crate) fn is_sending(&self, sending: bool) {
        self.sending.send_replace(sending);
    }

    /// Returns when no message that shows the question is on its way.
    pub(crate) async fn sent(&self) {
        let mut sending = self.sending.subscribe();
        // The sender is ours, so it does not go away meanwhile.
        let _ = sending.wait_for(|sending| !sending).await;
    }

    /// The question is shown in this message, too. From now on answers there count.
    pub(crate) fn is_shown(&self, message: Shown) {
        let mut open = self.questions.locked();
        if let Some(asked) = open.iter_mut().find(|asked| asked.id == self.id) {
            if asked.shown.is_empty() {
                asked.shown_at = clock::now();
            }
            asked.shown.push(message.message_id.clone());
        }
        self.messages().push(message);
    }

    /// No answer counts any more. Returns the messages that show it.
    pub(crate) fn close(&self) -> Vec<Shown> {
        self.withdraw();
        std::mem::take(&mut self.messages())
    }

    fn withdraw(&self) {
        self.questions.locked().retain(|asked| asked.id != self.id);
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Shown>> {
        self.shown
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        self.withdraw();
    }
}
