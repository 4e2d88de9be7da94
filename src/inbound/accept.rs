//! Accepts inbound events: checks the chat's rules and access, drops duplicates, stores the message, then queues it for
//! its chat.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock;
use crate::domain::{ChatType, FormerChat, Source, former_keys, session_key};
use crate::inbound::access::Decision;
use crate::inbound::policy::{self, Verdict};
use crate::inbound::{Chats, Inner, Right};
use crate::journal_ids;
use crate::metrics::MessageOutcome;
use crate::platform::{
    CallFailure, InboundEvent, InboundMessage, Inbox, RetryPolicy, with_retries,
};
use crate::store::retry_while_busy;
use crate::store::{Inbound, NewInbound, StoreError};

#[async_trait]
impl Inbox for Chats {
    async fn accept(&self, incoming: InboundEvent) -> Result<(), StoreError> {
        match incoming {
            InboundEvent::Message(said) => self.inner.accept_message(said).await,
            InboundEvent::Changed(changed) => self.inner.accept_edit(changed).await,
            InboundEvent::Deleted { source, message_id } => {
                self.inner.accept_deletion(&source, &message_id).await
            }
            InboundEvent::Pressed(press) => self.inner.accept_button(press).await,
            InboundEvent::Command(command) => self.inner.accept_command(command).await,
            InboundEvent::PeopleFound { platform, people } => {
                self.inner.people_found(platform, people);
                Ok(())
            }
            InboundEvent::Moved { platform, from, to } => {
                self.inner.chat_moved(platform, &from, &to).await
            }
            InboundEvent::Ended {
                platform,
                place,
                reason,
            } => self.inner.chats_ended(platform, &place, reason).await,
        }
    }
}

impl Inner {
    pub(super) async fn accept_message(
        self: &Arc<Self>,
        mut said: InboundMessage,
    ) -> Result<(), StoreError> {
        let source = &said.source;
        if let Some(platform) = self.platforms.adapter(&source.platform) {
            platform.thread_is_used(source);
        }
        let verdict = self.judge(&said).await?;
        if verdict == Verdict::Ignored {
            return Ok(());
        }
        match self.decide_on_sender(&said).await? {
            Decision::Allowed => {}
            Decision::Stranger if !said.facts.several_people => {
                self.metrics
                    .count_inbound(&source.platform, MessageOutcome::Stranger);
                return self.offer_pairing(source).await;
            }
            // Others would read the code for a stranger.
            Decision::Stranger | Decision::Denied => {
                self.metrics
                    .count_inbound(&source.platform, MessageOutcome::Denied);
                tracing::debug!(
                    platform = source.platform,
                    chat = source.chat_id,
                    user = source.user_id,
                    "message ignored, its sender is not allowed"
                );
                return Ok(());
            }
        }
        if verdict == Verdict::Addressed
            && let Some(thread) = self.own_thread(&said).await?
        {
            said.source = thread;
        }
        let source = &said.source;
        let key = session_key(source, &self.keys);
        self.adopt_former(source, &key).await?;
        // A topic that is on a session belongs to that conversation, with or without a mention.
        if verdict == Verdict::Overheard && !self.is_conversation(source, &key).await? {
            return Ok(());
        }
        let new = NewInbound {
            text: self.signed(source, policy::compose(&said)),
            message_id: said.message_id,
            files: said.files,
        };
        let accept = || self.store.accept_inbound(&key, source, new.clone());
        let Some(inbound) = retry_while_busy(&self.stop, accept).await? else {
            self.metrics
                .count_inbound(&source.platform, MessageOutcome::Duplicate);
            tracing::debug!(
                platform = source.platform,
                inbound = new.message_id,
                "message received twice"
            );
            return Ok(());
        };
        self.metrics
            .count_inbound(&source.platform, MessageOutcome::Accepted);
        self.outbox.person_wrote(source);
        match self.rules.get().chats.backlog_age {
            Some(age) if clock::now() - said.at > age.as_secs_f64() => {
                self.skip_old(&inbound).await
            }
            _ => {
                // The chat is answered again. After the next absence it gets a new note.
                self.passed_over().remove(&inbound.session_key);
                self.queue_inbound(inbound, said.at).await;
                Ok(())
            }
        }
    }

