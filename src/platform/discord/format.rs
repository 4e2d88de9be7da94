//! Formats text for Discord and splits it to fit Discord's limit.

use crate::platform::markup::{Measure, MessageLimit, discord, parse, split_for};

const LIMIT: MessageLimit = MessageLimit {
    // Room for the name of a person who is notified.
    longest: 2000 - 24,
    split_at: 1900,
    measure: Measure::Chars,
};

/// The reply in pieces. Each fits into a message.
pub(super) fn pieces(markdown: &str) -> Vec<String> {
    split_for(markdown, &LIMIT, discord::write)
}

pub(super) fn text(markdown: &str) -> String {
    discord::write(&parse(markdown))
}
