//! The world of the fake: chats, topics, messages, files, and the updates that wait for the bot.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::limits::RateLimiter;
use super::updates::Mailbox;
use super::writing::Person;
use super::{BOT_ID, BOT_NAME};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatKind {
    Private,
    Group,
    Supergroup,
    Forum,
    Channel,
}

/// What the bot may do in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    Member,
    /// An administrator who may not manage topics.
    Admin,
    TopicsAdmin,
    /// An administrator who may manage topics and may not delete messages.
    TopicsAdminWithoutDeletion,
}

impl Rights {
    pub fn is_admin(self) -> bool {
        self != Rights::Member
    }

    pub fn can_manage_topics(self) -> bool {
        matches!(
            self,
            Rights::TopicsAdmin | Rights::TopicsAdminWithoutDeletion
        )
    }

    pub fn can_delete_messages(self) -> bool {
        matches!(self, Rights::Admin | Rights::TopicsAdmin)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub thread: i64,
    pub name: String,
    pub closed: bool,
    /// Whether the bot has opened it.
    pub by_bot: bool,
}

/// A message in a chat.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As the vendor shows it.
    pub value: Value,
    pub by_bot: bool,
    /// The topic that it is in.
    pub thread: Option<i64>,
    /// The text as the bot gave it, with its tags.
    pub source: String,
    pub edits: usize,
    pub silent: bool,
    pub file: Option<SentFile>,
    pub reactions: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct SentFile {
    /// `document`, `photo`, `audio`, `voice` or `video`.
    pub kind: &'static str,
    pub name: String,
    pub bytes: Bytes,
}

pub struct Chat {
    pub id: i64,
    pub kind: ChatKind,
    /// The title, or a person's first name.
    pub title: String,
    pub username: Option<String>,
    pub rights: Rights,
    /// The reason why the vendor refuses all messages to it.
    pub barred: Option<&'static str>,
    pub topics: BTreeMap<i64, Topic>,
    pub messages: BTreeMap<i64, Entry>,
    /// The chat actions of the bot, each with its topic.
    pub actions: Vec<(Option<i64>, String)>,
    members: BTreeSet<i64>,
    last_message: i64,
}

impl Chat {
    pub fn value(&self) -> Value {
        let mut value = json!({"id": self.id, "type": self.type_name()});
        let name = match self.kind {
            ChatKind::Private => "first_name",
            _ => "title",
        };
        value[name] = json!(self.title);
        if let Some(username) = &self.username {
            value["username"] = json!(username);
        }
        if self.kind == ChatKind::Forum {
            value["is_forum"] = json!(true);
        }
        value
    }

    pub fn type_name(&self) -> &'static str {
        match self.kind {
            ChatKind::Private => "private",
            ChatKind::Group => "group",
            ChatKind::Supergroup | ChatKind::Forum => "supergroup",
            ChatKind::Channel => "channel",
        }
    }
}

/// A file that can be fetched.
pub struct Stored {
    pub id: String,
    pub path: String,
    pub size: u64,
    pub bytes: Bytes,
}

impl Stored {
    pub fn value(&self) -> Value {
        json!({
            "file_id": self.id,
            "file_unique_id": format!("u-{}", self.id),
            "file_size": self.size,
        })
    }
}

/// A press of a button, with its answer if there is one.
#[derive(Debug, Clone)]
pub struct Query {
    pub id: String,
    /// The text that was shown, and whether as an alert.
    pub answer: Option<(String, bool)>,
}

/// The commands for one scope and one language, with their descriptions.
#[derive(Debug, Clone)]
pub struct Menu {
    pub scope: String,
    pub language: String,
    pub commands: Vec<(String, String)>,
}

#[derive(Default)]
pub struct World {
    pub chats: BTreeMap<i64, Chat>,
    pub people: BTreeMap<i64, Person>,
    pub files: Vec<Stored>,
    pub queries: Vec<Query>,
    pub menus: Vec<Menu>,
    pub limiter: RateLimiter,
    pub mailbox: Mailbox,
    pub webhook: String,
    /// The path that `getFile` gives for all files, as a Bot API server on the same machine does.
    pub local_file: Option<String>,
    /// Groups that have become supergroups: the old id and the new one.
    pub upgraded: BTreeMap<i64, i64>,
    /// Whether private chats have topics.
    pub private_topics: bool,
    /// Private chats and groups count their messages together, others each on their own.
    last_message: i64,
    last_chat: i64,
}