    /// Applies the rules of the platform to a message.
    pub(super) async fn judge(&self, said: &InboundMessage) -> Result<Verdict, StoreError> {
        let rules = self.rules.get().of_platform(&said.source.platform);
        let before = match policy::names_chats(&rules) && said.source.chat_type != ChatType::Dm {
            true => self.before_move(&said.source).await?,
            false => None,
        };
        Ok(policy::judge(&rules, said, before.as_ref()))
    }

    /// The thread that is opened for a message. Without one, the message is answered where it is.
    async fn own_thread(&self, said: &InboundMessage) -> Result<Option<Source>, StoreError> {
        let name = &said.source.platform;
        let rules = self.rules.get().of_platform(name);
        if !rules.auto_thread {
            return Ok(None);
        }
        let before = self.before_move(&said.source).await?;
        let Some(platform) = self.platforms.adapter(name) else {
            return Ok(None);
        };
        if !policy::opens_thread(&rules, said, before.as_ref()) {
            return Ok(None);
        }
        // A session that was brought into the chat itself continues there.
        let key = session_key(&said.source, &self.keys);
        let live = || self.store.live_session(&key);
        if retry_while_busy(&self.stop, live).await?.is_some() {
            return Ok(None);
        }
        let open = |_| platform.open_thread_on(said);
        let (tries, metrics) = (RetryPolicy::Few, &self.metrics);
        match with_retries(name, tries, metrics, &self.draining, open).await {
            Ok(thread) => Ok(thread),
            // The adapter reports the message again after the next start.
            Err(CallFailure::Stopping) => Err(StoreError::Cancelled),
            Err(error) => {
                tracing::warn!(%error, platform = name, chat = said.source.chat_id, "no thread for a mention, answering in the channel");
                Ok(None)
            }
        }
    }

    /// Whether the sender of a message may talk. A bot needs only the rule for bots.
    pub(super) async fn decide_on_sender(
        &self,
        said: &InboundMessage,
    ) -> Result<Decision, StoreError> {
        let rules = self.rules.get().of_platform(&said.source.platform);
        if said.facts.from_bot && policy::answers_bot(&rules, &said.facts) {
            return Ok(Decision::Allowed);
        }
        self.decide(&said.source, &said.facts.roles).await
    }

    pub(super) async fn decide(
        &self,
        source: &Source,
        roles: &BTreeSet<String>,
    ) -> Result<Decision, StoreError> {
        let decision = self.decide_as(source, roles).await?;
        if decision == Decision::Allowed || source.chat_type == ChatType::Dm {
            return Ok(decision);
        }
        match self.before_move(source).await? {
            Some(before) => self.decide_as(&before, roles).await,
            None => Ok(decision),
        }
    }

    async fn decide_as(
        &self,
        source: &Source,
        roles: &BTreeSet<String>,
    ) -> Result<Decision, StoreError> {
        retry_while_busy(&self.stop, || async {
            self.rules.get().access.decide(&self.store, source, roles)
        })
        .await
    }

    /// Whether the thread is on a session, or was until its session left. Then it is told where the session went.
    async fn is_conversation(&self, source: &Source, key: &str) -> Result<bool, StoreError> {
        if source.thread_id.is_none() {
            return Ok(false);
        }
        let live = || self.store.live_session(key);
        let left = || self.store.left(key);
        Ok(retry_while_busy(&self.stop, live).await?.is_some()
            || retry_while_busy(&self.stop, left).await?.is_some())
    }

