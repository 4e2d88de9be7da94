//! Connects chat platforms. Only the folder of a platform knows its vendor. The rest of the daemon uses the
//! [`Platform`] trait.

mod context;
mod dedup;
pub mod discord;
mod download;
mod http_failure;
mod incoming;
mod key_hash;
mod list;
pub mod local;
pub mod markup;
pub mod matrix;
mod outgoing;
mod rate_limit;
mod registry;
mod reply_handle;
mod retry;
mod setup;
mod sign_in;
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
    NativeCommand,
};
pub use list::{DESCRIPTORS, NAMES, build, has_adapter, schema, thread_word, unsupported};
pub use outgoing::OutboundMessage;
pub use rate_limit::{CountedCalls, HoldScope, Limit, Priority, RateLimited, Rates, ThreadRoom};
pub use registry::{Availability, ConnectionState, NOT_SET_UP, PlatformStatus, Platforms};
pub use reply_handle::ReplyHandle;
pub use retry::{CallEffort, CallFailure, RetryPolicy, with_retries};
pub use setup::{HomeTrial, PossibleHome, Server};

use crate::domain::{HomeChannel, RemoteFile, Source, ThreadOutcome};

#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// A retry does not help.
    #[error("{0}")]
    Permanent(String),
    /// The thread or the message of the call no longer exists.
    #[error("{0}")]
    Gone(String),
    /// The platform does not accept our credentials. The adapter asks once more before it reports that as permanent.
    #[error("{0}")]
    Unauthorized(String),
    /// The vendor accepts no message for this chat until the person writes there again.
    #[error("{0}")]
    WindowClosed(String),
    /// It may work later. The platform may have said when.
    #[error("{reason}")]
    Transient {
        reason: String,
        retry_after: Option<Duration>,
        /// The call may have had its effect nevertheless.
        unsure: bool,
    },
    /// The fault is on this machine: the database is locked, or the disk is full. Retried without limit.
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

