//! Moves a session to a chat: accepts requests, finds pending rows in the database, and runs each to its end.
//!
//! `request` checks and writes a request. `queue` runs handoffs in parallel, `scan` finds their rows, and `worker`
//! claims one. `pipeline` runs the stages of one handoff; `stages` has a file for each. Each stage commits its evidence
//! before the next begins, so a daemon that was killed continues where the journal ends. The states and stages are
//! types of `domain`.

mod empty_thread;
mod pipeline;
pub mod queue;
pub mod request;
mod scan;
mod stages;
pub mod test_hooks;
mod worker;

pub use pipeline::Context;
