//! Chat platforms. Only the room of a platform knows its vendor; the rest of the house knows the [`Platform`] trait.

pub mod local;
mod registry;
mod retry;
pub mod split;
pub mod telegram;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use registry::{Availability, PlatformStatus, Platforms, Standing};
pub use retry::with_retries;

use crate::session::Source;

/// Where a handoff to a platform goes when nobody says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    pub chat_id: String,
    pub name: Option<String>,
    /// A thread of the chat to use when no fresh one can be opened.
    pub thread_id: Option<String>,
}

/// Where a handoff ended up inside its home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opened {
    /// A fresh thread, by the platform's id.
    Thread { id: String, title: String },
    /// The home chat itself, and why no thread could be opened.
    Chat { reason: String },
}

#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// Trying again will not help.
    #[error("{0}")]
    Permanent(String),
    /// It may work later; the platform may have said when.
    #[error("{reason}")]
    Transient {
        reason: String,
        retry_after: Option<Duration>,
    },
    /// Our own house is not ready: the embedded platform's database is locked or full. Tried until it is.
    #[error("{0}")]
    NotYet(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub threads: bool,
    /// The same `send_key` twice makes one message: an interrupted send can be repeated without a duplicate.
    pub idempotent_sends: bool,
}

#[async_trait]
pub trait Platform: Send + Sync {
    fn name(&self) -> &'static str;

    fn capabilities(&self) -> Capabilities;

    /// Returns when the platform can be used. Tried again with backoff until it succeeds.
    async fn connect(&self) -> Result<(), PlatformError>;

    /// Opens a fresh thread in the home, or says why the home chat itself has to do. `open_key` names this wish: where
    /// the platform can tell, asking twice opens one thread.
    async fn open_thread(
        &self,
        home: &Home,
        title: &str,
        open_key: &str,
    ) -> Result<Opened, PlatformError>;

    /// The source that the person's next message there will have.
    fn source_of(&self, home: &Home, opened: &Opened) -> Source;

    /// Sends and returns the platform's id of the message.
    async fn send(&self, to: &Source, text: &str, send_key: &str) -> Result<String, PlatformError>;
}
