//! Buttons below a message.

use serde::{Deserialize, Serialize};

/// A button with its label and the data that it sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    pub label: String,
    /// The platform returns this when the button is pressed. Telegram allows 64 bytes.
    pub data: String,
}
