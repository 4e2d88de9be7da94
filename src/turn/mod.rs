//! One turn of one session: the lease that keeps turns apart, the agent, and delivery of what it said.
//!
//! A handoff's notice and a person's message take the same road; what differs is who writes the rows, and that is the
//! caller's.

pub mod deliver;
mod lease;
mod patience;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use lease::{Lease, Leases};
pub(crate) use patience::patiently;

pub use crate::agent::Streamed;
use crate::agent::{Agent, AgentError, Prompt, Sink};
use crate::caught::caught;
use crate::events::{Bus, Event};

#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error("the agent failed: {0}")]
    Agent(String),
    #[error("the agent gave no answer within {} s: see agent.timeout", .0.as_secs())]
    TimedOut(Duration),
    #[error("the agent's answer was empty")]
    Empty,
    #[error("cancelled")]
    Cancelled,
}

/// Runs turns with the configured agent.
pub struct Turns {
    pub leases: Leases,
    agent: Arc<dyn Agent>,
    timeout: Duration,
    bus: Bus,
    /// Numbers the turns of this daemon's life.
    turns: AtomicU64,
}

impl Turns {
    pub fn new(agent: Arc<dyn Agent>, timeout: Duration, bus: Bus) -> Turns {
        Turns {
            leases: Leases::default(),
            agent,
            timeout,
            bus,
            turns: AtomicU64::new(0),
        }
    }

    pub fn agent_name(&self) -> &'static str {
        self.agent.name()
    }

    /// One answer. The lease shows that no other turn of this session runs; what comes of the answer before its end is in
    /// `streamed`.
    pub async fn run(
        &self,
        _lease: &Lease,
        prompt: Prompt<'_>,
        streamed: &Streamed,
        cancel: &CancellationToken,
    ) -> Result<String, TurnError> {
        let session_id = prompt.session.id.clone();
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        self.bus.tell(Event::TurnStarted {
            session_id: session_id.clone(),
            turn,
        });
        let sink = Sink::new(&self.bus, &session_id, turn, streamed);
        let outcome = self.ask(prompt, &sink, cancel).await;
        let error = outcome.as_ref().err().map(ToString::to_string);
        self.bus.tell(Event::TurnEnded {
            session_id: session_id.clone(),
            turn,
            error,
        });
        outcome
    }

    async fn ask(
        &self,
        prompt: Prompt<'_>,
        sink: &Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<String, TurnError> {
        let answer = caught(self.agent.turn(prompt, sink, cancel));
        let answer = async {
            answer
                .await
                .unwrap_or_else(|p| Err(AgentError::Failed(p.to_string())))
        };
        let answer = tokio::time::timeout(self.timeout, answer);
        let reply = tokio::select! {
            answer = answer => match answer {
                Ok(Ok(reply)) => reply,
                Ok(Err(AgentError::Cancelled)) => return Err(TurnError::Cancelled),
                Ok(Err(AgentError::Failed(reason))) => return Err(TurnError::Agent(reason)),
                Err(_) => return Err(TurnError::TimedOut(self.timeout)),
            },
            () = cancel.cancelled() => return Err(TurnError::Cancelled),
        };
        if reply.trim().is_empty() {
            Err(TurnError::Empty)
        } else {
            Ok(reply)
        }
    }
}
