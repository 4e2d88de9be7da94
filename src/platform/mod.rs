//! Chat platforms. Only the room of a platform knows its vendor; the rest of the house knows the [`Platform`] trait.

mod download;
mod incoming;
pub mod local;
pub mod markup;
mod outgoing;
mod pace;
mod registry;
mod retry;
pub mod telegram;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use incoming::{Inbox, Incoming, Line, Press, RemoteFile, Said};
pub use outgoing::{Button, Outgoing};
pub use pace::{Pace, Rate};
pub use registry::{Availability, PlatformStatus, Platforms, Standing};
pub use retry::{Effort, Tries, Unsent, with_retries};

use crate::session::{ChatType, Source};

/// Where a handoff to a platform goes when nobody says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    pub chat_id: String,
    pub name: Option<String>,
    /// A thread of the chat to use when no fresh one can be opened.
    pub thread_id: Option<String>,
    /// Whose home it is: in a group each person may have a session of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// Where a handoff ended up inside its home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opened {
    /// A fresh thread, by the platform's id.
    Thread {
        id: String,
        title: String,
        /// An earlier try may have opened one of the same name, which stands empty beside it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
        /// What kind of chat it is in, where the home does not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<ChatType>,
    },
    /// The home chat itself, and why no thread could be opened.
    Chat {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<ChatType>,
        /// The thread of the chat that it is then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread_id: Option<String>,
    },
}

impl Opened {
    pub fn chat(reason: impl Into<String>) -> Opened {
        Opened::Chat {
            reason: reason.into(),
            within: None,
            thread_id: None,
        }
    }

    pub fn within(&self) -> Option<ChatType> {
        match self {
            Opened::Thread { within, .. } | Opened::Chat { within, .. } => *within,
        }
    }
}

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
    NotYet(String),
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
    /// The same `send_key` twice makes one message: an interrupted send can be repeated without a duplicate.
    pub idempotent_sends: bool,
    /// The same `open_key` twice opens one thread.
    pub idempotent_threads: bool,
    pub buttons: bool,
    pub files: bool,
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

    /// Looks whether a handoff to this home would find what it needs.
    async fn examine(&self, _home: Option<&Home>) -> Vec<Finding> {
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
    async fn listen(&self, _line: &Line) -> PlatformError {
        std::future::pending().await
    }

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

    /// The private chat with a person, where their id tells it.
    fn private_chat(&self, _user_id: &str) -> Option<Source> {
        None
    }

    /// A long text in as many messages as it takes. The same text gives the same pieces.
    fn pieces(&self, markdown: &str) -> Vec<String> {
        vec![markdown.to_owned()]
    }

    /// Waits until the platform's limits allow another message to this chat.
    async fn ready_for(&self, _to: &Source) {}

    /// Sends and returns the platform's id of the message.
    async fn send(
        &self,
        to: &Source,
        what: Outgoing<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError>;

    /// How often a message of this chat may be changed while an answer streams; `None` where messages stay as they are.
    fn edits_every(&self, _to: &Source) -> Option<Duration> {
        None
    }

    /// Changes a message that was sent. Harmless to repeat.
    async fn edit(
        &self,
        _to: &Source,
        _message_id: &str,
        _what: Outgoing<'_>,
    ) -> Result<(), PlatformError> {
        Err(PlatformError::Permanent(
            "messages cannot be changed there".into(),
        ))
    }

    /// Shows for a few seconds that an answer is being written; `None` where that cannot be shown, else how long it shows.
    fn typing_lasts(&self) -> Option<Duration> {
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

    /// Tells who pressed a button what came of it.
    async fn answer_press(&self, _press: &Press, _said: &str) -> Result<(), PlatformError> {
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
