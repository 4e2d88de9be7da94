//! Messages from chats: access, rights, order, commands and questions.

mod approvals;
mod buttons;
pub mod chats;
mod commands;
mod ended_chats;
pub mod former_keys;
mod hermes_rules;
mod left_behind;
mod one_chat;
mod question_binding;
mod question_waits;
mod rights;
