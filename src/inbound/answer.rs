//! One message of a chat and its answer: the turn, its end in the transcript, and what is to be sent.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, Prompt};
use crate::delivery::ChatQuestionDisplay;
use crate::delivery::{Preview, show_typing};
use crate::domain::Reply;
use crate::domain::TranscriptWriter;
use crate::inbound::{Answering, Inner, reply_to};
use crate::journal_ids;
use crate::platform::Platform;
use crate::store::retry_while_busy;
use crate::store::{
    Delivery, DeliveryExtra, Draft, Files, Inbound, NewDelivery, Store, StoreError, TurnEnd,
    TurnStart,
};
use crate::turn::{SessionLock, Streamed, TurnError};

/// What became of a turn.
struct Turn {
    reply: Result<Reply, TurnError>,
    /// What was said of the reply by then.
    partial: String,
    /// Somebody asked for it to stop.
    stopped: bool,
    /// What the chat was shown of it.
    draft: Draft,
}

impl Turn {
    /// One that did not have to be run.
    fn known(reply: Result<Reply, TurnError>, inbound: &Inbound) -> Turn {
        Turn {
            reply,
            partial: String::new(),
            stopped: false,
            draft: inbound.draft.clone(),
        }
    }
}

/// Logs a failure that no turn was run for.
fn told(error: TurnError) -> TurnError {
    tracing::error!(message_id = journal_ids::TURN_FAILED, %error, "a turn failed");
    error
}

impl Inner {
    /// Runs the turn and returns what is to be sent. `None`: it is answered already, or the daemon stops and it will be
    /// answered after the next start.
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
        let scribe = agent
            .as_ref()
            .map_or(TranscriptWriter::Daemon, |(_, scribe)| *scribe);
        lock.share(self.store.turn_lease(session_id, platform, scribe));
        let store = &lock.store(&self.store);
        let cancel = stop.child_token();
        let stoppable = self.stoppable(inbound, cancel.clone());
        let begin = || store.begin_inbound(inbound.id, session_id, scribe);
        let begun = self.when_free(inbound, &lock, &cancel, begin).await?;
        // What a recovery and its own dispatch both found is answered once.
        let Some(begun) = begun.flatten() else {
            return Ok(None);
        };
        // It may have been changed, or its chat have moved, until now.
        let said = retry_while_busy(stop, || async { store.inbound(inbound.id) }).await?;
        let inbound = said.as_ref().unwrap_or(inbound);
        let turn = match (agent, begun) {
            (Err(error), _) => Turn::known(Err(told(error)), inbound),
            (Ok((agent, _)), TurnStart::Ask(row)) => {
                let asked = self.ask(inbound, session_id, &lock, agent, row, &cancel);
                asked.await?
            }
            (_, TurnStart::Asked(Some(reply))) => Turn::known(Ok(Reply::from(reply)), inbound),
            // It may have done things already: whether it is to do them again is for the person to say.
            (_, TurnStart::Asked(None)) => {
                let interrupted = TurnError::Agent("it was interrupted at its work".into());
                Turn::known(Err(told(interrupted)), inbound)
            }
        };
        if matches!(turn.reply, Err(TurnError::Cancelled)) && stop.is_cancelled() {
            return Ok(None);
        }
        drop(stoppable);
        self.keep(store, inbound, session_id, turn).await.map(Some)
    }

    async fn ask(
        &self,
        inbound: &Inbound,
        session_id: &str,
        lock: &SessionLock,
        agent: Arc<dyn Agent>,
        row: Option<i64>,
        cancel: &CancellationToken,
    ) -> Result<Turn, StoreError> {
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
        Ok(Turn {
            reply,
            partial: streamed.text(),
            stopped: cancel.is_cancelled(),
            draft,
        })
    }

    /// Shows the chat that an answer is coming, and what there is of it, until `done`. Returns what it was shown.
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

    /// The end of the turn in the transcript, and what the person gets.
    async fn keep(
        &self,
        store: &Store,
        inbound: &Inbound,
        session_id: &str,
        turn: Turn,
    ) -> Result<Vec<Delivery>, StoreError> {
        let stop = &self.stop;
        let cwd = retry_while_busy(stop, || async { store.cwd_of(session_id) }).await?;
        let send = async |text: &str| -> Vec<NewDelivery> {
            let to = reply_to(inbound, session_id);
            let mut sends = self.outbox.reply_messages(&to, text, cwd.clone()).await;
            if let Some(first) = sends.first_mut() {
                match &turn.draft {
                    Draft::None => {}
                    Draft::Sending => first.extra.maybe_shown = true,
                    Draft::Shown(id) if first.extra.file.is_none() => {
                        first.extra.replaces = Some(id.clone());
                    }
                    // No text is left for it to become.
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
                let keep = || store.answer_inbound(inbound.id, session_id, &end, sends.clone());
                match retry_while_busy(stop, keep).await {
                    Err(StoreError::TurnLost) => told(TurnError::Lost).to_string(),
                    kept => return kept,
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
        let keep = || store.fail_inbound(id, session_id, &reason, partial, sends.clone());
        retry_while_busy(stop, keep).await
    }

    /// From now on `/stop` in this chat cancels this; until what is returned is dropped.
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
