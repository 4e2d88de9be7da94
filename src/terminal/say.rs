//! One answer in a terminal: the words are kept before the agent sees them, what it streams is kept while it comes, and
//! the end, whatever it is, closes the turn in the transcript.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::Instrument;

use super::open::refusal;
use super::{AttachedTerminal, LiveTurn, Terminals};
use crate::agent::{Agent, Prompt};
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
const KEEP_EVERY: Duration = Duration::from_millis(500);

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// All of the reply, or what there is of it.
    pub reply: String,
    pub interrupted: bool,
    /// Why there is no whole reply.
    pub error: Option<String>,
    /// A word about the reply that is no part of it.
    pub note: Option<String>,
}

/// Gives the place back when the turn ends, also when it panics.
struct AtTurn {
    terminal: Arc<AttachedTerminal>,
    turn: LiveTurn,
}

impl Drop for AtTurn {
    fn drop(&mut self) {
        self.terminal.turn().take();
        self.turn.ended.cancel();
    }
}

impl Terminals {
    /// Asks the agent. Returns when the answer, or what there is of it, is kept.
    pub async fn say(
        &self,
        terminal: &Arc<AttachedTerminal>,
        text: &str,
    ) -> Result<Outcome, RequestError> {
        if text.trim().is_empty() {
            let message = "there is nothing to say in an empty message".to_owned();
            return Err(refusal(RefusalKind::Empty, message, "type some words"));
        }
        if text.chars().count() > LONGEST_MESSAGE {
            let message = format!("a message may have {LONGEST_MESSAGE} characters");
            return Err(refusal(RefusalKind::TooLong, message, "send it in parts"));
        }
        let at_turn = self.take_turn(terminal)?;
        // On its own: neither a client that leaves nor a handler that is dropped stops it halfway.
        let (this, text) = (self.clone(), text.to_owned());
        let span = tracing::error_span!("terminal", session = terminal.session_id());
        let outcome = self
            .inner
            .tracker
            .spawn(async move { this.converse(&at_turn, &text).await }.instrument(span));
        outcome.await.unwrap_or_else(|error| {
            let message = format!("the turn broke off: {error}");
            Err(refusal(RefusalKind::BrokenOff, message, "say it again"))
        })
    }

    fn take_turn(&self, terminal: &Arc<AttachedTerminal>) -> Result<AtTurn, RequestError> {
        // Under the lock that leaving takes: a terminal that is given up takes no turn any more.
        let _seats = self.inner.attached();
        if self.inner.draining.is_cancelled() {
            return Err(stopping().into());
        }
        if terminal.leaving.load(Ordering::Relaxed) {
            let message = "this terminal has left its session".to_owned();
            return Err(refusal(RefusalKind::Left, message, "open it again"));
        }
        let mut place = terminal.turn();
        if place.is_some() {
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
        *place = Some(turn.clone());
        Ok(AtTurn {
            terminal: terminal.clone(),
            turn,
        })
    }

    async fn converse(&self, at: &AtTurn, text: &str) -> Result<Outcome, RequestError> {
        let (inner, id) = (&self.inner, at.terminal.session_id());
        let cancel = &at.turn.cancel;
        let mut lock = tokio::select! {
            lock = inner.turns.locks.take(at.terminal.conversation()) => lock,
            () = cancel.cancelled() => return Ok(Outcome::nothing()),
            () = inner.draining.cancelled() => return Err(stopping().into()),
        };
        // Before anything is kept: words that nobody can answer are better not said.
        let (agent, scribe) = self.agent_at(&at.terminal)?.map_err(|error| {
            refusal(
                RefusalKind::NoAgent,
                error.to_string(),
                "see `hermesctl agents`",
            )
        })?;
        lock.share(inner.store.turn_lease(&id, TERMINAL_SOURCES[0], scribe));
        let store = lock.store(&inner.store);
        let begin = || async {
            self.create_row(&at.terminal, None).await?;
            store.begin_terminal_turn(&id, text, scribe).await
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
                at.terminal.go_on_in(id);
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
        at: &AtTurn,
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
                    () = self.keep_streaming(at, store) => Err(TurnError::Cancelled),
                }
            }
            Ok(None) => Err(TurnError::Agent("the session is gone".into())),
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
        // A stop does not wait for a locked database; then the next start finds the last that was kept.
        match retry_while_busy(&self.inner.stop, || store.end_turn(id, end.clone())).await {
            Ok(goes_on) => {
                at.terminal.go_on_in(goes_on);
                Ok(outcome)
            }
            Err(StoreError::TurnLost) => {
                if outcome.error.is_none() {
                    let error = TurnError::Lost;
                    tracing::error!(message_id = journal_ids::TURN_FAILED, %error, "a turn failed");
                }
                Ok(Outcome {
                    error: Some(TurnError::Lost.to_string()),
                    ..outcome
                })
            }
            Err(error) => {
                tracing::error!(%error, "the end of a turn could not be kept");
                let unkept = format!("it could not be kept in the transcript: {error}");
                Ok(Outcome {
                    error: Some(outcome.error.unwrap_or(unkept)),
                    ..outcome
                })
            }
        }
    }

    /// Keeps what is streamed every now and then; never returns.
    async fn keep_streaming(&self, at: &AtTurn, store: &Store) {
        let mut kept = 0;
        loop {
            tokio::time::sleep(KEEP_EVERY).await;
            let streamed = at.turn.streamed.text();
            if streamed.len() == kept {
                continue;
            }
            kept = streamed.len();
            let id = &at.terminal.session_id();
            match store.keep_partial(id, streamed).await {
                Ok(()) => {}
                // The turn learns of it too, and ends.
                Err(StoreError::TurnLost) => return std::future::pending().await,
                Err(error) => {
                    tracing::warn!(%error, "what is streamed could not be kept; it is tried again");
                    kept = 0;
                }
            }
        }
    }

    /// Stops whatever turn a terminal is in and waits until its end is kept. False: none was cut off.
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

    /// Stopped before anything was said, in either direction.
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
