//! Answers one message of a terminal. The message is stored before the agent gets it, and the reply is stored while it
//! streams. The end of the turn, however it ends, is stored in the transcript.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::Instrument;

use super::open::refusal;
use super::{AttachedTerminal, LiveTurn, Terminals};
use crate::agent::{Agent, Prompt, directory};
use crate::domain::LONGEST_MESSAGE;
use crate::domain::RefusalKind;
use crate::domain::Reply;
use crate::domain::TERMINAL_SOURCES;
use crate::journal_ids;
use crate::sessions::{RequestError, stopping};
use crate::store::retry_while_busy;
use crate::store::{Store, StoreError, TurnEnd, TypedMessage};
use crate::turn::{SessionLock, TurnError, WaitOutcome, kept_busy};

/// How much of a streaming reply a killed daemon may lose.
const PERSIST_EVERY: Duration = Duration::from_millis(500);

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The whole reply, or the part that was streamed.
    pub reply: String,
    pub interrupted: bool,
    /// Why the reply is not whole.
    pub error: Option<String>,
    /// A note about the reply.
    pub note: Option<String>,
}

/// Frees the terminal for the next turn when this one ends, even by a panic.
struct TurnGuard {
    terminal: Arc<AttachedTerminal>,
    turn: LiveTurn,
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.terminal.turn().take();
        self.turn.ended.cancel();
    }
}

impl Terminals {
    /// Asks the agent. Returns when the whole or partial answer is stored.
    pub async fn say(
        &self,
        terminal: &Arc<AttachedTerminal>,
        text: &str,
    ) -> Result<Outcome, RequestError> {
        if text.trim().is_empty() {
            let message = "the message is empty".to_owned();
            return Err(refusal(RefusalKind::Empty, message, "type a message"));
        }
        if text.chars().count() > LONGEST_MESSAGE {
            let message = format!("the message is longer than {LONGEST_MESSAGE} characters");
            return Err(refusal(RefusalKind::TooLong, message, "send it in parts"));
        }
        let guard = self.take_turn(terminal)?;
        // A task of its own, so that a client that leaves or a dropped handler does not stop it halfway.
        let (this, text) = (self.clone(), text.to_owned());
        let span = tracing::error_span!("terminal", session = terminal.session_id());
        let outcome = self
            .inner
            .tracker
            .spawn(async move { this.converse(&guard, &text).await }.instrument(span));
        outcome.await.unwrap_or_else(|error| {
            let message = format!("the turn broke off: {error}");
            Err(refusal(RefusalKind::BrokenOff, message, "say it again"))
        })
    }

    fn take_turn(&self, terminal: &Arc<AttachedTerminal>) -> Result<TurnGuard, RequestError> {
        // The lock under which a terminal leaves, so no turn begins after that.
        let _attached = self.inner.attached();
        if self.inner.draining.is_cancelled() {
            return Err(stopping().into());
        }
        if terminal.leaving.load(Ordering::Relaxed) {
            let message = "this terminal has left its session".to_owned();
            return Err(refusal(RefusalKind::Left, message, "open it again"));
        }
        let mut live_turn = terminal.turn();
        if live_turn.is_some() {
            let message = "the agent has not answered yet".to_owned();
            return Err(refusal(
                RefusalKind::TurnInProgress,
                message,
                "wait for it, or stop it",
            ));
        }
        let turn = LiveTurn {
            cancel: self.inner.stop.child_token(),
            ..LiveTurn::default()
        };
        *live_turn = Some(turn.clone());
        Ok(TurnGuard {
            terminal: terminal.clone(),
            turn,
        })
    }

