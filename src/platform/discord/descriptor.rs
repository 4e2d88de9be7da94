use crate::config::platform_settings::*;
use crate::config::{
    AccessRules, Credential, GroupRule, MessageLimits, PlatformDescriptor, SettingSpec as S,
};

pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: super::NAME,
    thread_word: "thread",
    settings: SETTINGS,
    credentials: &[&[Credential {
        setting: "token",
        label: "bot token",
    }]],
    enabled_by: &[&["token"]],
    access: AccessRules {
        // The id of a private chat is the id of a channel, not of a person.
        is_private_chat: |_| false,
        groups: GroupRule::All,
        offers_pairing: true,
        people_have_aliases: false,
    },
    limits: MessageLimits {
        text: Some(2000),
        files: Some(10),
    },
    shared_block_has_extra: false,
    setup: &[
        "At discord.com/developers, create an application and add a bot to it.",
        "Under Bot, switch the Message Content Intent on and copy the token.",
        "Under OAuth2, invite the bot to your server with the scopes bot and applications.commands.",
    ],
};

#[rustfmt::skip]
const SETTINGS: &[S] = &[
    ENABLED,
    HOME_CHANNEL,
    HOME_CHANNEL_NAME,
    HOME_CHANNEL_THREAD,
    HOME_CHANNEL_USER,
    AGENT,
    ALLOWED_USERS.hermes(&["allow_from", "extra.allow_from"]),
    ALLOWED_GROUP_USERS,
    ALLOWED_CHATS,
    S::list("allowed_roles", "Ids of the roles whose members may talk to the agent on their server.").env(&["DISCORD_ALLOWED_ROLES"]).for_daemon(),
    ALLOW_EVERYONE.hermes(&["allow_all_users", "extra.allow_all_users"]),
    OWNER,
    TRUSTED,
    STRANGERS,
    DM_POLICY,
    ONLY_CHATS.env(&["DISCORD_ALLOWED_CHANNELS"]).hermes(&["allowed_channels"]),
    IGNORED_CHATS.env(&["DISCORD_IGNORED_CHANNELS"]).hermes(&["ignored_channels"]),
    REQUIRE_MENTION.default("true"),
    FREE_CHATS.env(&["DISCORD_FREE_RESPONSE_CHANNELS"]).hermes_first(&["free_response_channels", "extra.free_response_channels"]),
    THREAD_REQUIRE_MENTION.hermes(&["thread_require_mention"]),
    S::flag("auto_thread", "Not used yet. In Hermes, a mention in a channel opens a thread for the conversation.").default("true").env(&["DISCORD_AUTO_THREAD"]).hermes(&["auto_thread"]),
    S::list("no_thread_chats", "Not used yet. In Hermes, ids of the channels in which a mention opens no thread.").env(&["DISCORD_NO_THREAD_CHANNELS"]).hermes(&["no_thread_channels"]),
    ALLOW_BOTS,
    S::choice("reply_to_mode", &["off", "first", "all"], "Not used yet. In Hermes, which messages of an answer reply to the question: none, the first, or all.").default("first").env(&["DISCORD_REPLY_TO_MODE"]).hermes(&["reply_to_mode"]),
    REACTIONS.hermes(&["reactions"]),
    S::choice("auto_archive", &["60", "1440", "4320", "10080"], "Minutes without a message after which Discord archives a thread of a handoff.").default("1440"),
    S::choice("archive_left", &["no", "rename", "archive"], "What happens to a thread that its session has left: nothing, a new name that begins with [left], or it is archived. /resume there restores the name, and a message opens an archived thread.").default("no"),
    S::text("base_url", "The address of a proxy for Discord's API, up to /api/v10: http://host:8080. The gateway's address comes from its answer."),
    S::secret("token", "The bot's token.").env(&["DISCORD_BOT_TOKEN"]).hermes(&["token"]),
];
