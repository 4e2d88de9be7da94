//! The open questions of agents. A question belongs to one conversation. If a chat shows it, it also belongs to that
//! chat, to the messages that show it and to the person whose turn asks. The first answer wins, wherever it is given.

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

/// Shows a question to a person who does not listen to events, for example in a chat.
#[async_trait]
pub trait QuestionDisplay: Send + Sync {
    /// The chat that shows the question, with the person whose turn asks.
    fn chat(&self) -> &Source;

    /// Shows the question, and shows it again as a reminder. Returns only if it cannot be shown.
    async fn show(&self, asked: &AskedQuestion);

    /// Edits the messages that show the question, because it is closed.
    fn close(&self, shown: Vec<Shown>, note: String);
}

/// Identifies a question. It comes from the kernel's random source: it cannot be guessed, and a button of another
/// question or of an earlier daemon does not match it.
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

/// The open questions, the oldest first. A turn may ask several at a time. Each waits for its own answer.
#[derive(Clone)]
pub struct Questions {
    open: Arc<Mutex<Vec<Open>>>,
    patience: Arc<Reloadable<QuestionTimeouts>>,
    /// The directory for the files of long questions while they are open.
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
    /// Whether another message is being sent. It may arrive before its id is known.
    sending: watch::Receiver<bool>,
    /// Whether the note about the open question was given, to a person who may not answer and to one who may.
    noted: [bool; 2],
    answer: oneshot::Sender<Given>,
}

/// A message that shows a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub message_id: String,
    /// The text of the message, in Markdown.
    pub text: String,
}

/// A question for the rule that decides whether an answer counts.
pub struct Asking<'a> {
    pub chat: &'a Source,
    /// The ids of the messages that show it, in the order in which they were sent.
    pub shown: &'a [String],
    pub shown_at: f64,
    /// It asks for approval of an action of the agent.
    pub is_approval: bool,
}

/// Whether text or a button press can answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerFit {
    Yes,
    /// It belongs to another chat, or precedes the question.
    No,
    /// Only another person may answer.
    NotTheirs,
}

/// The result of text in a terminal.
#[derive(Debug, PartialEq)]
pub enum AnswerOutcome {
    /// The text answered this question.
    Answered(QuestionId),
    /// A question is open, and the text does not answer it. Contains a message with the choices.
    NotAnAnswer(String),
    NoQuestion,
}

/// The result of text in a chat.
#[derive(Debug, PartialEq, Eq)]
pub enum HeardInChat {
    Answered,
    /// An ordinary message. `Some`: tell the person once that a question is open, and whether they may answer it.
    Message(Option<bool>),
}

/// The result of a button press.
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

    /// Replaces the timeouts for new questions.
    pub(crate) fn set_patience(&self, patience: QuestionTimeouts) {
        self.patience.set(patience);
    }

    /// Opens a question. `None` if the kernel has no random numbers for its id.
    pub(crate) async fn ask(
        &self,
        conversation: &str,
        question: Question,
        chat: Option<&Source>,
    ) -> Option<(AskedQuestion, Waiting)> {
        let id = match QuestionId::random() {
            Ok(id) => id,
            Err(error) => {
                tracing::error!(%error, "cannot ask a question without random numbers");
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
            shown: Arc::default(),
            sending,
            questions: self.clone(),
        };
        let waiting = Waiting {
            answered,
            patience: patience.answer,
        };
        Some((asked, waiting))
    }

    /// Applies text from a terminal to the oldest question of the conversation that it answers.
    pub fn answer_in_words(&self, conversation: &str, words: &str) -> AnswerOutcome {
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

    /// Applies text from a chat to the oldest question that `fits` allows and that it answers.
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

    /// Applies the press of a choice's button.
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

    /// Whether a question in a chat satisfies `is`.
    pub fn any(&self, is: impl Fn(&Asking<'_>) -> bool) -> bool {
        let open = self.locked();
        open.iter()
            .filter_map(Open::asking)
            .any(|asking| is(&asking))
    }

    /// Returns when no message that shows this question is being sent. Then the ids of all of them are known.
    pub async fn sent(&self, id: QuestionId) {
        let sending = {
            let open = self.locked();
            let asked = open.iter().find(|asked| asked.id == id);
            asked.map(|asked| asked.sending.clone())
        };
        if let Some(mut sending) = sending {
            // A closed question sends nothing more.
            let _ = sending.wait_for(|sending| !sending).await;
        }
    }

    /// The same for all questions of a chat.
    pub async fn sent_in(&self, is_there: impl Fn(&Source) -> bool) {
        let sending: Vec<_> = {
            let open = self.locked();
            let there = asked_in(&open, is_there);
            there.map(|asked| asked.sending.clone()).collect()
        };
        for mut sending in sending {
            let _ = sending.wait_for(|sending| !sending).await;
        }
    }

    /// Whether a question of this chat is being sent.
    pub fn is_sending_in(&self, is_there: impl Fn(&Source) -> bool) -> bool {
        asked_in(&self.locked(), is_there).any(|asked| *asked.sending.borrow())
    }

    /// Whether this text is an answer to a question of this chat. Does not check who may answer.
    pub fn is_answer_in(&self, words: &str, is_there: impl Fn(&Source) -> bool) -> bool {
        asked_in(&self.locked(), is_there).any(|asked| read(&asked.question, words).is_some())
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

fn asked_in(open: &[Open], is_there: impl Fn(&Source) -> bool) -> impl Iterator<Item = &Open> {
    open.iter()
        .filter(move |asked| asked.chat.as_ref().is_some_and(&is_there))
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

/// Answers a question and removes it. False if its wait has ended.
fn give(open: &mut Vec<Open>, at: usize, answer: QuestionAnswer, place: &str) -> bool {
    let asked = open.remove(at);
    let given = Given {
        answer,
        place: place.to_owned(),
    };
    asked.answer.send(given).is_ok()
}

/// A choice by its number or its label. Any other text only if the question is open.
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
