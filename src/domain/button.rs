//! Buttons below a message.

use serde::{Deserialize, Serialize};

/// Something to press below a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    pub label: String,
    /// What comes back when it is pressed. Platforms bound its length: Telegram to 64 bytes.
    pub data: String,
}
