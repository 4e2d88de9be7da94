//! Updates of the Bot API as what was said, changed or pressed.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use teloxide_core::types::{
    CallbackQuery, MaybeInaccessibleMessage, Message, MessageEntity, MessageEntityKind, MessageKind,
};

use crate::domain::FileKind;
use crate::domain::RemoteFile;
use crate::platform::telegram::address;
use crate::platform::telegram::config::TelegramConfig;
use crate::platform::telegram::moved::Moves;
use crate::platform::telegram::origin::{forwarded_from, mark, moved, unmarked};
use crate::platform::{ButtonPress, InboundEvent, InboundMessage};

/// How much of a message that is replied to the agent is shown.
const LONGEST_QUOTE: usize = 500;

/// The bot itself, as `getMe` tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) id: u64,
    pub(super) name: String,
    /// Private chats can have topics, and the bot may open them.
    pub(super) topics: bool,
    /// In groups it is given all messages, and not only those that are meant for it.
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

/// What one batch of updates amounts to: the pieces of an album are one message.
pub(super) fn hear(
    updates: &[Value],
    me: &Me,
    rules: &TelegramConfig,
    moves: &Moves,
) -> Vec<InboundEvent> {
    let mut heard: Vec<(Option<String>, InboundEvent)> = Vec::new();
    let context = Context { me, rules, moves };
    for update in updates {
        let Some((album, incoming)) = one(update, &context) else {
            continue;
        };
        if let InboundEvent::Moved { from, to, .. } = &incoming {
            moves.remember(from, to);
        }
        if let (Some(album), InboundEvent::Message(said)) = (&album, &incoming)
            && let Some((_, InboundEvent::Message(first))) = heard
                .iter_mut()
                .find(|(known, _)| known.as_ref() == Some(album))
        {
            first.files.extend(said.files.iter().cloned());
            // All of a forwarded album has the mark; once is enough.
            let words = unmarked(&said.text, &first.text);
            if !words.is_empty() {
                if !first.text.is_empty() {
                    first.text.push('\n');
                }
                first.text.push_str(words);
            }
            first.addressed |= said.addressed;
            continue;
        }
        heard.push((album, incoming));
    }
    heard.into_iter().map(|(_, incoming)| incoming).collect()
}

/// Whether more of an album may be on its way. What others say meanwhile may come between its pieces.
pub(super) fn has_album(updates: &[Value]) -> bool {
    let album = |update: &Value| update.get("message")?.get("media_group_id").cloned();
    updates.iter().any(|update| album(update).is_some())
}

pub(super) fn update_id(update: &Value) -> Option<i64> {
    update.get("update_id")?.as_i64()
}

/// What a message is read by.
struct Context<'a> {
    me: &'a Me,
    rules: &'a TelegramConfig,
    moves: &'a Moves,
}

fn one(update: &Value, context: &Context<'_>) -> Option<(Option<String>, InboundEvent)> {
    if let Some(raw) = ["message", "channel_post"]
        .iter()
        .find_map(|k| update.get(k))
    {
        if let Some(moved) = moved(raw) {
            return Some((None, moved));
        }
        let message = read_message(raw)?;
        let album = message.media_group_id().map(|id| id.0.clone());
        let said = said(&message, forwarded_from(raw), context)?;
        return Some((album, InboundEvent::Message(said)));
    }
    let edited = ["edited_message", "edited_channel_post"];
    if let Some(raw) = edited.iter().find_map(|k| update.get(k)) {
        let said = said(&read_message(raw)?, forwarded_from(raw), context)?;
        let changed = InboundEvent::Changed {
            source: said.source,
            message_id: said.message_id,
            text: said.text,
        };
        return Some((None, changed));
    }
    let query: CallbackQuery = read(update.get("callback_query")?)?;
    Some((None, InboundEvent::Pressed(press(query)?)))
}

/// What cannot be read is passed over: it would come again for ever.
fn read<T: DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value)
        .inspect_err(|error| {
            tracing::warn!("something that Telegram sent could not be read");
            // The reason may quote what was said.
            tracing::debug!(%error, "why it could not be read");
        })
        .ok()
}

/// What is left of a message when something in it is new to the SDK.
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

/// A message as far as it can be read. The SDK takes one with anything in it that it does not know, be it only a new kind of
/// formatting, for an empty one.
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
        "a message has something in it that is not known here"
    );
    read(&Value::Object(known))
}

