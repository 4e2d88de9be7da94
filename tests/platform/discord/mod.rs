//! Discord, and the fake that plays it.

mod approvals;
mod chats;
mod contract;
mod conversation;
mod fake;
mod fake_commands;
mod fake_gateway;
mod fake_interactions;
mod fake_lookups;
mod fake_mentions;
mod fake_message_rules;
mod fake_messages;
mod fake_permissions;
mod fake_thread_rules;
mod fake_threads;
mod gateway_faults;
mod handoff;
mod homes;
mod keys;
mod moves;
mod turn_kills;
mod unmet;
