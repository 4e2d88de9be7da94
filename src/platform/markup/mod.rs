//! Markdown for chat platforms: cut into messages, and written in each vendor's format.

mod split;

pub use split::{length, split};
