//! Failures of calls to Slack, and their meaning for the rest of the daemon. The name of the error distinguishes them.

use std::time::Duration;

use crate::platform::PlatformError;
use crate::platform::http_failure::HttpFailure;

/// The token of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    Bot,
    App,
    /// The address of the call is its own credential.
    None,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failure {
    /// Slack refuses the call.
    Refused {
        status: u16,
        /// Slack's name for the reason.
        error: String,
        /// The scope that the token lacks.
        needed: Option<String>,
        token: Token,
    },
    /// Too many requests.
    Wait(Duration),
    /// Slack has not answered.
    Http(HttpFailure),
    /// The file to send cannot be read, or the file to fetch is not for us.
    File(String),
}

/// What an error means for the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The message or its thread no longer exists.
    Gone,
    Refused,
    /// The token is not valid.
    Unauthorized,
    /// It may work later, and may have had its effect.
    Later,
}

use Meaning::{Gone, Later, Refused, Unauthorized};

/// Slack's name for the error, what it means, and the words with the remedy.
const ERRORS: [(&str, Meaning, &str); 38] = [
    ("message_not_found", Gone, "the message was deleted"),
    ("thread_not_found", Gone, "the thread was deleted"),
    ("invalid_thread_ts", Gone, "the thread does not exist"),
    (
        "cannot_reply_to_message",
        Refused,
        "this message cannot have replies",
    ),
    (
        "channel_not_found",
        Refused,
        "the bot cannot see this channel: check the id, and for a private channel say /invite @bot there",
    ),
    (
        "not_in_channel",
        Refused,
        "the bot is not in this channel: say /invite @bot there",
    ),
    (
        "is_archived",
        Refused,
        "the channel is archived: restore it, or choose another home channel",
    ),
    (
        "is_inactive",
        Refused,
        "the channel is archived: restore it, or choose another home channel",
    ),
    (
        "restricted_action",
        Refused,
        "a setting of the workspace or the channel forbids it: let the app post there",
    ),
    (
        "restricted_action_read_only_channel",
        Refused,
        "the channel is read-only: let the app post there",
    ),
    (
        "restricted_action_thread_only_channel",
        Refused,
        "the channel allows only replies in threads: choose another home channel",
    ),
    (
        "restricted_action_non_threadable_channel",
        Refused,
        "the channel allows no threads: choose another home channel",
    ),
    (
        "restricted_action_thread_locked",
        Gone,
        "the thread is locked: unlock it",
    ),
    (
        "messages_tab_disabled",
        Refused,
        "the app takes no private messages: at api.slack.com/apps (App Home), switch the Messages Tab on",
    ),
    (
        "user_not_found",
        Refused,
        "the workspace has no such person: check the id",
    ),
    (
        "user_disabled",
        Refused,
        "the account of the person is deactivated",
    ),
    (
        "cannot_dm_bot",
        Refused,
        "the id is that of a bot: use the id of a person or of a channel",
    ),
    ("msg_too_long", Refused, "the message is too long"),
    ("msg_blocks_too_long", Refused, "the message is too long"),
    (
        "edit_window_closed",
        Refused,
        "the workspace allows no edits of old messages",
    ),
    (
        "cant_update_message",
        Refused,
        "the message is not the bot's",
    ),
    ("file_not_found", Refused, "the file does not exist"),
    ("file_deleted", Refused, "the file was deleted"),
    (
        "file_upload_size_restricted",
        Refused,
        "the file is larger than the workspace allows",
    ),
    (
        "file_uploads_disabled",
        Refused,
        "the workspace allows no files",
    ),
    (
        "storage_limit_reached",
        Refused,
        "the workspace has no room for files",
    ),
    ("invalid_auth", Unauthorized, "it is not valid"),
    ("not_authed", Unauthorized, "it is missing"),
    (
        "account_inactive",
        Unauthorized,
        "the app was removed from the workspace, or the workspace was deleted",
    ),
    ("token_revoked", Unauthorized, "it was revoked"),
    ("token_expired", Unauthorized, "it has expired"),
    ("internal_error", Later, "Slack has an internal error"),
    ("fatal_error", Later, "Slack has an internal error"),
    ("service_unavailable", Later, "Slack is not available now"),
    (
        "request_timeout",
        Later,
        "Slack has not received the whole call",
    ),
    (
        "team_added_to_org",
        Later,
        "the workspace is being moved to an organisation",
    ),
    ("rollup_error", Later, "Slack has an internal error"),
    (
        "message_limit_exceeded",
        Later,
        "the workspace is over a limit of Slack",
    ),
];

