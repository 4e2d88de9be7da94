//! Agents: each kind against a program or server that plays the other side.

mod acp;
mod acp_life;
mod choice;
mod command;
pub mod files;
mod hermes;
mod hermes_images;
mod hermes_sessions;
pub mod openai;
mod openai_context;
mod openai_faults;
