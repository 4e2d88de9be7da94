//! One turn of one session: the lock that keeps turns apart, the agent, its timeouts, and delivery of what it said.
//!
//! A handoff's notice and a person's message take the same road; what differs is who writes the rows, and that is the
//! caller's.

pub mod questions;
mod session_lock;
mod sink;
mod waiting;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use crate::config::QuestionTimeouts;
pub use questions::{AnswerOutcome, QuestionDisplay, Questions};
pub use session_lock::{SessionLock, SessionLocks};
pub use waiting::{WaitOutcome, kept_busy};

use crate::agent::{Agent, AgentError, Agents, PROBE, Prompt};
use crate::clock;
use crate::config::Timeouts;
use crate::domain::Reply;
use crate::domain::Session;
use crate::domain::TranscriptWriter;
use crate::domain::transcript::Transcript;
use crate::events::{Bus, Event};
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::panic_guard::caught;
use crate::reloadable::Reloadable;
use crate::store::{Store, StoreError};
pub use sink::{Pulse, Streamed, TurnSink};

#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error("the agent failed: {0}")]
    Agent(String),
    #[error("the agent gave no answer within {} s: see {which}", .after.as_secs())]
    TimedOut {
        after: Duration,
        which: &'static str,
    },
    #[error("the agent's answer was empty")]
    Empty,
    #[error("another program took over this conversation during the answer")]
    Lost,
    #[error("cancelled")]
    Cancelled,
}

/// How one question to an agent went.
pub struct Probe {
    /// Until the first words, where they came before the whole.
    pub first: Option<Duration>,
    pub whole: Duration,
    pub outcome: Result<Reply, TurnError>,
}

/// Who answers, and who writes that down; or why nobody can.
pub type Chosen = Result<(Arc<dyn Agent>, TranscriptWriter), TurnError>;

/// Runs turns with whichever agent is to answer.
pub struct Turns {
    pub locks: SessionLocks,
    pub questions: Questions,
    agents: Reloadable<Agents>,
    store: Store,
    timeouts: Reloadable<Timeouts>,
    bus: Bus,
    pub(crate) metrics: Arc<Metrics>,
    /// Numbers the turns of this daemon's life.
    turns: AtomicU64,
    /// Another program has written to the database.
    others_wrote: Notify,
}

impl Turns {
    pub fn new(
        store: Store,
        agents: Agents,
        timeouts: Timeouts,
        bus: Bus,
        metrics: Arc<Metrics>,
    ) -> Turns {
        Turns {
            locks: SessionLocks::default(),
            questions: Questions::new(timeouts.question, questions_in(&store)),
            agents: Reloadable::new(agents),
            store,
            timeouts: Reloadable::new(timeouts),
            bus,
            metrics,
            turns: AtomicU64::new(0),
            others_wrote: Notify::new(),
        }
    }

    /// All who can answer.
    pub fn agents(&self) -> Arc<Agents> {
        self.agents.get()
    }

    /// From now on these answer, within these times. Returns who did before, and may still be at it.
    pub fn reload(&self, agents: Agents, timeouts: Timeouts) -> Arc<Agents> {
        self.questions.set_patience(timeouts.question);
        self.timeouts.set(timeouts);
        self.agents.set(agents)
    }

    /// Who answers in this session.
    pub fn agent_of(&self, session_id: &str, platform: &str) -> Result<Chosen, StoreError> {
        let remembered = self.store.remembered_agent(session_id)?;
        let source = self.store.source_of(session_id)?;
        let chosen = self.agents().choose(remembered.as_deref(), platform);
        let chosen = chosen.map(|agent| {
            let scribe = agent.scribe(source.as_deref().unwrap_or(platform));
            (agent, scribe)
        });
        Ok(chosen.map_err(TurnError::Agent))
    }

    /// Waits for the right to run a turn of the conversation that this session is part of.
    pub async fn lock(&self, session_id: &str) -> Result<SessionLock, StoreError> {
        let conversation = self.store.root(session_id)?;
        Ok(self.locks.take(&conversation).await)
    }

    /// The same, only if no turn of it runs or waits.
    pub fn try_lock(&self, session_id: &str) -> Result<Option<SessionLock>, StoreError> {
        let conversation = self.store.root(session_id)?;
        Ok(self.locks.try_take(&conversation))
    }

    /// Whether a turn of the conversation that this session is part of runs or waits.
    pub fn is_busy(&self, session_id: &str) -> Result<bool, StoreError> {
        Ok(self.locks.is_busy(&self.store.root(session_id)?))
    }

