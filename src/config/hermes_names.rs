//! The names that Hermes has for settings which belong to no platform.

use super::settings::Setting;

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
