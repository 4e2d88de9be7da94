use crate::config::platform_settings::*;
use crate::config::{
    AccessRules, AppManifest, Credential, GroupRule, MessageLimits, PlatformDescriptor,
    SettingSpec as S,
};

pub const DESCRIPTOR: PlatformDescriptor = PlatformDescriptor {
    name: super::NAME,
    thread_word: "thread",
    settings: SETTINGS,
    credentials: &[&[
        Credential {
            setting: "token",
            label: "bot token (xoxb-…)",
        },
        Credential {
            setting: "app_token",
            label: "app-level token (xapp-…)",
        },
    ]],
    enabled_by: &[&["token"]],
    access: AccessRules {
        // The id of a private chat is the id of a channel. A home may also name a person.
        is_private_chat: super::address::is_person,
        groups: GroupRule::All,
        offers_pairing: true,
        people_have_aliases: false,
        person_id: str::to_owned,
    },
    limits: MessageLimits {
        text: Some(40_000),
        files: Some(10),
    },
    shared_block_has_extra: false,
    setup: &[
        "Under Install App, install the app to your workspace. Copy the bot token.",
        "Under Basic Information, App-Level Tokens, generate a token with the scope connections:write. Copy it.",
    ],
    manifest: Some(AppManifest {
        text: super::manifest::text,
        link: super::manifest::link,
    }),
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
    ALLOW_EVERYONE,
    OWNER,
    TRUSTED,
    STRANGERS,
    DM_POLICY,
    ONLY_CHATS.env(&["SLACK_ALLOWED_CHANNELS"]).hermes_first(&["extra.allowed_channels"]).hermes(&["allowed_channels"]),
    REQUIRE_MENTION.default("true"),
    THREAD_REQUIRE_MENTION.env(&["SLACK_STRICT_MENTION"]).hermes_first(&["extra.strict_mention"]).hermes(&["strict_mention", "thread_require_mention"]),
    S::flag("ignore_mentions_of_others", "The bot ignores messages that mention other people and not the bot, except in free_chats.").default("false").hermes(&["ignore_other_user_mentions"]).for_daemon(),
    MENTION_PATTERNS,
    FREE_CHATS.env(&["SLACK_FREE_RESPONSE_CHANNELS"]).hermes_first(&["free_response_channels", "extra.free_response_channels"]),
    S::flag("reply_in_thread", "In channels, the bot answers in a thread. Each thread is a session.").default("true").hermes(&["reply_in_thread", "extra.reply_in_thread"]),
    S::flag("dm_top_level_threads", "In private chats, each message at the top level begins a session.").default("true").hermes(&["extra.dm_top_level_threads_as_sessions"]),
    ALLOW_BOTS.hermes_first(&["extra.allow_bots"]).hermes(&["allow_bots"]),
    REACTIONS.hermes(&["reactions"]),
    S::text("base_url", "The address of another server with Slack's API, up to /api: http://host:8080. Slack's own servers then get no token. The address for Socket Mode comes from its answer."),
    S::secret("token", "The bot's token. It begins with xoxb-.").env(&["SLACK_BOT_TOKEN"]).hermes(&["token"]),
    S::secret("app_token", "The app-level token for Socket Mode. It begins with xapp-.").env(&["SLACK_APP_TOKEN"]),
];
