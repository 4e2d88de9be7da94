//! How messages come to be, change and go, whoever writes them.

use std::time::Instant;

use serde_json::{Value, json};

use super::mentions::{self, Parsing, notified};
use super::world::{ChannelKind, Message, World};
use super::{APP_ID, BOT_NAME, files};

/// A message that is about to be posted.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// The user who writes.
    pub author: String,
    /// The bot of the workspace writes.
    pub by_bot: bool,
    /// The id of another bot that writes.
    pub other_bot: Option<String>,
    pub text: String,
    pub blocks: Option<Vec<Value>>,
    pub attachments: Option<Value>,
    pub thread_ts: Option<String>,
    pub broadcast: bool,
    pub files: Vec<String>,
    pub metadata: Option<Value>,
    pub subtype: Option<&'static str>,
    /// A name that the bot shows instead of its own.
    pub username: Option<String>,
    pub parsing: Parsing,
    pub streaming: bool,
}

/// The most characters of a text. Slack cuts off the rest.
pub const LONGEST: usize = 40_000;

impl World {
    /// The root that a reply belongs to. There is none where the message is gone or is itself a reply.
    pub fn root_of(&self, channel: &str, thread_ts: &str) -> Option<String> {
        let message = self.message(channel, thread_ts)?;
        let root = message.value["thread_ts"].as_str().unwrap_or(thread_ts);
        (root == thread_ts).then(|| root.to_owned())
    }

    /// Posts a message and tells the app. Gives its `ts`.
    pub fn post(&mut self, channel: &str, draft: Draft) -> String {
        let ts = self.new_ts();
        let root = draft.thread_ts.as_deref();
        let root = root.and_then(|root| self.root_of(channel, root));
        let value = self.message_value(channel, &ts, root.as_deref(), &draft);
        let text = value["text"].as_str().unwrap_or_default();
        // A note of Slack, such as that somebody joined, notifies nobody.
        let told = match draft.subtype {
            None => notified(self, text, &value["blocks"], &draft.parsing),
            Some(_) => Vec::new(),
        };
        let message = Message {
            notified: told,
            value,
            author: draft.author.clone(),
            by_bot: draft.by_bot,
            metadata: draft.metadata,
            streaming: draft.streaming,
            is_tombstone: false,
            edits: 0,
            posted: Instant::now(),
        };
        let holder = self.channel_mut(channel);
        holder.messages.insert(ts.clone(), message);
        // A post of the bot ends the status in its thread.
        if let Some(root) = &root
            && draft.by_bot
            && let Some(extras) = holder.extras.get_mut(root)
        {
            extras.status.clear();
        }
        self.tell_of_post(channel, &ts);
        for file in &draft.files {
            self.tell_of_file(channel, &draft.author, file);
        }
        ts
    }

    fn message_value(&self, channel: &str, ts: &str, root: Option<&str>, draft: &Draft) -> Value {
        let team = self.team_of(channel);
        let text: String = draft.text.chars().take(LONGEST).collect();
        let mut value = json!({
            "type": "message",
            "user": draft.author,
            "text": mentions::normalized(&text),
            "ts": ts,
            "team": team.id,
        });
        let subtype = match (draft.subtype, &draft.username) {
            (Some(subtype), _) => Some(subtype),
            (None, Some(_)) => Some("bot_message"),
            _ if !draft.files.is_empty() => Some("file_share"),
            _ if draft.broadcast && root.is_some() => Some("thread_broadcast"),
            _ => None,
        };
        if let Some(subtype) = subtype {
            value["subtype"] = subtype.into();
        }
        let bot = draft.by_bot.then_some(&team.bot_id);
        let bot = bot.or(draft.other_bot.as_ref());
        match bot {
            Some(bot) => {
                let (app, name) = match draft.by_bot {
                    true => (APP_ID, BOT_NAME),
                    false => ("A0OTHERAPP", "build"),
                };
                value["bot_id"] = bot.as_str().into();
                value["app_id"] = app.into();
                value["bot_profile"] = json!({
                    "id": bot,
                    "app_id": app,
                    "name": name,
                    "deleted": false,
                    "updated": 1,
                    "team_id": team.id,
                });
            }
            None if subtype.is_none() || subtype == Some("file_share") => {
                let digits = ts.replace('.', "");
                let id = format!(
                    "00000000-0000-4000-8000-{:0>12}",
                    &digits[digits.len() - 12..]
                );
                value["client_msg_id"] = id.into();
            }
            None => {}
        }
        if let Some(name) = &draft.username {
            value["username"] = name.as_str().into();
        }
        if let Some(blocks) = &draft.blocks {
            value["blocks"] = Value::Array(blocks.clone());
        }
        if let Some(attachments) = &draft.attachments {
            value["attachments"] = attachments.clone();
        }
        if let Some(root) = root {
            value["thread_ts"] = root.into();
            let parent = &self.channel(channel).messages[root];
            value["parent_user_id"] = parent.author.as_str().into();
        }
        if !draft.files.is_empty() {
            let files = draft.files.iter().map(|id| files::value(self, id));
            value["files"] = files.collect();
            value["upload"] = true.into();
        }
        value
    }

