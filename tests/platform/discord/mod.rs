//! Discord, and the fake that plays it.

mod commands;
mod contract;
mod ended;
mod ended_unseen;
mod fake;
mod fake_gateway;
mod fake_interactions;
mod fake_lookups;
mod fake_mentions;
mod fake_messages;
mod fake_permissions;
mod fake_threads;
mod handoff;
mod left;
mod mentions;
mod setup;
mod setup_dialogue;