/// The result of one check.
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
    /// It works, but perhaps not as you want.
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

    /// The vendor's rate limits. [`RateLimited`] keeps to them.
    fn rates(&self) -> Rates {
        Rates::default()
    }

    /// Returns when the platform can be used. The registry retries it with backoff.
    async fn connect(&self) -> Result<(), PlatformError>;

    /// The account that the credentials belong to. `None`: the platform has no accounts.
    async fn identify(&self) -> Result<Option<Account>, PlatformError> {
        Ok(None)
    }

    /// Checks whether a handoff to this home can succeed.
    async fn diagnose(&self, _home: Option<&HomeChannel>) -> Vec<Finding> {
        Vec::new()
    }

    /// The host of a webhook that receives the bot's messages, so that none arrives here.
    async fn webhook(&self) -> Result<Option<String>, PlatformError> {
        Ok(None)
    }

    /// Removes that webhook. Messages that waited for it arrive here.
    async fn remove_webhook(&self) -> Result<(), PlatformError> {
        Ok(())
    }

    /// What a person has to change on the platform's side before the bot can work.
    async fn obstacles(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// The link with which a person brings the bot to their server. `None`: the bot needs no invitation.
    async fn invitation(&self) -> Result<Option<String>, PlatformError> {
        Ok(None)
    }

    /// The servers that the bot is on. `None`: a bot cannot list its chats there, so a /sethome names the home.
    async fn servers(&self) -> Result<Option<Vec<Server>>, PlatformError> {
        Ok(None)
    }

    /// The chats of a server that can be a home, in the order in which the platform shows them, and the private chat
    /// with the owner.
    async fn homes(
        &self,
        _server: &str,
        _owner: Option<&Account>,
    ) -> Result<Vec<PossibleHome>, PlatformError> {
        Ok(Vec::new())
    }

    /// The person who has registered the bot, if the platform says so.
    async fn owner(&self) -> Result<Option<Account>, PlatformError> {
        Ok(None)
    }

    /// The person with this id. An adapter that cannot look people up believes the id.
    async fn person(&self, id: &str) -> Result<Account, PlatformError> {
        Ok(Account {
            id: id.to_owned(),
            name: id.to_owned(),
        })
    }

    /// How people find their own id.
    fn own_id_hint(&self) -> &'static str {
        "your profile shows it"
    }

    /// Opens a thread in the home and deletes it. Fails if a handoff there would fail, or would find no thread where
    /// the chat has threads.
    async fn try_home(&self, home: &HomeChannel) -> Result<HomeTrial, PlatformError> {
        let opened = self.open_thread(home, "hermesd setup", "setup").await?;
        if let ThreadOutcome::Chat { reason, .. } = &opened {
            return Ok(HomeTrial::Chat(reason.clone()));
        }
        let thread = self.destination(home, &opened);
        Ok(match self.delete_thread(&thread).await {
            Ok(()) => HomeTrial::ThreadDeleted,
            Err(error) => HomeTrial::ThreadLeft(error.to_string()),
        })
    }

    /// Receives events and forwards them to the inbox of `context`. Returns the error that ended the connection. The
    /// registry reconnects.
    async fn listen(&self, _context: &ListenContext) -> PlatformError {
        std::future::pending().await
    }

    /// Opens a new thread in the home, or returns why the handoff has to use the home chat itself. A second call with
    /// the same `open_key` opens no second thread, if the platform deduplicates.
    async fn open_thread(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError>;

    /// Waits until the rate limits have room for a thread and its first message. `open_thread` with the same key uses
    /// that room, if it is not dropped by then. Without room, `open_thread` waits itself.
    async fn reserve_thread(&self, _home: &HomeChannel, _open_key: &str) -> ThreadRoom {
        ThreadRoom::default()
    }

    /// Opens a thread on a message that mentions the bot, and returns the source of the person's next message there.
    /// `None`: the message has no thread of its own. A second call for the same message opens no second thread.
    async fn open_thread_on(
        &self,
        _message: &InboundMessage,
    ) -> Result<Option<Source>, PlatformError> {
        Ok(None)
    }

    /// Deletes a thread with all its messages.
    async fn delete_thread(&self, _destination: &Source) -> Result<(), PlatformError> {
        Err(PlatformError::Permanent(
            "threads cannot be deleted there".into(),
        ))
    }

    /// Someone has written in this thread, allowed or not, so it must not be deleted as empty.
    fn thread_is_used(&self, _thread: &Source) {}

    /// The session of this thread has left, and the thread has been told. May show that in the thread, and take long for
    /// it. Safe to repeat.
    async fn thread_left(&self, _thread: &Source) -> Result<(), PlatformError> {
        Ok(())
    }

    /// A session is in this thread again. Undoes what `thread_left` has shown.
    async fn thread_resumed(&self, _thread: &Source) -> Result<(), PlatformError> {
        Ok(())
    }

    /// The source of the person's next message there.
    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source;

    /// The home itself as a chat for notes. An error that is not transient: it does not exist, or takes no messages.
    async fn find_home(&self, home: &HomeChannel) -> Result<Source, PlatformError> {
        let opened = ThreadOutcome::Chat {
            reason: String::new(),
            within: None,
            thread_id: home.thread_id.clone(),
        };
        Ok(self.destination(home, &opened))
    }

    /// The private chat with a person, if their id is enough to find it.
    fn private_chat(&self, _user_id: &str) -> Option<Source> {
        None
    }

    /// The chat around a thread. It gets the messages of a thread that is gone. `None`: there is none.
    fn parent(&self, thread: &Source) -> Option<Source> {
        thread.thread_id.as_ref()?;
        Some(Source {
            thread_id: None,
            ..thread.clone()
        })
    }

    /// Splits a long text into messages. The same text gives the same pieces.
    fn split(&self, markdown: &str) -> Vec<String> {
        vec![markdown.to_owned()]
    }

    /// Sends and returns the platform's id of the message.
    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError>;

    /// The time between two edits of a message while a reply streams. `None`: messages cannot be edited.
    fn edit_interval(&self, _to: &Source) -> Option<Duration> {
        None
    }

    /// Edits a sent message. It can be repeated without harm.
    async fn edit(
        &self,
        _to: &Source,
        _message_id: &str,
        _what: OutboundMessage<'_>,
    ) -> Result<(), PlatformError> {
        Err(PlatformError::Permanent(
            "messages cannot be edited there".into(),
        ))
    }

    /// How long one call of `typing` shows that a reply is being written. `None`: the platform cannot show it.
    fn typing_interval(&self) -> Option<Duration> {
        None
    }

    async fn typing(&self, _to: &Source) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Shows that a message is received and waits for those before it.
    async fn acknowledge(&self, _source: &Source, _message_id: &str) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Whether a message was written before another one of the same chat. `None`: the ids do not show it.
    fn precedes(&self, _message_id: &str, _other: &str) -> Option<bool> {
        None
    }

    /// Confirms a button press or a native command to the platform, and shows the text to its person alone. Called
    /// before anything about it is stored. A command without a text is confirmed too, and its answer follows.
    async fn confirm(&self, _handle: &ReplyHandle, _text: &str) -> Result<(), PlatformError> {
        Ok(())
    }

    /// Saves a file that a person sent.
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

/// The order of two messages whose ids are growing numbers.
fn by_number(one: &str, other: &str) -> Option<bool> {
    let number = |id: &str| id.parse::<i64>().ok();
    Some(number(one)? < number(other)?)
}
