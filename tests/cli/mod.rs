//! hermesctl as people use it, with and without a daemon, in pipes and in terminals.

pub mod chat;
mod chat_left;
mod chat_terminal;
mod commands;
mod completions;
mod directories;
mod doctor;
mod edges;
mod install;
mod logs;
mod manuals;
mod naming;
mod refusals;
mod setup;
mod tables;
mod without_daemon;
