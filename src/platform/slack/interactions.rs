//! Forwards presses of buttons and native commands to the inbox, and answers them by the addresses that Slack gives for
//! it. An address works five times in half an hour. It is a credential, so it stays in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use futures_util::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use slack_morphism::prelude::SlackMessageContent;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use super::address::Kind;
use super::failure::Failure;
use super::format::text as formatted;
use super::parse::{self, ANSWERABLE, text};
use super::socket::Interaction;
use super::{NAME, Slack};
use crate::domain::Source;
use crate::platform::{InboundEvent, ListenContext, PlatformError};

/// The most interactions that are forwarded at once.
const AT_ONCE: usize = 16;
/// Slack accepts five answers. One is left for a press of a button in an answer.
const MOST_ANSWERS: u32 = 4;

/// Who sees the answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// The person alone.
    ToPerson,
    /// The private chat.
    InChat,
    /// The command is a question to the agent, and everybody may read the answer.
    ByMessage,
}

/// The right to answer a command or to replace a message that only one person sees.
#[derive(Clone)]
struct Address {
    url: SecretString,
    answered: Answered,
    uses: u32,
    expires: Instant,
}

/// Addresses by the id of the command, or of the message with the pressed button.
#[derive(Default)]
pub(super) struct Addresses {
    known: Mutex<HashMap<String, Address>>,
}

impl Addresses {
    fn locked(&self) -> MutexGuard<'_, HashMap<String, Address>> {
        self.known.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn insert(&self, id: &str, url: &str, answered: Answered) {
        let mut known = self.locked();
        let now = Instant::now();
        known.retain(|_, address| address.expires > now);
        let address = Address {
            url: SecretString::from(url),
            answered,
            uses: 0,
            expires: now + ANSWERABLE,
        };
        known.insert(id.to_owned(), address);
    }

    /// The address, if it can be used once more. Counts the use.
    fn take(&self, id: &str) -> Option<Address> {
        let mut known = self.locked();
        let address = known.get_mut(id)?;
        if address.expires <= Instant::now() || address.uses >= MOST_ANSWERS {
            known.remove(id);
            return None;
        }
        address.uses += 1;
        Some(address.clone())
    }

    fn answered(&self, id: &str) -> Option<Answered> {
        self.locked().get(id).map(|address| address.answered)
    }

    fn forget(&self, id: &str) {
        self.locked().remove(id);
    }
}

impl Slack {
    /// Forwards interactions until there are no more.
    pub(super) async fn answer_interactions(
        &self,
        context: &ListenContext,
        queue: mpsc::Receiver<Interaction>,
    ) -> PlatformError {
        let forward = |interaction| self.forward_interaction(context, interaction);
        let all = ReceiverStream::new(queue).for_each_concurrent(AT_ONCE, forward);
        all.await;
        PlatformError::transient("no connection of Socket Mode is left")
    }

    async fn forward_interaction(&self, context: &ListenContext, interaction: Interaction) {
        let event = match &interaction {
            Interaction::Pressed(payload) => self.pressed(payload).await,
            Interaction::Command(payload) => self.command(payload).await,
        };
        match event {
            Ok(Some(event)) => {
                if let Err(error) = context.inbox.accept(event).await {
                    tracing::warn!(%error, platform = NAME, "interaction not accepted");
                }
            }
            Ok(None) => tracing::debug!(platform = NAME, "interaction of another kind skipped"),
            Err(failure) => {
                tracing::warn!(?failure, platform = NAME, "interaction not understood");
            }
        }
    }

    async fn pressed(&self, payload: &Value) -> Result<Option<InboundEvent>, Failure> {
        let team = text(&payload["team"], "id");
        if text(payload, "type") != "block_actions" || !self.is_our_workspace(team) {
            return Ok(None);
        }
        let ids = [
            text(&payload["container"], "channel_id"),
            text(&payload["channel"], "id"),
        ];
        let Some(channel) = ids.into_iter().find(|id| !id.is_empty()) else {
            return Ok(None);
        };
        let place = self.place(channel, None).await?;
        let name = self.person_name(text(&payload["user"], "id")).await;
        Ok(parse::press(payload, &place, name).map(InboundEvent::Pressed))
    }

