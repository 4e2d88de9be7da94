//! Events that adapters receive, and the inbox that accepts them.
//!
//! An adapter reports facts. Which message is answered, and in what words the agent reads it, is decided in one place for
//! all platforms: `inbound::policy`.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::{RemoteFile, Source};
use crate::platform::ReplyHandle;
use crate::store::StoreError;

/// Something that happened in a chat.
#[derive(Debug, Clone)]
pub enum InboundEvent {
    Message(InboundMessage),
    /// A message was changed after it was sent. This is how it reads now.
    Changed(InboundMessage),
    Pressed(ButtonPress),
    /// A chat has another id now. It is the same chat.
    Moved {
        platform: &'static str,
        from: String,
        to: String,
    },
}

/// A message.
#[derive(Debug, Clone)]
pub struct InboundMessage {
    pub source: Source,
    /// The platform's own, unique in its chat.
    pub message_id: String,
    /// The words as they were typed, or a description in brackets where the message has none.
    pub text: String,
    pub files: Vec<RemoteFile>,
    /// When it was sent.
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
    /// So many bytes at the beginning of the text are the mention that calls the bot.
    pub leading_mention: usize,
    /// The message replies to one of the bot's.
    pub replies_to_us: bool,
    /// The words that the message replies to.
    pub quoted: Option<String>,
    /// Another bot sent it. The adapter does not report what this bot sent.
    pub from_bot: bool,
    /// The author, where the sender only forwards the message.
    pub forwarded_from: Option<String>,
    /// The bot that a command names.
    pub command_for: Option<CommandFor>,
    /// The ids of the sender's roles, where they count for this chat.
    pub roles: BTreeSet<String>,
}

/// The bot that a command names. A native command of the platform names its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandFor {
    Us,
    AnotherBot,
}

impl InboundMessage {
    /// The sender's own words, without the mention that only calls the bot. `None`: another person wrote them.
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
    /// The ids of that person's roles, where they count for this chat.
    pub roles: BTreeSet<String>,
    /// Names this event. The platform uses it again when it repeats the event.
    pub id: String,
    pub handle: ReplyHandle,
    pub data: String,
    /// The message with the button.
    pub message_id: String,
    /// What stands there now.
    pub text: String,
}

/// Takes what adapters hear.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Returns when it is kept, or need not be. An error means that it must be brought again.
    async fn accept(&self, incoming: InboundEvent) -> Result<(), StoreError>;
}

/// What a listening adapter holds of the house.
pub struct ListenContext {
    pub inbox: Arc<dyn Inbox>,
    /// Told when the platform has answered: what was wrong before no longer is.
    pub alive: Box<dyn Fn() + Send + Sync>,
}

impl ListenContext {
    pub fn alive(&self) {
        (self.alive)();
    }
}
