//! Sends messages, edits, reactions and typing indicators to Discord, and downloads files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use reqwest::Url;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};
use serenity::http::Route;
use serenity::model::id::{ChannelId, MessageId};
use tokio_stream::StreamExt;
use tokio_util::io::ReaderStream;

use super::Discord;
use super::channel::{channel_id, id_of};
use super::config::Replies;
use super::failure::Failure;
use super::format::text;
use crate::domain::{Button, RemoteFile, Source};
use crate::platform::download::save;
use crate::platform::key_hash::key_hash;
use crate::platform::{OutboundMessage, PlatformError};

const LONGEST_LABEL: usize = 80;
const LONGEST_DATA: usize = 100;
const BUTTONS_IN_A_ROW: usize = 5;
const ROWS: usize = 5;
/// The most messages whose buttons are remembered.
const MOST_SHOWN: usize = 1000;
/// The id of a sent message that is not known. Such a message cannot be edited.
const UNKNOWN_ID: &str = "0";
/// 👀, as it stands in an address.
const EYES: &str = "%F0%9F%91%80";

/// The same key gives the same nonce. It fits into Discord's 25 characters.
pub(super) fn nonce(send_key: &str) -> String {
    key_hash(send_key)
}

/// Up to five rows of five buttons. Leaves out buttons that Discord would refuse: the text names them too.
fn components(buttons: &[Button], disabled: bool) -> Value {
    let fitting: Vec<Value> = buttons
        .iter()
        .filter(|button| !button.label.is_empty() && button.data.chars().count() <= LONGEST_DATA)
        .take(ROWS * BUTTONS_IN_A_ROW)
        .map(|button| {
            let label: String = button.label.chars().take(LONGEST_LABEL).collect();
            json!({"type": 2, "style": 2, "label": label, "custom_id": button.data, "disabled": disabled})
        })
        .collect();
    let rows = fitting.chunks(BUTTONS_IN_A_ROW);
    rows.map(|row| json!({"type": 1, "components": row}))
        .collect()
}

/// The fields of a new message and of an edited one. Only the person whom the message is for is notified.
fn content(what: &OutboundMessage<'_>) -> Value {
    let notified = what.notifies.filter(|id| id.parse::<u64>().is_ok());
    let words = text(what.text);
    let mut body = json!({
        "content": match notified {
            Some(id) => format!("<@{id}> {words}"),
            None => words,
        },
        "allowed_mentions": {"parse": [], "users": notified.as_slice(), "replied_user": false},
    });
    if !what.buttons.is_empty() {
        body["components"] = components(what.buttons, false);
    }
    body
}

/// The buttons of messages that this process has sent.
#[derive(Default)]
pub(super) struct ShownButtons {
    by_message: Mutex<HashMap<String, Vec<Button>>>,
}

impl ShownButtons {
    fn locked(&self) -> MutexGuard<'_, HashMap<String, Vec<Button>>> {
        self.by_message.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn shown(&self, message_id: &str, buttons: &[Button]) {
        if buttons.is_empty() {
            return;
        }
        let mut shown = self.locked();
        if shown.len() >= MOST_SHOWN {
            shown.clear();
        }
        shown.insert(message_id.to_owned(), buttons.to_vec());
    }

    fn of(&self, message_id: &str) -> Option<Vec<Button>> {
        self.locked().get(message_id).cloned()
    }

    fn forget(&self, message_id: &str) {
        self.locked().remove(message_id);
    }
}

fn channel_of(to: &Source) -> Result<ChannelId, Failure> {
    channel_id(to.chat_id.as_deref().unwrap_or_default())
}

fn message_of(id: &str) -> Result<MessageId, Failure> {
    let number = id.parse::<u64>().ok().filter(|id| *id != 0);
    number.map(MessageId::new).ok_or_else(|| Failure::Refused {
        status: 404,
        code: 10008,
        message: format!("{id:?} is not a message id of Discord"),
    })
}

