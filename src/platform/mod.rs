//! Chat platforms. Only the room of a platform knows its vendor; the rest of the house knows the [`Platform`] trait.

mod context;
mod dedup;
pub mod discord;
mod download;
mod incoming;
mod list;
pub mod local;
pub mod markup;
pub mod matrix;
mod outgoing;
mod pace;
mod registry;
mod reply_handle;
mod retry;
pub mod signal;
pub mod slack;
pub mod telegram;
pub mod whatsapp;
pub mod whatsapp_cloud;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

pub use context::{AdapterContext, BuildError, Cursor};
pub use dedup::Dedup;
pub use incoming::{
    ButtonPress, CommandFor, InboundEvent, InboundMessage, Inbox, ListenContext, MessageFacts,
};
pub use list::{DESCRIPTORS, NAMES, build, has_adapter, schema, unsupported};
pub use outgoing::OutboundMessage;
pub use pace::{Pace, Rate};
pub use registry::{Availability, ConnectionState, PlatformStatus, Platforms};
pub use reply_handle::ReplyHandle;
pub use retry::{CallEffort, CallFailure, RetryPolicy, with_retries};

use crate::domain::{HomeChannel, RemoteFile, Source, ThreadOutcome};

#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// Trying again will not help.
    #[error("{0}")]
    Permanent(String),
    /// The thread, or the message, that it was about is no longer there.
    #[error("{0}")]
    Gone(String),
    /// The platform does not accept our credentials. The adapter looks again before it calls that permanent.
    #[error("{0}")]
    Unauthorized(String),
    /// It may work later; the platform may have said when.
    #[error("{reason}")]
    Transient {
        reason: String,
        retry_after: Option<Duration>,
        /// Nobody knows whether it was done all the same.
        unsure: bool,
    },
    /// Our own house is not ready: the embedded platform's database is locked or full. Tried until it is.
    #[error("{0}")]
    Storage(String),
}

impl PlatformError {
    pub fn transient(reason: impl Into<String>) -> PlatformError {
        PlatformError::Transient {
            reason: reason.into(),
            retry_after: None,
            unsure: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    pub threads: bool,
    /// How long the same `send_key` makes one message.
    pub send_dedup: Dedup,
    /// How long the same `open_key` opens one thread.
    pub thread_dedup: Dedup,
    pub buttons: bool,
    pub files: bool,
}

/// The account of the bot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub id: String,
    /// As people see it: `@name` where the platform writes it so.
    pub name: String,
}

/// Something that was looked at, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: String,
    pub grade: Grade,
    pub detail: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Good,
    /// It works, though perhaps not as somebody wishes.
    Doubtful,
    Bad,
}

impl Grade {
    pub fn as_str(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Doubtful => "doubtful",
            Grade::Bad => "bad",
        }
    }
}

impl Finding {
    pub fn good(what: impl Into<String>, detail: impl Into<String>) -> Finding {
        Finding {
            what: what.into(),
            grade: Grade::Good,
            detail: detail.into(),
            remedy: None,
        }
    }

    pub fn doubtful(
        what: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            grade: Grade::Doubtful,
            remedy: Some(remedy.into()),
            ..Finding::good(what, detail)
        }
    }

    pub fn bad(
        what: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            grade: Grade::Bad,
            ..Finding::doubtful(what, detail, remedy)
        }
    }
}

#[async_trait]
pub trait Platform: Send + Sync {
    fn name(&self) -> &'static str;

    fn capabilities(&self) -> Capabilities;

    /// Returns when the platform can be used. Tried again with backoff until it succeeds.
    async fn connect(&self) -> Result<(), PlatformError>;

    /// The account that the credentials belong to. `None`: the platform has no accounts.
    async fn identify(&self) -> Result<Option<Account>, PlatformError> {
        Ok(None)
    }

    /// Looks whether a handoff to this home would find what it needs.
    async fn diagnose(&self, _home: Option<&HomeChannel>) -> Vec<Finding> {
        Vec::new()
    }

    /// The host of a webhook that takes the bot's messages, so that none comes here.
    async fn webhook(&self) -> Result<Option<String>, PlatformError> {
        Ok(None)
    }

    /// Removes that webhook. What waited for it comes here.
    async fn remove_webhook(&self) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Hears what is said there and puts it into the line's inbox, until it no longer can; then it is connected anew.
    async fn listen(&self, _context: &ListenContext) -> PlatformError {
        std::future::pending().await
    }

    /// Opens a fresh thread in the home, or says why the home chat itself has to do. `open_key` names this wish: where
    /// the platform can tell, asking twice opens one thread.
    async fn open_thread(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError>;

    /// The source that the person's next message there will have.
    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source;

    /// The private chat with a person, where their id tells it.
    fn private_chat(&self, _user_id: &str) -> Option<Source> {
        None
    }

    /// The chat around a thread, which gets what was for the thread when that is gone. `None`: there is none.
    fn parent(&self, thread: &Source) -> Option<Source> {
        thread.thread_id.as_ref()?;
        Some(Source {
            thread_id: None,
            ..thread.clone()
        })
    }

    /// A long text in as many messages as it takes. The same text gives the same pieces.
    fn split(&self, markdown: &str) -> Vec<String> {
        vec![markdown.to_owned()]
    }

    /// Waits until the platform's limits allow another message to this chat.
    async fn ready_for(&self, _to: &Source) {}

    /// Sends and returns the platform's id of the message.
    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError>;

    /// How often a message of this chat may be changed while an answer streams; `None` where messages stay as they are.
    fn edit_interval(&self, _to: &Source) -> Option<Duration> {
        None
    }

    /// Changes a message that was sent. Harmless to repeat.
    async fn edit(
        &self,
        _to: &Source,
        _message_id: &str,
        _what: OutboundMessage<'_>,
    ) -> Result<(), PlatformError> {
        Err(PlatformError::Permanent(
            "messages cannot be changed there".into(),
        ))
    }

    /// Shows for a few seconds that an answer is being written; `None` where that cannot be shown, else how long it shows.
    fn typing_interval(&self) -> Option<Duration> {
        None
    }

    async fn typing(&self, _to: &Source) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Shows that a message was seen and waits for those before it.
    async fn acknowledge(&self, _source: &Source, _message_id: &str) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Whether a message was written before another one of the same chat; `None` where the ids do not tell.
    fn precedes(&self, _message_id: &str, _other: &str) -> Option<bool> {
        None
    }

    /// Confirms the press of a button to the platform, and shows the text to the person who pressed it. Called before
    /// anything about the press is stored.
    async fn acknowledge_button(
        &self,
        _handle: &ReplyHandle,
        _text: &str,
    ) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Saves a file that somebody sent.
    async fn fetch(
        &self,
        _file: &RemoteFile,
        _to: &Path,
        _largest: u64,
    ) -> Result<(), PlatformError> {
        Err(PlatformError::Permanent(
            "files cannot be received there".into(),
        ))
    }
}

/// The order of messages whose ids are numbers that grow.
fn by_number(one: &str, other: &str) -> Option<bool> {
    let number = |id: &str| id.parse::<i64>().ok();
    Some(number(one)? < number(other)?)
}
