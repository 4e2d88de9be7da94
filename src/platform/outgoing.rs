//! A message to a chat.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::Priority;
use crate::domain::Button;

/// One message. Its text is Markdown, which the platform converts to its own format.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutboundMessage<'a> {
    pub text: &'a str,
    pub file: Option<&'a Path>,
    pub buttons: &'a [Button],
    /// The id of the message that it answers.
    pub answers: Option<&'a str>,
    /// It continues an answer that began in an earlier message.
    pub continues: bool,
    /// The id of the person whom it notifies. The words themselves notify no one.
    pub notifies: Option<&'a str>,
    pub priority: Priority,
    /// When an earlier attempt began that may have arrived, in seconds since 1970. A platform with [`Dedup::Search`]
    /// looks for its message first.
    ///
    /// [`Dedup::Search`]: super::Dedup::Search
    pub first_tried: Option<f64>,
    /// True during the call to the vendor, false while the message waits for the rate limits.
    pub underway: Option<&'a AtomicBool>,
}

impl<'a> From<&'a str> for OutboundMessage<'a> {
    fn from(text: &'a str) -> Self {
        OutboundMessage {
            text,
            ..OutboundMessage::default()
        }
    }
}
