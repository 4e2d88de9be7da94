//! hermesd moves a live agent session from the terminal to a chat app and back.
//!
//! # Layout
//!
//! The major components are, from the programs down to the plain types:
//!
//! - [`cli`]: hermesctl, one file or folder per verb. Start at [`cli::run`].
//! - [`daemon`]: start, reload, drain and stop of the daemon. Start at [`daemon::run`].
//! - [`control`]: the control socket: peers, connections, limits, one handler per verb.
//! - [`views`]: converts domain types to wire types.
//! - [`handoff`]: moves a session to a chat: the queue, the pipeline and its stages.
//! - [`inbound`]: messages from chats: access, persisting, one queue per chat, commands, answers.
//! - [`terminal`]: attaches terminals to sessions.
//! - [`delivery`]: sends to chats: composes replies, the ledger, the streamed preview, files.
//! - [`turn`]: one turn of one session: the session lock, the agent with its timeouts, questions to the person.
//! - [`platform`]: the [`platform::Platform`] trait, the registry that supervises adapters, and the adapters.
//! - [`agent`]: the [`agent::Agent`] trait, the choice of an agent, and the kinds of agents.
//! - [`sessions`]: finds the session that a request means, renames sessions, refuses requests.
//! - [`store`]: the SQLite database. No other room knows SQL.
//! - [`metrics`]: counters, and their text for collectors.
//! - [`hooks`]: programs that run on events.
//! - [`events`]: the bus of events.
//! - [`config`]: the list of settings, their sources, and the validated [`config::Config`].
//! - [`client`]: the typed client of the control socket.
//! - [`protocol`]: the wire types of the control socket.
//! - [`domain`]: pure types and rules that all rooms share.
//!
//! The other modules are leaves: they name no room. (`manual` is for tests only.) A room names only rooms below it, and
//! `tests/rooms.rs` checks that. ARCHITECTURE.md has the code map, the invariants and the decisions.

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
mod executable;
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

/// The version that `--version`, `hello` and the status show.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
