//! The settings that each platform has: the list goes on here from [`settings`](super::settings).

use super::settings::{SECOND, Setting};
use super::value::Kind;

pub(super) fn add_platform(list: &mut Vec<Setting>, platform: &str) {
    let upper = platform.to_ascii_uppercase();
    let home = if platform == "matrix" {
        "HOME_ROOM"
    } else {
        "HOME_CHANNEL"
    };
    let local = platform == "local";
    let mut add = |field: &str,
                   kind: Kind,
                   default: Option<&str>,
                   env: Vec<String>,
                   hermes: &[&str],
                   help: String| {
        list.push(Setting {
            key: format!("platforms.{platform}.{field}"),
            kind,
            default: default.map(str::to_owned),
            env: if local { Vec::new() } else { env },
            hermes: hermes
                .iter()
                .filter(|_| !local)
                .map(|name| (*name).to_owned())
                .collect(),
            secret: field == "token",
            help,
        });
    };
    let enabled_env = if platform == "whatsapp" {
        vec!["WHATSAPP_ENABLED".into()]
    } else {
        Vec::new()
    };
    let enabled_help = if local {
        "Switch the embedded platform on or off.".to_owned()
    } else {
        format!(
            "Switch {platform} on or off; unset means on when it has a token that is not in a block of Hermes' config.yaml or gateway.json."
        )
    };
    add(
        "enabled",
        Kind::Flag,
        local.then_some("true"),
        enabled_env,
        &["enabled"],
        enabled_help,
    );
    add(
        "home_channel",
        Kind::Text,
        local.then_some("home"),
        vec![format!("{upper}_{home}")],
        &["home_channel.chat_id", "home_channel"],
        "The chat that handoffs go to.".into(),
    );
    add(
        "home_channel_name",
        Kind::Text,
        None,
        vec![format!("{upper}_{home}_NAME")],
        &["home_channel.name"],
        "What to call that chat.".into(),
    );
    add(
        "home_channel_thread",
        Kind::Text,
        None,
        vec![format!("{upper}_{home}_THREAD_ID")],
        &["home_channel.thread_id"],
        "A thread of that chat to use when no fresh one can be opened.".into(),
    );
    add(
        "home_channel_user",
        Kind::Text,
        None,
        Vec::new(),
        &["home_channel.user_id"],
        "Id of the person that handoffs to that chat are for, where there is no owner. It gives nobody any rights.".into(),
    );
    add(
        "agent",
        Kind::Choice(&["hermes", "openai", "acp", "command", "echo"]),
        None,
        Vec::new(),
        &[],
        format!("The agent that answers on {platform}; unset, agent.default does."),
    );
    if !local {
        add_access(&mut add, platform);
    }
    if platform == "telegram" {
        add_telegram(&mut add);
    }
    let token_env = match platform {
        "telegram" | "discord" | "slack" => Some(format!("{upper}_BOT_TOKEN")),
        "matrix" | "whatsapp_cloud" => Some(format!("{upper}_ACCESS_TOKEN")),
        _ => None,
    };
    if let Some(name) = token_env {
        add(
            "token",
            Kind::Text,
            None,
            vec![name],
            match platform {
                "whatsapp_cloud" => &["token", "extra.access_token"],
                _ => &["token"],
            },
            format!("The bot's token at {platform}."),
        );
    }
}

/// Adds a setting of one platform: field, kind, default, environment, Hermes' paths, help.
type Add<'a> = dyn FnMut(&str, Kind, Option<&str>, Vec<String>, &[&str], String) + 'a;

