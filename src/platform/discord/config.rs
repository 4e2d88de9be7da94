//! Reads the settings of Discord's own table.

use std::collections::BTreeSet;

use super::people::is_name;
use crate::config::PlatformConfig;

#[derive(Debug, Clone, Default)]
pub(super) struct DiscordConfig {
    /// `None`: the vendor's own servers.
    pub(super) base_url: Option<String>,
    /// Minutes without a message after which Discord archives a thread.
    pub(super) auto_archive: u64,
    pub(super) reactions: bool,
    pub(super) replies: Replies,
    pub(super) native_commands: NativeCommands,
    pub(super) archive_left: ArchiveLeft,
    /// Some people may talk because of a role.
    pub(super) uses_roles: bool,
    /// The people who may talk. They are added to private threads.
    pub(super) allowed_users: BTreeSet<String>,
    /// The people whom the settings name by their user names.
    pub(super) names: BTreeSet<String>,
}

/// Which messages of an answer refer to the message that they answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Replies {
    Off,
    #[default]
    First,
    All,
}

/// Who sees the native commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NativeCommands {
    #[default]
    Administrators,
    Everyone,
    Off,
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
    pub(super) fn read(settings: &PlatformConfig) -> DiscordConfig {
        let values = &settings.values;
        let minutes = values.text("auto_archive");
        let mut allowed_users = settings.access.users.clone();
        let named = allowed_users.iter().chain(&settings.access.owner);
        let names = named.filter(|id| is_name(id)).cloned().collect();
        allowed_users.remove("*");
        DiscordConfig {
            base_url: values.text("base_url"),
            auto_archive: minutes.and_then(|text| text.parse().ok()).unwrap_or(1440),
            reactions: values.flag("reactions"),
            replies: match values.text("reply_to_mode").as_deref() {
                Some("off") => Replies::Off,
                Some("all") => Replies::All,
                _ => Replies::First,
            },
            native_commands: match values.text("native_commands").as_deref() {
                Some("everyone") => NativeCommands::Everyone,
                Some("off") => NativeCommands::Off,
                _ => NativeCommands::Administrators,
            },
            uses_roles: !settings.access.roles.is_empty(),
            allowed_users,
            names,
            archive_left: match values.text("archive_left").as_deref() {
                Some("rename") => ArchiveLeft::Rename,
                Some("archive") => ArchiveLeft::Archive,
                _ => ArchiveLeft::No,
            },
        }
    }
}
