//! One open question, the wait for its answer, and its end.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::whole::WholeFile;
use super::{QuestionId, Questions, Shown};
use crate::clock;
use crate::domain::{Question, QuestionAnswer};

/// An answer, and the place where it was given.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub answer: QuestionAnswer,
    /// [`TERMINAL`], or the name of a platform.
    pub place: String,
}

/// How a question ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Closed {
    Given(Given),
    TimedOut,
    /// The chat could not show it.
    NotShown,
    /// The agent abandoned it, or the person stopped the turn.
    Withdrawn,
}

impl Closed {
    /// The answer for the agent.
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

    /// The answer as text: the label of the choice, or the person's words.
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

/// The messages that show a question.
#[derive(Default)]
pub(super) struct ShownMessages {
    messages: Vec<Shown>,
    /// The note of its end, once it has ended.
    end: Option<String>,
}

/// Records the messages that show a question. It outlives the question, because a message may be on its way when the agent
/// abandons the question.
#[derive(Clone)]
pub(crate) struct ShownRecorder {
    id: QuestionId,
    questions: Questions,
    shown: Arc<Mutex<ShownMessages>>,
}

impl ShownRecorder {
    /// Records a message that shows the question. From now on answers to it count. If the question has ended, returns the
    /// note of its end, which the message must show.
    pub(crate) fn record(&self, message: Shown) -> Option<String> {
        let mut shown = locked(&self.shown);
        if shown.end.is_some() {
            return shown.end.clone();
        }
        let mut open = self.questions.locked();
        if let Some(asked) = open.iter_mut().find(|asked| asked.id == self.id) {
            if asked.shown.is_empty() {
                asked.shown_at = clock::now();
            }
            asked.shown.push(message.message_id.clone());
        }
        shown.messages.push(message);
        None
    }
}

fn locked(shown: &Mutex<ShownMessages>) -> MutexGuard<'_, ShownMessages> {
    shown
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// An open question. Dropping it withdraws it.
pub struct AskedQuestion {
    pub(crate) id: QuestionId,
    pub(crate) question: Arc<Question>,
    pub(super) whole: Option<WholeFile>,
    pub(crate) reminder: Option<Duration>,
    /// The messages that show it, including those that were being sent when it was answered.
    pub(super) shown: Arc<Mutex<ShownMessages>>,
    pub(super) sending: watch::Sender<bool>,
    pub(super) questions: Questions,
}

impl AskedQuestion {
    /// The file with the whole subject, if it is too long for a chat.
    pub(crate) fn whole(&self) -> Option<&std::path::Path> {
        self.whole.as_ref().map(WholeFile::path)
    }

    /// Records whether a message that shows the question is being sent.
    pub(crate) fn is_sending(&self, sending: bool) {
        self.sending.send_replace(sending);
    }

    /// Returns when no message that shows the question is being sent.
    pub(crate) async fn sent(&self) {
        let mut sending = self.sending.subscribe();
        // `self` owns the sender, so the channel stays open.
        let _ = sending.wait_for(|sending| !sending).await;
    }

    pub(crate) fn recorder(&self) -> ShownRecorder {
        ShownRecorder {
            id: self.id,
            questions: self.questions.clone(),
            shown: self.shown.clone(),
        }
    }

    /// Rejects all further answers. Returns the messages that show the question. A message that arrives later gets `note`
    /// from its recorder.
    pub(crate) fn close(&self, note: &str) -> Vec<Shown> {
        self.withdraw();
        let mut shown = locked(&self.shown);
        shown.end = Some(note.to_owned());
        std::mem::take(&mut shown.messages)
    }

    fn withdraw(&self) {
        self.questions.locked().retain(|asked| asked.id != self.id);
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        self.withdraw();
    }
}
