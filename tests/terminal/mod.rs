//! Sessions in a terminal.

mod left_behind;
pub mod sessions;