    /// One answer. The lock shows that no other turn of this session runs; what comes of the answer before its end is in
    /// `streamed`.
    pub async fn run(
        &self,
        lock: &SessionLock,
        agent: &dyn Agent,
        prompt: Prompt<'_>,
        streamed: &Streamed,
        display: Option<&dyn QuestionDisplay>,
        cancel: &CancellationToken,
    ) -> Result<Reply, TurnError> {
        let session_id = prompt.session.id.clone();
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        self.bus.publish(Event::TurnStarted {
            session_id: session_id.clone(),
            turn,
        });
        let sink = TurnSink {
            bus: &self.bus,
            session_id: &session_id,
            conversation: lock.conversation(),
            turn,
            streamed,
            pulse: Mutex::new(Pulse {
                at: Instant::now(),
                begun: false,
                asking: 0,
            }),
            questions: &self.questions,
            display,
        };
        let begun = Instant::now();
        let outcome = self.ask(lock, agent, prompt, &sink, cancel).await;
        if session_id != PROBE {
            let took = begun.elapsed();
            self.metrics.turn_ended(agent.name(), kind(&outcome), took);
        }
        if let Err(error) = outcome.as_ref()
            && !matches!(error, TurnError::Cancelled)
        {
            tracing::error!(
                message_id = journal_ids::TURN_FAILED,
                session = session_id,
                agent = agent.name(),
                %error,
                "a turn failed"
            );
        }
        let error = outcome.as_ref().err().map(ToString::to_string);
        self.bus.publish(Event::TurnEnded {
            session_id: session_id.clone(),
            turn,
            error,
        });
        outcome
    }

    /// One question outside of any session, to see whether an agent answers.
    pub async fn probe(&self, agent: &dyn Agent) -> Probe {
        let begun = Instant::now();
        let session = Session::unsaved(PROBE, clock::now());
        let transcript = Transcript::default();
        let prompt = Prompt {
            session: &session,
            transcript: &transcript,
            message: "Say hello in one short sentence.",
            attachments: &[],
            handoff: false,
        };
        let (streamed, cancel) = (Streamed::default(), CancellationToken::new());
        let lock = self.locks.take(PROBE).await;
        let first = async {
            while streamed.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            begun.elapsed()
        };
        let answer = self.run(&lock, agent, prompt, &streamed, None, &cancel);
        tokio::pin!(answer);
        let (first, outcome) = tokio::select! {
            biased;
            outcome = &mut answer => (None, outcome),
            first = first => (Some(first), answer.await),
        };
        Probe {
            first,
            whole: begun.elapsed(),
            outcome,
        }
    }

    async fn ask(
        &self,
        lock: &SessionLock,
        agent: &dyn Agent,
        prompt: Prompt<'_>,
        sink: &TurnSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, TurnError> {
        let cancelled = cancel.child_token();
        let answer = caught(agent.turn(prompt, sink, &cancelled));
        tokio::pin!(answer);
        let error = tokio::select! {
            answer = &mut answer => {
                let answer = answer.unwrap_or_else(|p| Err(AgentError::Failed(p.to_string())));
                return whole(answer);
            }
            (after, which) = self.run_out(sink) => TurnError::TimedOut { after, which },
            () = lock.lost() => TurnError::Lost,
            () = cancel.cancelled() => TurnError::Cancelled,
        };
        cancelled.cancel();
        if agent.rests() {
            let _ = tokio::time::timeout(REST, answer).await;
        }
        Err(error)
    }

    /// Resolves when one of the clocks has run out, with its time and the setting that says so.
    async fn run_out(&self, sink: &TurnSink<'_>) -> (Duration, &'static str) {
        let timeouts = self.timeouts.get();
        let mut whole = Instant::now() + timeouts.whole;
        loop {
            let pulse = sink.pulse();
            let patience = match pulse {
                _ if pulse.asking > 0 => None,
                Pulse { begun: false, .. } => {
                    timeouts.first.map(|t| (t, "agent.first_token_timeout"))
                }
                Pulse { begun: true, .. } => timeouts.silence.map(|t| (t, "agent.silence_timeout")),
            };
            if pulse.asking > 0 {
                // The person's time is not the agent's.
                let before = Instant::now();
                tokio::time::sleep(CHECK).await;
                whole += before.elapsed();
                continue;
            }
            let now = Instant::now();
            if now >= whole {
                return (timeouts.whole, "agent.timeout");
            }
            let mut next = whole;
            if let Some((time, which)) = patience {
                let silent = pulse.at + time;
                if now >= silent {
                    return (time, which);
                }
                next = next.min(silent);
            }
            tokio::time::sleep_until(next.min(now + CHECK)).await;
        }
    }
}

/// Where the files of long questions are.
fn questions_in(store: &Store) -> PathBuf {
    let home = store.path().parent().unwrap_or(Path::new("."));
    home.join("questions")
}

/// What the metrics call it.
fn kind(outcome: &Result<Reply, TurnError>) -> &'static str {
    match outcome {
        Ok(_) => "answered",
        Err(TurnError::Agent(_)) => "failed",
        Err(TurnError::TimedOut { .. }) => "timed_out",
        Err(TurnError::Empty) => "empty",
        Err(TurnError::Lost) => "lost",
        Err(TurnError::Cancelled) => "cancelled",
    }
}

/// An agent's answer; an empty one is none.
fn whole(answer: Result<Reply, AgentError>) -> Result<Reply, TurnError> {
    match answer {
        Ok(reply) if reply.text.trim().is_empty() => Err(TurnError::Empty),
        Ok(reply) => Ok(reply),
        Err(AgentError::Cancelled) => Err(TurnError::Cancelled),
        Err(AgentError::Failed(reason)) => Err(TurnError::Agent(reason)),
    }
}

/// How long an agent may take to come to rest when it is stopped.
const REST: Duration = Duration::from_secs(5);
/// How often the clocks look whether something has changed under them.
const CHECK: Duration = Duration::from_secs(1);
