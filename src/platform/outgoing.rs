//! What is sent to a chat.

use std::path::Path;

use crate::domain::Button;

/// One message. Its text is Markdown, which the platform shows as well as it can.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutboundMessage<'a> {
    pub text: &'a str,
    pub file: Option<&'a Path>,
    pub buttons: &'a [Button],
}

impl<'a> From<&'a str> for OutboundMessage<'a> {
    fn from(text: &'a str) -> Self {
        OutboundMessage {
            text,
            ..OutboundMessage::default()
        }
    }
}
