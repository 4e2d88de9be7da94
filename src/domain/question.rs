//! A question of an agent to a person, and its answer.

/// A decision that the agent leaves to the person.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The question. Approvals use our words. Other questions have the agent's words, in Markdown.
    pub ask: String,
    /// The subject of an approval, exactly as the agent would execute it. Empty for other questions.
    pub subject: Vec<QuestionPart>,
    pub choices: Vec<String>,
    /// Text other than the choices is an answer too.
    pub open: bool,
}

/// One part of the subject of an approval: a command, the input of a tool, a change of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionPart {
    pub label: String,
    pub text: String,
}

impl QuestionPart {
    pub fn new(label: impl Into<String>, text: impl Into<String>) -> QuestionPart {
        QuestionPart {
            label: label.into(),
            text: text.into(),
        }
    }
}

impl Question {
    /// The question and its subject as one text, without the choices.
    pub fn text(&self) -> String {
        let parts = self.subject.iter().map(|part| part.text.as_str());
        let all: Vec<&str> = [self.ask.as_str()].into_iter().chain(parts).collect();
        all.join("\n")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum QuestionAnswer {
    /// The index of a choice.
    Choice(usize),
    Words(String),
    /// No answer arrived in time, or the question could not be shown.
    Nobody,
}
