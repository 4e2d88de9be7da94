//! Pieces that fit into a message after a writer has written them.

use super::super::styled::SLACK;
use super::super::{Measure, StyledText, parse};
use super::{SHORTEST, split};

/// How long a message may be on a platform.
#[derive(Debug, Clone, Copy)]
pub struct MessageLimit {
    /// The longest text that the platform accepts.
    pub longest: usize,
    /// Where Markdown is cut at first. Most texts get shorter when they are written. The difference to `longest` leaves room
    /// for texts that grow a little.
    pub split_at: usize,
    pub measure: Measure,
}

/// Cuts the text into pieces of Markdown that fit into a message after they are written. `write` gives the text that the
/// platform counts: the output of its writer, or a part of that. The limit has to be at least 2,000, since a writer may make
/// almost as much of 64 characters.
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
