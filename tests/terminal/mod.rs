//! Sessions in a terminal.

mod left_behind;
mod terminal;
