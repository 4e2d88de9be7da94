//! The steps of a handoff, one file each. `pipeline` runs them in order.

pub(super) mod answer;
pub(super) mod bind;
pub(super) mod deliver;
pub(super) mod settle;
pub(super) mod thread;
