//! An agent's answer.

/// A whole answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    pub text: String,
    /// What the model thought before, where it tells.
    pub reasoning: Option<String>,
    /// How it ended, where that is another end than its own.
    pub finish_reason: Option<String>,
    /// The model that answered, where it is known.
    pub model: Option<String>,
    pub usage: Option<Usage>,
    /// A word to the person about the answer. It is shown with it, and is no part of the transcript.
    pub note: Option<String>,
}

impl Reply {
    /// The text as a chat gets it.
    pub fn shown(&self) -> String {
        match &self.note {
            Some(note) => format!("{}\n\n({note})", self.text.trim_end()),
            None => self.text.clone(),
        }
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Reply {
            text,
            ..Reply::default()
        }
    }
}

/// What an answer cost, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub reasoning: u64,
}
