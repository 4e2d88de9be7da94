//! Cuts Markdown into pieces that fit into a message after a writer has written them.

use super::super::styled::SLACK;
use super::super::{Measure, StyledText, parse};
use super::{SHORTEST, split};

/// How long a message may be on a platform.
#[derive(Debug, Clone, Copy)]
pub struct MessageLimit {
    /// The longest text that the platform accepts.
    pub longest: usize,
    /// Where Markdown is cut at first. Most texts get shorter when they are written. The difference to `longest` leaves
    /// room for texts that grow a little.
    pub split_at: usize,
    pub measure: Measure,
}

/// Cuts the text into pieces of Markdown that fit into a message after they are written. `write` gives the text that
/// the platform counts: the output of its writer, or a part of that. The limit has to be at least 2,000, since a writer
/// may make almost as much of 64 characters.
pub fn split_for(
    markdown: &str,
    limit: &MessageLimit,
    write: impl Fn(&StyledText) -> String,
) -> Vec<String> {
    let mut pieces = Vec::new();
    for piece in split(markdown, limit.split_at, limit.measure) {
        let half = limit.longest.saturating_sub(SLACK) / 2;
        push_fitting(piece, half, limit, &write, &mut pieces);
    }
    pieces
}

/// Cuts the piece at `split_at`, and its parts at half of that, until everything fits.
fn push_fitting(
    piece: String,
    split_at: usize,
    limit: &MessageLimit,
    write: &impl Fn(&StyledText) -> String,
    pieces: &mut Vec<String>,
) {
    let MessageLimit {
        longest, measure, ..
    } = *limit;
    if measure.fits(&write(&parse(&piece)), longest) || measure.fits(&piece, SHORTEST) {
        return pieces.push(piece);
    }
    for part in split(&piece, split_at, measure) {
        push_fitting(part, split_at / 2, limit, write, pieces);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::samples::markdownish;
    use super::super::super::{discord, html_matrix, html_telegram, mrkdwn, ranges, whatsapp};
    use super::*;

    type Write = fn(&StyledText) -> String;

    const WRITERS: [(&str, Write); 6] = [
        ("telegram", html_telegram::visible_text),
        ("matrix", html_matrix::write),
        ("slack", mrkdwn::write),
        ("signal", |text| ranges::write(text).0),
        ("whatsapp", whatsapp::write),
        ("discord", discord::write),
    ];

    const MEASURES: [Measure; 3] = [Measure::Utf16, Measure::Chars, Measure::Bytes];

    #[test]
    fn text_that_grows_is_cut_again() {
        let limit = MessageLimit {
            longest: 2000,
            split_at: 1900,
            measure: Measure::Chars,
        };
        let pieces = split_for(&"&".repeat(1900), &limit, mrkdwn::write);
        let lengths: Vec<usize> = pieces.iter().map(String::len).collect();
        assert_eq!(lengths, [242, 242, 242, 242, 242, 242, 242, 206]);
        let pieces = split_for(&"a".repeat(1900), &limit, mrkdwn::write);
        assert_eq!(pieces.len(), 1);
    }

    /// The reason for the smallest limit of a message.
    #[test]
    fn a_short_text_never_becomes_a_long_message() {
        let references = |target: &str| {
            let definition = format!("[a]: http:{target}\n");
            "[a]".repeat((SHORTEST - definition.len()) / 3) + "\n\n" + &definition
        };
        let texts = [
            references(&"\"".repeat(20)),
            references(&"&".repeat(24)),
            references(&"(".repeat(16)),
            ">>>>>>>>a\n\n".repeat(6),
            "&\"<>".repeat(16),
            "`a`b".repeat(16),
            "***a***b".repeat(8),
            "-\n".repeat(32),
        ];
        for text in texts {
            for (name, write) in WRITERS {
                let length = write(&parse(&text)).len();
                assert!(length <= 2000, "{name}: {length} {text:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_piece_fits_after_it_is_written(
            text in prop_oneof![markdownish(), "[&\"<>`*_a(\\[\n]{0,90}"],
            times in 1usize..80,
            writer in 0..WRITERS.len(),
            measure in 0..MEASURES.len(),
        ) {
            let (_, write) = WRITERS[writer];
            let limit = MessageLimit { longest: 2000, split_at: 1900, measure: MEASURES[measure] };
            let text = text.repeat(times);
            let pieces = split_for(&text, &limit, write);
            for piece in &pieces {
                prop_assert!(limit.measure.length(&write(&parse(piece))) <= limit.longest);
            }
            prop_assert_eq!(pieces.is_empty(), text.trim().is_empty());
        }
    }
}
