//! The events that adapters report, and the inbox that accepts them.
//!
//! An adapter reports facts. `inbound::policy` decides for all platforms which messages are answered, and composes the
//! words that the agent reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::{EndReason, EndedPlace, RemoteFile, Source};
use crate::platform::ReplyHandle;
use crate::store::StoreError;

/// Something that happened in a chat.
#[derive(Debug, Clone)]
pub enum InboundEvent {
    Message(InboundMessage),
    /// A message was edited. This is its new content.
    Changed(InboundMessage),
    /// A message was deleted.
    Deleted {
        source: Source,
        message_id: String,
    },
    Pressed(ButtonPress),
    /// A native command of the platform was run.
    Command(NativeCommand),
    /// The ids of people whom the settings name by their user names.
    PeopleFound {
        platform: &'static str,
        /// Each name with the id of its person.
        people: Vec<(String, String)>,
    },
    /// The id of a chat has changed. It is the same chat.
    Moved {
        platform: &'static str,
        from: String,
        to: String,
    },
    /// Chats have ended: no one can write there any more. Safe to repeat.
    Ended {
        platform: &'static str,
        place: EndedPlace,
        reason: EndReason,
    },
}

/// A message.
#[derive(Debug, Clone)]
pub struct InboundMessage {
    pub source: Source,
    /// The platform's id of the message, unique in its chat.
    pub message_id: String,
    /// The words as they were typed, or a description in brackets if the message has none.
    pub text: String,
    pub files: Vec<RemoteFile>,
    /// When it was sent, in seconds since 1970.
    pub at: f64,
    pub facts: MessageFacts,
}

/// What an adapter knows about a message. The default is a plain message of a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessageFacts {
    /// The bot is mentioned.
    pub mentions_us: bool,
    /// A person or another bot is mentioned.
    pub mentions_others: bool,
    /// The length in bytes of the bot's mention at the beginning of the text.
    pub leading_mention: usize,
    /// The message replies to a message of the bot.
    pub replies_to_us: bool,
    /// The message is in a thread that begins with a message of the bot.
    pub thread_of_ours: bool,
    /// A private chat of several people. The rules for groups apply to it.
    pub several_people: bool,
    /// The words that the message replies to.
    pub quoted: Option<String>,
    /// Another bot sent it. The adapter does not report messages of its own bot.
    pub from_bot: bool,
    /// The author, if the sender only forwards the message.
    pub forwarded_from: Option<String>,
    /// The bot that a command names.
    pub command_for: Option<CommandFor>,
    /// The ids of the sender's roles that count for this chat.
    pub roles: BTreeSet<String>,
    /// Names of the chat and of the chat around it, for lists of chats that use names.
    pub chat_names: Vec<String>,
}

/// The bot that a command names. A native command of the platform names its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFor {
    Us,
    AnotherBot,
}

impl InboundMessage {
    /// The sender's own words, without the leading mention of the bot. `None`: another person wrote them.
    pub fn own_words(&self) -> Option<&str> {
        if self.facts.forwarded_from.is_some() {
            return None;
        }
        let rest = self.text.get(self.facts.leading_mention..);
        let rest = rest.filter(|_| self.facts.leading_mention > 0);
        let rest = rest.map(|rest| rest.trim_start_matches([',', ':', ' ', '\n']));
        Some(rest.unwrap_or(&self.text))
    }
}

/// A button below a message of ours was pressed.
#[derive(Debug, Clone)]
pub struct ButtonPress {
    /// The person who pressed it.
    pub source: Source,
    /// The ids of that person's roles that count for this chat.
    pub roles: BTreeSet<String>,
    /// The platform's id of this event. A repeated event has the same id.
    pub id: String,
    pub handle: ReplyHandle,
    pub data: String,
    /// The message with the button.
    pub message_id: String,
    /// The text of that message now.
    pub text: String,
}

/// A native command of the platform. The platform waits for a confirmation.
#[derive(Debug, Clone)]
pub struct NativeCommand {
    /// The command as a person would type it.
    pub message: InboundMessage,
    pub handle: ReplyHandle,
}

/// Accepts the events of adapters.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Returns when the event is stored or needs no storing. After an error, the adapter must report the event again.
    async fn accept(&self, incoming: InboundEvent) -> Result<(), StoreError>;
}

/// The services for a listening adapter.
pub struct ListenContext {
    pub inbox: Arc<dyn Inbox>,
    /// Called when the platform has answered, so that its state becomes `up`.
    pub alive: Box<dyn Fn() + Send + Sync>,
}

impl ListenContext {
    pub fn alive(&self) {
        (self.alive)();
    }
}
