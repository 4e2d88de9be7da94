//! Questions that agents have for people, and the answers that come back, from wherever the person is.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::agent::{Answered, Question};
use crate::current::Current;

/// Shows a question to a person who does not listen to events: in a chat, say.
#[async_trait]
pub trait Shows: Send + Sync {
    /// `id` tells it from all other questions, for buttons.
    async fn show(&self, question: &Question, id: u64);
}

/// The open questions, the oldest first. A turn may ask several at a time: each waits for its own answer.
#[derive(Clone)]
pub struct Questions {
    open: Arc<Mutex<Vec<Open>>>,
    patience: Arc<Current<Duration>>,
}

struct Open {
    id: u64,
    session_id: String,
    question: Question,
    answer: oneshot::Sender<Answered>,
}

/// What becomes of a reply to a question.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// It was an answer.
    Answered,
    /// There is a question, and this is no answer to it.
    NotAnAnswer(String),
    /// Nobody asked anything.
    NoQuestion,
}

impl Questions {
    pub fn new(patience: Duration) -> Questions {
        Questions {
            open: Arc::default(),
            patience: Arc::new(Current::new(patience)),
        }
    }

    /// How long people may take from now on.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.patience.set(patience);
    }

    pub(crate) fn ask(&self, session_id: &str, question: Question) -> Asked {
        let (answer, answered) = oneshot::channel();
        // A button of an earlier question, or of an earlier daemon's, must not answer this one.
        let id = fastrand::u64(..);
        self.locked().push(Open {
            id,
            session_id: session_id.to_owned(),
            question,
            answer,
        });
        Asked {
            id,
            answered: Some(answered),
            questions: self.clone(),
        }
    }

    /// The person has said something. It answers the oldest question that it is an answer to.
    pub fn hear(&self, session_id: &str, words: &str) -> Heard {
        let mut open = self.locked();
        let mut oldest = None;
        for (at, asked) in open.iter().enumerate() {
            if asked.session_id != session_id {
                continue;
            }
            if let Some(answer) = read(&asked.question, words) {
                let _ = open.remove(at).answer.send(answer);
                return Heard::Answered;
            }
            oldest = oldest.or(Some(at));
        }
        match oldest {
            Some(at) => Heard::NotAnAnswer(in_words(&open[at].question)),
            None => Heard::NoQuestion,
        }
    }

    /// The person has pressed the button of a choice. Returns the choice; `None`: that question is no longer open.
    pub fn choose(&self, id: u64, choice: usize) -> Option<String> {
        let mut open = self.locked();
        let at = open.iter().position(|asked| asked.id == id)?;
        let label = open[at].question.choices.get(choice)?.clone();
        let _ = open.remove(at).answer.send(Answered::Choice(choice));
        Some(label)
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

/// A question that waits. Dropped, it is withdrawn.
pub(crate) struct Asked {
    pub(crate) id: u64,
    answered: Option<oneshot::Receiver<Answered>>,
    questions: Questions,
}

impl Asked {
    pub(crate) async fn answered(mut self) -> Answered {
        let Some(answered) = self.answered.take() else {
            return Answered::Nobody;
        };
        match tokio::time::timeout(*self.questions.patience.get(), answered).await {
            Ok(Ok(answer)) => answer,
            _ => Answered::Nobody,
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.questions.locked().retain(|asked| asked.id != self.id);
    }
}

/// A choice by its number or its words; any other words where those are welcome.
fn read(question: &Question, words: &str) -> Option<Answered> {
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
        Some(at) => Some(Answered::Choice(at)),
        None if question.open && !words.is_empty() => Some(Answered::Words(words.to_owned())),
        None => None,
    }
}

/// The question with its choices numbered, as it is shown where there are no buttons.
pub fn in_words(question: &Question) -> String {
    let mut text = question.text.trim_end().to_owned();
    for (at, choice) in question.choices.iter().enumerate() {
        text.push_str(&format!("\n{}. {choice}", at + 1));
    }
    if !question.choices.is_empty() {
        let other = if question.open {
            ", or in your own words"
        } else {
            ""
        };
        text.push_str(&format!("\nAnswer with a number{other}."));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(open: bool) -> Question {
        Question {
            text: "Run it?".into(),
            choices: vec!["Yes".into(), "No".into()],
            open,
        }
    }

    #[tokio::test]
    async fn an_answer_reaches_whoever_asked_and_is_heard_once() {
        let questions = Questions::new(Duration::from_secs(60));
        assert_eq!(questions.hear("s", "1"), Heard::NoQuestion);
        let asked = questions.ask("s", question(false));
        let again = questions.hear("s", "perhaps");
        assert!(matches!(again, Heard::NotAnAnswer(text) if text.contains("2. No")));
        assert_eq!(questions.hear("other", "2"), Heard::NoQuestion);
        assert_eq!(questions.hear("s", " no "), Heard::Answered);
        assert_eq!(questions.hear("s", "2"), Heard::NoQuestion);
        assert_eq!(asked.answered().await, Answered::Choice(1));
    }

    #[tokio::test]
    async fn a_button_answers_its_own_question_only() {
        let questions = Questions::new(Duration::from_secs(60));
        let before = questions.ask("s", question(false)).id;
        let asked = questions.ask("s", question(false));
        assert_eq!(questions.choose(before, 0), None);
        assert_eq!(questions.choose(asked.id, 2), None);
        assert_eq!(questions.choose(asked.id, 1), Some("No".into()));
        assert_eq!(questions.choose(asked.id, 0), None);
        assert_eq!(asked.answered().await, Answered::Choice(1));
    }

    #[tokio::test]
    async fn two_questions_at_a_time_are_answered_each_on_its_own() {
        let questions = Questions::new(Duration::from_secs(60));
        let first = questions.ask("s", question(false));
        let second = questions.ask("s", question(true));
        let third = questions.ask("s", question(false));
        // The first to end withdraws no other.
        assert_eq!(questions.choose(first.id, 0), Some("Yes".into()));
        assert_eq!(first.answered().await, Answered::Choice(0));
        // Words go to the oldest question that takes them.
        assert_eq!(questions.hear("s", "later"), Heard::Answered);
        assert_eq!(second.answered().await, Answered::Words("later".into()));
        assert_eq!(questions.hear("s", "no"), Heard::Answered);
        assert_eq!(third.answered().await, Answered::Choice(1));
        assert!(questions.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_for_ever_and_a_withdrawn_question_is_gone() {
        let questions = Questions::new(Duration::from_secs(60));
        let asked = questions.ask("s", question(true));
        assert_eq!(asked.answered().await, Answered::Nobody);
        drop(questions.ask("s", question(true)));
        assert_eq!(questions.hear("s", "words"), Heard::NoQuestion);
        let asked = questions.ask("s", question(true));
        assert_eq!(questions.hear("s", "words"), Heard::Answered);
        assert_eq!(asked.answered().await, Answered::Words("words".into()));
    }
}
