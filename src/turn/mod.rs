//! Runs turns: locks the conversation, calls the agent with its timeouts, streams the reply and asks the person.
//!
//! Handoffs, chats and terminals run their turns here. The caller writes the rows and delivers the reply.

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

use crate::agent::{Agent, AgentError, Agents, PROBE, Prompt, directory};
use crate::clock;
use crate::config::Timeouts;
use crate::domain::Reply;
use crate::domain::Session;
use crate::domain::TranscriptWriter;
use crate::domain::transcript::Transcript;
use crate::events::{Bus, Event};
use crate::journal_ids;
use crate::metrics::Metrics;
use crate::panic_guard::catch_panic;
use crate::reloadable::Reloadable;
use crate::store::{Store, StoreError};
pub use sink::{Pulse, Streamed, TurnSink};

#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error("the agent failed: {0}")]
    Agent(String),
    #[error("the agent did not answer within {} s: see {which}", .after.as_secs())]
    TimedOut {
        after: Duration,
        which: &'static str,
    },
    #[error("{0}")]
    Directory(String),
    #[error("the agent's answer was empty")]
    Empty,
    #[error("another program took over this conversation during the answer")]
    Lost,
    #[error("cancelled")]
    Cancelled,
}

/// The result of a test question to an agent.
pub struct Probe {
    /// The time until the first words, if they came before the whole reply.
    pub first: Option<Duration>,
    pub whole: Duration,
    pub outcome: Result<Reply, TurnError>,
}

/// The agent of a session and the writer of its rows, or the reason why no agent can answer.
pub type Chosen = Result<(Arc<dyn Agent>, TranscriptWriter), TurnError>;

/// Runs turns and chooses the agent for each session.
pub struct Turns {
    pub locks: SessionLocks,
    pub questions: Questions,
    agents: Reloadable<Agents>,
    store: Store,
    timeouts: Reloadable<Timeouts>,
    bus: Bus,
    pub(crate) metrics: Arc<Metrics>,
    /// The number of turns since the daemon started.
    turns: AtomicU64,
    /// Signals that another program has written to the database.
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

    /// The agents that are configured now.
    pub fn agents(&self) -> Arc<Agents> {
        self.agents.get()
    }

    /// Replaces agents and timeouts. Returns the previous agents, which may still have turns in progress.
    pub fn reload(&self, agents: Agents, timeouts: Timeouts) -> Arc<Agents> {
        self.questions.set_patience(timeouts.question);
        self.timeouts.set(timeouts);
        self.agents.set(agents)
    }

    /// The agent that answers in this session.
    pub fn agent_of(&self, session_id: &str, platform: &str) -> Result<Chosen, StoreError> {
        let remembered = self.store.remembered_agent(session_id)?;
        let source = self.store.source_of(session_id)?;
        let chosen = self.agents().choose(remembered.as_deref(), platform);
        let chosen = chosen.map(|agent| {
            let transcript_writer = agent.transcript_writer(source.as_deref().unwrap_or(platform));
            (agent, transcript_writer)
        });
        Ok(chosen.map_err(TurnError::Agent))
    }

    /// Waits for the lock of the session's conversation.
    pub async fn lock(&self, session_id: &str) -> Result<SessionLock, StoreError> {
        let conversation = self.store.root(session_id)?;
        Ok(self.locks.acquire(&conversation).await)
    }

    /// Takes the lock only if no turn of the conversation runs or waits.
    pub fn try_lock(&self, session_id: &str) -> Result<Option<SessionLock>, StoreError> {
        let conversation = self.store.root(session_id)?;
        Ok(self.locks.try_take(&conversation))
    }

    /// Whether a turn of the session's conversation runs or waits.
    pub fn is_busy(&self, session_id: &str) -> Result<bool, StoreError> {
        Ok(self.locks.is_busy(&self.store.root(session_id)?))
    }

    /// Runs one turn. `lock` proves that no other turn of the conversation runs. `streamed` gets the reply's parts.
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
                "turn failed"
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

    /// Asks an agent one question outside of any session, to test it.
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
        let lock = self.locks.acquire(PROBE).await;
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
        if agent.works_in_directory() {
            // Not elsewhere by a guess: the agent may write files.
            directory::check(prompt.session).map_err(|e| TurnError::Directory(e.to_string()))?;
        }
        let cancelled = cancel.child_token();
        let answer = catch_panic(agent.turn(prompt, sink, &cancelled));
        tokio::pin!(answer);
        let error = tokio::select! {
            answer = &mut answer => {
                let answer = answer.unwrap_or_else(|p| Err(AgentError::Failed(p.to_string())));
                return whole(answer);
            }
            (after, which) = self.timeout_reached(sink) => TurnError::TimedOut { after, which },
            () = lock.lost() => TurnError::Lost,
            () = cancel.cancelled() => TurnError::Cancelled,
        };
        cancelled.cancel();
        if agent.needs_time_to_stop() {
            let _ = tokio::time::timeout(REST, answer).await;
        }
        Err(error)
    }

    /// Resolves when a timeout is over, with its duration and the name of its setting.
    async fn timeout_reached(&self, sink: &TurnSink<'_>) -> (Duration, &'static str) {
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
                // The time that the person needs does not count.
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

/// The directory for the files of long questions.
fn questions_in(store: &Store) -> PathBuf {
    let home = store.path().parent().unwrap_or(Path::new("."));
    home.join("questions")
}

/// The outcome as a metric label.
fn kind(outcome: &Result<Reply, TurnError>) -> &'static str {
    match outcome {
        Ok(_) => "answered",
        Err(TurnError::Agent(_) | TurnError::Directory(_)) => "failed",
        Err(TurnError::TimedOut { .. }) => "timed_out",
        Err(TurnError::Empty) => "empty",
        Err(TurnError::Lost) => "lost",
        Err(TurnError::Cancelled) => "cancelled",
    }
}

/// Converts the agent's result. An empty reply is an error.
fn whole(answer: Result<Reply, AgentError>) -> Result<Reply, TurnError> {
    match answer {
        Ok(reply) if reply.text.trim().is_empty() => Err(TurnError::Empty),
        Ok(reply) => Ok(reply),
        Err(AgentError::Cancelled) => Err(TurnError::Cancelled),
        Err(AgentError::Failed(reason)) => Err(TurnError::Agent(reason)),
    }
}

/// How long a cancelled agent may take to stop.
const REST: Duration = Duration::from_secs(5);
/// How often the timeouts are checked at least.
const CHECK: Duration = Duration::from_secs(1);
