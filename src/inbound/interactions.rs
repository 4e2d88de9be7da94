//! Accepts button presses and native commands. The platform waits for a confirmation of each, so that comes before
//! anything is stored.

use std::sync::Arc;

use crate::clock;
use crate::domain::slash_command::{self, Command, ParsedInput, Place};
use crate::inbound::access::Decision;
use crate::inbound::policy::Verdict;
use crate::inbound::{Inner, Right};
use crate::platform::{
    ButtonPress, CommandFor, InboundMessage, MessageFacts, NativeCommand, OutboundMessage,
    Priority, ReplyHandle,
};
use crate::store::StoreError;
use crate::visible_text::markdown;

/// Begins the data of a button in a list of sessions. The session's id follows.
pub(super) const RESUME: &str = "resume";

impl Inner {
    /// Confirms a native command, and accepts it like a command that is typed.
    pub(super) async fn accept_command(
        self: &Arc<Self>,
        command: NativeCommand,
    ) -> Result<(), StoreError> {
        let NativeCommand { message, handle } = command;
        let refusal = match self.judge(&message).await? {
            Verdict::Ignored => Some("I do not listen in this chat."),
            _ => match self.decide_on_sender(&message).await? {
                Decision::Allowed => None,
                Decision::Stranger | Decision::Denied => Some("This is not for you."),
            },
        };
        let said = match (refusal, slash_command::read(&message.text, Place::Chat)) {
            (Some(refusal), _) => refusal,
            // Its answer is the new answer to an earlier message.
            (None, ParsedInput::Command(Command::Retry, _)) => "I ask again.",
            (None, _) => "",
        };
        // The answer to the command needs the confirmation, so it does not run in the background.
        self.confirm(&message.source.platform, &handle, said).await;
        self.accept_message(message).await
    }

    async fn confirm(&self, platform: &str, handle: &ReplyHandle, said: &str) {
        let Some(platform) = self.platforms.adapter(platform) else {
            return;
        };
        if handle.secret().is_none() {
            tracing::debug!("interaction can no longer be confirmed");
        } else if let Err(error) = platform.confirm(handle, said).await {
            tracing::debug!(%error, "interaction not confirmed");
        }
    }

    pub(super) async fn accept_button(
        self: &Arc<Self>,
        press: ButtonPress,
    ) -> Result<(), StoreError> {
        if self.decide(&press.source, &press.roles).await? != Decision::Allowed {
            self.acknowledge_button(press, "This is not for you.", None);
            return Ok(());
        }
        if let Some(session) = press.data.strip_prefix(&format!("{RESUME}:")) {
            let right = Right::OtherSessions;
            if !self.may(&press.source, right).await? {
                let refused = self.refused(&press.source, right);
                self.acknowledge_button(press, &refused, None);
                return Ok(());
            }
            let said = InboundMessage {
                source: press.source.clone(),
                message_id: format!("press:{}", press.id),
                text: format!("/resume {session}"),
                files: Vec::new(),
                at: clock::now(),
                facts: MessageFacts {
                    command_for: Some(CommandFor::Us),
                    roles: press.roles.clone(),
                    ..MessageFacts::default()
                },
            };
            // Some platforms wait only a few seconds for this, so it comes before the store.
            self.acknowledge_button(press.clone(), "", None);
            self.accept_message(said).await?;
            let text = markdown(&press.text);
            self.tracker.spawn(self.clone().remove_buttons(press, text));
            return Ok(());
        }
        self.accept_choice(press);
        Ok(())
    }

    /// Shows `said` to the person who pressed a button. With `text`, replaces the message and removes its buttons.
    /// Returns at once.
    pub(super) fn acknowledge_button(
        self: &Arc<Self>,
        press: ButtonPress,
        said: &str,
        text: Option<String>,
    ) {
        let (inner, said) = (self.clone(), said.to_owned());
        self.tracker.spawn(async move {
            inner
                .confirm(&press.source.platform, &press.handle, &said)
                .await;
            if let Some(text) = text {
                inner.remove_buttons(press, text).await;
            }
        });
    }

    /// Edits the message to `text` without buttons.
    async fn remove_buttons(self: Arc<Self>, press: ButtonPress, text: String) {
        let Some(platform) = self.platforms.adapter(&press.source.platform) else {
            return;
        };
        let what = OutboundMessage {
            priority: Priority::Question,
            ..text.as_str().into()
        };
        if let Err(error) = platform.edit(&press.source, &press.message_id, what).await {
            tracing::debug!(%error, "buttons not removed");
        }
    }
}
