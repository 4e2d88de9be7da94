//! Sends messages, edits, reactions and typing indicators to Telegram, and downloads files.

use std::path::Path;

use teloxide_core::payloads::{
    AnswerCallbackQuery, AnswerCallbackQuerySetters, EditMessageText, EditMessageTextSetters,
    GetFile, SendChatAction, SendChatActionSetters, SendMessage, SendMessageSetters,
    SetMessageReaction, SetMessageReactionSetters,
};
use teloxide_core::types::{
    CallbackQueryId, ChatAction, FileId, InlineKeyboardButton, InlineKeyboardMarkup, MessageId,
    ParseMode, ReactionType,
};
use tokio_stream::StreamExt;

use super::failure::{Failure, Meaning};
use super::format::{html, plain};
use super::{NAME, Telegram};
use crate::domain::Source;
use crate::domain::{Button, RemoteFile};
use crate::platform::download::{save, save_file};
use crate::platform::telegram::address;
use crate::platform::telegram::api::message_id;
use crate::platform::{OutboundMessage, PlatformError};
use crate::safe_open::open_below;

/// The longest data of a button, in bytes.
const LONGEST_DATA: usize = 64;
const LONGEST_LABEL: usize = 60;

impl Telegram {
    pub(super) async fn send_text(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
    ) -> Result<String, Failure> {
        let message = |text: String| {
            let mut message = SendMessage::new(address::recipient(to), text);
            if let Some(topic) = address::topic(to) {
                message = message.message_thread_id(topic);
            }
            match keyboard(what.buttons) {
                Some(keyboard) => message.reply_markup(keyboard),
                None => message,
            }
        };
        let formatted = message(html(what.text)).parse_mode(ParseMode::Html);
        let answer = match self.api.call(formatted).await {
            Err(failure) if failure.meaning() == Some(Meaning::Format) => {
                tracing::debug!(
                    ?failure,
                    platform = NAME,
                    "formatting refused, sending the message without it"
                );
                self.api.call(message(plain(what.text))).await
            }
            answer => answer,
        };
        Ok(message_id(&answer?))
    }

    pub(super) async fn edit_text(
        &self,
        to: &Source,
        id: &str,
        what: OutboundMessage<'_>,
    ) -> Result<(), Failure> {
        let id = number(id)?;
        let change = |text: String| {
            let change = EditMessageText::new(address::recipient(to), id, text);
            match keyboard(what.buttons) {
                Some(keyboard) => change.reply_markup(keyboard),
                None => change,
            }
        };
        let formatted = change(html(what.text)).parse_mode(ParseMode::Html);
        let answer = match self.api.call(formatted).await {
            Err(failure) if failure.meaning() == Some(Meaning::Format) => {
                self.api.call(change(plain(what.text))).await
            }
            answer => answer,
        };
        match answer {
            Err(failure) if failure.meaning() == Some(Meaning::Unchanged) => Ok(()),
            answer => answer.map(drop),
        }
    }

    pub(super) async fn show_action(&self, to: &Source) -> Result<(), PlatformError> {
        let show = |to: Source| {
            let mut action = SendChatAction::new(address::recipient(&to), ChatAction::Typing);
            if let Some(topic) = address::any_topic(&to) {
                action = action.message_thread_id(topic);
            }
            async move { self.api.call(action).await.map(drop) }
        };
        self.following(to, show).await
    }

    /// Reacts to the message. Sends a text if the chat allows no reactions.
    pub(super) async fn react(&self, source: &Source, id: &str) -> Result<(), PlatformError> {
        // The id of a button press is no message id.
        let Ok(id) = number(id) else { return Ok(()) };
        let eyes = ReactionType::Emoji {
            emoji: "👀".into()
        };
        let reaction = SetMessageReaction::new(address::recipient(source), id).reaction([eyes]);
        match self.api.call(reaction).await.map_err(PlatformError::from) {
            Err(PlatformError::Permanent(reason)) => {
                tracing::debug!(reason, "reaction refused, sending a text");
                let text = "I have seen it and will answer it next.";
                let say = |to: Source| async move { self.send_text(&to, text.into()).await };
                self.following(source, say).await.map(drop)
            }
            outcome => outcome.map(drop),
        }
    }

    pub(super) async fn answer_query(&self, id: &str, said: &str) -> Result<(), PlatformError> {
        let mut answer = AnswerCallbackQuery::new(CallbackQueryId(id.to_owned()));
        if !said.is_empty() {
            answer = answer.text(said.chars().take(200).collect::<String>());
        }
        Ok(self.api.call(answer).await.map(drop)?)
    }

    pub(super) async fn download(
        &self,
        file: &RemoteFile,
        to: &Path,
        largest: u64,
    ) -> Result<(), PlatformError> {
        let answer = self.api.call(GetFile::new(FileId(file.id.clone()))).await?;
        let path = answer.get("file_path").and_then(|path| path.as_str());
        let no_longer = || PlatformError::Permanent("Telegram no longer has it".into());
        let Some(path) = path else {
            return Err(no_longer());
        };
        // A Bot API server on this machine may return an absolute path. Only files in its configured directory are
        // read.
        if Path::new(path).is_absolute() {
            let opened = open_below(Path::new(path), &self.rules.local_files);
            let opened = opened.map_err(|error| {
                tracing::warn!(path, root = %self.rules.local_files.display(), error, "file of the Bot API server refused, check platforms.telegram.local_files");
                PlatformError::Permanent("the file of the Bot API server may not be read".into())
            })?;
            return save_file(to, largest, opened).await;
        }
        let response = match self.api.file(path).await {
            // The token is valid, since `getFile` succeeded. So the file is gone.
            Err(Failure::Refused { code: 404, .. }) => return Err(no_longer()),
            response => response?,
        };
        let chunks = response.bytes_stream().map(|chunk| match chunk {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(Failure::from(error).into()),
        });
        save(to, largest, chunks).await
    }
}

fn number(id: &str) -> Result<MessageId, Failure> {
    let number = id.parse().map(MessageId);
    number.map_err(|_| Failure::Refused {
        code: 400,
        description: format!("{id:?} is not a message id of Telegram"),
        retry_after: None,
    })
}

/// One button per row, so that long names stay readable. Leaves out buttons that Telegram would refuse: the text names
/// them too.
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
