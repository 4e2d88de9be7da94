//! Calls to the Bot API, and what their failures mean to the rest of the house.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use teloxide::requests::{JsonRequest, Payload};
use teloxide::{ApiError, Bot, RequestError};

use crate::platform::PlatformError;

/// A call whose answer is taken as it comes: we use little of it, and a field that is new to the SDK must not make a message
/// that was sent look like one that was not.
#[derive(Serialize)]
#[serde(transparent)]
struct AsItComes<P>(P);

impl<P: Payload> Payload for AsItComes<P> {
    type Output = Value;
    const NAME: &'static str = P::NAME;

    fn timeout_hint(&self) -> Option<Duration> {
        self.0.timeout_hint()
    }
}

pub(super) async fn call<P>(bot: &Bot, payload: P) -> Result<Value, RequestError>
where
    P: Payload + Serialize + Send + 'static,
{
    JsonRequest::new(bot.clone(), AsItComes(payload)).await
}

/// The id of the message that a call has made.
pub(super) fn message_id(answer: &Value) -> Result<String, PlatformError> {
    match answer.get("message_id").and_then(Value::as_i64) {
        Some(id) => Ok(id.to_string()),
        None => Err(PlatformError::Permanent(
            "Telegram's answer has no message in it".into(),
        )),
    }
}

pub(super) fn explain(error: RequestError) -> PlatformError {
    match error {
        RequestError::Api(error) => refused(&error),
        RequestError::RetryAfter(seconds) => PlatformError::Transient {
            reason: format!("Telegram asks to wait {} s", seconds.seconds()),
            retry_after: Some(seconds.duration()),
            unsure: false,
        },
        RequestError::MigrateToChatId(id) => PlatformError::Permanent(format!(
            "the group has become a supergroup with the id {id}: use that one"
        )),
        RequestError::Network(error) => PlatformError::Transient {
            reason: format!("Telegram cannot be reached: {}", root(error.as_ref())),
            retry_after: None,
            // Once it was connected, the request may have arrived though its answer did not.
            unsure: !error.is_connect(),
        },
        RequestError::InvalidJson { raw, .. } => PlatformError::Transient {
            reason: format!(
                "Telegram is out of order: {}",
                raw.chars().take(80).collect::<String>().trim()
            ),
            retry_after: None,
            unsure: true,
        },
        RequestError::Io(error) => PlatformError::Permanent(error.to_string()),
    }
}

fn refused(error: &ApiError) -> PlatformError {
    match error {
        ApiError::InvalidToken => PlatformError::Permanent(
            "Telegram does not know the bot's token: ask @BotFather for it and set platforms.telegram.token".into(),
        ),
        ApiError::TerminatedByOtherGetUpdates => PlatformError::transient(
            "conflict: another program reads this bot's messages (a Hermes gateway, or a hermesd elsewhere): \
             stop it, or give it a bot of its own",
        ),
        ApiError::MessageToEditNotFound | ApiError::MessageCantBeEdited => {
            PlatformError::Gone(error.to_string())
        }
        ApiError::Unknown(text) if is_gone(text) => PlatformError::Gone(plain(text)),
        ApiError::Unknown(text) if is_out_of_order(text) => PlatformError::Transient {
            reason: format!("Telegram is out of order: {text}"),
            retry_after: None,
            unsure: true,
        },
        ApiError::Unknown(text) => PlatformError::Permanent(plain(text)),
        error => PlatformError::Permanent(plain(&error.to_string())),
    }
}

fn is_gone(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "message thread not found",
        "topic_deleted",
        "topic_closed",
        "topic_id_invalid",
        "message_id_invalid",
    ]
    .iter()
    .any(|gone| text.contains(gone))
}

fn is_out_of_order(text: &str) -> bool {
    ["Internal Server Error", "Bad Gateway", "Gateway Timeout"]
        .iter()
        .any(|sign| text.starts_with(sign))
}

fn plain(text: &str) -> String {
    let text = text.trim_start_matches("Bad Request: ");
    format!("Telegram says: {text}")
}

/// What really happened, without the address it happened at: the token is part of that.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Whether the message was refused for its formatting, so that it can be sent without.
pub(super) fn is_about_format(error: &RequestError) -> bool {
    match error {
        RequestError::Api(ApiError::CantParseEntities(_) | ApiError::MessageIsTooLong) => true,
        RequestError::Api(ApiError::Unknown(text)) => {
            text.contains("can't parse") || text.contains("message is too long")
        }
        _ => false,
    }
}

/// A webhook that somebody has set keeps all messages from us.
pub(super) fn is_webhook(error: &RequestError) -> bool {
    matches!(error, RequestError::Api(error) if error.to_string().contains("webhook is active"))
}
