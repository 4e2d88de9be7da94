//! Shows the questions of an agent in a terminal.

use crate::domain::question_text::{self, Whole};
use crate::domain::{Question, QuestionPart, TERMINAL};
use crate::protocol::EventKind;
use crate::visible_text::visible_line;

/// Adds a question to the open ones, or removes one that is closed. Returns the text to show.
pub(super) fn update(
    event: &EventKind,
    asked: &mut Vec<String>,
    width: Option<usize>,
) -> Option<String> {
    match event {
        EventKind::TurnQuestion { question, .. } => {
            asked.push(question.clone());
            in_words(event, width)
        }
        EventKind::TurnQuestionClosed { question, .. } => {
            let open = asked.iter().position(|open| open == question)?;
            asked.remove(open);
            closed_elsewhere(event)
        }
        _ => None,
    }
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
