//! The home channel of a platform.

use serde::{Deserialize, Serialize};

/// The default destination of handoffs to a platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeChannel {
    pub chat_id: String,
    pub name: Option<String>,
    /// The thread to use if no new one can be opened.
    pub thread_id: Option<String>,
    /// The person whose home it is. In a group each person may have a session of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}
