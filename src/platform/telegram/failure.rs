//! Failures of calls to the Bot API, and their meaning for the rest of the daemon. Status, code and documented
//! parameters distinguish them. Only if one code has several cases does [`Meaning`] read the description.

use std::time::Duration;

use crate::platform::PlatformError;
use crate::platform::http_failure::HttpFailure;

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The Bot API refuses the call.
    Refused {
        /// Its `error_code`, or the HTTP status if it gives none.
        code: u16,
        description: String,
        retry_after: Option<Duration>,
    },
    /// The group has become a supergroup with this id.
    Moved(i64),
    /// Telegram has not answered.
    Http(HttpFailure),
    /// The file to send cannot be read.
    File(String),
}

/// Cases that only the description distinguishes: `(code, part of the description, meaning)`. The comparison ignores
/// case. All other cases depend on the code alone.
const CASES: [(u16, &str, Meaning); 11] = [
    (400, "message thread not found", Meaning::Gone),
    (400, "topic_deleted", Meaning::Gone),
    (400, "topic_closed", Meaning::Gone),
    (400, "topic_id_invalid", Meaning::Gone),
    (400, "message_id_invalid", Meaning::Gone),
    (400, "message to edit not found", Meaning::Gone),
    (400, "message can't be edited", Meaning::Gone),
    (400, "message is not modified", Meaning::Unchanged),
    (400, "can't parse", Meaning::Format),
    (400, "message is too long", Meaning::Format),
    // The Bot API says what is forbidden. A bare "Forbidden" comes from a server in front of it.
    (403, "forbidden: ", Meaning::Denied),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The thread or the message no longer exists.
    Gone,
    /// An edit that changes nothing.
    Unchanged,
    /// The formatting was refused. The message can be sent without it.
    Format,
    /// The bot may not do this in this chat.
    Denied,
}

impl Failure {
    pub(super) fn meaning(&self) -> Option<Meaning> {
        let Failure::Refused {
            code, description, ..
        } = self
        else {
            return None;
        };
        let text = description.to_ascii_lowercase();
        let known = CASES
            .iter()
            .find(|(of, part, _)| of == code && text.contains(part));
        known.map(|(_, _, meaning)| *meaning)
    }

    /// Whether the Bot API refused the request itself. In another form it may accept it.
    pub(super) fn is_bad_request(&self) -> bool {
        matches!(self, Failure::Refused { code: 400, .. }) && self.meaning().is_none()
    }

    /// Whether `getUpdates` is refused because a webhook is set or another program polls.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Failure::Refused { code: 409, .. })
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
        let meaning = failure.meaning();
        match failure {
            Failure::Refused {
                code,
                description,
                retry_after,
            } => refused(code, &description, retry_after, meaning),
            Failure::Moved(id) => {
                PlatformError::Permanent(format!("the group has become the supergroup {id}"))
            }
            Failure::Http(failure) => failure.into_error("Telegram", "platforms.telegram.base_url"),
            Failure::File(reason) => PlatformError::Permanent(reason),
        }
    }
}

fn refused(
    code: u16,
    description: &str,
    retry_after: Option<Duration>,
    meaning: Option<Meaning>,
) -> PlatformError {
    if let Some(pause) = retry_after {
        return PlatformError::Transient {
            reason: format!("Telegram asks to wait {} s", pause.as_secs()),
            retry_after: Some(pause),
            unsure: false,
        };
    }
    let text = description.trim_start_matches("Bad Request: ");
    let said = format!("Telegram says: {text}");
    match (code, meaning) {
        (_, Some(Meaning::Gone)) => PlatformError::Gone(said),
        (_, Some(Meaning::Denied)) => PlatformError::Permanent(said),
        (400 | 406 | 413, _) => PlatformError::Permanent(said),
        (401 | 404, _) => PlatformError::Unauthorized(
            "Telegram does not know the bot's token: ask @BotFather for it and set platforms.telegram.token".into(),
        ),
        (409, _) => PlatformError::transient(
            "conflict: another program reads this bot's messages (a Hermes gateway, or a hermesd elsewhere): \
             stop it, or give it a bot of its own",
        ),
        (500.., _) => later(format!("Telegram has an internal error: {text}"), true),
        _ => later(format!("Telegram refuses it for now ({code}: {text})"), false),
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

    fn means(code: u16, description: &str) -> PlatformError {
        let description = description.to_owned();
        let retry_after = None;
        PlatformError::from(Failure::Refused {
            code,
            description,
            retry_after,
        })
    }

    fn passes(error: &PlatformError) -> Option<bool> {
        match error {
            PlatformError::Transient { unsure, .. } => Some(*unsure),
            _ => None,
        }
    }

    #[test]
    fn codes_decide_what_passes_and_what_is_final() {
        for (code, description, unsure) in [
            (403, "Forbidden", false),
            (408, "Request Timeout", false),
            (
                409,
                "Conflict: terminated by other getUpdates request",
                false,
            ),
            (420, "FLOOD_WAIT_3", false),
            (429, "Too Many Requests", false),
            (500, "Internal Server Error", true),
            (503, "Bad Request: chat not found", true),
            (599, "", true),
        ] {
            let error = means(code, description);
            assert_eq!(passes(&error), Some(unsure), "{code}: {error:?}");
        }
        for (code, description) in [
            (400, "Bad Request: chat not found"),
            // The description of another code does not change the meaning of this one.
            (400, "Bad Gateway"),
            (403, "Forbidden: bot was kicked from the group chat"),
            (413, "Request Entity Too Large"),
        ] {
            let error = means(code, description);
            assert!(matches!(error, PlatformError::Permanent(_)), "{error:?}");
        }
        for code in [401, 404] {
            let error = means(code, "Internal Server Error");
            assert!(matches!(error, PlatformError::Unauthorized(_)), "{error:?}");
        }
    }

    #[test]
    fn one_code_with_several_cases_is_told_apart_by_its_text() {
        let gone = means(400, "Bad Request: message thread not found");
        assert!(matches!(gone, PlatformError::Gone(_)), "{gone:?}");
        // Not under another code.
        let other = means(502, "message thread not found");
        assert_eq!(passes(&other), Some(true));
    }
}
