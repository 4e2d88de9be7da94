//! Converts Markdown for chat platforms. It is parsed once into [`StyledText`], and each writer turns that into the
//! format of a vendor. Long Markdown is split first, so each piece is complete in itself.

pub mod discord;
mod html;
pub mod html_matrix;
pub mod html_telegram;
mod lines;
mod marks;
mod measure;
pub mod mrkdwn;
mod parse;
pub mod ranges;
#[cfg(test)]
mod samples;
mod split;
mod styled;
mod table;
pub mod whatsapp;

pub use measure::Measure;
pub use parse::parse;
pub use split::{MessageLimit, split, split_for};
pub use styled::StyledText;