    async fn converse(&self, at: &TurnGuard, text: &str) -> Result<Outcome, RequestError> {
        let (inner, id) = (&self.inner, at.terminal.session_id());
        let cancel = &at.turn.cancel;
        let mut lock = tokio::select! {
            lock = inner.turns.locks.acquire(at.terminal.conversation()) => lock,
            () = cancel.cancelled() => return Ok(Outcome::nothing()),
            () = inner.draining.cancelled() => return Err(stopping().into()),
        };
        // Before the message is stored: a message that no agent can answer is refused.
        let (agent, transcript_writer) = self.agent_at(&at.terminal)?.map_err(|error| {
            refusal(
                RefusalKind::NoAgent,
                error.to_string(),
                "see `hermesctl agents`",
            )
        })?;
        if agent.works_in_directory() {
            let cwd = match *at.terminal.has_row.lock().await {
                true => inner.store.cwd_of(&id)?,
                false => at.terminal.cwd.as_ref().map(PathBuf::from),
            };
            let problem =
                cwd.and_then(|cwd| directory::check_entry(&cwd.to_string_lossy(), &id).err());
            if let Some(problem) = problem {
                let (kind, message) = (RefusalKind::NoDirectory, problem.message);
                return Err(refusal(kind, message, &problem.remedy));
            }
        }
        lock.share(
            inner
                .store
                .turn_lease(&id, TERMINAL_SOURCES[0], transcript_writer),
        );
        let store = lock.store(&inner.store);
        let begin = || async {
            self.create_row(&at.terminal, None).await?;
            store
                .begin_terminal_turn(&id, text, transcript_writer)
                .await
        };
        let quit = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = inner.draining.cancelled() => {}
            }
        };
        let begun = inner.turns.when_free(&lock, cancel, quit, |_, _| {}, begin);
        let begun = match begun.await {
            Ok(WaitOutcome::Begun(begun)) => Ok(begun),
            Ok(WaitOutcome::StillHeld(by)) => {
                return Err(refusal(
                    RefusalKind::TurnInProgress,
                    kept_busy(&by),
                    "say it again",
                ));
            }
            Ok(WaitOutcome::Quit) if cancel.is_cancelled() => return Ok(Outcome::nothing()),
            Ok(WaitOutcome::Quit) => return Err(stopping().into()),
            Err(error) => Err(error),
        };
        match begun {
            Ok(TypedMessage::Begun(id, begun)) => {
                at.terminal.continue_in(id);
                self.answer(at, &lock, agent.as_ref(), text, begun.row())
                    .await
            }
            Ok(TypedMessage::OnChat(platform)) => {
                let message = format!("this conversation is on {platform} now");
                Err(refusal(
                    RefusalKind::Moved,
                    message,
                    "/resume takes it back, /new begins another",
                ))
            }
            Ok(TypedMessage::Deleted) => {
                let message = "this session was deleted".to_owned();
                Err(refusal(
                    RefusalKind::Deleted,
                    message,
                    "/new begins another",
                ))
            }
            Err(StoreError::Cancelled) => Ok(Outcome::nothing()),
            Err(error) => Err(error.into()),
        }
    }

    async fn answer(
        &self,
        at: &TurnGuard,
        lock: &SessionLock,
        agent: &dyn Agent,
        text: &str,
        row: Option<i64>,
    ) -> Result<Outcome, RequestError> {
        let (store, id) = (&lock.store(&self.inner.store), &at.terminal.session_id());
        let reply = match retry_while_busy(&at.turn.cancel, || store.briefing(id, row)).await {
            Ok(Some((session, transcript))) => {
                let prompt = Prompt {
                    session: &session,
                    transcript: &transcript,
                    message: text,
                    attachments: &[],
                    handoff: false,
                };
                let (streamed, cancel) = (&at.turn.streamed, &at.turn.cancel);
                let turns = &self.inner.turns;
                let answer = turns.run(lock, agent, prompt, streamed, None, cancel);
                tokio::select! {
                    reply = answer => reply,
                    () = self.persist_stream(at, store) => Err(TurnError::Cancelled),
                }
            }
            Ok(None) => Err(TurnError::Agent("the session was deleted".into())),
            Err(StoreError::Cancelled) => Err(TurnError::Cancelled),
            Err(error) => Err(TurnError::Agent(error.to_string())),
        };
        let (outcome, end) = match reply {
            Ok(reply) => (Outcome::whole(&reply), TurnEnd::Answered(reply)),
            Err(error) => {
                let stopped = self.inner.stop.is_cancelled();
                at.terminal.stopped.fetch_or(stopped, Ordering::Relaxed);
                let partial = at.turn.streamed.text();
                (Outcome::cut_off(&partial, &error), TurnEnd::CutOff(partial))
            }
        };
        // A stop does not wait for a locked database. The next start then uses the stored part of the reply.
        match retry_while_busy(&self.inner.stop, || store.end_turn(id, end.clone())).await {
            Ok(goes_on) => {
                at.terminal.continue_in(goes_on);
                Ok(outcome)
            }
            Err(StoreError::TurnLost) => {
                if outcome.error.is_none() {
                    let error = TurnError::Lost;
                    tracing::error!(message_id = journal_ids::TURN_FAILED, %error, "turn failed");
                }
                Ok(Outcome {
                    error: Some(TurnError::Lost.to_string()),
                    ..outcome
                })
            }
            Err(error) => {
                tracing::error!(%error, "end of turn not stored");
                let unstored = format!("the reply could not be stored in the transcript: {error}");
                Ok(Outcome {
                    error: Some(outcome.error.unwrap_or(unstored)),
                    ..outcome
                })
            }
        }
    }

    /// Stores the streamed part of the reply at intervals. Never returns.
    async fn persist_stream(&self, at: &TurnGuard, store: &Store) {
        let mut kept = 0;
        loop {
            tokio::time::sleep(PERSIST_EVERY).await;
            let streamed = at.turn.streamed.text();
            if streamed.len() == kept {
                continue;
            }
            kept = streamed.len();
            let id = &at.terminal.session_id();
            match store.keep_partial(id, streamed).await {
                Ok(()) => {}
                // The turn itself gets this error too, and ends.
                Err(StoreError::TurnLost) => return std::future::pending().await,
                Err(error) => {
                    tracing::warn!(%error, "partial reply not stored, will retry");
                    kept = 0;
                }
            }
        }
    }

    /// Cuts off the turn in progress and waits until its end is stored. Returns false if no turn was cut off.
    pub(super) async fn cut_off(&self, terminal: &AttachedTerminal) -> bool {
        let turn = terminal.turn().clone();
        let Some(turn) = turn else {
            return terminal.stopped.load(Ordering::Relaxed);
        };
        turn.cancel.cancel();
        turn.ended.cancelled().await;
        true
    }
}

impl Outcome {
    fn whole(reply: &Reply) -> Outcome {
        Outcome {
            reply: reply.text.clone(),
            interrupted: false,
            error: None,
            note: reply.note.clone(),
        }
    }

    /// Cancelled before the message was stored.
    fn nothing() -> Outcome {
        Outcome::cut_off("", &TurnError::Cancelled)
    }

    fn cut_off(partial: &str, error: &TurnError) -> Outcome {
        let interrupted = matches!(error, TurnError::Cancelled);
        Outcome {
            reply: partial.to_owned(),
            interrupted,
            error: (!interrupted).then(|| error.to_string()),
            note: None,
        }
    }
}
