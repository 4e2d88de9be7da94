//! What is sent to a chat.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// One message. Its text is Markdown, which the platform shows as well as it can.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outgoing<'a> {
    pub text: &'a str,
    pub file: Option<&'a Path>,
    pub buttons: &'a [Button],
}

impl<'a> From<&'a str> for Outgoing<'a> {
    fn from(text: &'a str) -> Self {
        Outgoing {
            text,
            ..Outgoing::default()
        }
    }
}

/// Something to press below a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    pub label: String,
    /// What comes back when it is pressed. Platforms bound its length: Telegram to 64 bytes.
    pub data: String,
}
