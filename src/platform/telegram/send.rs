//! Messages, changes, files and signs to Telegram.

use std::path::Path;

use teloxide::RequestError;
use teloxide::net::Download;
use teloxide::payloads::{
    AnswerCallbackQuery, AnswerCallbackQuerySetters, EditMessageText, EditMessageTextSetters,
    GetFile, SendAudio, SendAudioSetters, SendChatAction, SendChatActionSetters, SendDocument,
    SendDocumentSetters, SendMessage, SendMessageSetters, SendPhoto, SendPhotoSetters, SendVideo,
    SendVideoSetters, SendVoice, SendVoiceSetters, SetMessageReaction, SetMessageReactionSetters,
};
use teloxide::requests::{MultipartRequest, Request};
use teloxide::types::{
    CallbackQueryId, ChatAction, FileId, InlineKeyboardButton, InlineKeyboardMarkup, InputFile,
    Message, MessageId, ParseMode, ReactionType,
};
use tokio_stream::StreamExt;

use super::call::{call, explain, is_about_format, message_id};
use super::format::{html, plain};
use super::{NAME, Telegram, place};
use crate::platform::download::{save, save_file};
use crate::platform::{Button, Outgoing, PlatformError, RemoteFile};
use crate::session::{Source, open_below};

/// What a button may bring back.
const LONGEST_DATA: usize = 64;
const LONGEST_LABEL: usize = 60;
/// A picture that is larger goes as a file.
const LARGEST_PHOTO: u64 = 10_000_000;

impl Telegram {
    pub(super) async fn send_text(
        &self,
        to: &Source,
        what: Outgoing<'_>,
    ) -> Result<String, PlatformError> {
        let message = |text: String| {
            let mut message = SendMessage::new(place::recipient(to), text);
            if let Some(topic) = place::topic(to) {
                message = message.message_thread_id(topic);
            }
            match keyboard(what.buttons) {
                Some(keyboard) => message.reply_markup(keyboard),
                None => message,
            }
        };
        let formatted = message(html(what.text)).parse_mode(ParseMode::Html);
        let answer = match call(&self.bot, formatted).await {
            Err(error) if is_about_format(&error) => {
                tracing::debug!(%error, platform = NAME, "a message is sent without formatting");
                call(&self.bot, message(plain(what.text))).await
            }
            answer => answer,
        };
        message_id(&answer.map_err(explain)?)
    }

    pub(super) async fn edit_text(
        &self,
        to: &Source,
        id: &str,
        what: Outgoing<'_>,
    ) -> Result<(), PlatformError> {
        let id = number(id)?;
        let change = |text: String| {
            let change = EditMessageText::new(place::recipient(to), id, text);
            match keyboard(what.buttons) {
                Some(keyboard) => change.reply_markup(keyboard),
                None => change,
            }
        };
        let formatted = change(html(what.text)).parse_mode(ParseMode::Html);
        let answer = match call(&self.bot, formatted).await {
            Err(error) if is_about_format(&error) => {
                call(&self.bot, change(plain(what.text))).await
            }
            answer => answer,
        };
        match answer {
            Err(RequestError::Api(teloxide::ApiError::MessageNotModified)) => Ok(()),
            answer => answer.map(drop).map_err(explain),
        }
    }

    /// By its kind, so that a picture is seen and a voice heard.
    pub(super) async fn send_file(
        &self,
        to: &Source,
        path: &Path,
        caption: &str,
    ) -> Result<String, PlatformError> {
        let (chat, file) = (place::recipient(to), InputFile::file(path));
        let size = std::fs::metadata(path).map(|m| m.len());
        let size =
            size.map_err(|e| PlatformError::Permanent(format!("{}: {e}", path.display())))?;
        let extension = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        // The setters have the same names, but each payload has its own.
        macro_rules! send {
            ($payload:ident) => {{
                let mut payload = $payload::new(chat, file);
                if let Some(topic) = place::topic(to) {
                    payload = payload.message_thread_id(topic);
                }
                if !caption.is_empty() {
                    payload = payload.caption(caption);
                }
                MultipartRequest::new(self.bot.clone(), payload)
                    .send()
                    .await
            }};
        }
        let sent: Result<Message, RequestError> = match extension.to_ascii_lowercase().as_str() {
            "jpg" | "jpeg" | "png" | "webp" if size <= LARGEST_PHOTO => send!(SendPhoto),
            "ogg" | "oga" | "opus" => send!(SendVoice),
            "mp3" | "m4a" => send!(SendAudio),
            "mp4" => send!(SendVideo),
            _ => send!(SendDocument),
        };
        Ok(sent.map_err(explain)?.id.0.to_string())
    }

