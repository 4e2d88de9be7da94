//! Converts updates of the Bot API to events: messages, edits and button presses, with the facts about them.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use teloxide_core::types::{
    CallbackQuery, MaybeInaccessibleMessage, Message, MessageEntity, MessageEntityKind, MessageKind,
};

use crate::domain::FileKind;
use crate::domain::RemoteFile;
use crate::platform::telegram::address;
use crate::platform::telegram::moved::Moves;
use crate::platform::telegram::origin::{forwarded_from, moved};
use crate::platform::{
    ButtonPress, CommandFor, InboundEvent, InboundMessage, MessageFacts, ReplyHandle,
};

/// The bot itself, from `getMe`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) id: u64,
    pub(super) name: String,
    /// Private chats can have topics, and the bot may open them.
    pub(super) topics: bool,
    /// In groups it receives all messages, not only those for it.
    pub(super) hears_all: bool,
}

impl Me {
    pub(super) fn of(answer: &Value) -> Me {
        let flag = |name: &str| answer.get(name).and_then(Value::as_bool) == Some(true);
        Me {
            id: answer.get("id").and_then(Value::as_u64).unwrap_or_default(),
            name: answer
                .get("username")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            topics: flag("has_topics_enabled"),
            hears_all: flag("can_read_all_group_messages"),
        }
    }

    fn is_named(&self, mention: &str) -> bool {
        let name = mention.strip_prefix('@').unwrap_or(mention);
        !self.name.is_empty() && name.eq_ignore_ascii_case(&self.name)
    }
}

/// The events of one batch of updates. The pieces of an album are one message.
pub(super) fn events(updates: &[Value], me: &Me, moves: &Moves) -> Vec<InboundEvent> {
    let mut events: Vec<(Option<String>, InboundEvent)> = Vec::new();
    for update in updates {
        let Some((album, event)) = one(update, me) else {
            continue;
        };
        if let InboundEvent::Moved { from, to, .. } = &event {
            moves.remember(from, to);
        }
        if let (Some(album), InboundEvent::Message(piece)) = (&album, &event)
            && let Some((_, InboundEvent::Message(first))) = events
                .iter_mut()
                .find(|(known, _)| known.as_ref() == Some(album))
        {
            add_piece(first, piece);
            continue;
        }
        events.push((album, event));
    }
    events.into_iter().map(|(_, event)| event).collect()
}

/// Adds another piece of an album to its first one.
fn add_piece(first: &mut InboundMessage, piece: &InboundMessage) {
    first.files.extend(piece.files.iter().cloned());
    first.facts.mentions_us |= piece.facts.mentions_us;
    first.facts.mentions_others |= piece.facts.mentions_others;
    if first.text.is_empty() {
        first.text.clone_from(&piece.text);
        first.facts.leading_mention = piece.facts.leading_mention;
    } else if !piece.text.is_empty() {
        first.text.push('\n');
        first.text.push_str(&piece.text);
    }
}

/// Whether more pieces of an album may follow. Messages of others may be between its pieces.
pub(super) fn has_album(updates: &[Value]) -> bool {
    let album = |update: &Value| update.get("message")?.get("media_group_id").cloned();
    updates.iter().any(|update| album(update).is_some())
}

pub(super) fn update_id(update: &Value) -> Option<i64> {
    update.get("update_id")?.as_i64()
}

fn one(update: &Value, me: &Me) -> Option<(Option<String>, InboundEvent)> {
    if let Some(raw) = ["message", "channel_post"]
        .iter()
        .find_map(|k| update.get(k))
    {
        if let Some(moved) = moved(raw) {
            return Some((None, moved));
        }
        let message = read_message(raw)?;
        let album = message.media_group_id().map(|id| id.0.clone());
        let said = said(&message, forwarded_from(raw), me)?;
        return Some((album, InboundEvent::Message(said)));
    }
    let edited = ["edited_message", "edited_channel_post"];
    if let Some(raw) = edited.iter().find_map(|k| update.get(k)) {
        let said = said(&read_message(raw)?, forwarded_from(raw), me)?;
        return Some((None, InboundEvent::Changed(said)));
    }
    let query: CallbackQuery = read(update.get("callback_query")?)?;
    Some((None, InboundEvent::Pressed(press(query)?)))
}

