//! Runs the agents that answer. The other rooms use the [`Agent`] trait and choose an agent through [`Agents`].

pub mod acp;
mod attachment_content;
mod choose;
pub mod command;
pub mod directory;
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
use crate::domain::{Question, QuestionAnswer, Reply, ToolReport, TranscriptWriter};

/// The session id of a probe. No row has it.
pub const PROBE: &str = "probe";

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The reason tells a person what to do.
    #[error("{0}")]
    Failed(String),
    #[error("the turn was cancelled")]
    Cancelled,
}

/// The input of one turn.
pub struct Prompt<'a> {
    pub session: &'a Session,
    pub transcript: &'a Transcript,
    /// The text as in the transcript. It names each attachment, for agents that accept only text.
    pub message: &'a str,
    pub attachments: &'a [Attachment],
    /// The message is the notice of a handoff, not a person's text.
    pub handoff: bool,
}

/// Receives the pieces of a reply while an agent writes it, and passes the agent's questions to the person.
#[async_trait]
pub trait Sink: Send + Sync {
    /// The conversation that the session belongs to. Its name stays the same when compression splits the session.
    fn conversation(&self) -> &str;

    /// Adds a piece to the reply.
    fn push(&self, piece: &str);

    /// Reports activity that is not part of the reply: a tool at work, a thought.
    fn alive(&self);

    /// Reports the begin or the end of a tool. It is activity too.
    fn tool(&self, report: ToolReport);

    /// Asks the person, and waits for the answer until the time limit for answers.
    async fn ask(&self, question: Question) -> QuestionAnswer;
}

#[async_trait]
pub trait Agent: Send + Sync {
    fn name(&self) -> &'static str;

    /// The model, if it is known before the turn.
    fn model(&self) -> Option<String> {
        None
    }

    /// Why no turn can begin, if that is known before: a program that does not exist. `None` if nothing is missing.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Whether the agent works with files. It then works in the directory of the session.
    fn works_in_directory(&self) -> bool {
        false
    }

    /// Who writes the rows of a turn (message and reply) into the transcript of a session from `source`.
    fn transcript_writer(&self, _source: &str) -> TranscriptWriter {
        TranscriptWriter::Daemon
    }

    /// Whether a cancelled turn gets time to end. Without it, the agent would continue to work, or to write.
    fn needs_time_to_stop(&self) -> bool {
        false
    }

    /// Answers, and streams the reply into `sink`. Stops soon after `cancel`. The future may be dropped at any await.
    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError>;

    /// Ends all processes of the agent. Called when the daemon ends, or when a reload has replaced the agent.
    async fn close(&self) {}
}
