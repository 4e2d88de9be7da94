//! Shows the questions of an agent in a terminal.

use crate::domain::question_text::{self, Whole};
use crate::domain::{Question, QuestionPart, TERMINAL};
use crate::protocol::EventKind;
use crate::visible_text::visible_line;

/// A question of the agent that nobody has answered yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenQuestion {
    pub(super) id: String,
    /// The prompt of its answer, such as `allow? [1-3] `.
    pub(super) prompt: String,
}

/// Adds a question to the open ones, or removes one that is closed. Returns the text to show.
pub(super) fn update(
    event: &EventKind,
    asked: &mut Vec<OpenQuestion>,
    width: Option<usize>,
) -> Option<String> {
    match event {
        EventKind::TurnQuestion {
            question,
            subject,
            choices,
            open,
            ..
        } => {
            asked.push(OpenQuestion {
                id: question.clone(),
                prompt: prompt(!subject.is_empty(), choices.len(), *open),
            });
            in_words(event, width)
        }
        EventKind::TurnQuestionClosed { question, .. } => {
            let open = asked.iter().position(|open| open.id == *question)?;
            asked.remove(open);
            closed_elsewhere(event)
        }
        _ => None,
    }
}

/// The prompt of an answer.
fn prompt(is_approval: bool, choices: usize, open: bool) -> String {
    let word = if is_approval { "allow" } else { "answer" };
    let choices = match choices {
        0 => return format!("{word}? "),
        1 => "1".to_owned(),
        n => format!("1-{n}"),
    };
    let words = if open { " or words" } else { "" };
    format!("{word}? [{choices}{words}] ")
}

/// The question, with rows of at most `width` columns. `None` if it is another event.
fn in_words(event: &EventKind, width: Option<usize>) -> Option<String> {
    let EventKind::TurnQuestion {
        ask,
        subject,
        choices,
        open,
        whole,
        ..
    } = event
    else {
        return None;
    };
    let question = Question {
        ask: ask.clone(),
        subject: subject
            .iter()
            .map(|part| QuestionPart::new(part.label.as_str(), part.text.as_str()))
            .collect(),
        choices: choices.clone(),
        open: *open,
    };
    let whole = whole.as_deref().map_or(Whole::Nowhere, Whole::At);
    Some(question_text::in_terminal(&question, whole, width))
}

/// Says how a question was closed that this terminal did not answer.
fn closed_elsewhere(event: &EventKind) -> Option<String> {
    let EventKind::TurnQuestionClosed {
        outcome,
        answer,
        place,
        ..
    } = event
    else {
        return None;
    };
    match (outcome.as_str(), place.as_deref()) {
        ("answered", Some(TERMINAL)) | ("withdrawn", _) => None,
        ("answered", place) => {
            let answer = answer.as_deref().unwrap_or_default();
            let place = place.unwrap_or_default();
            Some(format!("(answered on {place}: {})", visible_line(answer)))
        }
        ("timed_out", _) => Some("(no answer in time: the agent continues without one)".to_owned()),
        _ => Some("(the question is no longer open)".to_owned()),
    }
}