/// Skips a value that cannot be read. Telegram would repeat it for ever otherwise.
fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value)
        .inspect_err(|error| {
            tracing::warn!("unreadable update skipped");
            // The reason may quote the message.
            tracing::debug!(%error, "reason of the unreadable update");
        })
        .ok()
}

/// The fields that are read from a message with a field that is new to the SDK.
const PLAIN: [&str; 15] = [
    "message_id",
    "message_thread_id",
    "is_topic_message",
    "from",
    "sender_chat",
    "chat",
    "date",
    "media_group_id",
    "text",
    "caption",
    "photo",
    "document",
    "voice",
    "audio",
    "video",
];

/// The readable part of a message. The SDK reads a message with anything unknown, even a new kind of formatting, as
/// empty.
fn read_message(value: &Value) -> Option<Message> {
    let whole: Message = read(value)?;
    if !matches!(whole.kind, MessageKind::Empty {}) {
        return Some(whole);
    }
    let mut known = Map::new();
    for (field, value) in value.as_object()? {
        let kept = match field.as_str() {
            "entities" | "caption_entities" => {
                let readable = |entity: &&Value| MessageEntity::deserialize(*entity).is_ok();
                let entities = value.as_array()?.iter().filter(readable);
                Some(entities.cloned().collect())
            }
            field if PLAIN.contains(&field) => Some(value.clone()),
            _ => None,
        };
        known.extend(kept.map(|kept| (field.clone(), kept)));
    }
    tracing::debug!(
        inbound = whole.id.0,
        "message has unknown fields, reading the known ones"
    );
    read(&Value::Object(known))
}

fn said(message: &Message, forwarded_from: Option<String>, me: &Me) -> Option<InboundMessage> {
    // Service messages: a person joined, a topic was opened, and the like.
    if !matches!(message.kind, MessageKind::Common(_) | MessageKind::Dice(_)) {
        return None;
    }
    let typed = message.text().or_else(|| message.caption());
    let text = typed.unwrap_or_default().trim();
    let files: Vec<RemoteFile> = files(message);
    let (mentions_us, mentions_others) = mentions(message, me);
    let replied = message.reply_to_message();
    let is_ours = |m: &Message| m.from.as_ref().is_some_and(|from| from.id.0 == me.id);
    let facts = MessageFacts {
        mentions_us,
        mentions_others,
        leading_mention: leading_mention(text, me),
        replies_to_us: replied.is_some_and(is_ours),
        quoted: quoted(message),
        // An anonymous admin counts as a person.
        from_bot: message
            .from
            .as_ref()
            .is_some_and(|from| from.is_bot && !from.is_anonymous()),
        forwarded_from,
        command_for: command_for(text, me),
        ..MessageFacts::default()
    };
    let text = match text.is_empty() && files.is_empty() {
        true => in_words(message),
        false => text.to_owned(),
    };
    Some(InboundMessage {
        source: address::of_message(message),
        message_id: message.id.0.to_string(),
        text,
        files,
        at: message.date.timestamp() as f64,
        facts,
    })
}

/// The bot that a command names, as in `/new@a_bot`.
fn command_for(text: &str, me: &Me) -> Option<CommandFor> {
    let word = text.strip_prefix('/')?.split_whitespace().next()?;
    let (_, bot) = word.split_once('@')?;
    Some(match me.is_named(bot) {
        true => CommandFor::Us,
        false => CommandFor::AnotherBot,
    })
}

/// Whether the bot is mentioned, and whether others are.
fn mentions(message: &Message, me: &Me) -> (bool, bool) {
    let entities = message.parse_entities().into_iter().flatten();
    let entities = entities.chain(message.parse_caption_entities().into_iter().flatten());
    let (mut us, mut others) = (false, false);
    for entity in entities {
        let is_us = match entity.kind() {
            MessageEntityKind::Mention => me.is_named(entity.text()),
            MessageEntityKind::TextMention { user } => user.id.0 == me.id,
            _ => continue,
        };
        us |= is_us;
        others |= !is_us;
    }
    (us, others)
}