pub fn bot() -> Value {
    json!({"id": BOT_ID, "is_bot": true, "first_name": "Hermes", "username": BOT_NAME})
}

pub fn now() -> i64 {
    Timestamp::now().as_second()
}

impl World {
    pub fn add_chat(&mut self, kind: ChatKind, title: &str, rights: Rights) -> i64 {
        self.last_chat += 1;
        let id = match kind {
            ChatKind::Private => panic!("private chats have the id of their person"),
            ChatKind::Group => -4_000_000 - self.last_chat,
            _ => -1_001_000_000_000 - self.last_chat,
        };
        self.put_chat(id, kind, title, None, rights);
        id
    }

    pub fn put_chat(
        &mut self,
        id: i64,
        kind: ChatKind,
        title: &str,
        username: Option<&str>,
        rights: Rights,
    ) {
        self.chats.entry(id).or_insert_with(|| Chat {
            id,
            kind,
            title: title.to_owned(),
            username: username.map(str::to_owned),
            rights,
            barred: None,
            topics: BTreeMap::new(),
            messages: BTreeMap::new(),
            actions: Vec::new(),
            members: BTreeSet::new(),
            // The first message is the one about the creation of the chat.
            last_message: 1,
        });
    }

    /// Panics if there is no such chat.
    pub fn chat(&mut self, id: i64) -> &mut Chat {
        self.chats.get_mut(&id).expect("a chat that there is")
    }

    /// Adds a person to the chat. The bot knows them from now on.
    pub fn meet(&mut self, chat: i64, person: &Person) {
        self.people.insert(person.id, person.clone());
        self.chat(chat).members.insert(person.id);
    }

    pub fn is_member(&self, chat: i64, person: i64) -> bool {
        self.chats[&chat].members.contains(&person)
    }

    pub fn next_message(&mut self, chat: i64) -> i64 {
        let count = match self.chat(chat).kind {
            ChatKind::Private | ChatKind::Group => &mut self.last_message,
            _ => &mut self.chat(chat).last_message,
        };
        *count += 1;
        *count
    }

    /// Whether messages in this chat can be in topics.
    pub fn has_topics(&self, chat: i64) -> bool {
        match self.chats[&chat].kind {
            ChatKind::Forum => true,
            ChatKind::Private => self.private_topics,
            _ => false,
        }
    }

    /// Opens a topic. Its first message is the one about its creation.
    pub fn open_topic(&mut self, chat: i64, name: &str, color: i64, from: Value) -> Value {
        let id = self.next_message(chat);
        let by_bot = from["is_bot"] == true;
        let topic = Topic {
            thread: id,
            name: name.to_owned(),
            closed: false,
            by_bot,
        };
        self.chat(chat).topics.insert(id, topic);
        let mut value = json!({
            "message_id": id,
            "message_thread_id": id,
            "from": from,
            "chat": self.chat(chat).value(),
            "date": now(),
            "is_topic_message": true,
        });
        value["forum_topic_created"] = json!({"name": name, "icon_color": color});
        self.insert_message(chat, id, Some(id), by_bot, value.clone());
        value
    }

    /// Deletes a topic with all its messages, the one about its creation included.
    pub fn delete_topic(&mut self, chat: i64, thread: i64) {
        let chat = self.chat(chat);
        chat.topics.remove(&thread).expect("a topic");
        chat.messages
            .retain(|_, entry| entry.thread != Some(thread));
    }

