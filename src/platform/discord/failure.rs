//! Failures of calls to Discord, and their meaning for the rest of the daemon. Status and code distinguish them.

use std::time::Duration;

use crate::platform::PlatformError;
use crate::platform::http_failure::HttpFailure;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// Discord refuses the call.
    Refused {
        status: u16,
        /// Discord's own code. `0`: it gives none.
        code: u64,
        message: String,
    },
    /// Too many requests.
    Wait(Duration),
    /// Discord has not answered.
    Http(HttpFailure),
    /// The file to send cannot be read.
    File(String),
}

/// What a code means for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The channel, thread or message no longer exists, or accepts nothing.
    Gone,
    Refused,
}

/// Discord's code, what it means, and the words with the remedy.
const CODES: [(u64, Meaning, &str); 16] = [
    (
        10003,
        Meaning::Gone,
        "unknown channel: it was deleted, or its id is wrong",
    ),
    (10008, Meaning::Gone, "unknown message: it was deleted"),
    (
        10062,
        Meaning::Refused,
        "unknown interaction: it has expired",
    ),
    (
        30033,
        Meaning::Refused,
        "the thread has no room for more members",
    ),
    (
        40067,
        Meaning::Refused,
        "a tag is required to create a post in this forum",
    ),
    (
        50001,
        Meaning::Refused,
        "missing access: give the bot the permission View Channel there",
    ),
    (
        50007,
        Meaning::Refused,
        "the person accepts no private messages from the bot",
    ),
    (
        50013,
        Meaning::Refused,
        "missing permission: grant it to the bot's role, in the channel or on the server",
    ),
    (
        50024,
        Meaning::Refused,
        "this kind of channel does not allow it",
    ),
    (
        50083,
        Meaning::Gone,
        "the thread is archived and locked: unlock it, or give the bot the permission Manage Threads",
    ),
    (
        160002,
        Meaning::Refused,
        "no reply without the permission Read Message History",
    ),
    (160004, Meaning::Refused, "the message has a thread already"),
    (
        160005,
        Meaning::Gone,
        "the thread is locked: unlock it, or give the bot the permission Manage Threads",
    ),
    (
        50278,
        Meaning::Refused,
        "the bot and the person share no server: invite the bot to one that the person is on",
    ),
    (
        160007,
        Meaning::Refused,
        "the server has its maximum number of active announcement threads: archive some of them",
    ),
    (
        160006,
        Meaning::Refused,
        "the server has its maximum number of active threads: archive some of them",
    ),
];

impl Failure {
    pub(super) fn code(&self) -> Option<u64> {
        match self {
            Failure::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether Discord has judged the call itself, so that another form of it may succeed.
    pub(super) fn is_final(&self) -> bool {
        matches!(
            self,
            Failure::Refused {
                status: 400 | 403 | 404,
                ..
            }
        )
    }
}

impl From<HttpFailure> for Failure {
    fn from(failure: HttpFailure) -> Failure {
        Failure::Http(failure)
    }
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Failure {
        Failure::Http(error.into())
    }
}

impl From<Failure> for PlatformError {
    fn from(failure: Failure) -> PlatformError {
        match failure {
            Failure::Refused {
                status,
                code,
                message,
            } => refused(status, code, &message),
            Failure::Wait(pause) => PlatformError::Transient {
                reason: format!("Discord asks to wait {:.1} s", pause.as_secs_f64()),
                retry_after: Some(pause),
                unsure: false,
            },
            Failure::Http(failure) => failure.into_error("Discord", "platforms.discord.base_url"),
            Failure::File(reason) => PlatformError::Permanent(reason),
        }
    }
}

fn refused(status: u16, code: u64, message: &str) -> PlatformError {
    if let Some((_, meaning, words)) = CODES.iter().find(|(known, ..)| *known == code) {
        let said = format!("Discord refuses it ({code}): {words}");
        return match meaning {
            Meaning::Gone => PlatformError::Gone(said),
            Meaning::Refused => PlatformError::Permanent(said),
        };
    }
    let said = match code {
        0 => format!("Discord refuses it (HTTP status {status}): {message}"),
        code => format!("Discord refuses it ({code}): {message}"),
    };
    match status {
        401 => PlatformError::Unauthorized(
            "Discord does not know the bot's token: reset it in the developer portal (Bot) and set platforms.discord.token".into(),
        ),
        404 => PlatformError::Gone(said),
        500.. => later(format!("Discord has an internal error: {message}"), true),
        408 => later(said, false),
        _ => PlatformError::Permanent(said),
    }
}

fn later(reason: String, unsure: bool) -> PlatformError {
    PlatformError::Transient {
        reason,
        retry_after: None,
        unsure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_decide_what_is_gone_what_is_final_and_what_passes() {
        let means = |status, code| {
            PlatformError::from(Failure::Refused {
                status,
                code,
                message: "x".into(),
            })
        };
        assert!(matches!(means(404, 10003), PlatformError::Gone(_)));
        assert!(matches!(means(403, 50013), PlatformError::Permanent(_)));
        assert!(matches!(means(401, 0), PlatformError::Unauthorized(_)));
        assert!(matches!(
            means(502, 0),
            PlatformError::Transient { unsure: true, .. }
        ));
        let wait = PlatformError::from(Failure::Wait(Duration::from_secs(2)));
        assert!(matches!(
            wait,
            PlatformError::Transient {
                unsure: false,
                retry_after: Some(_),
                ..
            }
        ));
    }
}
