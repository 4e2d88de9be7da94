//! What an agent asks a person, and the answer.

/// Something that only the person can decide.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is asked. Words of ours for an approval, else the agent's own words, which are Markdown.
    pub ask: String,
    /// What an approval is about, exactly as the agent would do it. Empty for other questions.
    pub subject: Vec<QuestionPart>,
    pub choices: Vec<String>,
    /// Other words than the choices are an answer too.
    pub open: bool,
}

/// One thing that an approval is about: a command, the input of a tool, a change of a file.
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
    /// What is asked and what it is about, in one text without the choices.
    pub fn text(&self) -> String {
        let parts = self.subject.iter().map(|part| part.text.as_str());
        let all: Vec<&str> = [self.ask.as_str()].into_iter().chain(parts).collect();
        all.join("\n")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum QuestionAnswer {
    /// One of the choices, by its place.
    Choice(usize),
    Words(String),
    /// No answer came in time, or the question could not be shown.
    Nobody,
}