impl Failure {
    /// Slack's name for the refusal.
    pub(super) fn error(&self) -> Option<&str> {
        match self {
            Failure::Refused { error, .. } => Some(error),
            _ => None,
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.error() == Some(name)
    }

    /// Whether Slack has judged the call itself, so that the same call fails again.
    pub(super) fn is_final(&self) -> bool {
        match PlatformError::from(self.clone()) {
            PlatformError::Permanent(_) | PlatformError::Gone(_) => true,
            PlatformError::Unauthorized(_)
            | PlatformError::WindowClosed(_)
            | PlatformError::Transient { .. }
            | PlatformError::Storage(_) => false,
        }
    }

    pub(super) fn gone(error: &str) -> Failure {
        Failure::Refused {
            status: 200,
            error: error.to_owned(),
            needed: None,
            token: Token::Bot,
        }
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
                error,
                needed,
                token,
            } => refused(status, &error, needed.as_deref(), token),
            Failure::Wait(pause) => PlatformError::Transient {
                reason: format!("Slack asks to wait {} s", pause.as_secs()),
                retry_after: Some(pause),
                unsure: false,
            },
            Failure::Http(failure) => failure.into_error("Slack", "platforms.slack.base_url"),
            Failure::File(reason) => PlatformError::Permanent(reason),
        }
    }
}

fn refused(status: u16, error: &str, needed: Option<&str>, token: Token) -> PlatformError {
    let (which, setting) = match token {
        Token::App => ("app-level token (xapp-…)", "platforms.slack.app_token"),
        Token::Bot | Token::None => ("bot token (xoxb-…)", "platforms.slack.token"),
    };
    match error {
        "missing_scope" => {
            let needed = needed.unwrap_or("that the method needs");
            let place = match token {
                Token::App => "give the app-level token that scope (Basic Information)",
                Token::Bot | Token::None => {
                    "add it at api.slack.com/apps (OAuth & Permissions) and install the app again"
                }
            };
            return PlatformError::Permanent(format!(
                "the app lacks the scope {needed} (missing_scope): {place}"
            ));
        }
        "not_allowed_token_type" => {
            return PlatformError::Permanent(format!(
                "{setting} is a token of another kind (not_allowed_token_type): set it to the {which}"
            ));
        }
        _ => {}
    }
    let known = ERRORS.iter().find(|(known, ..)| *known == error);
    let said = match known {
        Some((_, _, words)) => format!("Slack refuses it ({error}): {words}"),
        None => format!("Slack refuses it: {error}"),
    };
    match known {
        Some((_, Gone, _)) => PlatformError::Gone(said),
        Some((_, Refused, _)) => PlatformError::Permanent(said),
        Some((_, Unauthorized, words)) => PlatformError::Unauthorized(format!(
            "Slack does not accept the {which} ({error}): {words}; set {setting} to the one that api.slack.com/apps shows"
        )),
        Some((_, Later, _)) => later(said),
        None if status >= 500 => later(said),
        None => PlatformError::Permanent(said),
    }
}

fn later(reason: String) -> PlatformError {
    PlatformError::Transient {
        reason,
        retry_after: None,
        unsure: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn means(error: &str, needed: Option<&str>, token: Token) -> PlatformError {
        PlatformError::from(Failure::Refused {
            status: 200,
            error: error.into(),
            needed: needed.map(str::to_owned),
            token,
        })
    }

    #[test]
    fn names_decide_what_is_gone_what_is_final_and_what_passes() {
        let bot = |error| means(error, None, Token::Bot);
        assert!(matches!(bot("thread_not_found"), PlatformError::Gone(_)));
        assert!(
            matches!(bot("not_in_channel"), PlatformError::Permanent(why) if why.contains("/invite"))
        );
        assert!(matches!(bot("something_new"), PlatformError::Permanent(_)));
        assert!(matches!(
            bot("fatal_error"),
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

    #[test]
    fn a_refused_token_is_named_and_so_is_a_missing_scope() {
        for (token, expected) in [(Token::Bot, "xoxb"), (Token::App, "xapp")] {
            for error in ["invalid_auth", "token_revoked", "account_inactive"] {
                let PlatformError::Unauthorized(why) = means(error, None, token) else {
                    panic!("{error}");
                };
                assert!(why.contains(expected) && why.contains(error), "{why}");
            }
            let PlatformError::Permanent(why) = means("not_allowed_token_type", None, token) else {
                panic!("not final");
            };
            assert!(why.contains(expected), "{why}");
        }
        let lacks = means("missing_scope", Some("im:write"), Token::Bot);
        assert!(lacks.to_string().contains("im:write"), "{lacks}");
    }
}
