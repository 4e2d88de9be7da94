use crate::config::platform_settings::*;
use crate::config::{
    AccessRules, Credential, GroupRule, MessageLimits, PlatformDescriptor, SettingSpec as S,
};

pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: "signal",
    thread_word: "chat",
    settings: SETTINGS,
    credentials: &[&[
        Credential {
            setting: "http_url",
            label: "address of signal-cli",
        },
        Credential {
            setting: "account",
            label: "phone number of the bot",
        },
    ]],
    enabled_by: &[&["http_url", "account"]],
    access: AccessRules {
        is_private_chat: |chat| !chat.starts_with("group:"),
        groups: GroupRule::Listed,
        offers_pairing: true,
        people_have_aliases: false,
        person_id: str::to_owned,
    },
    limits: MessageLimits {
        text: Some(8000),
        files: Some(32),
    },
    shared_block_has_extra: false,
    setup: &[
        "Register a phone number for the bot with signal-cli, or link signal-cli to an account.",
        "Start `signal-cli daemon --http` and leave it running.",
    ],
    manifest: None,
};

#[rustfmt::skip]
const SETTINGS: &[S] = &[
    ENABLED,
    HOME_CHANNEL,
    HOME_CHANNEL_NAME,
    HOME_CHANNEL_THREAD,
    HOME_CHANNEL_USER,
    AGENT,
    ALLOWED_USERS,
    ALLOWED_GROUP_USERS,
    ALLOWED_CHATS,
    GROUPS.env(&["SIGNAL_GROUP_ALLOWED_USERS"]),
    ALLOW_EVERYONE,
    OWNER,
    TRUSTED,
    STRANGERS,
    DM_POLICY,
    REQUIRE_MENTION.default("false"),
    REACTIONS,
    S::text("http_url", "The address of signal-cli: http://127.0.0.1:8080.").env(&["SIGNAL_HTTP_URL"]).hermes(&["extra.http_url"]),
    S::text("account", "The phone number of the bot: +15550001111.").env(&["SIGNAL_ACCOUNT"]).hermes(&["extra.account"]),
];
