//! hermesd moves a live agent session from the terminal to a chat app and back.
//!
//! The rooms and the rules between them are described in ARCHITECTURE.md.

pub mod agent;
mod caught;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod control;
mod current;
pub mod daemon;
pub mod domain;
pub mod events;
pub mod handoff;
pub mod hooks;
#[cfg(test)]
mod manual;
pub mod message_id;
pub mod metrics;
mod name_lookup;
pub mod platform;
mod private;
pub mod process_identity;
pub mod protocol;
pub mod router;
pub mod session;
pub mod shutdown;
pub mod store;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod turn;
pub mod visible;

/// Version shown by `--version`, in `hello` and in the status line.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
