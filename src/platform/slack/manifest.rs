//! The definition of the Slack app: scopes, events, Socket Mode and the command. `hermesctl setup slack` prints it, and
//! contrib/slack-manifest.json is made from it.

use serde_json::{Value, json};

use super::scopes::FEATURES;

const PAGE: &str = "https://api.slack.com/apps?new_app=1&manifest_json=";

/// The events that the adapter uses.
const EVENTS: [&str; 8] = [
    "app_mention",
    "app_uninstalled",
    "assistant_thread_started",
    "message.channels",
    "message.groups",
    "message.im",
    "message.mpim",
    "tokens_revoked",
];

fn manifest() -> Value {
    let mut scopes: Vec<&str> = FEATURES.iter().flat_map(|f| f.scopes).copied().collect();
    scopes.sort_unstable();
    scopes.dedup();
    json!({
        "display_information": {
            "name": "Hermes",
            "description": "Continues the sessions of your agent in Slack",
        },
        "features": {
            "app_home": {
                "home_tab_enabled": false,
                "messages_tab_enabled": true,
                "messages_tab_read_only_enabled": false,
            },
            "assistant_view": {
                "assistant_description": "Continues the sessions of your agent",
            },
            "bot_user": {"display_name": "hermes", "always_online": true},
            "slash_commands": [{
                "command": "/hermes",
                "description": "Commands for the sessions of your agent",
                "usage_hint": "help",
                "should_escape": false,
            }],
        },
        "oauth_config": {"scopes": {"bot": scopes}},
        "settings": {
            "event_subscriptions": {"bot_events": EVENTS},
            "interactivity": {"is_enabled": true},
            "org_deploy_enabled": false,
            "socket_mode_enabled": true,
            "token_rotation_enabled": false,
        },
    })
}

/// The text to paste.
pub(super) fn text() -> String {
    let text = serde_json::to_string_pretty(&manifest()).unwrap_or_default();
    format!("{text}\n")
}

/// The page that has the definition filled in.
pub(super) fn link() -> String {
    let mut link = PAGE.to_owned();
    for byte in manifest().to_string().bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                link.push(char::from(byte));
            }
            byte => link.push_str(&format!("%{byte:02X}")),
        }
    }
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_in_contrib_is_the_same() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/slack-manifest.json");
        if std::env::var_os("UPDATE_EXAMPLE").is_some() {
            std::fs::write(path, text()).unwrap();
        }
        let copy = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            copy == text(),
            "contrib/slack-manifest.json is out of date: run UPDATE_EXAMPLE=1 cargo test --lib manifest"
        );
    }

    #[test]
    fn the_link_holds_the_definition() {
        let link = link();
        let encoded = link.strip_prefix(PAGE).unwrap();
        let mut bytes = Vec::new();
        let mut rest = encoded.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'%' => {
                    let hex: String = [rest.next(), rest.next()]
                        .into_iter()
                        .flatten()
                        .map(char::from)
                        .collect();
                    u8::from_str_radix(&hex, 16).unwrap()
                }
                byte => byte,
            });
        }
        let read: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(read, manifest());
    }

    #[test]
    fn socket_mode_and_all_scopes_are_in_it() {
        let manifest = manifest();
        assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
        let scopes = manifest["oauth_config"]["scopes"]["bot"]
            .as_array()
            .unwrap();
        assert!(scopes.contains(&json!("chat:write")) && scopes.contains(&json!("commands")));
    }
}
