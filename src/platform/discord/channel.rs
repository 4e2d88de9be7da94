//! What the adapter knows about channels: their kind, their server and the channel around a thread.

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;
use serenity::http::Route;
use serenity::model::channel::ChannelType as Kind;
use serenity::model::id::{ChannelId, GuildId};

use super::Discord;
use super::failure::Failure;
use crate::domain::ChatType;
use crate::platform::PlatformError;
use crate::platform::http_failure::HttpFailure;

/// The most channels that are remembered. Others are asked for again.
const MOST: usize = 10_000;
/// Media channels, which the SDK does not name.
pub(super) const MEDIA: u8 = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) name: Option<String>,
    pub(super) guild: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) topic: Option<String>,
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
            topic: id_of(value, "topic"),
            required_tag: tag.filter(|_| flags & (1 << 4) != 0).map(str::to_owned),
        })
    }

    /// Forums and media channels contain posts, and nothing else.
    pub(super) fn is_forum(&self) -> bool {
        matches!(self.kind, Kind::Forum | Kind::Unknown(MEDIA))
    }

    /// Whether a handoff gets a thread of its own there.
    pub(super) fn has_threads(&self) -> bool {
        self.is_forum() || matches!(self.kind, Kind::Text | Kind::News)
    }

    pub(super) fn chat_type(&self) -> ChatType {
        match self.kind {
            Kind::Private | Kind::GroupDm => ChatType::Dm,
            Kind::NewsThread | Kind::PublicThread | Kind::PrivateThread => ChatType::Thread,
            _ => ChatType::Group,
        }
    }
}

/// A channel with what people see of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) channel: Channel,
    /// As Hermes writes it: `Server / #channel / thread`. A private chat has the name of its person.
    pub(super) name: Option<String>,
    /// The topic of the channel, or of the forum of a post.
    pub(super) topic: Option<String>,
    /// The names of the channel and of the channel around it, with and without `#`. Lists of chats may use them.
    pub(super) labels: Vec<String>,
}

impl Place {
    pub(super) fn private(id: String) -> Place {
        Place {
            channel: Channel {
                id,
                kind: Kind::Private,
                name: None,
                guild: None,
                parent: None,
                topic: None,
                required_tag: None,
            },
            name: None,
            topic: None,
            labels: Vec::new(),
        }
    }

    fn of(channel: Channel, around: Option<&Channel>, guild: Option<String>) -> Place {
        let hash = |channel: &Channel| {
            let name = channel.name.clone()?;
            Some(match channel.is_forum() {
                true => name,
                false => format!("#{name}"),
            })
        };
        let is_thread = channel.chat_type() == ChatType::Thread;
        let own = match is_thread {
            true => channel.name.clone(),
            false => hash(&channel),
        };
        let outer = around.filter(|_| is_thread).and_then(hash);
        let parts: Vec<String> = [guild, outer, own].into_iter().flatten().collect();
        let named = [Some(&channel), around.filter(|_| is_thread)];
        let named = named.into_iter().flatten();
        let labels = named
            .filter_map(|channel| channel.name.as_ref())
            .flat_map(|name| [name.clone(), format!("#{name}")])
            .collect();
        Place {
            name: Some(parts.join(" / ")).filter(|name| !name.is_empty()),
            topic: match around {
                Some(around) if is_thread && around.is_forum() => around.topic.clone(),
                _ => channel.topic.clone(),
            },
            labels,
            channel,
        }
    }
}

#[derive(Default)]
pub(super) struct Channels {
    known: Mutex<HashMap<String, Channel>>,
    /// The names of servers.
    guilds: Mutex<HashMap<String, String>>,
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

    pub(super) fn remember_guild(&self, id: String, name: String) {
        let mut guilds = self.guilds.lock().unwrap_or_else(|p| p.into_inner());
        guilds.insert(id, name);
    }

    fn guild_name(&self, id: &str) -> Option<String> {
        let guilds = self.guilds.lock().unwrap_or_else(|p| p.into_inner());
        guilds.get(id).cloned()
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
            return Err(HttpFailure::foreign(200, b"no channel").into());
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

    /// The place of a message or an interaction. `None`: it no longer exists.
    pub(super) async fn place_of(&self, data: &Value) -> Result<Option<Place>, PlatformError> {
        let Some(id) = id_of(data, "channel_id") else {
            return Ok(None);
        };
        let Some(guild) = id_of(data, "guild_id") else {
            return Ok(Some(Place::private(id)));
        };
        let mut channel = match self.channel(&id).await {
            Ok(channel) => channel,
            Err(failure) if failure.is_final() => return Ok(None),
            Err(failure) => return Err(failure.into()),
        };
        let around = match &channel.parent {
            Some(parent) if channel.chat_type() == ChatType::Thread => {
                self.channel(parent).await.ok()
            }
            _ => None,
        };
        // The history of a channel does not say its server.
        channel.guild = Some(guild).filter(|id| !id.is_empty()).or(channel.guild);
        let guild = match &channel.guild {
            Some(guild) => self.guild_name(guild).await,
            None => None,
        };
        Ok(Some(Place::of(channel, around.as_ref(), guild)))
    }

    /// The place of an interaction, which must not wait for a look-up. It lacks the names that are not known yet.
    pub(super) fn known_place(&self, interaction: &Value) -> Option<Place> {
        let id = id_of(interaction, "channel_id")?;
        let Some(guild) = id_of(interaction, "guild_id") else {
            return Some(Place::private(id));
        };
        let sent = interaction.get("channel").and_then(Channel::read);
        let mut channel = self.channels.get(&id).or(sent)?;
        let around = channel.parent.as_ref();
        let around = around.and_then(|parent| self.channels.get(parent));
        let name = self.channels.guild_name(&guild);
        channel.guild = Some(guild);
        Some(Place::of(channel, around.as_ref(), name))
    }

    async fn guild_name(&self, id: &str) -> Option<String> {
        if let Some(name) = self.channels.guild_name(id) {
            return Some(name);
        }
        let number = id.parse::<u64>().ok().filter(|id| *id != 0)?;
        let guild_id = GuildId::new(number);
        let guild = self.api.get(Route::Guild { guild_id }).await.ok()?;
        let name = id_of(&guild, "name")?;
        self.channels.remember_guild(id.to_owned(), name.clone());
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Channel {
        Channel::read(&value).expect("a channel")
    }

    #[test]
    fn places_have_the_names_that_hermes_writes() {
        let server = || Some("Workshop".to_owned());
        let text = || read(json!({"id": "100", "type": 0, "name": "work", "topic": "All of it"}));
        let thread =
            || read(json!({"id": "301", "type": 11, "name": "Fix it", "parent_id": "100"}));
        let forum = read(json!({"id": "200", "type": 15, "name": "ideas", "topic": "Be kind"}));
        let place = Place::of(text(), None, server());
        assert_eq!(place.name.as_deref(), Some("Workshop / #work"));
        assert_eq!(place.topic.as_deref(), Some("All of it"));
        let place = Place::of(thread(), Some(&text()), server());
        assert_eq!(place.name.as_deref(), Some("Workshop / #work / Fix it"));
        assert_eq!(place.labels, ["Fix it", "#Fix it", "work", "#work"]);
        assert_eq!(place.topic, None);
        let place = Place::of(thread(), Some(&forum), server());
        assert_eq!(place.name.as_deref(), Some("Workshop / ideas / Fix it"));
        assert_eq!(place.topic.as_deref(), Some("Be kind"));
    }
}
