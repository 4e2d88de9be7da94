//! Questions of agents that wait for an answer. A question belongs to one conversation and, where it is shown in a chat, to
//! that chat, the messages that show it and the person whose turn asks. The first answer wins, wherever it is given.

mod asked;
mod whole;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::sync::{oneshot, watch};

pub(crate) use asked::Waiting;
pub use asked::{AskedQuestion, Closed, Given};
use whole::WholeFile;

use crate::config::QuestionTimeouts;
use crate::domain::Source;
use crate::domain::question_text;
use crate::domain::{Question, QuestionAnswer};
use crate::reloadable::Reloadable;

pub use crate::domain::TERMINAL;

/// Shows a question to a person who does not listen to events: in a chat, say.
#[async_trait]
pub trait QuestionDisplay: Send + Sync {
    /// The chat that shows it, with the person whose turn asks.
    fn chat(&self) -> &Source;

    /// Shows the question, and shows it again after a while. Returns only if it cannot be shown.
    async fn show(&self, asked: &AskedQuestion);

    /// The question is closed: the messages that show it say so.
    fn close(&self, shown: Vec<Shown>, note: String);
}

/// Names a question. From the kernel's random source: a button of another question, or of an earlier daemon's, must not
/// answer this one, and nobody may guess it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionId(u128);

impl QuestionId {
    fn random() -> Result<QuestionId, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(QuestionId(u128::from_ne_bytes(bytes)))
    }

    pub fn parse(text: &str) -> Option<QuestionId> {
        u128::from_str_radix(text, 16).ok().map(QuestionId)
    }
}

impl std::fmt::Display for QuestionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The open questions, the oldest first. A turn may ask several at a time: each waits for its own answer.
#[derive(Clone)]
pub struct Questions {
    open: Arc<Mutex<Vec<Open>>>,
    patience: Arc<Reloadable<QuestionTimeouts>>,
    /// Where the whole of a long question is kept while it is open.
    directory: Arc<PathBuf>,
}

struct Open {
    id: QuestionId,
    conversation: String,
    question: Arc<Question>,
    /// The chat that shows it, with the person whose turn asks.
    chat: Option<Source>,
    /// The ids of the messages that show it.
    shown: Vec<String>,
    shown_at: f64,
    /// Whether another message is on its way: it may be there before its id is known.
    sending: watch::Receiver<bool>,
    /// Notes that it is open, by whether the person may answer: each is given once.
    noted: [bool; 2],
    answer: oneshot::Sender<Given>,
}

/// A message that shows a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub message_id: String,
    /// What stands there, in Markdown.
    pub text: String,
}

/// A question as those see it who decide whether an answer counts.
pub struct Asking<'a> {
    pub chat: &'a Source,
    /// The ids of the messages that show it, the first one first.
    pub shown: &'a [String],
    pub shown_at: f64,
    /// It is about something that the agent wants to do.
    pub is_approval: bool,
}

/// Whether words or a press of a button can be an answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFit {
    Yes,
    /// It belongs to another chat, or came before the question.
    No,
    /// Another person has to answer.
    NotTheirs,
}

/// What becomes of words while questions may be open.
#[derive(Debug, PartialEq)]
pub enum AnswerOutcome {
    /// They were an answer to this question.
    Answered(QuestionId),
    /// There is a question, and this is no answer to it. With the choices in words.
    NotAnAnswer(String),
    NoQuestion,
}

/// What becomes of words in a chat.
#[derive(Debug, PartialEq, Eq)]
pub enum HeardInChat {
    Answered,
    /// They are an ordinary message, and the person is told once that a question is open: whether it is theirs.
    Message(Option<bool>),
}

/// What becomes of a press of a button.
#[derive(Debug, PartialEq, Eq)]
pub enum Pressed {
    Chosen(String),
    NotTheirs,
    NotOpen,
}

impl Questions {
    pub fn new(patience: QuestionTimeouts, directory: PathBuf) -> Questions {
        whole::clear(&directory);
        Questions {
            open: Arc::default(),
            patience: Arc::new(Reloadable::new(patience)),
            directory: Arc::new(directory),
        }
    }

    /// How long people may take from now on.
    pub(crate) fn set_patience(&self, patience: QuestionTimeouts) {
        self.patience.set(patience);
    }

    /// Opens a question. `None`: it has no name, since the kernel gives no random numbers.
    pub(crate) async fn ask(
        &self,
        conversation: &str,
        question: Question,
        chat: Option<&Source>,
    ) -> Option<(AskedQuestion, Waiting)> {
        let id = match QuestionId::random() {
            Ok(id) => id,
            Err(error) => {
                tracing::error!(%error, "a question cannot be asked without random numbers");
                return None;
            }
        };
        let whole = WholeFile::of(&question, id, &self.directory).await;
        let (answer, answered) = oneshot::channel();
        let (sending, is_sending) = watch::channel(false);
        let question = Arc::new(question);
        self.locked().push(Open {
            id,
            conversation: conversation.to_owned(),
            question: question.clone(),
            chat: chat.cloned(),
            shown: Vec::new(),
            shown_at: 0.0,
            sending: is_sending,
            noted: [false; 2],
            answer,
        });
        let patience = *self.patience.get();
        let asked = AskedQuestion {
            id,
            question,
            whole,
            reminder: patience.reminder,
            shown: Mutex::default(),
            sending,
            questions: self.clone(),
        };
        let waiting = Waiting {
            answered,
            patience: patience.answer,
        };
        Some((asked, waiting))
    }

