//! End-to-end and store tests. One binary, so that the support code is built once.

#![allow(unreachable_pub)] // a test binary has no outside

mod support;

mod agent_acp;
mod agent_acp_life;
mod agent_command;
mod agent_files;
mod agent_hermes;
mod agent_hermes_images;
mod agent_openai;
mod agent_openai_faults;
mod agents;
mod bring_back;
mod busy;
mod chat_commands;
mod chat_pty;
mod chat_pty_left;
mod chats;
mod chats_left;
mod cli;
mod cli_direct;
mod cli_edges;
mod cli_refusals;
mod config;
mod config_files;
mod control_hostile;
mod control_socket;
mod control_start;
mod fake_telegram;
mod fake_telegram_chats;
mod fake_telegram_library;
mod faults;
mod handoff_e2e;
mod history;
mod hooks;
mod odd_rows;
mod ownership;
mod recovery;
mod rollback;
mod routing_mirror;
mod scribe;
mod store_checkpoint;
mod store_faults;
mod store_model;
mod store_open;
mod telegram;
mod terminal;
mod wake;
mod which_session;
