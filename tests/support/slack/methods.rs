//! The methods of the Web API that the fake knows, and what each of them needs.

use std::time::Duration;

/// The token that a method takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Bot,
    App,
}

/// How often a method may be called in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    Two,
    Three,
    Four,
    /// One message a second in each channel.
    Posts,
    /// Slack says no number: hundreds of calls a minute.
    Special,
}

impl Tier {
    /// How many calls in which time.
    pub fn allows(self) -> (usize, Duration) {
        let minute = Duration::from_secs(60);
        match self {
            Tier::Two => (20, minute),
            Tier::Three => (50, minute),
            Tier::Four => (100, minute),
            Tier::Posts => (1, Duration::from_secs(1)),
            Tier::Special => (600, minute),
        }
    }
}

pub struct Method {
    pub name: &'static str,
    pub token: TokenKind,
    pub tier: Tier,
    /// The token has to have one of these.
    pub scopes: &'static [&'static str],
    /// Whether it takes arguments as JSON.
    pub takes_json: bool,
    /// The arguments that have to be there.
    pub required: &'static [&'static str],
}

const READ: &[&str] = &["channels:read", "groups:read", "im:read", "mpim:read"];
const HISTORY: &[&str] = &[
    "channels:history",
    "groups:history",
    "im:history",
    "mpim:history",
];
const MANAGE: &[&str] = &["channels:manage", "groups:write", "im:write", "mpim:write"];
const CHAT: &[&str] = &["chat:write"];
const USERS: &[&str] = &["users:read"];
const REACTIONS: &[&str] = &["reactions:write"];
const FILES_WRITE: &[&str] = &["files:write"];
const ASSISTANT: &[&str] = &["assistant:write"];

const fn method(
    name: &'static str,
    tier: Tier,
    scopes: &'static [&'static str],
    takes_json: bool,
    required: &'static [&'static str],
) -> Method {
    Method {
        name,
        token: TokenKind::Bot,
        tier,
        scopes,
        takes_json,
        required,
    }
}

pub const OPEN_SOCKET: &str = "apps.connections.open";

pub const METHODS: &[Method] = &[
    Method {
        name: OPEN_SOCKET,
        token: TokenKind::App,
        tier: Tier::Three,
        scopes: &["connections:write"],
        takes_json: true,
        required: &[],
    },
    method("auth.test", Tier::Special, &[], true, &[]),
    method("bots.info", Tier::Three, USERS, false, &[]),
    method("users.info", Tier::Four, USERS, false, &["user"]),
    method("users.list", Tier::Two, USERS, false, &[]),
    method("team.info", Tier::Three, &["team:read"], false, &[]),
    method("conversations.open", Tier::Three, MANAGE, true, &[]),
    method("conversations.info", Tier::Three, READ, false, &["channel"]),
    method("conversations.list", Tier::Two, READ, false, &[]),
    method(
        "conversations.members",
        Tier::Four,
        READ,
        false,
        &["channel"],
    ),
    method(
        "conversations.history",
        Tier::Three,
        HISTORY,
        false,
        &["channel"],
    ),
    method(
        "conversations.replies",
        Tier::Three,
        HISTORY,
        false,
        &["channel", "ts"],
    ),
    method(
        "conversations.join",
        Tier::Three,
        &["channels:join"],
        true,
        &["channel"],
    ),
    method("chat.postMessage", Tier::Posts, CHAT, true, &["channel"]),
    method("chat.update", Tier::Three, CHAT, true, &["channel", "ts"]),
    method("chat.delete", Tier::Three, CHAT, true, &["channel", "ts"]),
    method(
        "chat.postEphemeral",
        Tier::Four,
        CHAT,
        true,
        &["channel", "user"],
    ),
    method(
        "chat.getPermalink",
        Tier::Special,
        &[],
        false,
        &["channel", "message_ts"],
    ),
    method(
        "chat.startStream",
        Tier::Two,
        CHAT,
        true,
        &["channel", "thread_ts"],
    ),
    method(
        "chat.appendStream",
        Tier::Four,
        CHAT,
        true,
        &["channel", "ts"],
    ),
    method("chat.stopStream", Tier::Two, CHAT, true, &["channel", "ts"]),
    method("reactions.add", Tier::Three, REACTIONS, true, &["name"]),
    method("reactions.remove", Tier::Two, REACTIONS, true, &["name"]),
    // The documentation names JSON too, but Slack sees no argument in it.
    method(
        "files.getUploadURLExternal",
        Tier::Four,
        FILES_WRITE,
        false,
        &["filename", "length"],
    ),
    method(
        "files.completeUploadExternal",
        Tier::Four,
        FILES_WRITE,
        true,
        &["files"],
    ),
    method("files.info", Tier::Four, &["files:read"], false, &["file"]),
    method(
        "assistant.threads.setStatus",
        Tier::Special,
        CHAT,
        true,
        &["channel_id", "thread_ts", "status"],
    ),
    method(
        "assistant.threads.setTitle",
        Tier::Four,
        ASSISTANT,
        true,
        &["channel_id", "thread_ts", "title"],
    ),
    method(
        "assistant.threads.setSuggestedPrompts",
        Tier::Four,
        ASSISTANT,
        true,
        &["channel_id", "thread_ts", "prompts"],
    ),
];

pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}