/// Who may talk to the agent there.
fn add_access(add: &mut Add<'_>, platform: &str) {
    let upper = platform.to_ascii_uppercase();
    let env = |name: &str| vec![format!("{upper}_{name}")];
    let mut users_env = env("ALLOWED_USERS");
    if platform == "whatsapp_cloud" {
        users_env.push(format!("{upper}_ALLOW_FROM"));
    }
    // Slack and Signal take people from the environment alone.
    let users: &[&str] = match platform {
        "telegram" | "discord" | "whatsapp" | "whatsapp_cloud" => {
            &["allow_from", "extra.allow_from"]
        }
        "matrix" => &["allowed_users"],
        _ => &[],
    };
    add(
        "allowed_users",
        Kind::List,
        None,
        users_env,
        users,
        format!("Ids of people who may talk to the agent on {platform}; * for all."),
    );
    // Hermes' lists of these names hold people and chats on Telegram only.
    let telegram = platform == "telegram";
    let only_telegram = |names: &'static [&'static str]| if telegram { names } else { &[] };
    let env_of_telegram = |name: &str| if telegram { env(name) } else { Vec::new() };
    add(
        "allowed_group_users",
        Kind::List,
        None,
        env_of_telegram("GROUP_ALLOWED_USERS"),
        only_telegram(&["group_allow_from", "extra.group_allow_from"]),
        "Ids of people who may do so in groups only.".into(),
    );
    add(
        "allowed_chats",
        Kind::List,
        None,
        env_of_telegram("GROUP_ALLOWED_CHATS"),
        only_telegram(&["group_allowed_chats", "extra.group_allowed_chats"]),
        "Ids of groups and channels in which everybody may do so.".into(),
    );
    add_groups(add, platform);
    add(
        "allow_everyone",
        Kind::Flag,
        Some("false"),
        vec![format!("{upper}_ALLOW_ALL_USERS")],
        match platform {
            "discord" => &["allow_all_users", "extra.allow_all_users"],
            _ => &[],
        },
        format!("Anybody on {platform} may talk to the agent."),
    );
    add(
        "owner",
        Kind::Text,
        None,
        Vec::new(),
        &[],
        "Id of the person who owns the bot: allowed everywhere, and the one that handoffs to a group are for. Unset, the person of a private home channel is the owner, else the only allowed user.".into(),
    );
    add(
        "trusted",
        Kind::Choice(&["owner", "allowed_users"]),
        Some("owner"),
        Vec::new(),
        &[],
        "Who may see and fetch sessions of other chats and of terminals, change the home channel, answer for an agent that asks before it acts, and end a conversation that several people share: the owner, or all allowed users too.".into(),
    );
    add(
        "strangers",
        Kind::Choice(&["pair", "ignore"]),
        None,
        Vec::new(),
        &["unauthorized_dm_behavior", "extra.unauthorized_dm_behavior"],
        "What an unknown person gets in a private chat: a code to be let in with, or no answer. Unset, chats.strangers counts, then dm_policy; else they get a code only while there are no allowed users."
            .into(),
    );
    let env_of_whatsapp = match platform {
        "whatsapp" | "whatsapp_cloud" => vec![format!("{upper}_DM_POLICY")],
        _ => Vec::new(),
    };
    add(
        "dm_policy",
        Kind::Choice(&["open", "allowlist", "disabled", "pairing"]),
        None,
        env_of_whatsapp,
        &["dm_policy", "extra.dm_policy"],
        "Hermes' setting for private chats, read for strangers alone: with pairing they get a code, with allowlist and disabled no answer.".into(),
    );
}

/// The groups that are listened to, where Hermes lists these.
fn add_groups(add: &mut Add<'_>, platform: &str) {
    let (env, hermes): (_, &[&str]) = match platform {
        "signal" => (vec!["SIGNAL_GROUP_ALLOWED_USERS".into()], &[]),
        "whatsapp" => (Vec::new(), &["group_allow_from", "extra.group_allow_from"]),
        _ => return,
    };
    add(
        "groups",
        Kind::List,
        None,
        env,
        hermes,
        "Ids of the groups in which people who are allowed may talk; * for all. Unset, only the home channel and allowed_chats.".into(),
    );
    if platform == "whatsapp" {
        add(
            "group_policy",
            Kind::Choice(&["open", "allowlist", "disabled", "pairing"]),
            None,
            vec!["WHATSAPP_GROUP_POLICY".into()],
            &["group_policy", "extra.group_policy"],
            "Hermes' setting for groups: open means all groups, allowlist those of group_allow_from, and the others none.".into(),
        );
    }
}

fn add_telegram(add: &mut Add<'_>) {
    add(
        "poll",
        Kind::Duration {
            min: SECOND,
            zero_is_off: false,
        },
        Some("30s"),
        Vec::new(),
        &[],
        "How long one question for news may stay open.".into(),
    );
    add(
        "base_url",
        Kind::Text,
        None,
        Vec::new(),
        &["extra.base_url"],
        "Where a Bot API server of your own answers, as far as the token: http://host:8081/bot."
            .into(),
    );
    add(
        "local_files",
        Kind::Text,
        Some("/var/lib/telegram-bot-api"),
        Vec::new(),
        &[],
        "Where a Bot API server on this machine keeps files (its --dir). Paths that it names elsewhere are refused."
            .into(),
    );
    add(
        "only_chats",
        Kind::List,
        None,
        vec!["TELEGRAM_ALLOWED_CHATS".into()],
        &["allowed_chats", "extra.allowed_chats"],
        "Ids of the only groups that are listened to; unset, all are.".into(),
    );
    add(
        "require_mention",
        Kind::Flag,
        Some("false"),
        vec!["TELEGRAM_REQUIRE_MENTION".into()],
        &["require_mention", "extra.require_mention", "/require_mention"],
        "In groups, answer only what mentions the bot or replies to it. A topic that a handoff opened is always answered.".into(),
    );
    add(
        "free_chats",
        Kind::List,
        None,
        vec!["TELEGRAM_FREE_RESPONSE_CHATS".into()],
        &["free_response_chats", "extra.free_response_chats"],
        "Ids of groups in which no mention is needed.".into(),
    );
    add(
        "messages_per_second",
        Kind::Integer { min: 1, max: 1000 },
        Some("25"),
        Vec::new(),
        &[],
        "How many messages are sent in a second at the most, to all chats together.".into(),
    );
}