    /// A terminal at this conversation has said something. It answers the oldest question that it is an answer to.
    pub fn hear(&self, conversation: &str, words: &str) -> AnswerOutcome {
        let mut open = self.locked();
        let mut oldest = None;
        for (at, asked) in open.iter().enumerate() {
            if asked.conversation != conversation {
                continue;
            }
            if let Some(answer) = read(&asked.question, words) {
                let id = asked.id;
                return match give(&mut open, at, answer, TERMINAL) {
                    true => AnswerOutcome::Answered(id),
                    false => AnswerOutcome::NoQuestion,
                };
            }
            oldest = oldest.or(Some(at));
        }
        match oldest {
            Some(at) => {
                let choices = question_text::choices(&open[at].question).unwrap_or_default();
                AnswerOutcome::NotAnAnswer(format!("this is no answer to the question\n{choices}"))
            }
            None => AnswerOutcome::NoQuestion,
        }
    }

    /// Words in a chat. They answer the oldest question that they fit and are an answer to.
    pub fn hear_in_chat(
        &self,
        words: &str,
        place: &str,
        mut fits: impl FnMut(&Asking<'_>) -> AnswerFit,
    ) -> HeardInChat {
        let mut open = self.locked();
        let mut unfit = None;
        for at in 0..open.len() {
            let asked = &open[at];
            let fit = asked.asking().map_or(AnswerFit::No, |asking| fits(&asking));
            let answer = match fit {
                AnswerFit::No => continue,
                AnswerFit::Yes => read(&asked.question, words),
                AnswerFit::NotTheirs => None,
            };
            if let Some(answer) = answer {
                return match give(&mut open, at, answer, place) {
                    true => HeardInChat::Answered,
                    false => HeardInChat::Message(None),
                };
            }
            unfit = unfit.or(Some((at, fit == AnswerFit::Yes)));
        }
        let note = unfit.and_then(|(at, theirs)| {
            let noted = open.get_mut(at).map(|asked| &mut asked.noted)?;
            (!std::mem::replace(&mut noted[usize::from(theirs)], true)).then_some(theirs)
        });
        HeardInChat::Message(note)
    }

    /// The press of the button of a choice.
    pub fn choose(
        &self,
        id: QuestionId,
        choice: usize,
        place: &str,
        fits: impl FnOnce(&Asking<'_>) -> AnswerFit,
    ) -> Pressed {
        let mut open = self.locked();
        let Some(at) = open.iter().position(|asked| asked.id == id) else {
            return Pressed::NotOpen;
        };
        let asked = &open[at];
        let label = asked.question.choices.get(choice).cloned();
        match (
            asked.asking().map_or(AnswerFit::No, |asking| fits(&asking)),
            label,
        ) {
            (AnswerFit::NotTheirs, _) => Pressed::NotTheirs,
            (AnswerFit::Yes, Some(label)) => {
                match give(&mut open, at, QuestionAnswer::Choice(choice), place) {
                    true => Pressed::Chosen(label),
                    false => Pressed::NotOpen,
                }
            }
            (AnswerFit::No, _) | (_, None) => Pressed::NotOpen,
        }
    }

    /// Whether there is such a question that a chat display.
    pub fn any(&self, is: impl Fn(&Asking<'_>) -> bool) -> bool {
        let open = self.locked();
        open.iter()
            .filter_map(Open::asking)
            .any(|asking| is(&asking))
    }

    /// Returns when no message that shows this question is on its way, so that the ids of all of them are known.
    pub async fn sent(&self, id: QuestionId) {
        let sending = {
            let open = self.locked();
            let asked = open.iter().find(|asked| asked.id == id);
            asked.map(|asked| asked.sending.clone())
        };
        if let Some(mut sending) = sending {
            // A question that is closed meanwhile sends nothing more.
            let _ = sending.wait_for(|sending| !sending).await;
        }
    }

    /// The same for all questions of a chat that these words may be an answer to.
    pub async fn sent_in(&self, words: &str, is_there: impl Fn(&Source) -> bool) {
        let sending: Vec<_> = {
            let open = self.locked();
            let there = open
                .iter()
                .filter(|asked| asked.chat.as_ref().is_some_and(&is_there));
            let answered = there.filter(|asked| read(&asked.question, words).is_some());
            answered.map(|asked| asked.sending.clone()).collect()
        };
        for mut sending in sending {
            let _ = sending.wait_for(|sending| !sending).await;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Open {
    fn asking(&self) -> Option<Asking<'_>> {
        Some(Asking {
            chat: self.chat.as_ref()?,
            shown: &self.shown,
            shown_at: self.shown_at,
            is_approval: !self.question.subject.is_empty(),
        })
    }
}

/// Answers a question and takes it off the list. False: it waits no longer.
fn give(open: &mut Vec<Open>, at: usize, answer: QuestionAnswer, place: &str) -> bool {
    let asked = open.remove(at);
    let given = Given {
        answer,
        place: place.to_owned(),
    };
    asked.answer.send(given).is_ok()
}

/// A choice by its number or its words; any other words where those are welcome.
fn read(question: &Question, words: &str) -> Option<QuestionAnswer> {
    let words = words.trim();
    let numbered = words
        .parse::<usize>()
        .ok()
        .filter(|n| (1..=question.choices.len()).contains(n))
        .map(|n| n - 1);
    let named = || {
        question
            .choices
            .iter()
            .position(|choice| choice.eq_ignore_ascii_case(words))
    };
    match numbered.or_else(named) {
        Some(at) => Some(QuestionAnswer::Choice(at)),
        None if question.open && !words.is_empty() => Some(QuestionAnswer::Words(words.to_owned())),
        None => None,
    }
}

#[cfg(test)]
mod tests;
