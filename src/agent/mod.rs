//! Agents: what answers. The rest of the house knows the [`Agent`] trait; each kind has a file of its own.

pub mod echo;

use std::sync::{Arc, Mutex, MutexGuard};

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

/// What has come of a reply so far. Cheap to clone; all clones see the same.
#[derive(Debug, Clone, Default)]
pub struct Streamed(Arc<Mutex<String>>);

impl Streamed {
    pub fn text(&self) -> String {
        self.locked().clone()
    }

    pub fn len(&self) -> usize {
        self.locked().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn locked(&self) -> MutexGuard<'_, String> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Where an agent puts the pieces of its reply as they come.
pub struct Sink<'a> {
    bus: &'a Bus,
    session_id: &'a str,
    turn: u64,
    streamed: &'a Streamed,
}

impl<'a> Sink<'a> {
    pub fn new(bus: &'a Bus, session_id: &'a str, turn: u64, streamed: &'a Streamed) -> Sink<'a> {
        Sink {
            bus,
            session_id,
            turn,
            streamed,
        }
    }

    pub fn push(&self, piece: &str) {
        self.streamed.locked().push_str(piece);
        self.bus.tell(Event::TurnDelta {
            session_id: self.session_id.to_owned(),
            turn: self.turn,
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