impl Discord {
    pub(super) async fn post(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, Failure> {
        let channel_id = channel_of(to)?;
        let route = || Route::ChannelMessages { channel_id };
        let mut body = content(&what);
        if what.file.is_none()
            && let Some(command) = what.answers
            && let Some(id) = self.answer_command(command, &body).await?
        {
            self.buttons.shown(&id, what.buttons);
            return Ok(id);
        }
        body["nonce"] = json!(nonce(send_key));
        body["enforce_nonce"] = json!(true);
        let reference = self.reference(to, &what);
        if let Some(id) = reference {
            body["message_reference"] = json!({"message_id": id, "fail_if_not_exists": false});
        }
        let sent = match self.post_body(route(), &body, what.file).await {
            // A reply may be refused where a plain message is not.
            Err(failure)
                if failure.is_final() && failure.code() != Some(10008) && reference.is_some() =>
            {
                if let Some(body) = body.as_object_mut() {
                    body.remove("message_reference");
                }
                self.post_body(route(), &body, what.file).await?
            }
            // Discord recognises the nonce of a message that someone has deleted since.
            Err(failure) if failure.code() == Some(10008) => return Ok(UNKNOWN_ID.into()),
            sent => sent?,
        };
        let id = id_of(&sent, "id").unwrap_or_else(|| UNKNOWN_ID.into());
        self.buttons.shown(&id, what.buttons);
        Ok(id)
    }

    async fn post_body(
        &self,
        route: Route<'_>,
        body: &Value,
        file: Option<&Path>,
    ) -> Result<Value, Failure> {
        match file {
            Some(path) => self.api.upload(route, form(body, path).await?).await,
            None => self.api.post(route, body).await,
        }
    }

    /// The message that this one refers to. The message that a thread begins with is not in the thread.
    fn reference<'a>(&self, to: &Source, what: &OutboundMessage<'a>) -> Option<&'a str> {
        let wanted = match self.rules.replies {
            Replies::Off => false,
            Replies::First => !what.continues,
            Replies::All => true,
        };
        let is_message = |id: &&str| message_of(id).is_ok() && to.thread_id.as_deref() != Some(*id);
        what.answers.filter(|_| wanted).filter(is_message)
    }

    pub(super) async fn change(
        &self,
        to: &Source,
        message_id: &str,
        what: OutboundMessage<'_>,
    ) -> Result<(), Failure> {
        let route = Route::ChannelMessage {
            channel_id: channel_of(to)?,
            message_id: message_of(message_id)?,
        };
        let mut body = content(&what);
        // Buttons that are no longer wanted stay visible, and cannot be pressed.
        let disabled = self.buttons.of(message_id);
        body["components"] = match (what.buttons.is_empty(), disabled) {
            (true, Some(buttons)) => components(&buttons, true),
            _ => components(what.buttons, false),
        };
        self.api.patch(route, &body).await?;
        if what.buttons.is_empty() {
            self.buttons.forget(message_id);
        }
        Ok(())
    }

    pub(super) async fn show_typing(&self, to: &Source) -> Result<(), Failure> {
        let route = Route::ChannelTyping {
            channel_id: channel_of(to)?,
        };
        self.api.post(route, &json!({})).await.map(drop)
    }

    pub(super) async fn react(&self, source: &Source, message_id: &str) -> Result<(), Failure> {
        let Ok(message_id) = message_of(message_id) else {
            return Ok(());
        };
        // The message that a thread begins with is in the channel around the thread.
        let is_first = source.thread_id.as_deref() == Some(&message_id.to_string());
        let around = source.parent_chat_id.as_deref().filter(|_| is_first);
        let route = Route::ChannelMessageReactionMe {
            channel_id: match around {
                Some(channel) => channel_id(channel)?,
                None => channel_of(source)?,
            },
            message_id,
            reaction: EYES,
        };
        self.api.put(route).await.map(drop)
    }

    pub(super) async fn download(
        &self,
        file: &RemoteFile,
        to: &Path,
        largest: u64,
    ) -> Result<(), PlatformError> {
        let url = Url::parse(&file.id).ok();
        let Some(url) = url.filter(|url| self.api.is_file_host(url)) else {
            return Err(PlatformError::Permanent(
                "the file is not on Discord's servers".into(),
            ));
        };
        let response = self.api.file(url).await?;
        let chunks = response.bytes_stream().map(|chunk| match chunk {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(Failure::from(error).into()),
        });
        save(to, largest, chunks).await
    }
}

async fn form(body: &Value, path: &Path) -> Result<Form, Failure> {
    let unreadable = |error: std::io::Error| {
        // The chat must not learn the path.
        tracing::warn!(path = %path.display(), %error, "file to send cannot be read");
        Failure::File("it cannot be read".into())
    };
    let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
    let size = file.metadata().await.map_err(unreadable)?.len();
    let chunks = ReaderStream::with_capacity(file, 64 << 10);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = Part::stream_with_length(reqwest::Body::wrap_stream(chunks), size);
    let part = part.file_name(name.into_owned());
    Ok(Form::new()
        .text("payload_json", body.to_string())
        .part("files[0]", part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_fits_and_depends_on_its_key_alone() {
        assert_eq!(nonce("delivery:7"), nonce("delivery:7"));
        assert_ne!(nonce("delivery:7"), nonce("delivery:8"));
        assert!(nonce("").len() <= 25);
    }

    #[test]
    fn buttons_fit_into_rows() {
        let button = |n: usize| Button {
            label: "x".repeat(100),
            data: format!("choice:{n}"),
        };
        let buttons: Vec<Button> = (0..30).map(button).collect();
        let rows = components(&buttons, false);
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), 5);
        assert!(
            rows.iter()
                .all(|row| row["components"].as_array().unwrap().len() == 5)
        );
        assert_eq!(
            rows[0]["components"][0]["label"].as_str().unwrap().len(),
            80
        );
    }
}
