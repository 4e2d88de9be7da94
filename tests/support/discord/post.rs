//! A new message, whoever writes it.

use std::time::Instant;

use axum::body::Bytes;
use serde_json::{Value, json};

use super::mentions::notified;
use super::sessions::{Event, GUILDS, message_intents};
use super::values::{self, message_event};
use super::world::{ChannelKind, Entry, Id, World, now, time_of};
use super::{APPLICATION_ID, BOT_ID};

/// A message before it is posted.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    pub author: Id,
    /// The author as the message shows it, if that is not a user of this world.
    pub shown_author: Option<Value>,
    pub webhook: Option<Id>,
    pub content: String,
    pub kind: u8,
    pub flags: u64,
    pub files: Vec<(String, Bytes)>,
    pub embeds: Vec<Value>,
    pub components: Vec<Value>,
    /// The message that it answers or tells about: its channel and its id.
    pub reference: Option<(Id, Option<Id>)>,
    pub nonce: Option<Value>,
    pub enforce_nonce: bool,
    pub allowed_mentions: Option<Value>,
    /// It comes first in the thread of a forum, and has the id of that thread.
    pub id: Option<Id>,
}

impl Draft {
    /// Whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty()
            && self.embeds.is_empty()
            && self.files.is_empty()
            && self.components.is_empty()
    }
}

/// Messages that people and bots write, not those that tell what happened.
pub fn is_written(value: &Value) -> bool {
    matches!(value["type"].as_u64(), Some(0 | 19 | 20 | 23))
}

impl World {
    /// Posts a message and tells all sessions. Gives its id.
    pub fn post(&mut self, channel: Id, draft: Draft) -> Id {
        let id = match draft.id {
            Some(id) => id,
            None => self.next_id(),
        };
        let attachments = draft.files.iter().map(|(name, bytes)| {
            let file = self.next_id();
            let url = self.store_file(channel, file, name, bytes.clone());
            values::attachment(file, name, bytes.len(), &url)
        });
        let attachments: Vec<Value> = attachments.collect();
        let value = self.message_value(channel, id, &draft, attachments);
        let entry = Entry {
            value: value.clone(),
            author: draft.author,
            allowed_mentions: draft.allowed_mentions.clone(),
            reactions: Vec::new(),
            edits: 0,
        };
        self.channel_mut(channel).messages.insert(id, entry);
        if draft.author == BOT_ID
            && let Some(nonce) = draft.nonce.as_ref().filter(|_| draft.enforce_nonce)
        {
            let sent = (nonce_text(nonce), Instant::now(), channel, id);
            self.nonces.push(sent);
        }
        if is_written(&value) {
            self.enliven(channel, draft.author, &value);
        }
        let in_channel = self.channel(channel);
        let mut data = message_event(self, in_channel, draft.author, &value);
        if let Some(nonce) = draft.nonce {
            data["nonce"] = nonce;
        }
        let event = Event {
            name: "MESSAGE_CREATE",
            data,
            intents: message_intents(in_channel.guild),
        };
        match draft.author == BOT_ID {
            true => self.dispatch(Some(channel), event),
            false => self.dispatch_of_people(Some(channel), event),
        }
        id
    }