fn said(
    message: &Message,
    forwarded: Option<String>,
    context: &Context<'_>,
) -> Option<InboundMessage> {
    let Context { me, rules, moves } = context;
    // Bots that answer one another never stop. An admin who hides their name counts as a person.
    if let Some(from) = &message.from
        && from.is_bot
        && !from.is_anonymous()
    {
        return None;
    }
    // Somebody came, a topic was opened, and the like.
    if !matches!(message.kind, MessageKind::Common(_) | MessageKind::Dice(_)) {
        return None;
    }
    let source = address::of_message(message);
    let group = message.chat.is_group() || message.chat.is_supergroup();
    let chat_id = source.chat_id.clone().unwrap_or_default();
    if group && !rules.only_chats.is_empty() && !moves.is_named(&rules.only_chats, &chat_id) {
        return None;
    }
    let typed = message.text().or_else(|| message.caption());
    let text = typed.unwrap_or_default().trim();
    let files: Vec<RemoteFile> = files(message);
    // What is forwarded calls nobody and orders nothing: somebody else wrote it.
    let (command, mentioned) = match &forwarded {
        Some(_) => (None, false),
        None => (command_for(text), mentions(message, me)),
    };
    // A command that names another bot is none of ours.
    if command.is_some_and(|bot| !me.is_named(bot)) {
        return None;
    }
    let replied = message.reply_to_message();
    let to_us = replied.is_some_and(|m| m.from.as_ref().is_some_and(|from| from.id.0 == me.id));
    let addressed = !group
        || !rules.require_mention
        || moves.is_named(&rules.free_chats, &chat_id)
        || command.is_some()
        || mentioned
        || to_us;
    let mut text = match &forwarded {
        Some(_) => text.to_owned(),
        None => without_mention(text, me),
    };
    if text.is_empty() && files.is_empty() {
        text = in_words(message)?;
    }
    if let Some(name) = &forwarded {
        text = mark(name, &text);
    } else if !text.starts_with('/')
        && let Some(quoted) = quote(message)
    {
        text = format!("[In reply to: {quoted}]\n{text}");
    }
    Some(InboundMessage {
        source,
        message_id: message.id.0.to_string(),
        text,
        files,
        at: message.date.timestamp() as f64,
        addressed,
    })
}

/// The bot that a command names, if it is one and names any.
fn command_for(text: &str) -> Option<&str> {
    let word = text.strip_prefix('/')?.split_whitespace().next()?;
    word.split_once('@').map(|(_, bot)| bot)
}

fn mentions(message: &Message, me: &Me) -> bool {
    let entities = message.parse_entities().into_iter().flatten();
    let entities = entities.chain(message.parse_caption_entities().into_iter().flatten());
    let mut entities = entities;
    entities.any(|entity| match entity.kind() {
        MessageEntityKind::Mention => me.is_named(entity.text()),
        MessageEntityKind::TextMention { user } => user.id.0 == me.id,
        _ => false,
    })
}

/// A mention that only calls us is not part of what is said.
fn without_mention(text: &str, me: &Me) -> String {
    let rest = text.strip_prefix('@').and_then(|rest| {
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        me.is_named(&rest[..end])
            .then(|| rest[end..].trim_start_matches([',', ':', ' ', '\n']))
    });
    rest.unwrap_or(text).to_owned()
}

/// What it replies to, as far as that says anything.
fn quote(message: &Message) -> Option<String> {
    let replied = message.reply_to_message()?;
    let chosen = message.quote().map(|quote| quote.text.as_str());
    let text = chosen.or_else(|| replied.text().or_else(|| replied.caption()))?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(LONGEST_QUOTE).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    Some(format!("{short}{more}")).filter(|quoted| !quoted.is_empty())
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

/// What is neither text nor a file, in words.
fn in_words(message: &Message) -> Option<String> {
    if let Some(sticker) = message.sticker() {
        return Some(sticker.emoji.clone().unwrap_or_else(|| "[sticker]".into()));
    }
    if let Some(venue) = message.venue() {
        let (title, address, at) = (&venue.title, &venue.address, &venue.location);
        return Some(format!(
            "[location: {title}, {address} ({}, {})]",
            at.latitude, at.longitude
        ));
    }
    if let Some(dice) = message.dice() {
        return Some(format!("[dice: {}]", dice.value));
    }
    if let Some(at) = message.location() {
        return Some(format!("[location: {}, {}]", at.latitude, at.longitude));
    }
    if let Some(contact) = message.contact() {
        let name = [
            Some(contact.first_name.as_str()),
            contact.last_name.as_deref(),
        ];
        let name = name.into_iter().flatten().collect::<Vec<_>>().join(" ");
        return Some(format!("[contact: {name}, {}]", contact.phone_number));
    }
    Some("[a message of a kind that cannot be read here]".into())
}

fn press(query: CallbackQuery) -> Option<ButtonPress> {
    let Some(MaybeInaccessibleMessage::Regular(message)) = query.message else {
        return None;
    };
    Some(ButtonPress {
        source: address::of(&message, Some(&query.from)),
        id: query.id.0,
        data: query.data?,
        message_id: message.id.0.to_string(),
        text: message.text().unwrap_or_default().to_owned(),
    })
}
