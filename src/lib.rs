//! hermesd moves a live agent session from the terminal to a chat app and back.
//!
//! The rooms and the rules between them are described in ARCHITECTURE.md.

pub mod agent;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod control;
pub mod daemon;
pub mod delivery;
pub mod domain;
pub mod events;
pub mod handoff;
pub mod home_files;
pub mod hooks;
pub mod inbound;
pub mod journal_ids;
#[cfg(test)]
mod manual;
pub mod metrics;
mod name_lookup;
mod panic_guard;
pub mod platform;
mod private_files;
pub mod process_identity;
pub mod protocol;
mod ration;
mod reloadable;
mod safe_open;
pub mod sessions;
pub mod shutdown;
pub mod store;
pub mod terminal;
#[cfg(test)]
mod testing;
pub mod turn;
pub mod views;
pub mod visible_text;

/// Version shown by `--version`, in `hello` and in the status line.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
