//! Answers one message of a chat: runs the turn, records its end in the transcript, and returns the messages to send.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, Prompt};
use crate::delivery::ChatQuestionDisplay;
use crate::delivery::{Preview, draft_key, show_typing};
use crate::domain::Reply;
use crate::domain::TranscriptWriter;
use crate::inbound::{Answering, Inner, reply_to};
use crate::journal_ids;
use crate::platform::Platform;
use crate::store::retry_while_busy;
use crate::store::{
    Delivery, DeliveryExtra, Draft, DraftSend, Files, Inbound, NewDelivery, Store, StoreError,
    TurnEnd, TurnStart,
};
use crate::turn::{SessionLock, Streamed, TurnError};

/// The result of a turn.
struct ChatTurn {
    reply: Result<Reply, TurnError>,
    /// The text that was streamed.
    partial: String,
    /// A person stopped it.
    stopped: bool,
    /// The preview in the chat.
    draft: Draft,
}

impl ChatTurn {
    /// A result without a run.
    fn known(reply: Result<Reply, TurnError>, inbound: &Inbound) -> ChatTurn {
        ChatTurn {
            reply,
            partial: String::new(),
            stopped: false,
            draft: inbound.draft.clone(),
        }
    }
}

/// Logs a failure that `Turns::run` has not logged.
fn log_failure(error: TurnError) -> TurnError {
    tracing::error!(message_id = journal_ids::TURN_FAILED, %error, "turn failed");
    error
}

impl Inner {
    /// Runs the turn and returns the messages to send. `None`: the message is already answered, or the daemon stops and
    /// the next start answers it.
    pub(super) async fn answer(
        self: &Arc<Self>,
        inbound: &Inbound,
        session_id: &str,
        mut lock: SessionLock,
    ) -> Result<Option<Vec<Delivery>>, StoreError> {
        let stop = &self.stop;
        let platform = &inbound.source.platform;
        let choose = || async { self.turns.agent_of(session_id, platform) };
        let agent = retry_while_busy(stop, choose).await?;
        let transcript_writer = agent
            .as_ref()
            .map_or(TranscriptWriter::Daemon, |(_, transcript_writer)| {
                *transcript_writer
            });
        lock.share(
            self.store
                .turn_lease(session_id, platform, transcript_writer),
        );
        let store = &lock.store(&self.store);
        let cancel = stop.child_token();
        let stoppable = self.stoppable(inbound, cancel.clone());
        let begin = || store.begin_inbound(inbound.id, session_id, transcript_writer);
        let begun = self.when_free(inbound, &lock, &cancel, begin).await?;
        // Recovery may queue a message that is queued already. It is answered once.
        let Some(begun) = begun.flatten() else {
            return Ok(None);
        };
        // It may have been edited, or its chat may have moved, meanwhile.
        let said = retry_while_busy(stop, || async { store.inbound(inbound.id) }).await?;
        let inbound = said.as_ref().unwrap_or(inbound);
        let turn = match (agent, begun) {
            (Err(error), _) => ChatTurn::known(Err(log_failure(error)), inbound),
            (Ok((agent, _)), TurnStart::Ask(row)) => {
                let asked = self.ask(inbound, session_id, &lock, agent, row, &cancel);
                asked.await?
            }
            (_, TurnStart::Asked(Some(reply))) => ChatTurn::known(Ok(Reply::from(reply)), inbound),
            // The agent may have acted already. The person decides whether to repeat that.
            (_, TurnStart::Asked(None)) => {
                let interrupted = TurnError::Agent("it was interrupted".into());
                ChatTurn::known(Err(log_failure(interrupted)), inbound)
            }
        };
        if matches!(turn.reply, Err(TurnError::Cancelled)) && stop.is_cancelled() {
            return Ok(None);
        }
        drop(stoppable);
        let recorded = self.record(store, inbound, session_id, turn).await;
        recorded.map(Some)
    }

    async fn ask(
        &self,
        inbound: &Inbound,
        session_id: &str,
        lock: &SessionLock,
        agent: Arc<dyn Agent>,
        row: Option<i64>,
        cancel: &CancellationToken,
    ) -> Result<ChatTurn, StoreError> {
        let briefing = || self.store.briefing(session_id, row);
        let Some((session, transcript)) = retry_while_busy(&self.stop, briefing).await? else {
            return Err(StoreError::Conflict(format!(
                "session {session_id} is gone"
            )));
        };
        let prompt = Prompt {
            session: &session,
            transcript: &transcript,
            message: &inbound.text,
            attachments: match &inbound.files {
                Files::Saved(files) => files,
                Files::Remote(_) => &[],
            },
            handoff: false,
        };
        let streamed = Streamed::default();
        let platform = self.platforms.adapter(&inbound.source.platform);
        let shows = platform.as_ref().map(|platform| ChatQuestionDisplay {
            metrics: self.metrics.clone(),
            platform: platform.clone(),
            to: inbound.source.clone(),
            draining: self.draining.clone(),
        });
        let shows = shows.as_ref().map(|shows| shows as _);
        let done = CancellationToken::new();
        let answer = async {
            let _done = done.clone().drop_guard();
            self.turns
                .run(lock, agent.as_ref(), prompt, &streamed, shows, cancel)
                .await
        };
        let (reply, draft) = tokio::join!(
            answer,
            self.show(platform.as_deref(), inbound, &streamed, &done)
        );
        Ok(ChatTurn {
            reply,
            partial: streamed.text(),
            stopped: cancel.is_cancelled(),
            draft,
        })
    }

