use crate::config::platform_settings::*;
use crate::config::{AccessRules, GroupRule, MessageLimits, PlatformDescriptor, SettingSpec as S};

/// The bridge has the credentials: you pair it with a phone.
pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: "whatsapp",
    thread_word: "chat",
    settings: SETTINGS,
    credentials: &[&[]],
    enabled_by: &[],
    access: AccessRules {
        is_private_chat: |chat| !chat.ends_with("@g.us"),
        groups: GroupRule::ByPolicy,
        offers_pairing: true,
        people_have_aliases: true,
        person_id: str::to_owned,
    },
    limits: MessageLimits {
        text: Some(4096),
        files: Some(1),
    },
    shared_block_has_extra: false,
    setup: &["Pair the bridge with your phone: `hermes whatsapp`."],
    manifest: None,
};

#[rustfmt::skip]
const SETTINGS: &[S] = &[
    ENABLED.env(&["WHATSAPP_ENABLED"]),
    HOME_CHANNEL,
    HOME_CHANNEL_NAME,
    HOME_CHANNEL_THREAD,
    HOME_CHANNEL_USER,
    AGENT,
    ALLOWED_USERS.hermes(&["allow_from", "extra.allow_from"]),
    ALLOWED_GROUP_USERS,
    ALLOWED_CHATS,
    GROUPS.hermes(&["group_allow_from", "extra.group_allow_from"]),
    GROUP_POLICY.env(&["WHATSAPP_GROUP_POLICY"]).hermes_first(&["group_policy", "extra.group_policy"]),
    ALLOW_EVERYONE,
    OWNER,
    TRUSTED,
    STRANGERS,
    DM_POLICY.env(&["WHATSAPP_DM_POLICY"]).hermes(&[]).hermes_first(&["dm_policy", "extra.dm_policy"]),
    REQUIRE_MENTION.default("false"),
    FREE_CHATS.env(&["WHATSAPP_FREE_RESPONSE_CHATS"]).hermes_first(&["extra.free_response_chats"]).hermes(&["free_response_chats"]),
    S::choice("mode", &["self-chat", "bot"], "self-chat: you write to yourself. bot: the account belongs to the bot.").default("self-chat").env(&["WHATSAPP_MODE"]),
    S::text("reply_prefix", "The text before each answer.").env(&["WHATSAPP_REPLY_PREFIX"]).hermes_first(&["reply_prefix", "extra.reply_prefix"]),
    S::integer("bridge_port", 1, 65535, "The port at which the bridge listens.").default("3000").hermes(&["extra.bridge_port"]),
    S::path("bridge_script", "The program of the bridge. Unset, hermesd uses the one that Hermes installed.").hermes(&["extra.bridge_script"]),
    S::path("session_path", "The directory with the session of the bridge. Unset, hermesd uses Hermes' directory.").hermes(&["extra.session_path"]),
];