    async fn command(&self, payload: &Value) -> Result<Option<InboundEvent>, Failure> {
        if !self.is_our_workspace(text(payload, "team_id")) {
            return Ok(None);
        }
        let place = self.place(text(payload, "channel_id"), None).await?;
        let name = self.person_name(text(payload, "user_id")).await;
        Ok(parse::command(payload, &place, name).map(InboundEvent::Command))
    }

    fn is_our_workspace(&self, team: &str) -> bool {
        let is_ours = team.is_empty() || team == self.me().workspace;
        if !is_ours {
            self.warn_of_workspace(team);
        }
        is_ours
    }

    /// Shows a text to the person of a handle. Without one, remembers the address for the answer.
    pub(super) async fn confirm_interaction(
        &self,
        secret: &str,
        said: &str,
    ) -> Result<(), Failure> {
        let mut parts = secret.splitn(4, ' ');
        let mut part = || parts.next().unwrap_or_default();
        let (what, kind, id, url) = (part(), part(), part(), part());
        if url.is_empty() {
            return Ok(());
        }
        match (what, kind) {
            // Only its address can change such a message.
            ("press", "ephemeral") => self.addresses.insert(id, url, Answered::ToPerson),
            ("press", _) => {}
            (_, _) if !said.is_empty() => {}
            (_, "private") => self.addresses.insert(id, url, Answered::InChat),
            (_, "words") => self.addresses.insert(id, url, Answered::ByMessage),
            _ => self.addresses.insert(id, url, Answered::ToPerson),
        }
        if said.is_empty() {
            return Ok(());
        }
        let content = SlackMessageContent::new().with_text(formatted(said));
        let kind = json!({"response_type": "ephemeral", "replace_original": false});
        self.respond(url, &content, kind).await
    }

    /// Sends the answer to a confirmed command. `None`: the answer has to be a message of its own.
    pub(super) async fn answer_command(
        &self,
        id: &str,
        content: &SlackMessageContent,
    ) -> Result<Option<String>, Failure> {
        match self.addresses.answered(id) {
            None | Some(Answered::ByMessage) => Ok(None),
            Some(_) => self.answer_in_any_case(id, content).await,
        }
    }

    /// Whether this is a command in a chat of several people that can no longer be answered in place.
    pub(super) fn is_forgotten_command(&self, id: &str, to: &Source) -> bool {
        id.starts_with(parse::COMMAND)
            && Kind::of_id(to.chat_id.as_deref().unwrap_or_default()) != Some(Kind::Private)
            && self.addresses.answered(id) != Some(Answered::ByMessage)
    }

    pub(super) async fn answer_in_any_case(
        &self,
        id: &str,
        content: &SlackMessageContent,
    ) -> Result<Option<String>, Failure> {
        let Some(address) = self.addresses.take(id) else {
            return Ok(None);
        };
        let seen_by = match address.answered {
            Answered::InChat => "in_channel",
            Answered::ToPerson | Answered::ByMessage => "ephemeral",
        };
        let url = address.url.expose_secret();
        let kind = json!({"response_type": seen_by});
        match self.respond(url, content, kind).await {
            Ok(()) => Ok(Some(format!("{id}:{}", address.uses))),
            Err(failure) if failure.is_final() => {
                tracing::debug!(?failure, platform = NAME, "command not answered in place");
                self.addresses.forget(id);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Replaces a message that only one person sees. False if it is another message.
    pub(super) async fn replace_response(
        &self,
        message_id: &str,
        content: &SlackMessageContent,
    ) -> Result<bool, Failure> {
        let Some(address) = self.addresses.take(message_id) else {
            return Ok(false);
        };
        let kind = json!({"replace_original": true});
        let url = address.url.expose_secret();
        self.respond(url, content, kind).await.map(|()| true)
    }
}
