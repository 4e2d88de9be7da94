//! The app as its settings page has it: the app-level token, the events it subscribes to, and its commands.

use std::collections::BTreeSet;

use super::APP_TOKEN;
use super::world::Standing;

pub struct App {
    pub token: String,
    pub standing: Standing,
    pub scopes: BTreeSet<String>,
    /// The events that the app subscribes to, such as `message.im`.
    pub events: BTreeSet<String>,
    pub commands: BTreeSet<String>,
    /// Whether people can write to the app in its direct channel.
    pub messages_tab: bool,
}

/// The scopes of the app that `hermes slack` sets up.
pub const SCOPES: &[&str] = &[
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "users:read",
];

/// The events of the app that `hermes slack` sets up.
const EVENTS: &[&str] = &[
    "app_mention",
    "assistant_thread_context_changed",
    "assistant_thread_started",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
];

pub fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Default for App {
    fn default() -> App {
        App {
            token: APP_TOKEN.to_owned(),
            standing: Standing::Valid,
            scopes: set(&["connections:write"]),
            events: set(EVENTS),
            commands: set(&["/hermes"]),
            messages_tab: true,
        }
    }
}

/// The scopes that an event needs. One of them is enough.
pub fn scopes_of(event: &str) -> &'static [&'static str] {
    match event {
        "app_mention" => &["app_mentions:read"],
        "message.channels" => &["channels:history"],
        "message.groups" => &["groups:history"],
        "message.im" => &["im:history"],
        "message.mpim" => &["mpim:history"],
        "file_shared" => &["files:read"],
        "member_joined_channel" | "member_left_channel" => &["channels:read", "groups:read"],
        "channel_archive" | "channel_unarchive" | "channel_left" => &["channels:read"],
        "group_archive" | "group_unarchive" | "group_left" => &["groups:read"],
        "assistant_thread_started" | "assistant_thread_context_changed" => &["assistant:write"],
        "reaction_added" | "reaction_removed" => &["reactions:read"],
        _ => &[],
    }
}
