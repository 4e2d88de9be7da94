//! The home channel of a platform.

use serde::{Deserialize, Serialize};

/// Where a handoff to a platform goes when nobody says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeChannel {
    pub chat_id: String,
    pub name: Option<String>,
    /// A thread of the chat to use when no fresh one can be opened.
    pub thread_id: Option<String>,
    /// Whose home it is: in a group each person may have a session of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}
