//! Telegram.

pub mod format;