/// The length of the mention of the bot that the text begins with.
fn leading_mention(text: &str, me: &Me) -> usize {
    let Some(rest) = text.strip_prefix('@') else {
        return 0;
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    if me.is_named(&rest[..end]) {
        1 + end
    } else {
        0
    }
}

/// The words that the message replies to.
fn quoted(message: &Message) -> Option<String> {
    let replied = message.reply_to_message()?;
    let chosen = message.quote().map(|quote| quote.text.as_str());
    let text = chosen.or_else(|| replied.text().or_else(|| replied.caption()))?;
    Some(text.to_owned())
}

fn files(message: &Message) -> Vec<RemoteFile> {
    let file = |kind,
                meta: &teloxide_core::types::FileMeta,
                name: Option<String>,
                mime: Option<String>| RemoteFile {
        kind,
        id: meta.id.0.clone(),
        name,
        mime,
        size: Some(u64::from(meta.size)),
    };
    let named =
        |name: &Option<String>, else_: &str| name.clone().or_else(|| Some(else_.to_owned()));
    let mime = |mime: Option<String>, else_: &str| mime.or_else(|| Some(else_.to_owned()));
    let found = if let Some(sizes) = message.photo() {
        let largest = sizes.iter().max_by_key(|size| size.width * size.height);
        largest.map(|photo| {
            file(
                FileKind::Image,
                &photo.file,
                Some("photo.jpg".into()),
                Some("image/jpeg".into()),
            )
        })
    } else if let Some(voice) = message.voice() {
        let kind = voice.mime_type.as_ref().map(ToString::to_string);
        Some(file(
            FileKind::Voice,
            &voice.file,
            Some("voice.ogg".into()),
            mime(kind, "audio/ogg"),
        ))
    } else if let Some(audio) = message.audio() {
        let kind = audio.mime_type.as_ref().map(ToString::to_string);
        Some(file(
            FileKind::Audio,
            &audio.file,
            named(&audio.file_name, "audio.mp3"),
            kind,
        ))
    } else if let Some(video) = message.video() {
        let kind = video.mime_type.as_ref().map(ToString::to_string);
        Some(file(
            FileKind::Video,
            &video.file,
            named(&video.file_name, "video.mp4"),
            kind,
        ))
    } else if let Some(note) = message.video_note() {
        Some(file(
            FileKind::Video,
            &note.file,
            Some("video.mp4".into()),
            Some("video/mp4".into()),
        ))
    } else if let Some(animation) = message.animation() {
        let kind = animation.mime_type.as_ref().map(ToString::to_string);
        Some(file(
            FileKind::Video,
            &animation.file,
            named(&animation.file_name, "animation.mp4"),
            kind,
        ))
    } else {
        message.document().map(|document| {
            let mime = document.mime_type.as_ref().map(ToString::to_string);
            let image = mime.as_deref().is_some_and(|m| m.starts_with("image/"));
            let kind = if image {
                FileKind::Image
            } else {
                FileKind::File
            };
            file(
                kind,
                &document.file,
                named(&document.file_name, "file"),
                mime,
            )
        })
    };
    found.into_iter().collect()
}

/// A description of a message that has neither text nor a file.
fn in_words(message: &Message) -> String {
    if let Some(sticker) = message.sticker() {
        return sticker.emoji.clone().unwrap_or_else(|| "[sticker]".into());
    }
    if let Some(venue) = message.venue() {
        let (title, address, at) = (&venue.title, &venue.address, &venue.location);
        return format!(
            "[location: {title}, {address} ({}, {})]",
            at.latitude, at.longitude
        );
    }
    if let Some(dice) = message.dice() {
        return format!("[dice: {}]", dice.value);
    }
    if let Some(at) = message.location() {
        return format!("[location: {}, {}]", at.latitude, at.longitude);
    }
    if let Some(contact) = message.contact() {
        let name = [
            Some(contact.first_name.as_str()),
            contact.last_name.as_deref(),
        ];
        let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
        return format!("[contact: {name}, {}]", contact.phone_number);
    }
    "[a message of a kind that cannot be read here]".into()
}

fn press(query: CallbackQuery) -> Option<ButtonPress> {
    let Some(MaybeInaccessibleMessage::Regular(message)) = query.message else {
        return None;
    };
    Some(ButtonPress {
        source: address::of(&message, Some(&query.from)),
        roles: BTreeSet::new(),
        handle: ReplyHandle::new(query.id.0.clone(), None),
        id: query.id.0,
        data: query.data?,
        message_id: message.id.0.to_string(),
        text: message.text().unwrap_or_default().to_owned(),
    })
}