    /// Shows the typing indicator and the preview until `done`. Returns the state of the preview.
    async fn show(
        &self,
        platform: Option<&dyn Platform>,
        inbound: &Inbound,
        streamed: &Streamed,
        done: &CancellationToken,
    ) -> Draft {
        let Some(platform) = platform else {
            return inbound.draft.clone();
        };
        let mut live = Preview {
            store: &self.store,
            platform,
            to: &inbound.source,
            inbound: inbound.id,
            draft: inbound.draft.clone(),
        };
        let stream = async {
            if self.rules.get().chats.stream {
                live.show(streamed, done).await;
            }
        };
        tokio::join!(show_typing(platform, &inbound.source, done), stream);
        live.draft
    }

    /// Records the end of the turn in the transcript, and returns the messages to send.
    async fn record(
        &self,
        store: &Store,
        inbound: &Inbound,
        session_id: &str,
        turn: ChatTurn,
    ) -> Result<Vec<Delivery>, StoreError> {
        let stop = &self.stop;
        let cwd = retry_while_busy(stop, || async { store.cwd_of(session_id) }).await?;
        let send = async |text: &str| -> Vec<NewDelivery> {
            let to = reply_to(inbound, session_id);
            let mut sends = self.outbox.reply_messages(&to, text, cwd.clone()).await;
            if let Some(first) = sends.first_mut() {
                match &turn.draft {
                    Draft::None => {}
                    Draft::Sending(since) => {
                        first.extra.maybe_shown = true;
                        first.extra.draft = since.map(|at| DraftSend {
                            send_key: draft_key(inbound.id),
                            at,
                        });
                    }
                    Draft::Shown(id) if first.extra.file.is_none() => {
                        first.extra.replaces = Some(id.clone());
                    }
                    // The reply has no text that could replace the preview.
                    Draft::Shown(id) => {
                        let instead = NewDelivery {
                            send_key: format!("{}:draft", to.key),
                            text: "(the answer is a file)".into(),
                            extra: DeliveryExtra {
                                replaces: Some(id.clone()),
                                ..DeliveryExtra::default()
                            },
                            ..first.clone()
                        };
                        sends.insert(0, instead);
                    }
                }
            }
            sends
        };
        let ended = match &turn.reply {
            Ok(reply) => Ok((TurnEnd::Answered(reply.clone()), send(&reply.shown()).await)),
            Err(TurnError::Cancelled) if turn.stopped => {
                let said = format!("{}\n(stopped)", turn.partial.trim_end());
                let sends = send(said.trim_start()).await;
                Ok((TurnEnd::CutOff(turn.partial.clone()), sends))
            }
            Err(error) => Err(error.to_string()),
        };
        let reason = match ended {
            Ok((end, sends)) => {
                let record = || store.answer_inbound(inbound.id, session_id, &end, sends.clone());
                match retry_while_busy(stop, record).await {
                    Err(StoreError::TurnLost) => log_failure(TurnError::Lost).to_string(),
                    recorded => return recorded,
                }
            }
            Err(reason) => reason,
        };
        let text = format!("I could not answer: {reason}. Say it again to try once more.");
        let text = match turn.partial.trim_end() {
            "" => text,
            partial => format!("{partial}\n\n{text}"),
        };
        let sends = send(&text).await;
        let (id, partial) = (inbound.id, &turn.partial);
        let record = || store.fail_inbound(id, session_id, &reason, partial, sends.clone());
        retry_while_busy(stop, record).await
    }

    /// Lets `/stop` in this chat cancel `cancel` until the returned guard is dropped.
    pub(super) fn stoppable(&self, inbound: &Inbound, cancel: CancellationToken) -> Stoppable<'_> {
        let (key, user_id) = (inbound.session_key.clone(), inbound.source.user_id.clone());
        self.answering()
            .insert(key.clone(), Answering { cancel, user_id });
        Stoppable { inner: self, key }
    }
}

pub(super) struct Stoppable<'a> {
    inner: &'a Inner,
    key: String,
}

impl Drop for Stoppable<'_> {
    fn drop(&mut self) {
        self.inner.answering().remove(&self.key);
    }
}
