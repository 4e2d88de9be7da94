//! Agents: what answers. The rest of the house knows the [`Agent`] trait; each kind has a file of its own.

pub mod echo;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::events::{Bus, Event};
use crate::session::Session;
use crate::session::transcript::Transcript;

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
    pub message: &'a str,
    /// The words are the notice of a handoff, not a person's.
    pub handoff: bool,
}

/// Where an agent puts the pieces of its reply as they come.
pub struct Sink<'a> {
    bus: &'a Bus,
    session_id: &'a str,
}

impl<'a> Sink<'a> {
    pub fn new(bus: &'a Bus, session_id: &'a str) -> Sink<'a> {
        Sink { bus, session_id }
    }

    pub fn push(&self, piece: &str) {
        self.bus.tell(Event::TurnDelta {
            session_id: self.session_id.to_owned(),
            text: piece.to_owned(),
        });
    }
}

#[async_trait]
pub trait Agent: Send + Sync {
    fn name(&self) -> &'static str;

    /// Answers, streaming into `sink` on the way; stops soon after `cancel`.
    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<String, AgentError>;
}
