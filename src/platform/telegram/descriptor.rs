use std::time::Duration;

use crate::config::platform_settings::*;
use crate::config::{
    AccessRules, Credential, GroupRule, MessageLimits, PlatformDescriptor, SettingSpec as S,
};

pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: super::NAME,
    thread_word: "topic",
    settings: SETTINGS,
    credentials: &[&[Credential {
        setting: "token",
        label: "bot token",
    }]],
    enabled_by: &[&["token"]],
    access: AccessRules {
        // Ids of groups are negative, and public channels have names.
        is_private_chat: |chat| !chat.starts_with(['-', '@']),
        groups: GroupRule::All,
        offers_pairing: true,
        people_have_aliases: false,
        person_id: str::to_owned,
    },
    limits: MessageLimits {
        text: Some(4096),
        files: Some(1),
    },
    shared_block_has_extra: true,
    setup: &["In Telegram, write /newbot to @BotFather. It asks for a name and gives you a token."],
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
    ALLOWED_USERS.hermes(&["allow_from", "extra.allow_from"]).needs_both(),
    ALLOWED_GROUP_USERS.env(&["TELEGRAM_GROUP_ALLOWED_USERS"]).hermes(&["group_allow_from", "extra.group_allow_from"]),
    ALLOWED_CHATS.env(&["TELEGRAM_GROUP_ALLOWED_CHATS"]).hermes(&["group_allowed_chats", "extra.group_allowed_chats"]),
    ALLOW_EVERYONE,
    OWNER,
    TRUSTED,
    STRANGERS,
    DM_POLICY,
    S::duration("poll", Duration::from_secs(1), "How long one request for updates may stay open.").default("30s"),
    S::text("base_url", "The address of your own Bot API server, up to the token: http://host:8081/bot.").hermes(&["extra.base_url"]),
    S::path("local_files", "The directory in which a Bot API server on this machine stores files (its --dir). hermesd refuses files outside of it.").default("/var/lib/telegram-bot-api"),
    ONLY_CHATS.env(&["TELEGRAM_ALLOWED_CHATS"]).hermes_first(&["allowed_chats", "extra.allowed_chats"]),
    REQUIRE_MENTION.hermes_first(&["require_mention", "extra.require_mention", "/require_mention"]).default("false"),
    FREE_CHATS.env(&["TELEGRAM_FREE_RESPONSE_CHATS"]).hermes_first(&["free_response_chats", "extra.free_response_chats"]),
    S::integer("messages_per_second", 1, 1000, "The limit of messages that hermesd sends per second, to all chats together.").default("30"),
    S::secret("token", "The bot's token.").env(&["TELEGRAM_BOT_TOKEN"]).hermes(&["token"]),
];

#[cfg(test)]
mod tests {
    use super::DESCRIPTOR;

    #[test]
    fn only_a_positive_id_is_a_private_chat() {
        for (chat, private) in [("7", true), ("-100", false), ("@news", false)] {
            assert_eq!((DESCRIPTOR.access.is_private_chat)(chat), private, "{chat}");
        }
    }
}
