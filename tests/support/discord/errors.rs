//! Refusals in Discord's format.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::fake::{Answer, Refusal};

/// An error of Discord's list: the status, the code and the message.
#[derive(Debug, Clone, Copy)]
pub struct KnownError(u16, u32, &'static str);

pub const UNKNOWN_CHANNEL: KnownError = KnownError(404, 10003, "Unknown Channel");
pub const UNKNOWN_GUILD: KnownError = KnownError(404, 10004, "Unknown Guild");
pub const UNKNOWN_MEMBER: KnownError = KnownError(404, 10007, "Unknown Member");
pub const UNKNOWN_MESSAGE: KnownError = KnownError(404, 10008, "Unknown Message");
pub const UNKNOWN_USER: KnownError = KnownError(404, 10013, "Unknown User");
pub const UNKNOWN_EMOJI: KnownError = KnownError(400, 10014, "Unknown Emoji");
pub const UNKNOWN_WEBHOOK: KnownError = KnownError(404, 10015, "Unknown Webhook");
pub const UNKNOWN_INTERACTION: KnownError = KnownError(404, 10062, "Unknown interaction");
pub const UNKNOWN_TAG: KnownError = KnownError(404, 10087, "Unknown Tag");
pub const UNKNOWN_APPLICATION: KnownError = KnownError(404, 10002, "Unknown Application");
pub const UNKNOWN_COMMAND: KnownError = KnownError(404, 10063, "Unknown application command");
pub const TOO_MANY_COMMANDS: KnownError = KnownError(
    400,
    30032,
    "Maximum number of application commands reached (100)",
);
pub const UNAUTHORIZED: KnownError = KnownError(401, 0, "401: Unauthorized");
pub const NOT_FOUND: KnownError = KnownError(404, 0, "404: Not Found");
pub const WRONG_METHOD: KnownError = KnownError(405, 0, "405: Method Not Allowed");
pub const TOO_LARGE: KnownError = KnownError(413, 40005, "Request entity too large");
pub const ACKNOWLEDGED: KnownError =
    KnownError(400, 40060, "Interaction has already been acknowledged.");
pub const TAG_REQUIRED: KnownError = KnownError(
    400,
    40067,
    "A tag is required to create a forum post in this channel",
);
pub const MISSING_ACCESS: KnownError = KnownError(403, 50001, "Missing Access");
pub const NOT_THE_AUTHOR: KnownError =
    KnownError(403, 50005, "Cannot edit a message authored by another user");
pub const EMPTY_MESSAGE: KnownError = KnownError(400, 50006, "Cannot send an empty message");
pub const CANNOT_SEND_TO_USER: KnownError =
    KnownError(403, 50007, "Cannot send messages to this user");
pub const NOT_A_TEXT_CHANNEL: KnownError =
    KnownError(400, 50008, "Cannot send messages in a non-text channel");
pub const NO_MUTUAL_GUILD: KnownError = KnownError(
    403,
    50278,
    "Cannot send messages to this user due to having no mutual guilds",
);
pub const MISSING_PERMISSIONS: KnownError = KnownError(403, 50013, "Missing Permissions");
pub const SYSTEM_MESSAGE: KnownError =
    KnownError(403, 50021, "Cannot execute action on a system message");
pub const WRONG_CHANNEL_TYPE: KnownError =
    KnownError(400, 50024, "Cannot execute action on this channel type");
pub const INVALID_WEBHOOK_TOKEN: KnownError = KnownError(401, 50027, "Invalid Webhook Token");
pub const INVALID_RECIPIENT: KnownError = KnownError(400, 50033, "Invalid Recipient(s)");
pub const ARCHIVED: KnownError = KnownError(400, 50083, "Thread is archived");
pub const INVALID_JSON: KnownError =
    KnownError(400, 50109, "The request body contains invalid JSON.");
pub const NO_HISTORY_TO_REPLY: KnownError = KnownError(
    400,
    160002,
    "Cannot reply without permission to read message history",
);
pub const HAS_THREAD: KnownError = KnownError(
    400,
    160004,
    "A thread has already been created for this message",
);
pub const LOCKED: KnownError = KnownError(400, 160005, "Thread is locked");
pub const TOO_MANY_THREADS: KnownError =
    KnownError(400, 160006, "Maximum number of active threads reached");
pub const TOO_MANY_ANNOUNCEMENT_THREADS: KnownError = KnownError(
    400,
    160007,
    "Maximum number of active announcement threads reached",
);

impl From<KnownError> for Refusal {
    fn from(KnownError(status, code, message): KnownError) -> Refusal {
        refuse(status, code, message)
    }
}

pub fn refuse(status: u16, code: u32, message: &str) -> Refusal {
    Refusal {
        description: message.to_owned(),
        answer: Answer::json(status, &json!({"message": message, "code": code})),
    }
}

/// What Cloudflare answers before Discord sees the call.
pub fn blocked_agent() -> Refusal {
    Refusal {
        description: "the user agent is not that of a bot".to_owned(),
        answer: Answer::new(403, "text/plain; charset=UTF-8", "error code: 1010"),
    }
}

/// Whose calls a rate limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitScope {
    /// The calls of this bot to one bucket.
    User,
    /// All calls of this bot.
    Global,
    /// The calls of everybody to one resource. The headers of the bucket say nothing about it.
    Shared,
}

pub fn too_many_requests(retry_after: Duration, scope: LimitScope) -> Refusal {
    let global = scope == LimitScope::Global;
    let message = match scope {
        LimitScope::User | LimitScope::Global => "You are being rate limited.",
        LimitScope::Shared => "The resource is being rate limited.",
    };
    let seconds = retry_after.as_secs_f64();
    let body = json!({"message": message, "retry_after": seconds, "global": global});
    let mut answer = Answer::json(429, &body);
    // The header has whole seconds, so it is never shorter than the body says.
    let whole = format!("{}", seconds.ceil());
    answer.headers.push(("retry-after", whole));
    let name = match scope {
        LimitScope::User => "user",
        LimitScope::Global => "global",
        LimitScope::Shared => "shared",
    };
    answer.headers.push(("x-ratelimit-scope", name.to_owned()));
    if global {
        let global = ("x-ratelimit-global", "true".to_owned());
        answer.headers.push(global);
    }
    Refusal {
        description: message.to_owned(),
        answer,
    }
}

/// The answer to a body with errors in it, as a tree.
pub fn invalid_form(errors: Value) -> Refusal {
    let body = json!({"message": "Invalid Form Body", "code": 50035, "errors": errors});
    Refusal {
        description: format!("Invalid Form Body: {errors}"),
        answer: Answer::json(400, &body),
    }
}
