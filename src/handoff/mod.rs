//! A handoff: its states and stages, and the road it takes. This file is pure; the stages beside it do the work.
//!
//! `queue` finds pending rows and runs them side by side, `watch` wakes it, `pipeline` walks one handoff through its
//! stages, one file a stage. Each stage commits its evidence before the next begins, so that a daemon that was killed
//! goes on where the journal stops.

mod pipeline;
pub mod queue;
pub mod request;
mod scan;
mod stages;
pub mod test_hooks;
mod worker;

pub use pipeline::Context;