    /// The fields that every message has. A message in a topic has the id of the topic and `is_topic_message`. A reply outside
    /// of topics has a thread id too, which is not the id of a topic.
    pub fn head(
        &mut self,
        chat: i64,
        sender: Value,
        thread: Option<i64>,
        reply_to: Option<i64>,
        date: i64,
    ) -> (i64, Map<String, Value>) {
        let id = self.next_message(chat);
        let kind = self.chat(chat).kind;
        let chat = &self.chats[&chat];
        let mut head = Map::new();
        head.insert("message_id".to_owned(), json!(id));
        match kind {
            ChatKind::Channel => head.insert("sender_chat".to_owned(), chat.value()),
            _ => head.insert("from".to_owned(), sender),
        };
        head.insert("chat".to_owned(), chat.value());
        head.insert("date".to_owned(), json!(date));
        let replied = reply_to.map(|id| &chat.messages[&id]);
        match (thread, replied) {
            (Some(thread), _) => {
                head.insert("message_thread_id".to_owned(), json!(thread));
                head.insert("is_topic_message".to_owned(), json!(true));
            }
            (None, Some(replied)) if matches!(kind, ChatKind::Supergroup | ChatKind::Forum) => {
                let first = replied.value.get("message_thread_id");
                let first = first.unwrap_or(&replied.value["message_id"]).clone();
                head.insert("message_thread_id".to_owned(), first);
            }
            _ => {}
        }
        // In a topic of a forum, a message without a reply answers the first message of the topic.
        let beginning = thread
            .filter(|_| kind == ChatKind::Forum)
            .and_then(|thread| chat.messages.get(&thread));
        if let Some(replied) = replied.or(beginning) {
            let mut replied = replied.value.clone();
            replied
                .as_object_mut()
                .expect("a message")
                .remove("reply_to_message");
            head.insert("reply_to_message".to_owned(), replied);
        }
        (id, head)
    }

    pub fn insert_message(
        &mut self,
        chat: i64,
        id: i64,
        thread: Option<i64>,
        by_bot: bool,
        value: Value,
    ) -> &mut Entry {
        let entry = Entry {
            value,
            by_bot,
            thread,
            source: String::new(),
            edits: 0,
            silent: false,
            file: None,
            reactions: Vec::new(),
        };
        let messages = &mut self.chat(chat).messages;
        messages.insert(id, entry);
        messages.get_mut(&id).expect("just put there")
    }

    /// Stores a file for `getFile`.
    pub fn store(&mut self, folder: &str, suffix: &str, bytes: Bytes, size: u64) -> &Stored {
        let number = self.files.len();
        self.files.push(Stored {
            id: format!("AgACAgI-file-{number}"),
            path: format!("{folder}/file_{number}{suffix}"),
            size,
            bytes,
        });
        self.files.last().expect("just put there")
    }

    /// The part of a message that is a file, as the vendor shows it.
    pub fn media(&mut self, kind: &str, name: &str, bytes: &Bytes, size: u64) -> Value {
        let suffix = name.rfind('.').map_or("", |at| &name[at..]);
        let folder = match kind {
            "photo" => "photos",
            "audio" => "music",
            "voice" => "voice",
            "video" => "videos",
            _ => "documents",
        };
        if kind == "photo" {
            // The smallest size comes first. It has less content, so a client that fetches it fails its test.
            let thumb = bytes.slice(..bytes.len() / 4);
            let sizes = [(thumb, 90), (bytes.clone(), 1280)].map(|(bytes, width)| {
                let size = bytes.len() as u64;
                let mut value = self.store(folder, ".jpg", bytes, size).value();
                value["width"] = json!(width);
                value["height"] = json!(width);
                value
            });
            return json!(sizes);
        }
        let mut value = self.store(folder, suffix, bytes.clone(), size).value();
        let mime = match (kind, suffix) {
            ("voice", _) => "audio/ogg",
            ("audio", _) => "audio/mpeg",
            ("video", _) => "video/mp4",
            (_, ".txt" | ".md" | ".log") => "text/plain",
            (_, ".pdf") => "application/pdf",
            (_, ".png") => "image/png",
            _ => "application/octet-stream",
        };
        value["mime_type"] = json!(mime);
        if matches!(kind, "voice" | "audio" | "video") {
            value["duration"] = json!(3);
        }
        if kind == "video" {
            value["width"] = json!(640);
            value["height"] = json!(480);
        }
        if kind != "voice" {
            value["file_name"] = json!(name);
        }
        value
    }
}