    /// Moves a conversation under a former key of this chat to its present key.
    async fn adopt_former(&self, source: &Source, key: &str) -> Result<(), StoreError> {
        let known = || self.store.has_entry(key);
        if retry_while_busy(&self.stop, known).await? {
            return Ok(());
        }
        let mut former = former_keys(source, &self.keys);
        // If each person has a session of their own, a conversation of the whole chat needs the right to other
        // sessions.
        if self.keys.is_per_person(source) && !self.may(source, Right::OtherSessions).await? {
            former.retain(|former| former.made == FormerChat::WithoutWorkspace);
        }
        let adopt = || self.store.adopt_conversation(key, source, &former);
        if let Some((session, from)) = retry_while_busy(&self.stop, adopt).await? {
            tracing::info!(
                session,
                from,
                key,
                "conversation moved to the key of its chat"
            );
        }
        Ok(())
    }

    /// Adds the author's name if several people share the conversation.
    fn signed(&self, source: &Source, text: String) -> String {
        match signature(source) {
            Some(name) if self.keys.is_shared(source) && !text.starts_with('/') => {
                format!("{name}{text}")
            }
            _ => text,
        }
    }

    async fn offer_pairing(self: &Arc<Self>, source: &Source) -> Result<(), StoreError> {
        let ask = || self.store.ask_to_pair(source, pairing_note);
        if let Some(note) = retry_while_busy(&self.stop, ask).await? {
            tracing::info!(
                message_id = journal_ids::PAIRING_ASKED,
                platform = source.platform,
                chat = source.chat_id,
                user = source.user_id,
                name = source.user_name,
                "unknown person asks for access, approve with hermesctl pair"
            );
            self.post(note);
        }
        Ok(())
    }

    /// Ends a message that is too old to be answered. The chat gets one note about it.
    async fn skip_old(self: &Arc<Self>, inbound: &Inbound) -> Result<(), StoreError> {
        let first = self.passed_over().insert(inbound.session_key.clone());
        if first {
            let said = "I was away for a long time. Messages from that time are not answered. Send them again if they still matter.";
            return self.dismiss(inbound, said.to_owned()).await;
        }
        let store = || self.store.dismiss_inbound(inbound.id, Vec::new());
        retry_while_busy(&self.stop, store).await.map(drop)
    }

    /// Changes a message that still waits. An edit of an answered message changes nothing.
    async fn accept_edit(&self, changed: InboundMessage) -> Result<(), StoreError> {
        if self.judge(&changed).await? == Verdict::Ignored
            || self.decide_on_sender(&changed).await? != Decision::Allowed
        {
            return Ok(());
        }
        let (source, message_id) = (&changed.source, &changed.message_id);
        let key = session_key(source, &self.keys);
        let text = self.signed(source, policy::compose(&changed));
        let change = || self.store.change_inbound(&key, message_id, &text);
        let changed = retry_while_busy(&self.stop, change).await?;
        tracing::debug!(
            platform = source.platform,
            inbound = message_id,
            changed,
            "message edited"
        );
        Ok(())
    }

    /// Drops a message that still waits. Its author, or someone who may delete it, has taken it back.
    async fn accept_deletion(&self, source: &Source, message_id: &str) -> Result<(), StoreError> {
        let withdraw = || self.store.withdraw_inbound(source, message_id);
        let withdrawn = retry_while_busy(&self.stop, withdraw).await?;
        tracing::debug!(
            platform = source.platform,
            inbound = message_id,
            withdrawn,
            "message deleted"
        );
        Ok(())
    }
}

fn signature(source: &Source) -> Option<String> {
    let name = source.user_name.as_ref()?;
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    Some(format!("[{name}] "))
}

/// The text without the author's name.
pub(super) fn unsigned(inbound: &Inbound) -> &str {
    let signed = signature(&inbound.source);
    let words = signed.and_then(|name| inbound.text.strip_prefix(&name));
    words.unwrap_or(&inbound.text)
}

/// The answer to an unknown person.
fn pairing_note(code: &str) -> String {
    format!(
        "I do not know you yet. The owner of this bot can give you access within an hour:\n\n`hermesctl pair approve {code}`"
    )
}
