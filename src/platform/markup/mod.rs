//! Markdown for chat platforms: cut into messages, and written in each vendor's format.

mod measure;
mod split;

pub use measure::Measure;
pub use split::split;