    pub(super) async fn show_action(&self, to: &Source) -> Result<(), PlatformError> {
        let mut action = SendChatAction::new(place::recipient(to), ChatAction::Typing);
        if let Some(topic) = place::any_topic(to) {
            action = action.message_thread_id(topic);
        }
        call(&self.bot, action).await.map(drop).map_err(explain)
    }

    /// A sign on the message itself; where the chat allows none, a line.
    pub(super) async fn react(&self, source: &Source, id: &str) -> Result<(), PlatformError> {
        // A pressed button is no message to put a sign on.
        let Ok(id) = number(id) else { return Ok(()) };
        let eyes = ReactionType::Emoji {
            emoji: "👀".into()
        };
        let reaction = SetMessageReaction::new(place::recipient(source), id).reaction([eyes]);
        match call(&self.bot, reaction).await.map_err(explain) {
            Err(PlatformError::Permanent(reason)) => {
                tracing::debug!(reason, "no reaction is allowed there");
                let text = "I have seen it, and answer it next.";
                self.send_text(source, text.into()).await.map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    pub(super) async fn answer_query(&self, id: &str, said: &str) -> Result<(), PlatformError> {
        let mut answer = AnswerCallbackQuery::new(CallbackQueryId(id.to_owned()));
        if !said.is_empty() {
            answer = answer.text(said.chars().take(200).collect::<String>());
        }
        call(&self.bot, answer).await.map(drop).map_err(explain)
    }

    pub(super) async fn download(
        &self,
        file: &RemoteFile,
        to: &Path,
        largest: u64,
    ) -> Result<(), PlatformError> {
        let answer = call(&self.bot, GetFile::new(FileId(file.id.clone()))).await;
        let answer = answer.map_err(explain)?;
        let path = answer.get("file_path").and_then(|path| path.as_str());
        let Some(path) = path else {
            return Err(PlatformError::Permanent("Telegram no longer has it".into()));
        };
        // A server of one's own may say where on this machine it has put it. It is taken from that server's directory alone.
        if Path::new(path).is_absolute() {
            let opened = open_below(Path::new(path), &self.rules.local_files);
            let opened = opened.map_err(|error| {
                tracing::warn!(path, root = %self.rules.local_files.display(), error, "a file of the Bot API server is not taken: see platforms.telegram.local_files");
                PlatformError::Permanent("the Bot API server does not give it out".into())
            })?;
            return save_file(to, largest, opened).await;
        }
        let chunks = self
            .bot
            .download_file_stream(path)
            .map(|chunk| match chunk {
                Ok(bytes) => Ok(bytes.to_vec()),
                Err(error) => Err(explain(RequestError::Network(error.into()))),
            });
        save(to, largest, chunks).await
    }

    /// A chat that Telegram wants left alone is left alone by all who write there.
    pub(super) fn minding_limits<T>(
        &self,
        to: &Source,
        outcome: Result<T, PlatformError>,
    ) -> Result<T, PlatformError> {
        if let Err(PlatformError::Transient {
            retry_after: Some(pause),
            ..
        }) = &outcome
        {
            let chat = to.chat_id.as_deref().unwrap_or_default();
            self.pace.hold(chat, Telegram::rate(to), *pause);
        }
        outcome
    }
}

fn number(id: &str) -> Result<MessageId, PlatformError> {
    let number = id.parse().map(MessageId);
    number.map_err(|_| PlatformError::Permanent(format!("{id:?} is no message of Telegram's")))
}

/// One button a row, so that long names stay readable. What Telegram would refuse is left out: its text names it anyway.
fn keyboard(buttons: &[Button]) -> Option<InlineKeyboardMarkup> {
    let rows: Vec<Vec<InlineKeyboardButton>> = buttons
        .iter()
        .filter(|button| button.data.len() <= LONGEST_DATA)
        .map(|button| {
            let label: String = button.label.chars().take(LONGEST_LABEL).collect();
            vec![InlineKeyboardButton::callback(label, button.data.clone())]
        })
        .collect();
    (!rows.is_empty()).then(|| InlineKeyboardMarkup::new(rows))
}
