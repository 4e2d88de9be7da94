//! What tests see of the chats.

use axum::body::Bytes;
use serde_json::Value;

use super::BotApi;
use super::world::{Entry, Query, SentFile, Topic};

/// A message of the bot as it is now.
#[derive(Debug, Clone)]
pub struct BotMessage {
    pub id: i64,
    /// The text or caption as people see it.
    pub text: String,
    /// The same as the bot gave it, with its tags.
    pub source: String,
    /// The formats, as the vendor lists them.
    pub entities: Value,
    /// The rows of buttons, each with its label and its data.
    pub buttons: Vec<Vec<(String, String)>>,
    pub edits: usize,
    pub silent: bool,
    pub file: Option<SentFile>,
    /// The message that it answers. The first message of a topic does not count.
    pub reply_to: Option<i64>,
}

impl BotMessage {
    fn of(id: i64, entry: &Entry) -> BotMessage {
        let value = &entry.value;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rows = value["reply_markup"]["inline_keyboard"].as_array();
        let buttons = rows.into_iter().flatten().map(|row| {
            let buttons = row.as_array().into_iter().flatten();
            buttons
                .map(|button| (text(&button["text"]), text(&button["callback_data"])))
                .collect()
        });
        let (shown, entities) = match value.get("text") {
            Some(shown) => (shown, "entities"),
            None => (&value["caption"], "caption_entities"),
        };
        let reply = &value["reply_to_message"]["message_id"];
        BotMessage {
            id,
            text: text(shown),
            source: entry.source.clone(),
            entities: value[entities].clone(),
            buttons: buttons.collect(),
            edits: entry.edits,
            silent: entry.silent,
            file: entry.file.clone(),
            reply_to: reply.as_i64().filter(|id| Some(*id) != entry.thread),
        }
    }
}

impl BotApi {
    /// The messages of the bot in a topic, or outside of topics.
    pub fn messages_in(&self, chat: i64, thread: Option<i64>) -> Vec<BotMessage> {
        let mut world = self.world();
        let messages = world.chat(chat).messages.iter();
        messages
            .filter(|(_, entry)| entry.by_bot && entry.thread == thread)
            .filter(|(_, entry)| entry.value.get("forum_topic_created").is_none())
            .map(|(id, entry)| BotMessage::of(*id, entry))
            .collect()
    }

    pub fn topics(&self, chat: i64) -> Vec<Topic> {
        let mut world = self.world();
        world.chat(chat).topics.values().cloned().collect()
    }

    /// The chat actions of the bot, such as `typing`, each with its topic.
    pub fn actions(&self, chat: i64) -> Vec<(Option<i64>, String)> {
        self.world().chat(chat).actions.clone()
    }

    /// The bot's reactions to a message.
    pub fn reactions(&self, chat: i64, message: i64) -> Vec<String> {
        let mut world = self.world();
        world.chat(chat).messages[&message].reactions.clone()
    }

    /// The commands of the default scope, with their descriptions.
    pub fn menu(&self) -> Vec<(String, String)> {
        self.menu_for("default", "")
    }

    pub fn menu_for(&self, scope: &str, language: &str) -> Vec<(String, String)> {
        let world = self.world();
        let mut menus = world.menus.iter();
        let menu = menus.find(|menu| menu.scope == scope && menu.language == language);
        menu.map(|menu| menu.commands.clone()).unwrap_or_default()
    }

    /// All presses of buttons, with their answers.
    pub fn queries(&self) -> Vec<Query> {
        self.world().queries.clone()
    }

    /// How many updates are not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.world().mailbox.pending.len()
    }

    pub fn until_message(
        &self,
        chat: i64,
        thread: Option<i64>,
        is: impl Fn(&BotMessage) -> bool,
    ) -> BotMessage {
        self.until("a message of the bot", || {
            self.messages_in(chat, thread).into_iter().find(&is)
        })
    }

    /// Waits until a client has received all updates and polls for more.
    pub fn until_polled(&self) {
        self.until("a poll", || {
            let mailbox = &self.world().mailbox;
            let idle = mailbox.pending.is_empty() && mailbox.again.is_empty();
            mailbox.waiting.filter(|_| idle)
        });
    }
}

impl SentFile {
    pub fn is(&self, kind: &str, name: &str, bytes: &[u8]) -> bool {
        self.kind == kind && self.name == name && self.bytes == Bytes::copy_from_slice(bytes)
    }
}
