//! Telegram, and the fake Bot API that plays it.

mod basics;
mod commands;
mod contract;
mod delivery;
mod edges;
mod failures;
pub mod fake;
mod fake_chats;
mod fake_deletion;
pub mod fake_library;
mod fake_limits;
mod fake_timeline;
mod faults;
mod former_keys;
mod groups;
mod handoff;
mod kills;
mod message_order;
mod messages;
mod moved_chats;
mod people;
mod rates;
mod replaced;
mod replies;
mod trust;
mod turns;
mod uploads;
