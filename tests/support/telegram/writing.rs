//! The people in the chats, and the messages that they write.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};

use super::BotApi;
use super::html::units;
use super::world::{ChatKind, World, now};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub id: i64,
    pub name: &'static str,
    pub username: Option<&'static str>,
}

pub const ADA: Person = Person {
    id: 18_151_210,
    name: "Ada",
    username: Some("ada_l"),
};

pub const BEN: Person = Person {
    id: 17_060_117,
    name: "Ben",
    username: None,
};

impl Person {
    pub fn value(&self) -> Value {
        let mut value = json!({
            "id": self.id,
            "is_bot": false,
            "first_name": self.name,
            "language_code": "en",
        });
        if let Some(username) = self.username {
            value["username"] = json!(username);
        }
        value
    }
}

/// A message that a person is about to send.
pub struct MessageDraft<'a> {
    api: &'a BotApi,
    chat: i64,
    person: Person,
    thread: Option<i64>,
    reply_to: Option<i64>,
    date: i64,
    text: String,
    file: Option<(&'static str, String, Bytes, u64)>,
    album: Option<String>,
    more: Vec<(&'static str, Value)>,
}

impl MessageDraft<'_> {
    pub fn thread(mut self, thread: impl Into<Option<i64>>) -> Self {
        self.thread = thread.into();
        self
    }

    pub fn reply_to(mut self, message: i64) -> Self {
        self.reply_to = Some(message);
        self
    }

    /// Gives it a date in the past.
    pub fn ago(mut self, ago: Duration) -> Self {
        self.date -= ago.as_secs() as i64;
        self
    }

    /// The text, or the caption of a file.
    pub fn text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.text);
        self
    }

    /// Adds a file: `document`, `photo`, `audio`, `voice` or `video`.
    pub fn file(mut self, kind: &'static str, name: &str, bytes: &[u8]) -> Self {
        let size = bytes.len() as u64;
        self.file = Some((kind, name.to_owned(), Bytes::copy_from_slice(bytes), size));
        self
    }

    /// Claims this size for the file.
    pub fn sized(mut self, size: u64) -> Self {
        self.file.as_mut().expect("a file").3 = size;
        self
    }

    /// Makes it a part of an album.
    pub fn album(mut self, id: &str) -> Self {
        self.album = Some(id.to_owned());
        self
    }

    /// Adds another field, in the format of the vendor.
    pub fn with(mut self, field: &'static str, value: Value) -> Self {
        self.more.push((field, value));
        self
    }

    /// Sends it, and gives its id.
    pub fn send(self) -> i64 {
        let api = self.api;
        api.change(|world| self.put_into(world))
    }

    fn put_into(self, world: &mut World) -> i64 {
        if let Some(thread) = self.thread {
            assert!(world.has_topics(self.chat), "no topics there");
            assert!(
                world.chat(self.chat).topics.contains_key(&thread),
                "no such topic"
            );
        }
        let chat_kind = world.chat(self.chat).kind;
        if chat_kind != ChatKind::Channel {
            world.meet(self.chat, &self.person);
        }
        let sender = self.person.value();
        let (id, mut message) =
            world.head(self.chat, sender, self.thread, self.reply_to, self.date);
        let (text, entities) = match self.file {
            Some(_) => ("caption", "caption_entities"),
            None => ("text", "entities"),
        };
        if let Some((kind, name, bytes, size)) = &self.file {
            let media = world.media(kind, name, bytes, *size);
            message.insert((*kind).to_owned(), media);
        }
        if let Some(album) = &self.album {
            message.insert("media_group_id".to_owned(), json!(album));
        }
        let bare = self.file.is_none() && self.more.is_empty();
        for (field, value) in self.more {
            message.insert(field.to_owned(), value);
        }
        if bare || !self.text.is_empty() {
            message.insert(text.to_owned(), json!(self.text));
        }
        let found = found_in(&self.text);
        if !found.is_empty() {
            message.insert(entities.to_owned(), json!(found));
        }
        let message = Value::Object(message);
        world.insert_message(self.chat, id, self.thread, false, message.clone());
        let kind = match chat_kind {
            ChatKind::Channel => "channel_post",
            _ => "message",
        };
        world.mailbox.put(kind, message);
        id
    }
}

/// Commands and names in a text, as the vendor marks them.
pub fn found_in(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut offset = 0;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let spelt = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = |from: usize| {
            let rest = &word[from..];
            rest.find(|c| !spelt(c)).unwrap_or(rest.len())
        };
        let kind = match word.chars().next() {
            Some('/') if (1..=64).contains(&length(1)) => Some("bot_command"),
            Some('@') if (4..=32).contains(&length(1)) => Some("mention"),
            _ => None,
        };
        if let Some(kind) = kind {
            let mut end = 1 + length(1);
            // A command can say whose it is.
            if kind == "bot_command" && word[end..].starts_with('@') && length(end + 1) > 3 {
                end += 1 + length(end + 1);
            }
            found.push(json!({"type": kind, "offset": offset, "length": end}));
        }
        offset += units(piece);
    }
    found
}

impl BotApi {
    pub fn writes(&self, chat: i64, person: &Person) -> MessageDraft<'_> {
        MessageDraft {
            api: self,
            chat,
            person: person.clone(),
            thread: None,
            reply_to: None,
            date: now(),
            text: String::new(),
            file: None,
            album: None,
            more: Vec::new(),
        }
    }
}
