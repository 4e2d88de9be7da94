//! The outcome of opening a thread for a handoff.

use serde::{Deserialize, Serialize};

use super::ChatType;

/// Where a handoff continues in its home channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadOutcome {
    /// A new thread, with the platform's id.
    Thread {
        id: String,
        title: String,
        /// An earlier attempt may have opened a thread with the same title, which is empty.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeated: bool,
        /// The type of the chat that contains it, if the home channel does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<ChatType>,
    },
    /// The home chat itself, and why no thread could be opened.
    Chat {
        reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<ChatType>,
        /// The thread of the home channel that is used instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thread_id: Option<String>,
    },
}

impl ThreadOutcome {
    pub fn chat(reason: impl Into<String>) -> ThreadOutcome {
        ThreadOutcome::Chat {
            reason: reason.into(),
            within: None,
            thread_id: None,
        }
    }

    pub fn within(&self) -> Option<ChatType> {
        match self {
            ThreadOutcome::Thread { within, .. } | ThreadOutcome::Chat { within, .. } => *within,
        }
    }
}
