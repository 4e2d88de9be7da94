//! Agents: what answers. The rest of the house knows the [`Agent`] trait; each kind has a room of its own.

pub mod acp;
mod choose;
pub mod command;
pub mod echo;
mod enclosed;
pub mod hermes;
pub mod openai;
mod process;
mod question;
mod sink;
mod supervised;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use choose::{Agents, Standing};
pub use process::Program;
pub use question::{Answered, Part, Question};
pub use sink::{Pulse, Sink, Streamed};

use crate::session::transcript::Transcript;
use crate::session::{Attachment, Session};
use crate::store::Scribe;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// With a reason that a person can act on.
    #[error("{0}")]
    Failed(String),
    #[error("the turn was cancelled")]
    Cancelled,
}

/// One question to an agent: who asks, all that was said before, and the new words.
pub struct Prompt<'a> {
    pub session: &'a Session,
    pub transcript: &'a Transcript,
    /// As they stand in the transcript, and so with a line for each attachment: whoever takes only words has them all.
    pub message: &'a str,
    /// What came along with the words.
    pub attachments: &'a [Attachment],
    /// The words are the notice of a handoff, not a person's.
    pub handoff: bool,
}

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

#[async_trait]
pub trait Agent: Send + Sync {
    fn name(&self) -> &'static str;

    /// The model behind it, where that is settled before it is asked.
    fn model(&self) -> Option<String> {
        None
    }

    /// Who writes the rows of a turn into the transcript of a session from `source`: the words that it is asked, and its
    /// answer.
    fn scribe(&self, _source: &str) -> Scribe {
        Scribe::We
    }

    /// Whether it is given a moment to come to rest when it is stopped: it would go on working, or writing, behind our
    /// back.
    fn rests(&self) -> bool {
        false
    }

    /// Answers, streaming into `sink` on the way; stops soon after `cancel`, and may be dropped at any time.
    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError>;

    /// The daemon ends: whatever it has running ends too.
    async fn close(&self) {}
}
