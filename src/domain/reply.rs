//! An agent's reply.

/// A complete reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    pub text: String,
    /// The model's reasoning, if the agent reports it.
    pub reasoning: Option<String>,
    /// Why the reply ended, if it did not end by itself.
    pub finish_reason: Option<String>,
    /// The model that answered, if it is known.
    pub model: Option<String>,
    pub usage: Option<Usage>,
    /// A note to the person. It is shown with the reply, and is not in the transcript.
    pub note: Option<String>,
}

impl Reply {
    /// The text for a chat, with the note.
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

/// The cost of a reply, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub reasoning: u64,
}
