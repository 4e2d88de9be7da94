//! The Markdown of an agent's reply as what Telegram shows. The parser's events become text with marks (`render`), and
//! that becomes HTML (`page`), so that what is unfinished or odd in the source cannot make HTML that Telegram refuses.

mod link;
mod page;
mod render;
mod table;
#[cfg(test)]
mod tests;

use crate::platform::markup::{Measure, split};

/// The longest message that Telegram takes, in UTF-16 code units without the tags.
const LONGEST: usize = 4096;

/// Where replies are split. Most are shown shorter than their source; this leaves room for those that grow a little.
const SPLIT_AT: usize = 3800;

/// No text becomes longer than twice its source and this much more.
const SLACK: usize = 64;

/// The reply in pieces, each of which fits into a message, as `html` and as `plain`.
pub(super) fn pieces(markdown: &str) -> Vec<String> {
    let fitting = |piece: String| {
        if render::page(&piece).length() <= LONGEST {
            return vec![piece];
        }
        split(&piece, (LONGEST - SLACK) / 2, Measure::Utf16)
    };
    let pieces = split(markdown, SPLIT_AT, Measure::Utf16).into_iter();
    pieces.flat_map(fitting).collect()
}

/// The text in Telegram's HTML, of unfinished Markdown too. Headings are bold, tables are aligned columns, links that
/// Telegram would not open show where they lead, raw HTML is shown as it is.
///
/// What is shown is mostly shorter than the source. It is longer where a table's cells are padded, a list's lazy lines are
/// indented, its numbers have more digits, blocks get a blank line between them, or many links share a target that is
/// shown. A table that would become more than twice as long is shown as its source, and so is a whole text that would
/// have more than twice its source's length and 64 (in UTF-16 code units).
///
/// It is blank only where the source is: a text of which nothing would be seen is shown as its source.
pub(super) fn html(markdown: &str) -> String {
    render::page(markdown).html()
}

/// What is sent when Telegram refuses the HTML: the source, which is made to be read as it is.
pub(super) fn plain(markdown: &str) -> String {
    markdown.trim_end().to_owned()
}

fn longest_of(markdown: &str) -> usize {
    2 * Measure::Utf16.length(markdown) + SLACK
}
