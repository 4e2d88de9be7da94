//! What tests see of the world.

use serde_json::Value;

use super::mentions::notified;
use super::post::{default_mentions, is_written};
use super::world::{Channel, Entry, Id, World};
use super::{BOT_ID, Discord};

/// A message of the bot as it is now.
#[derive(Debug, Clone)]
pub struct BotMessage {
    pub id: Id,
    pub content: String,
    /// The rows of buttons that can be pressed, each with its label and its key.
    pub buttons: Vec<Vec<(String, String)>>,
    /// The labels of the buttons that are shown and cannot be pressed.
    pub disabled: Vec<String>,
    /// The names of its files, and where they are.
    pub files: Vec<(String, String)>,
    /// The message that it answers.
    pub reply_to: Option<Id>,
    /// Whom it has notified.
    pub notified: Vec<String>,
    /// It made no sound.
    pub silent: bool,
    pub edits: usize,
}

/// A thread that is not archived.
#[derive(Debug, Clone)]
pub struct ThreadRecord {
    pub id: Id,
    pub name: String,
    pub is_private: bool,
    /// Whether the bot has opened it.
    pub by_bot: bool,
    pub members: Vec<Id>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl BotMessage {
    fn of(world: &World, channel: &Channel, id: Id, entry: &Entry) -> BotMessage {
        let value = &entry.value;
        let rows = value["components"].as_array().into_iter().flatten();
        let rows = rows.map(|row| row["components"].as_array().cloned().unwrap_or_default());
        let rows: Vec<Vec<Value>> = rows.collect();
        let off = |button: &&Value| button["disabled"] == true;
        let buttons = rows.iter().map(|row| {
            let pressable = row.iter().filter(|button| !off(button));
            pressable
                .map(|button| (text(&button["label"]), text(&button["custom_id"])))
                .collect::<Vec<_>>()
        });
        let buttons = buttons.filter(|row| !row.is_empty());
        let disabled = rows.iter().flatten().filter(off);
        let files = value["attachments"].as_array().into_iter().flatten();
        let files = files.map(|file| (text(&file["filename"]), text(&file["url"])));
        let answered = &value["message_reference"]["message_id"];
        let answered = answered.as_str().and_then(|id| id.parse::<Id>().ok());
        let author = answered.and_then(|id| channel.messages.get(&id));
        let kind = value["type"].as_u64().unwrap_or_default();
        let default = default_mentions(kind.try_into().unwrap_or_default());
        let told = notified(
            world,
            channel,
            BOT_ID,
            value["content"].as_str().unwrap_or_default(),
            entry.allowed_mentions.as_ref().or(default.as_ref()),
            author.map(|entry| entry.author),
        );
        BotMessage {
            id,
            content: text(&value["content"]),
            buttons: buttons.collect(),
            disabled: disabled.map(|button| text(&button["label"])).collect(),
            files: files.collect(),
            reply_to: answered,
            notified: told.names(),
            silent: value["flags"].as_u64().unwrap_or_default() & (1 << 12) != 0,
            edits: entry.edits,
        }
    }
}

impl Discord {
    /// The messages of the bot in a channel or thread, but not those that Discord posts for it.
    pub fn messages_in(&self, channel: Id) -> Vec<BotMessage> {
        let world = self.world();
        let Some(channel) = world.channels.get(&channel) else {
            return Vec::new();
        };
        let messages = channel.messages.iter();
        messages
            .filter(|(_, entry)| entry.author == BOT_ID && is_written(&entry.value))
            .map(|(id, entry)| BotMessage::of(&world, channel, *id, entry))
            .collect()
    }

    pub fn until_message(&self, channel: Id, is: impl Fn(&BotMessage) -> bool) -> BotMessage {
        self.until("a message of the bot", || {
            self.messages_in(channel).into_iter().find(&is)
        })
    }

    /// The threads of a channel that are not archived.
    pub fn threads(&self, channel: Id) -> Vec<ThreadRecord> {
        let world = self.world();
        let threads = world
            .channels
            .values()
            .filter(|c| c.parent == Some(channel));
        let open = threads.filter_map(|channel| {
            let thread = channel.thread.as_ref().filter(|t| !t.archived)?;
            Some(ThreadRecord {
                id: channel.id,
                name: channel.name.clone(),
                is_private: channel.kind == super::ChannelKind::PrivateThread,
                by_bot: thread.owner == BOT_ID,
                members: thread.members.keys().copied().collect(),
            })
        });
        open.collect()
    }

    /// The name of a thread, and whether it is archived.
    pub fn thread_state(&self, thread: Id) -> (String, bool) {
        let world = self.world();
        let channel = world.channel(thread);
        let state = channel.thread.as_ref().expect("a thread");
        (channel.name.clone(), state.archived)
    }

    /// The channel around a thread.
    pub fn parent(&self, thread: Id) -> Id {
        let world = self.world();
        world.channel(thread).parent.expect("a thread")
    }

    /// The bot's reactions to a message.
    pub fn reactions(&self, channel: Id, message: Id) -> Vec<String> {
        let world = self.world();
        world.channel(channel).messages[&message].reactions.clone()
    }

    /// How often the bot has shown that it is typing.
    pub fn typed(&self, channel: Id) -> usize {
        self.world().channel(channel).typed
    }

    /// Whom any message of the bot has notified.
    pub fn notified(&self) -> Vec<String> {
        let channels: Vec<Id> = self.world().channels.keys().copied().collect();
        let messages = channels.iter().flat_map(|id| self.messages_in(*id));
        messages.flat_map(|message| message.notified).collect()
    }

    /// The commands that are registered: for all guilds, or for one. Each has its description.
    pub fn commands(&self, guild: Option<Id>) -> Vec<(String, String)> {
        let world = self.world();
        let commands = world.commands.iter().filter(|c| c.guild == guild);
        commands
            .map(|c| (c.name.clone(), text(&c.value["description"])))
            .collect()
    }
}
