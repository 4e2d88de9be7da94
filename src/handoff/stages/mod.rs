//! The stages of a handoff, one file each. A stage commits its evidence before the next one starts.

pub(super) mod answer;
pub(super) mod bind;
pub(super) mod deliver;
pub(super) mod settle;
pub(super) mod thread;
