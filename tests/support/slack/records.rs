//! What tests see of the world.

use serde_json::Value;

use super::Slack;
use super::blocks::buttons;
use super::mentions;
use super::world::{Channel, Ephemeral, Message, ThreadExtras};
use crate::support::fake::Outcome;

/// A button as people see it, and what the app gets when it is pressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    pub label: String,
    pub action_id: String,
    pub value: String,
}

/// A message of the bot as it is now.
#[derive(Debug, Clone)]
pub struct BotMessage {
    pub ts: String,
    /// The root of its thread. A root has none.
    pub thread_ts: Option<String>,
    /// As Slack keeps it, with `&lt;` for `<`.
    pub text: String,
    pub blocks: Value,
    pub buttons: Vec<Button>,
    /// The names of its files, and their ids.
    pub files: Vec<(String, String)>,
    /// Whom it notifies, as `user U…`, `group S…`, `channel`, `here` or `everyone`.
    pub notified: Vec<String>,
    pub metadata: Option<Value>,
    /// Text is still being appended.
    pub streaming: bool,
    /// It is shown in the channel too.
    pub broadcast: bool,
    pub edits: usize,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl BotMessage {
    fn of(ts: &str, message: &Message) -> BotMessage {
        let value = &message.value;
        let button = |(_, element): (&Value, &Value)| Button {
            label: text(&element["text"]["text"]),
            action_id: text(&element["action_id"]),
            value: text(&element["value"]),
        };
        let files = value["files"].as_array().into_iter().flatten();
        let root = value["thread_ts"].as_str().filter(|root| *root != ts);
        BotMessage {
            ts: ts.to_owned(),
            thread_ts: root.map(str::to_owned),
            text: text(&value["text"]),
            blocks: value["blocks"].clone(),
            buttons: buttons(&value["blocks"]).into_iter().map(button).collect(),
            files: files.map(|f| (text(&f["name"]), text(&f["id"]))).collect(),
            notified: message.notified.clone(),
            metadata: message.metadata.clone(),
            streaming: message.streaming,
            broadcast: value["subtype"] == "thread_broadcast",
            edits: message.edits,
        }
    }

    /// The text as people read it.
    pub fn read(&self) -> String {
        mentions::read(&self.text)
    }
}

impl Slack {
    fn look<T>(&self, channel: &str, look: impl FnOnce(&Channel) -> T) -> T {
        look(self.world().channel(channel))
    }

    /// All messages of the bot in a channel, those in threads too.
    pub fn bot_messages(&self, channel: &str) -> Vec<BotMessage> {
        self.look(channel, |channel| {
            let own = channel
                .messages
                .iter()
                .filter(|(_, message)| message.by_bot);
            own.map(|(ts, message)| BotMessage::of(ts, message))
                .collect()
        })
    }

    /// The messages of the bot in a thread, without its root.
    pub fn bot_replies(&self, channel: &str, root: &str) -> Vec<BotMessage> {
        let mut all = self.bot_messages(channel);
        all.retain(|message| message.thread_ts.as_deref() == Some(root));
        all
    }

    /// The replies that were posted in the channel because their thread was gone. They may have been deleted since.
    pub fn stray_replies(&self) -> Vec<String> {
        let posts = self.calls_of("chat.postMessage").into_iter();
        let wanted = posts.filter(|call| call.params["thread_ts"].is_string());
        let done = wanted.filter_map(|call| match call.outcome {
            Outcome::Done(result) => Some(result),
            _ => None,
        });
        let stray = done.filter(|posted| posted["message"].get("thread_ts").is_none());
        stray.map(|posted| text(&posted["ts"])).collect()
    }

    /// Waits until the bot has so many messages in a channel.
    pub fn until_bot_messages(&self, channel: &str, count: usize) -> Vec<BotMessage> {
        self.until(&format!("{count} messages in {channel}"), || {
            Some(self.bot_messages(channel)).filter(|all| all.len() >= count)
        })
    }

    /// Waits until the bot has so many replies in a thread.
    pub fn until_bot_replies(&self, channel: &str, root: &str, count: usize) -> Vec<BotMessage> {
        self.until(&format!("{count} replies to {root}"), || {
            Some(self.bot_replies(channel, root)).filter(|all| all.len() >= count)
        })
    }

    /// What only one person sees in a channel, as text.
    pub fn ephemerals(&self, channel: &str) -> Vec<Ephemeral> {
        self.look(channel, |channel| channel.ephemerals.clone())
    }

    /// Whom a message notifies, as `user U…`, `group S…`, `channel`, `here` or `everyone`.
    pub fn notified(&self, channel: &str, ts: &str) -> Vec<String> {
        self.look(channel, |channel| channel.messages[ts].notified.clone())
    }

    /// The emoji on a message, each with the users.
    pub fn reactions(&self, channel: &str, ts: &str) -> Vec<(String, Vec<String>)> {
        self.look(channel, |channel| {
            let all = channel.messages[ts].value["reactions"].as_array();
            let users =
                |reaction: &Value| reaction["users"].as_array().cloned().unwrap_or_default();
            let all = all.into_iter().flatten();
            all.map(|r| (text(&r["name"]), users(r).iter().map(text).collect()))
                .collect()
        })
    }

    /// The status, the title and the prompts of an assistant's thread.
    pub fn extras(&self, channel: &str, root: &str) -> ThreadExtras {
        self.look(channel, |channel| {
            channel.extras.get(root).cloned().unwrap_or_default()
        })
    }

    /// The bytes of a file.
    pub fn file_bytes(&self, id: &str) -> Vec<u8> {
        self.world().files[id].bytes.to_vec()
    }

    /// The id of the bot's user in the first workspace.
    pub fn bot_user(&self) -> String {
        self.world().teams[super::TEAM].bot_user.clone()
    }
}
