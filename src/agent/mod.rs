//! Agents: what answers. The rest of the house knows the [`Agent`] trait; each kind has a room of its own.

pub mod acp;
mod attachment_content;
mod choose;
pub mod command;
pub mod echo;
pub mod hermes;
pub mod openai;
mod process;
mod supervised;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use choose::{AgentState, Agents};
pub use process::Program;

use crate::domain::transcript::Transcript;
use crate::domain::{Attachment, Session};
use crate::domain::{Question, QuestionAnswer, Reply, TranscriptWriter};

/// The session of a probe, which no row ever has.
pub const PROBE: &str = "probe";

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

/// Where an agent puts the pieces of its reply as they come, and how it reaches the person.
#[async_trait]
pub trait Sink: Send + Sync {
    /// The conversation that the session is part of. It keeps its name when compression splits the session.
    fn conversation(&self) -> &str;

    /// Adds a piece to the reply.
    fn push(&self, piece: &str);

    /// Shows a sign of life that is no part of the reply: a tool at work, a thought.
    fn alive(&self);

    /// Asks the person, and waits for an answer within the time that people get for it.
    async fn ask(&self, question: Question) -> QuestionAnswer;
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
    fn scribe(&self, _source: &str) -> TranscriptWriter {
        TranscriptWriter::Daemon
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
        sink: &dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError>;

    /// The daemon ends: whatever it has running ends too.
    async fn close(&self) {}
}
