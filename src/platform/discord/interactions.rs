//! Forwards presses of buttons and native commands to the inbox, and answers them. Discord waits three seconds for the
//! first answer to an interaction, and accepts the answer to a command for fifteen minutes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use serenity::http::Route;
use serenity::model::id::{ApplicationId, InteractionId};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::channel::id_of;
use super::failure::Failure;
use super::{Discord, NAME, parse};
use crate::platform::{InboundEvent, ListenContext, PlatformError};

/// The most interactions that are forwarded at once.
const AT_ONCE: usize = 16;
/// A little less than Discord's own fifteen minutes.
const ANSWERABLE: Duration = Duration::from_secs(14 * 60);

/// Shows the text to the person alone.
const EPHEMERAL: u64 = 1 << 6;

/// The kinds of a first answer.
const MESSAGE: u8 = 4;
const ANSWER_FOLLOWS: u8 = 5;
const NOTHING_TO_SHOW: u8 = 6;

/// The right to answer a confirmed command. It is a credential, so it stays in memory.
#[derive(Clone)]
pub(super) struct OpenCommand {
    application: ApplicationId,
    token: SecretString,
    expires: Instant,
}

/// The commands that are confirmed and not answered, by their ids as messages.
#[derive(Default)]
pub(super) struct OpenCommands {
    open: Mutex<HashMap<String, OpenCommand>>,
}

impl OpenCommands {
    fn locked(&self) -> MutexGuard<'_, HashMap<String, OpenCommand>> {
        self.open.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn insert(&self, id: String, command: OpenCommand) {
        let mut open = self.locked();
        let now = Instant::now();
        open.retain(|_, command| command.expires > now);
        open.insert(id, command);
    }

    fn get(&self, id: &str) -> Option<OpenCommand> {
        let open = self.locked();
        let command = open.get(id)?;
        (command.expires > Instant::now()).then(|| command.clone())
    }

    fn remove(&self, id: &str) {
        self.locked().remove(id);
    }
}

impl Discord {
    /// Forwards interactions until there are no more. After `ended`, it waits `patience` for those under way.
    pub(super) async fn answer_interactions(
        &self,
        context: &ListenContext,
        queue: mpsc::Receiver<Value>,
        ended: &CancellationToken,
        patience: Duration,
    ) -> Result<(), PlatformError> {
        let forward = ReceiverStream::new(queue).for_each_concurrent(AT_ONCE, |interaction| {
            self.forward_interaction(context, interaction)
        });
        let too_late = async {
            ended.cancelled().await;
            tokio::time::sleep(patience).await;
        };
        tokio::select! {
            () = forward => {}
            () = too_late => {}
        }
        Ok(())
    }

    async fn forward_interaction(&self, context: &ListenContext, interaction: Value) {
        let Some(place) = self.known_place(&interaction) else {
            return;
        };
        let event = match interaction.get("type").and_then(Value::as_u64) {
            Some(2) => parse::command(&interaction, &place).map(InboundEvent::Command),
            Some(3) => parse::press(&interaction, &place).map(InboundEvent::Pressed),
            _ => return,
        };
        let Some(event) = event else {
            tracing::warn!(platform = NAME, "unreadable interaction skipped");
            return;
        };
        if let Err(error) = context.inbox.accept(event).await {
            tracing::warn!(%error, platform = NAME, "interaction not accepted");
        }
    }

    /// Answers the interaction of a handle. With a text, only the person sees it.
    pub(super) async fn confirm_interaction(
        &self,
        secret: &str,
        said: &str,
    ) -> Result<(), Failure> {
        let parts: Vec<&str> = secret.split('/').collect();
        let (application, id, token) = match parts[..] {
            ["button", id, token] => (None, id, token),
            ["command", application, id, token] => (Some(application), id, token),
            _ => return Ok(()),
        };
        let number = |text: &str| text.parse::<u64>().ok().filter(|id| *id != 0);
        let Some(interaction) = number(id) else {
            return Ok(());
        };
        let body = match (said, application) {
            ("", None) => json!({"type": NOTHING_TO_SHOW}),
            ("", Some(_)) => json!({"type": ANSWER_FOLLOWS}),
            (said, _) => json!({"type": MESSAGE, "data": {
                "content": said.chars().take(2000).collect::<String>(),
                "flags": EPHEMERAL,
                "allowed_mentions": {"parse": []},
            }}),
        };
        let route = Route::InteractionResponse {
            interaction_id: InteractionId::new(interaction),
            token,
        };
        self.api.post(route, &body).await?;
        if let Some(application) = application.and_then(number)
            && said.is_empty()
        {
            let command = OpenCommand {
                application: ApplicationId::new(application),
                token: SecretString::from(token),
                expires: Instant::now() + ANSWERABLE,
            };
            self.open_commands.insert(parse::command_id(id), command);
        }
        Ok(())
    }

    /// Sends the answer to a confirmed command. `None`: the command can no longer be answered, so the answer has to be
    /// a message of its own. The call can be repeated without harm.
    pub(super) async fn answer_command(
        &self,
        id: &str,
        body: &Value,
    ) -> Result<Option<String>, Failure> {
        let Some(command) = self.open_commands.get(id) else {
            return Ok(None);
        };
        let route = Route::WebhookOriginalInteractionResponse {
            application_id: command.application,
            token: command.token.expose_secret(),
        };
        let answered = self.api.patch(route, body).await;
        let outcome = match answered {
            Ok(message) => Ok(id_of(&message, "id")),
            Err(failure) if failure.is_final() => {
                tracing::debug!(?failure, platform = NAME, "command not answered in place");
                Ok(None)
            }
            Err(failure) => return Err(failure),
        };
        self.open_commands.remove(id);
        outcome
    }
}
