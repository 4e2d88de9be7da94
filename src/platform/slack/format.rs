//! Formats text for Slack and splits it to fit Slack's limits.

use crate::platform::markup::{Measure, MessageLimit, mrkdwn, parse, split_for};

/// Slack takes 40,000 characters of a new message, but only 4,000 of an edited one, and every message may be edited: a
/// preview becomes the reply.
const MESSAGE: MessageLimit = MessageLimit {
    // Room for the mention of a person who is notified.
    longest: 4000 - 40,
    split_at: 3800,
    measure: Measure::Chars,
};

/// A section of a message with buttons takes 3,000 characters.
const SECTION: MessageLimit = MessageLimit {
    longest: 3000 - 40,
    split_at: 2900,
    measure: Measure::Chars,
};

/// The reply in pieces. Each fits into a message.
pub(super) fn pieces(markdown: &str) -> Vec<String> {
    split_for(markdown, &MESSAGE, mrkdwn::write)
}

/// The text in pieces that each fit into a section, in Slack's format.
pub(super) fn sections(markdown: &str) -> Vec<String> {
    let pieces = split_for(markdown, &SECTION, mrkdwn::write);
    pieces.iter().map(|piece| text(piece)).collect()
}

pub(super) fn text(markdown: &str) -> String {
    mrkdwn::write(&parse(markdown))
}

/// Plain words on one line, so that nothing of them is a mark or a mention.
pub(super) fn plain(words: &str) -> String {
    let words = one_line(words).replace('&', "&amp;");
    words.replace('<', "&lt;").replace('>', "&gt;")
}

pub(super) fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words that a person wrote: Slack escapes three characters.
pub(super) fn unescaped(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_fits_into_an_edit_as_slack_counts() {
        let pieces = pieces(&"a < b & c\n\n".repeat(900));
        assert!(pieces.len() > 1);
        for piece in &pieces {
            assert!(text(piece).chars().count() <= 3960, "{}", piece.len());
        }
        assert!(sections(&"x ".repeat(3000)).len() > 1);
    }

    #[test]
    fn a_title_is_text() {
        assert_eq!(plain("<!channel> a\n& b"), "&lt;!channel&gt; a &amp; b");
        assert_eq!(unescaped("&lt;&amp;gt;"), "<&gt;");
    }
}
