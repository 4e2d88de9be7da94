//! Reads the settings of Discord's own table.

use crate::config::SettingValues;

#[derive(Debug, Clone, Default)]
pub(super) struct DiscordConfig {
    /// `None`: the vendor's own servers.
    pub(super) base_url: Option<String>,
    /// Minutes without a message after which Discord archives a thread.
    pub(super) auto_archive: u64,
    pub(super) reactions: bool,
    pub(super) archive_left: ArchiveLeft,
}

/// What happens to a thread that its session has left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ArchiveLeft {
    #[default]
    No,
    Rename,
    Archive,
}

impl DiscordConfig {
    pub(super) fn read(values: &SettingValues) -> DiscordConfig {
        let minutes = values.text("auto_archive");
        DiscordConfig {
            base_url: values.text("base_url"),
            auto_archive: minutes.and_then(|text| text.parse().ok()).unwrap_or(1440),
            reactions: values.flag("reactions"),
            archive_left: match values.text("archive_left").as_deref() {
                Some("rename") => ArchiveLeft::Rename,
                Some("archive") => ArchiveLeft::Archive,
                _ => ArchiveLeft::No,
            },
        }
    }
}
