//! Where settings come from, and which source wins.

mod files;
mod hermes_platforms;
mod hermes_settings;
mod profiles;
pub mod sources;
