//! What adapters hear, and where they put it.

use std::sync::Arc;

use async_trait::async_trait;

use crate::domain::{RemoteFile, Source};
use crate::store::StoreError;

/// Something that happened in a chat.
#[derive(Debug, Clone)]
pub enum InboundEvent {
    Message(InboundMessage),
    /// A message was changed after it was sent.
    Changed {
        source: Source,
        message_id: String,
        text: String,
    },
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
    pub text: String,
    pub files: Vec<RemoteFile>,
    /// When it was sent.
    pub at: f64,
    /// It is for us: in a private chat, by mention, as a reply or a command. Others were only overheard.
    pub addressed: bool,
}

/// A button below a message of ours was pressed.
#[derive(Debug, Clone)]
pub struct ButtonPress {
    /// Of the one who pressed it.
    pub source: Source,
    pub id: String,
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
