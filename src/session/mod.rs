//! What a session is to the rest of the house: its source, its key, its title, its transcript and the
//! files that go to and fro. No wire.

mod open_elsewhere;
mod produced;
mod rename;
mod sendable;
mod terminal_sessions;

pub use open_elsewhere::{OpenElsewhere, open_elsewhere};
pub use produced::{produced, unfinished};
pub use rename::rename;
pub use sendable::{SendRules, Sendable, home_of_person, open_below, open_to_send};
pub use terminal_sessions::{Terminal, noted_sessions};
