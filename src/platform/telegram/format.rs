//! Formats text for Telegram and splits it to fit Telegram's limits.

use crate::platform::markup::{Measure, MessageLimit, html_telegram, parse, split_for};

/// Telegram counts the text without the tags.
const LIMIT: MessageLimit = MessageLimit {
    longest: 4096,
    split_at: 3800,
    measure: Measure::Utf16,
};

/// The reply in pieces. Each fits into a message, as `html` and as `plain`.
pub(super) fn pieces(markdown: &str) -> Vec<String> {
    split_for(markdown, &LIMIT, html_telegram::visible_text)
}

pub(super) fn html(markdown: &str) -> String {
    html_telegram::write(&parse(markdown))
}

/// The text to send when Telegram refuses the HTML: the source, which people can read as it is.
pub(super) fn plain(markdown: &str) -> String {
    html_telegram::without_mentions(markdown.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_fits_into_a_message() {
        let length = |text: &str| text.encode_utf16().count();
        let shown = |markdown: &str| length(&html_telegram::visible_text(&parse(markdown)));
        let row = "| a | bb | ccc |\n";
        let table = format!(
            "{row}|---|---|---|\n{}| {} |\n",
            row.repeat(170),
            "x".repeat(20)
        );
        assert!(shown(&table) > LIMIT.longest);
        let text = format!("{}\n\n{table}\n\nend", "word ".repeat(2000));
        let pieces = pieces(&text);
        for piece in &pieces {
            assert!(shown(piece) <= LIMIT.longest);
            assert!(length(&plain(piece)) <= LIMIT.longest);
        }
        assert_eq!(pieces.len(), 5);
    }
}
