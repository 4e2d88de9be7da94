//! The names that Hermes has for settings, and how a setting relates to Hermes' files.

use super::settings::Setting;

/// Settings for which Hermes' adapters look into their files first, and into the environment only where nothing stands there.
const FILES_FIRST: [&str; 6] = [
    "platforms.telegram.free_chats",
    "platforms.telegram.only_chats",
    "platforms.telegram.require_mention",
    "platforms.whatsapp.dm_policy",
    "platforms.whatsapp.group_policy",
    "platforms.whatsapp_cloud.dm_policy",
];

impl Setting {
    /// The platform that the setting belongs to.
    pub(super) fn platform(&self) -> Option<&str> {
        let (platform, _) = self.key.strip_prefix("platforms.")?.split_once('.')?;
        Some(platform)
    }

    /// Whether Hermes' files come before Hermes' variables.
    pub fn files_first(&self) -> bool {
        FILES_FIRST.contains(&self.key.as_str())
    }

    /// Whether Hermes lets in only people whom both its variables and its files list.
    pub(super) fn needs_both(&self) -> bool {
        self.key == "platforms.telegram.allowed_users"
    }

    /// The key of the home channel that this setting says more about.
    pub(super) fn home_channel(&self) -> Option<String> {
        let (home, _) = self.key.split_once(".home_channel_")?;
        Some(format!("{home}.home_channel"))
    }

    /// The usual paths in Hermes' files, from the top of the file.
    pub fn hermes_paths(&self) -> Vec<String> {
        let paths = self.hermes.iter();
        match self.platform() {
            None => paths.cloned().collect(),
            Some(platform) => paths.map(|name| usual_path(platform, name)).collect(),
        }
    }
}

/// Where people usually write what a platform's blocks hold under this name.
fn usual_path(platform: &str, name: &str) -> String {
    let own = ["enabled", "token", "home_channel", "extra"];
    let first = name.split('.').next().unwrap_or(name);
    match name.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None if own.contains(&first) => format!("platforms.{platform}.{name}"),
        None => format!("{platform}.{name}"),
    }
}

pub(super) fn add(list: &mut [Setting]) {
    for (key, paths) in [
        ("agents.openai.base_url", &["model.base_url"][..]),
        ("agents.openai.api_key", &["model.api_key"]),
        ("agents.openai.model", &["model.default", "model"]),
        ("agents.openai.context", &["model.context_length"]),
        ("store.journal_mode", &["database.journal_mode"]),
        ("store.cjk_index", &["sessions.cjk_fts"]),
        (
            "agent.turn_lease_timeout",
            &["agent.gateway_turn_lease_timeout"],
        ),
        ("agent.question_timeout", &["approvals.timeout"]),
    ] {
        if let Some(setting) = list.iter_mut().find(|s| s.key == key) {
            setting.hermes = paths.iter().map(|path| (*path).to_owned()).collect();
            setting.secret = key.ends_with("api_key");
        }
    }
    for (key, name) in [
        ("chats.allowed_users", "GATEWAY_ALLOWED_USERS"),
        ("chats.allow_everyone", "GATEWAY_ALLOW_ALL_USERS"),
        ("store.cjk_index", "HERMES_CJK_FTS"),
        ("store.cjk_library", "HERMES_FTS5_CJK_SO"),
        ("sessions.multiplex_profiles", "GATEWAY_MULTIPLEX_PROFILES"),
    ] {
        if let Some(setting) = list.iter_mut().find(|s| s.key == key) {
            setting.env = vec![name.into()];
        }
    }
    for (key, name) in [
        ("sessions.group_per_user", "group_sessions_per_user"),
        ("sessions.thread_per_user", "thread_sessions_per_user"),
        ("sessions.multiplex_profiles", "multiplex_profiles"),
        ("chats.strangers", "unauthorized_dm_behavior"),
    ] {
        if let Some(setting) = list.iter_mut().find(|s| s.key == key) {
            setting.hermes = vec![name.into(), format!("gateway.{name}")];
        }
    }
}
