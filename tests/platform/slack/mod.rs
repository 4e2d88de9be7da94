//! Slack, and the fake that plays it.

mod commands;
mod connection;
mod contract;
mod fake;
mod fake_chat;
mod fake_events;
mod fake_files;
mod fake_interactions;
mod fake_lookups;
mod fake_mentions;
mod fake_socket;
mod fake_streams;
mod files;
mod first_message;
mod handoff;
mod keys;
mod setup;
