//! Failures of calls to the Bot API, and what they mean to the rest of the daemon. They are told apart by status, code and the
//! documented parameters. Where one code stands for several cases, and only there, [`Meaning`] reads the description.

use std::time::Duration;

use crate::platform::PlatformError;

/// Why a call brought no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The Bot API has answered, and refuses.
    Refused {
        /// Its `error_code`; the HTTP status where it gives none.
        code: u16,
        description: String,
        retry_after: Option<Duration>,
    },
    /// The group has become a supergroup with this id.
    Moved(i64),
    /// The answer is none of the Bot API's: a proxy, a balancer or a portal stands before it.
    Foreign { status: u16, beginning: String },
    /// The server wants the call to go to this host. A redirect is not followed: the address holds the token.
    Redirected { status: u16, host: String },
    /// No answer, or only a part of one.
    Network { reason: String, unsure: bool },
    /// The file that is to be sent cannot be read.
    File(String),
}

/// Cases of one code that only the description tells apart, in the words of the Bot API. `(code, part of the text, case)`; the
/// comparison ignores case. Everything else goes by the code alone.
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
    // The Bot API says what is forbidden. A bare "Forbidden" comes from something before it.
    (403, "forbidden: ", Meaning::Denied),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The thread or the message is no longer there.
    Gone,
    /// An edit that changes nothing.
    Unchanged,
    /// It was refused for its formatting, and can be sent without.
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

    /// A request that the Bot API understood and does not want: in another shape it may.
    pub(super) fn is_bad_request(&self) -> bool {
        matches!(self, Failure::Refused { code: 400, .. }) && self.meaning().is_none()
    }

    /// `getUpdates` is not for us now: a webhook is set, or another program polls.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Failure::Refused { code: 409, .. })
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
            Failure::Foreign { status, beginning } => later(
                format!("something before Telegram answers with HTTP status {status}: {beginning}"),
                // A refusal of the request is one; anything else may hide that it was done.
                !(400..500).contains(&status),
            ),
            Failure::Redirected { status, host } => later(
                format!(
                    "the server redirects to {host} (HTTP status {status}), and redirects are not followed: \
                     set platforms.telegram.base_url to the address of the Bot API itself"
                ),
                false,
            ),
            Failure::Network { reason, unsure } => {
                later(format!("Telegram cannot be reached: {reason}"), unsure)
            }
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
        (500.., _) => later(format!("Telegram is out of order: {text}"), true),
        _ => later(format!("Telegram cannot do it now ({code}: {text})"), false),
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
            // The words of another code do not change what this one says.
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

    #[test]
    fn pages_of_others_pass_and_are_doubtful_only_behind_success() {
        for (status, unsure) in [
            (200, true),
            (403, false),
            (404, false),
            (502, true),
            (520, true),
        ] {
            let beginning = "<html>".to_owned();
            let error = PlatformError::from(Failure::Foreign { status, beginning });
            assert_eq!(passes(&error), Some(unsure), "{status}");
        }
    }
}
