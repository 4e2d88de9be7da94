//! Reads the settings of Telegram's own table.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::SettingValues;

#[derive(Debug, Clone, Default)]
pub(super) struct TelegramConfig {
    /// `None`: the vendor's own servers.
    pub(super) base_url: Option<String>,
    pub(super) messages_per_second: usize,
    /// How long one request for updates may stay open.
    pub(super) poll: Duration,
    /// The directory in which a Bot API server on this machine stores files.
    pub(super) local_files: PathBuf,
}

impl TelegramConfig {
    pub(super) fn read(values: &SettingValues) -> TelegramConfig {
        TelegramConfig {
            base_url: values.text("base_url"),
            messages_per_second: values.integer("messages_per_second"),
            poll: values.duration("poll"),
            local_files: values.path("local_files").unwrap_or_default(),
        }
    }
}