    fn message_value(&self, channel: Id, id: Id, draft: &Draft, attachments: Vec<Value>) -> Value {
        let in_channel = self.channel(channel);
        let answered = draft.reference.filter(|_| draft.kind == 19);
        let answered = answered
            .and_then(|(channel, message)| self.channels.get(&channel)?.messages.get(&message?));
        let mentions = self.mentions_value(channel, draft, answered.map(|entry| entry.author));
        let author = draft.shown_author.clone().or(self.user(draft.author));
        let mut value = json!({
            "id": id.to_string(),
            "channel_id": channel.to_string(),
            "type": draft.kind,
            "content": draft.content,
            "author": author,
            "timestamp": time_of(id),
            "edited_timestamp": null,
            "tts": false,
            "attachments": attachments,
            "embeds": draft.embeds,
            "components": draft.components,
            "pinned": false,
            "flags": draft.flags,
        });
        values::extend(&mut value, mentions);
        if let Some(webhook) = draft.webhook {
            value["webhook_id"] = json!(webhook.to_string());
        }
        if draft.author == BOT_ID && draft.kind == 20 {
            value["application_id"] = json!(APPLICATION_ID.to_string());
            value["webhook_id"] = json!(APPLICATION_ID.to_string());
        }
        if let Some((channel, message)) = draft.reference {
            value["message_reference"] = json!({"type": 0, "channel_id": channel.to_string()});
            if let Some(message) = message {
                value["message_reference"]["message_id"] = json!(message.to_string());
            }
            if let Some(guild) = in_channel.guild {
                value["message_reference"]["guild_id"] = json!(guild.to_string());
            }
            if draft.kind == 19 {
                value["referenced_message"] = json!(answered.map(|entry| &entry.value));
            }
        }
        value
    }

    /// The fields that say whom a message mentions.
    pub fn mentions_value(&self, channel: Id, draft: &Draft, replied_to: Option<Id>) -> Value {
        let default = default_mentions(draft.kind);
        let allowed = draft.allowed_mentions.as_ref().or(default.as_ref());
        let in_channel = self.channel(channel);
        let content = &draft.content;
        let told = notified(self, in_channel, draft.author, content, allowed, replied_to);
        let users = told.users.iter().filter_map(|id| self.user(*id));
        let roles: Vec<String> = told.roles.iter().map(Id::to_string).collect();
        json!({
            "mention_everyone": told.everyone,
            "mentions": users.collect::<Vec<_>>(),
            "mention_roles": roles,
        })
    }

    /// The bot's message with this nonce, if it was sent a short time ago: its channel and its id. Discord says: by the same
    /// author, in whatever channel.
    pub fn sent_with(&self, nonce: &Value) -> Option<(Id, Id)> {
        let (text, now) = (nonce_text(nonce), Instant::now());
        let mut sent = self.nonces.iter();
        let sent = sent.find(|(known, at, ..)| *known == text && now - *at < self.nonce_window);
        sent.map(|(_, _, channel, id)| (*channel, *id))
    }

    /// A message in a thread brings the thread back from the archive. Its author and those whom it mentions join.
    fn enliven(&mut self, channel: Id, author: Id, message: &Value) {
        let mentions = message["mentions"].as_array().into_iter().flatten();
        let mentioned = mentions.filter_map(|user| user["id"].as_str()?.parse().ok());
        let joining: Vec<Id> = mentioned.chain([author]).collect();
        let known: Vec<Id> = joining
            .into_iter()
            .filter(|id| self.user(*id).is_some())
            .collect();
        let is_private = self.channel(channel).kind == ChannelKind::PrivateThread;
        let Some(thread) = &mut self.channel_mut(channel).thread else {
            return;
        };
        let was_member = thread.members.contains_key(&BOT_ID);
        for user in known {
            thread.members.entry(user).or_insert_with(now);
        }
        let is_member = thread.members.contains_key(&BOT_ID);
        let woke = std::mem::take(&mut thread.archived);
        // A private thread is new to a bot that is brought in.
        if is_private && is_member && !was_member {
            self.tell_of_channel("THREAD_CREATE", channel);
        }
        if woke {
            self.tell_of_channel("THREAD_UPDATE", channel);
        }
    }

    /// Tells all sessions how a channel or thread is now.
    pub fn tell_of_channel(&mut self, name: &'static str, channel: Id) -> Event {
        let data = self.channel_value(self.channel(channel));
        let event = Event {
            name,
            data,
            intents: GUILDS,
        };
        self.dispatch(Some(channel), event.clone());
        event
    }
}

fn nonce_text(nonce: &Value) -> String {
    match nonce {
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

/// What a message of this kind may mention where nothing is said: the answers to interactions only users.
pub fn default_mentions(kind: u8) -> Option<Value> {
    (kind == 20).then(|| json!({"parse": ["users"]}))
}
