//! The rows of the settings that most platforms have. A platform's table lists the rows that apply to it, and overrides
//! Hermes' names where they differ.

use super::spec::SettingSpec;

pub const ENABLED: SettingSpec =
    SettingSpec::flag("enabled", "Switches {platform} on or off.").hermes(&["enabled"]);

pub const HOME_CHANNEL: SettingSpec =
    SettingSpec::text("home_channel", "The chat that handoffs go to.")
        .env(&["{PLATFORM}_HOME_CHANNEL"])
        .hermes(&["home_channel.chat_id", "home_channel"])
        .for_daemon();
pub const HOME_CHANNEL_NAME: SettingSpec =
    SettingSpec::text("home_channel_name", "The name of that chat.")
        .env(&["{PLATFORM}_HOME_CHANNEL_NAME"])
        .hermes(&["home_channel.name"])
        .for_daemon();
pub const HOME_CHANNEL_THREAD: SettingSpec = SettingSpec::text(
    "home_channel_thread",
    "The thread of that chat that handoffs go to when hermesd cannot open a new one.",
)
.env(&["{PLATFORM}_HOME_CHANNEL_THREAD_ID"])
.hermes(&["home_channel.thread_id"])
.for_daemon();
pub const HOME_CHANNEL_USER: SettingSpec = SettingSpec::text(
    "home_channel_user",
    "Id of the person who receives handoffs in that chat. It counts only if there is no owner, and gives the person no rights.",
)
.hermes(&["home_channel.user_id"])
.for_daemon();

pub const AGENT: SettingSpec = SettingSpec::choice(
    "agent",
    &["hermes", "openai", "acp", "command", "echo"],
    "The agent that answers on {platform}. Unset, agent.default decides.",
)
.for_daemon();

pub const ALLOWED_USERS: SettingSpec = SettingSpec::list(
    "allowed_users",
    "Ids of the people who may talk to the agent on {platform}. * allows everybody.",
)
.env(&["{PLATFORM}_ALLOWED_USERS"])
.for_daemon();
pub const ALLOWED_GROUP_USERS: SettingSpec = SettingSpec::list(
    "allowed_group_users",
    "Ids of the people who may talk to the agent in groups only.",
)
.for_daemon();
pub const ALLOWED_CHATS: SettingSpec = SettingSpec::list(
    "allowed_chats",
    "Ids of the groups and channels in which everybody may talk to the agent.",
)
.for_daemon();
pub const ALLOW_EVERYONE: SettingSpec = SettingSpec::flag(
    "allow_everyone",
    "Everybody on {platform} may talk to the agent.",
)
.default("false")
.env(&["{PLATFORM}_ALLOW_ALL_USERS"])
.for_daemon();

pub const OWNER: SettingSpec = SettingSpec::text(
    "owner",
    "Id of the person who owns the bot. The owner may talk to the agent everywhere and receives the handoffs that go to a group. Unset, the owner is the person of a private home channel, else the only allowed user.",
)
.for_daemon();
pub const TRUSTED: SettingSpec = SettingSpec::choice(
    "trusted",
    &["owner", "allowed_users"],
    "Who may see and fetch sessions of other chats and of terminals, change the home channel, and end a conversation that several people share. With allowed_users, allowed users may also approve what an agent asks for, but only in their own turn. The owner may approve in every turn.",
)
.default("owner")
.for_daemon();
pub const STRANGERS: SettingSpec = SettingSpec::choice(
    "strangers",
    &["pair", "ignore"],
    "The answer to an unknown person in a private chat: a pairing code, or none. Unset, chats.strangers decides, then dm_policy. Without these, strangers get a code only while there are no allowed users.",
)
.hermes(&["unauthorized_dm_behavior", "extra.unauthorized_dm_behavior"])
.for_daemon();
pub const DM_POLICY: SettingSpec = SettingSpec::choice(
    "dm_policy",
    &["open", "allowlist", "disabled", "pairing"],
    "Hermes' setting for private chats. hermesd uses it for strangers only: with pairing they get a code, with allowlist and disabled no answer.",
)
.hermes(&["dm_policy", "extra.dm_policy"])
.for_daemon();

pub const GROUPS: SettingSpec = SettingSpec::list(
    "groups",
    "Ids of the groups in which allowed people may talk to the agent. * stands for all groups. Unset, only the home channel and allowed_chats count.",
)
.for_daemon();
pub const GROUP_POLICY: SettingSpec = SettingSpec::choice(
    "group_policy",
    &["open", "allowlist", "disabled", "pairing"],
    "Hermes' setting for groups: open allows all groups, allowlist those in group_allow_from, and the other values none.",
)
.for_daemon();

pub const REQUIRE_MENTION: SettingSpec = SettingSpec::flag(
    "require_mention",
    "In groups, the bot answers only messages that mention it, reply to it, or are a command that names it. It answers every message in a thread that has a session.",
)
.env(&["{PLATFORM}_REQUIRE_MENTION"])
.hermes_first(&["require_mention", "extra.require_mention"])
.for_daemon();
pub const FREE_CHATS: SettingSpec = SettingSpec::list(
    "free_chats",
    "Ids of the groups in which the bot needs no mention.",
)
.for_daemon();
pub const ONLY_CHATS: SettingSpec = SettingSpec::list(
    "only_chats",
    "Ids of the only groups that the bot listens to. Unset, it listens to all.",
)
.for_daemon();
pub const IGNORED_CHATS: SettingSpec = SettingSpec::list(
    "ignored_chats",
    "Ids of the groups that the bot does not listen to, even if only_chats lists them.",
)
.for_daemon();
pub const THREAD_REQUIRE_MENTION: SettingSpec = SettingSpec::flag(
    "thread_require_mention",
    "require_mention applies to threads with a session too.",
)
.default("false")
.env(&["{PLATFORM}_THREAD_REQUIRE_MENTION"])
.for_daemon();
pub const MENTION_PATTERNS: SettingSpec = SettingSpec::list(
    "mention_patterns",
    "Regular expressions for words that count as a mention of the bot. They ignore case.",
)
.env(&["{PLATFORM}_MENTION_PATTERNS"])
.hermes_first(&["mention_patterns", "extra.mention_patterns"])
.for_daemon();
pub const ALLOW_BOTS: SettingSpec = SettingSpec::choice(
    "allow_bots",
    &["none", "mentions", "all"],
    "Which messages of other bots the bot answers: none, those that mention it, or all.",
)
.default("none")
.env(&["{PLATFORM}_ALLOW_BOTS"])
.for_daemon();
pub const REACTIONS: SettingSpec = SettingSpec::flag(
    "reactions",
    "Shows the progress of a message by reactions to it.",
)
.default("true")
.env(&["{PLATFORM}_REACTIONS"]);
