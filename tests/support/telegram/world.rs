//! The world behind the interface: chats, topics, messages, files, and the updates that wait for the bot.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Bytes;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::limits::RateLimiter;
use super::updates::Mailbox;
use super::writing::Person;
use super::{BOT_ID, BOT_NAME};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
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

/// A message that stands in a chat.
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
    pub sort: Sort,
    /// The title, or a person's first name.
    pub title: String,
    pub username: Option<String>,
    pub rights: Rights,
    /// Why nothing can be sent there any more.
    pub barred: Option<&'static str>,
    pub topics: BTreeMap<i64, Topic>,
    pub messages: BTreeMap<i64, Entry>,
    /// What the bot was seen doing, and in which topic.
    pub actions: Vec<(Option<i64>, String)>,
    members: BTreeSet<i64>,
    last_message: i64,
}

impl Chat {
    pub fn value(&self) -> Value {
        let mut value = json!({"id": self.id, "type": self.kind()});
        let name = match self.sort {
            Sort::Private => "first_name",
            _ => "title",
        };
        value[name] = json!(self.title);
        if let Some(username) = &self.username {
            value["username"] = json!(username);
        }
        if self.sort == Sort::Forum {
            value["is_forum"] = json!(true);
        }
        value
    }

    pub fn kind(&self) -> &'static str {
        match self.sort {
            Sort::Private => "private",
            Sort::Group => "group",
            Sort::Supergroup | Sort::Forum => "supergroup",
            Sort::Channel => "channel",
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

/// A press of a button that waits for its answer, or has it.
#[derive(Debug, Clone)]
pub struct Query {
    pub id: String,
    /// The text that was shown, and whether as an alert.
    pub answer: Option<(String, bool)>,
}

/// Commands as they were set: for which scope, in which language, with their descriptions.
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
    /// Where on this machine files are said to be, as a server of one's own does.
    pub local_file: Option<String>,
    /// Groups that have become supergroups, and what those are called.
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
    pub fn add_chat(&mut self, sort: Sort, title: &str, rights: Rights) -> i64 {
        self.last_chat += 1;
        let id = match sort {
            Sort::Private => panic!("private chats have the id of their person"),
            Sort::Group => -4_000_000 - self.last_chat,
            _ => -1_001_000_000_000 - self.last_chat,
        };
        self.put_chat(id, sort, title, None, rights);
        id
    }

    pub fn put_chat(
        &mut self,
        id: i64,
        sort: Sort,
        title: &str,
        username: Option<&str>,
        rights: Rights,
    ) {
        self.chats.entry(id).or_insert_with(|| Chat {
            id,
            sort,
            title: title.to_owned(),
            username: username.map(str::to_owned),
            rights,
            barred: None,
            topics: BTreeMap::new(),
            messages: BTreeMap::new(),
            actions: Vec::new(),
            members: BTreeSet::new(),
            // The first is the one that founds it.
            last_message: 1,
        });
    }

    /// A chat that a test speaks of.
    pub fn chat(&mut self, id: i64) -> &mut Chat {
        self.chats.get_mut(&id).expect("a chat that there is")
    }

    /// Somebody who is from now on known to the bot, and in this chat.
    pub fn meet(&mut self, chat: i64, person: &Person) {
        self.people.insert(person.id, person.clone());
        self.chat(chat).members.insert(person.id);
    }

    pub fn is_member(&self, chat: i64, person: i64) -> bool {
        self.chats[&chat].members.contains(&person)
    }

    pub fn next_message(&mut self, chat: i64) -> i64 {
        let count = match self.chat(chat).sort {
            Sort::Private | Sort::Group => &mut self.last_message,
            _ => &mut self.chat(chat).last_message,
        };
        *count += 1;
        *count
    }

    /// Whether messages in this chat can be in topics.
    pub fn has_topics(&self, chat: i64) -> bool {
        match self.chats[&chat].sort {
            Sort::Forum => true,
            Sort::Private => self.private_topics,
            _ => false,
        }
    }

    /// Opens a topic, with the service message that is its beginning.
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
        self.stand(chat, id, Some(id), by_bot, value.clone());
        value
    }

    /// Deletes a topic with all its messages, the one about its creation included.
    pub fn delete_topic(&mut self, chat: i64, thread: i64) {
        let chat = self.chat(chat);
        chat.topics.remove(&thread).expect("a topic");
        chat.messages
            .retain(|_, entry| entry.thread != Some(thread));
    }

    /// The fields that every message has. How a message says where it belongs depends on the chat: in a topic it has the
    /// topic's number and says so; a reply outside of topics has a number too, which is no topic's.
    pub fn head(
        &mut self,
        chat: i64,
        sender: Value,
        thread: Option<i64>,
        reply_to: Option<i64>,
        date: i64,
    ) -> (i64, Map<String, Value>) {
        let id = self.next_message(chat);
        let sort = self.chat(chat).sort;
        let chat = &self.chats[&chat];
        let mut head = Map::new();
        head.insert("message_id".to_owned(), json!(id));
        match sort {
            Sort::Channel => head.insert("sender_chat".to_owned(), chat.value()),
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
            (None, Some(replied)) if matches!(sort, Sort::Supergroup | Sort::Forum) => {
                let first = replied.value.get("message_thread_id");
                let first = first.unwrap_or(&replied.value["message_id"]).clone();
                head.insert("message_thread_id".to_owned(), first);
            }
            _ => {}
        }
        // In a forum's topic, what answers nothing answers the topic's beginning.
        let beginning = thread
            .filter(|_| sort == Sort::Forum)
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

    pub fn stand(
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

    /// Keeps a file, and gives its id.
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
            // The smallest comes first, and whoever takes that has less than there is.
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
