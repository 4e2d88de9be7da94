//! What the adapter knows about channels: their kind, their server and the channel around a thread.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;
use serenity::http::Route;
use serenity::model::channel::ChannelType as Kind;
use serenity::model::id::ChannelId;

use super::Discord;
use super::failure::Failure;
use crate::domain::ChatType;

/// The most channels that are remembered. Others are asked for again.
const MOST: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    pub(super) guild: Option<String>,
    pub(super) parent: Option<String>,
    /// A forum in which each post needs a tag, and the first tag that may be used.
    pub(super) required_tag: Option<String>,
}

/// Reads an id. Discord writes ids as text.
pub(super) fn id_of(value: &Value, field: &str) -> Option<String> {
    value.get(field)?.as_str().map(str::to_owned)
}

impl Channel {
    pub(super) fn read(value: &Value) -> Option<Channel> {
        let kind = value.get("type").and_then(Value::as_u64)?;
        let flags = value.get("flags").and_then(Value::as_u64).unwrap_or(0);
        let tags = value.get("available_tags").and_then(Value::as_array);
        // A moderated tag is for moderators only.
        let usable = |tag: &&Value| tag.get("moderated").and_then(Value::as_bool) != Some(true);
        let tag = tags.and_then(|tags| tags.iter().find(usable)?.get("id")?.as_str());
        Some(Channel {
            id: id_of(value, "id")?,
            kind: Kind::from(u8::try_from(kind).ok()?),
            name: id_of(value, "name"),
            guild: id_of(value, "guild_id"),
            parent: id_of(value, "parent_id"),
            required_tag: tag.filter(|_| flags & (1 << 4) != 0).map(str::to_owned),
        })
    }

    pub(super) fn chat_type(&self) -> ChatType {
        match self.kind {
            Kind::Private | Kind::GroupDm => ChatType::Dm,
            Kind::NewsThread | Kind::PublicThread | Kind::PrivateThread => ChatType::Thread,
            _ => ChatType::Group,
        }
    }
}

#[derive(Default)]
pub(super) struct Channels {
    known: Mutex<HashMap<String, Channel>>,
}

impl Channels {
    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Channel>> {
        self.known
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn remember(&self, channel: Channel) {
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(channel.id.clone(), channel);
    }

    pub(super) fn forget(&self, id: &str) {
        self.known().remove(id);
    }

    pub(super) fn get(&self, id: &str) -> Option<Channel> {
        self.known().get(id).cloned()
    }
}

pub(super) fn channel_id(id: &str) -> Result<ChannelId, Failure> {
    let number = id.parse::<u64>().ok().filter(|id| *id != 0);
    let number = number.map(ChannelId::new);
    number.ok_or_else(|| Failure::Refused {
        status: 404,
        code: 10003,
        message: format!("{id:?} is not an id of Discord"),
    })
}

impl Discord {
    /// The channel as it is now.
    pub(super) async fn ask_for_channel(&self, id: &str) -> Result<Channel, Failure> {
        let route = Route::Channel {
            channel_id: channel_id(id)?,
        };
        let answer = self.api.get(route).await?;
        let Some(channel) = Channel::read(&answer) else {
            return Err(Failure::Foreign {
                status: 200,
                beginning: "no channel".into(),
            });
        };
        self.channels.remember(channel.clone());
        Ok(channel)
    }

    /// The channel as it was when it was last seen.
    pub(super) async fn channel(&self, id: &str) -> Result<Channel, Failure> {
        match self.channels.get(id) {
            Some(channel) => Ok(channel),
            None => self.ask_for_channel(id).await,
        }
    }
}
