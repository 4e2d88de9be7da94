//! What came of opening a thread.

use serde::{Deserialize, Serialize};

use super::ChatType;

/// Where a handoff ended up inside its home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadOutcome {
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
