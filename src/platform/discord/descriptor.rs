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
        person_id: |listed| plain_id(listed).to_owned(),
    },
    limits: MessageLimits {
        text: Some(2000),
        files: Some(10),
    },
    shared_block_has_extra: false,
    setup: &[
        "At discord.com/developers, create an application and add a bot to it.",
        "Under Bot, switch the Message Content Intent on and copy the token.",
    ],
    manifest: None,
};

/// The id in the forms that Hermes accepts: `42`, `<@42>`, `<@!42>` and `user:42`.
fn plain_id(listed: &str) -> &str {
    let listed = listed.trim();
    let mention = listed
        .strip_prefix("<@")
        .and_then(|rest| rest.strip_suffix('>'));
    let mention = mention.map(|id| id.trim_start_matches('!'));
    mention.or(listed.strip_prefix("user:")).unwrap_or(listed)
}

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
    S::flag("ignore_mentions_of_others", "The bot ignores messages that mention other people and not the bot, except in free_chats.").default("true").env(&["DISCORD_IGNORE_NO_MENTION"]).for_daemon(),
    S::flag("auto_thread", "A mention in a channel opens a thread on that message, and the conversation continues there. It opens none in free_chats, none in a channel that has a session itself, and none for a reply or a command.").default("true").env(&["DISCORD_AUTO_THREAD"]).hermes(&["auto_thread"]).for_daemon(),
    S::list("no_thread_chats", "Ids or names of the channels in which a mention opens no thread.").env(&["DISCORD_NO_THREAD_CHANNELS"]).hermes(&["no_thread_channels"]).for_daemon(),
    ALLOW_BOTS,
    S::choice("reply_to_mode", &["off", "first", "all"], "Which messages of an answer refer to the message that they answer: none, the first, or all.").default("first").env(&["DISCORD_REPLY_TO_MODE"]).hermes(&["reply_to_mode"]),
    REACTIONS.hermes(&["reactions"]),
    S::choice("native_commands", &["administrators", "everyone", "off"], "Who sees the commands (/resume, /new and the others) in Discord's own menu on a server. With administrators, a server's settings can show them to more people and roles. Commands that are typed as a text work in any case.").default("administrators"),
    S::choice("auto_archive", &["60", "1440", "4320", "10080"], "Minutes without a message after which Discord archives a thread of a handoff.").default("1440"),
    S::choice("archive_left", &["no", "rename", "archive"], "What happens to a thread that its session has left: nothing, a new name that begins with [left], or it is archived. /resume there restores the name, and a message opens an archived thread.").default("no"),
    S::text("base_url", "The address of a proxy for Discord's API, up to /api/v10: http://host:8080. The gateway's address comes from its answer."),
    S::secret("token", "The bot's token.").env(&["DISCORD_BOT_TOKEN"]).hermes(&["token"]),
];

#[cfg(test)]
mod tests {
    use super::plain_id;

    #[test]
    fn a_person_is_listed_in_the_forms_of_hermes() {
        for listed in ["42", " 42", "<@42>", "<@!42>", "user:42"] {
            assert_eq!(plain_id(listed), "42", "{listed}");
        }
        assert_eq!(plain_id("ada_l"), "ada_l");
    }
}