    /// Changes the fields of a message; null removes one. `mark` shows people that it was edited.
    pub fn edit(&mut self, channel: &str, ts: &str, editor: &str, fields: Value, mark: bool) {
        let edited = self.new_ts();
        let previous = self.channel(channel).shown(ts);
        let message = self.channel_mut(channel).messages.get_mut(ts);
        let message = message.unwrap_or_else(|| panic!("no message {ts}"));
        for (name, field) in fields.as_object().expect("fields") {
            match field.is_null() {
                true => drop(message.value.as_object_mut().expect("fields").remove(name)),
                false => message.value[name] = field.clone(),
            }
        }
        if mark {
            message.value["edited"] = json!({"user": editor, "ts": edited});
        }
        message.edits += 1;
        let value = message.value.clone();
        let text = value["text"].as_str().unwrap_or_default();
        let told = notified(self, text, &value["blocks"], &Parsing::default());
        let message = self.channel_mut(channel).messages.get_mut(ts);
        message.expect("edited above").notified = told;
        let now = self.channel(channel).shown(ts);
        let event = json!({
            "type": "message",
            "subtype": "message_changed",
            "message": now,
            "previous_message": previous,
            "channel": channel,
            "hidden": true,
            "ts": edited,
            "event_ts": edited,
            "channel_type": self.channel(channel).kind.event_type(),
        });
        self.emit_message(channel, event);
    }

    /// Deletes a message. The root of replies stays, as a note that there was one.
    pub fn delete(&mut self, channel: &str, ts: &str) {
        let deleted = self.new_ts();
        let holder = self.channel_mut(channel);
        let previous = holder.shown(ts);
        let has_replies = holder.replies(ts).next().is_some();
        match holder.messages.get_mut(ts) {
            Some(message) if has_replies => {
                message.is_tombstone = true;
                message.value = json!({
                    "type": "message",
                    "subtype": "tombstone",
                    "text": "This message was deleted.",
                    "user": "USLACKBOT",
                    "hidden": true,
                    "ts": ts,
                    "thread_ts": ts,
                });
            }
            _ => drop(holder.messages.remove(ts)),
        }
        let event = json!({
            "type": "message",
            "subtype": "message_deleted",
            "previous_message": previous,
            "channel": channel,
            "hidden": true,
            "deleted_ts": ts,
            "ts": deleted,
            "event_ts": deleted,
            "channel_type": holder.kind.event_type(),
        });
        self.emit_message(channel, event);
    }

    /// Tells the app of a new message, and of being mentioned in it.
    fn tell_of_post(&mut self, channel: &str, ts: &str) {
        let holder = self.channel(channel);
        let (kind, team) = (holder.kind, &self.teams[&holder.team]);
        let message = &holder.messages[ts];
        let mut event = message.value.clone();
        event["channel"] = channel.into();
        event["event_ts"] = ts.into();
        event["channel_type"] = kind.event_type().into();
        if event["subtype"] == "thread_broadcast"
            && let Some(root) = event["thread_ts"].as_str()
        {
            event["root"] = holder.shown(root);
        }
        let bot = format!("user {}", team.bot_user);
        let mentions = message.notified.contains(&bot) && !message.by_bot;
        let mentions = mentions && kind != ChannelKind::Direct;
        self.emit_message(channel, event.clone());
        if mentions {
            event["type"] = "app_mention".into();
            let fields = event.as_object_mut().expect("fields");
            fields.retain(|name, _| name != "channel_type" && name != "subtype");
            self.emit_in(channel, "app_mention", event);
        }
    }

    fn tell_of_file(&mut self, channel: &str, user: &str, file: &str) {
        let ts = self.new_ts();
        let event = json!({
            "type": "file_shared",
            "file_id": file,
            "user_id": user,
            "file": {"id": file},
            "channel_id": channel,
            "event_ts": ts,
        });
        self.emit_in(channel, "file_shared", event);
    }
}
