//! Finds and renames sessions, and defines the refusals that all requests about a session share.

mod open_elsewhere;
mod refusal;
mod rename;
mod resolve;
mod terminal_notes;

pub use open_elsewhere::{OpenElsewhere, open_elsewhere, turn_elsewhere};
pub(crate) use refusal::refuse;
pub use refusal::{Refusal, RequestError, stopping};
pub use rename::rename;
pub use resolve::{ChosenBy, handed_off, resolve, resolve_unnamed};
pub use terminal_notes::{TerminalNames, noted_sessions};
