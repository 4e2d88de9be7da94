//! The world of the fake: guilds, channels, threads, messages, files, and what bots register.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::BOT_ID;
use super::interactions::Interaction;
use super::limits::RateLimits;
use super::people::{ADA, Person};
use super::sessions::Gateway;

pub type Id = u64;

/// The first millisecond of 2015, from which all ids count.
const EPOCH: i64 = 1_420_070_400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    Text = 0,
    Direct = 1,
    Voice = 2,
    Category = 4,
    Announcement = 5,
    AnnouncementThread = 10,
    PublicThread = 11,
    PrivateThread = 12,
    Forum = 15,
    Media = 16,
}

impl ChannelKind {
    /// Channels whose threads are posts, and which have no messages of their own.
    pub fn has_posts(self) -> bool {
        matches!(self, ChannelKind::Forum | ChannelKind::Media)
    }
}

/// Whom an overwrite is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    Role(Id),
    Member(Id),
}

#[derive(Debug, Clone)]
pub struct Overwrite {
    pub whom: Whom,
    pub allow: u64,
    pub deny: u64,
}

#[derive(Debug, Clone)]
pub struct Role {
    pub id: Id,
    pub name: String,
    pub permissions: u64,
    pub mentionable: bool,
    /// Discord made it, for the bot.
    pub managed: bool,
}

pub struct Guild {
    pub id: Id,
    pub name: String,
    pub owner: Id,
    pub roles: BTreeMap<Id, Role>,
    /// The members, each with the roles that they have beside that of everybody.
    pub members: BTreeMap<Id, BTreeSet<Id>>,
}

#[derive(Debug, Clone)]
pub struct Thread {
    pub owner: Id,
    pub archived: bool,
    pub locked: bool,
    /// Minutes.
    pub auto_archive: i64,
    /// The members, each with the time when they joined.
    pub members: BTreeMap<Id, String>,
    pub created: String,
    pub tags: Vec<Id>,
}

pub struct Channel {
    pub id: Id,
    pub kind: ChannelKind,
    pub guild: Option<Id>,
    pub name: String,
    /// The order among the channels of a category, or among those without one.
    pub position: i64,
    pub parent: Option<Id>,
    /// The other side of a direct message.
    pub recipient: Option<Id>,
    pub overwrites: Vec<Overwrite>,
    pub thread: Option<Thread>,
    pub messages: BTreeMap<Id, Entry>,
    /// The tags that posts of a forum can have.
    pub tags: BTreeMap<Id, String>,
    pub requires_tag: bool,
    /// How often the bot has shown that it is typing.
    pub typed: usize,
    /// How many messages were deleted.
    pub deleted: usize,
}

/// A message in a channel.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As the vendor shows it.
    pub value: Value,
    pub author: Id,
    /// Whom the bot allowed it to notify, if the bot said so.
    pub allowed_mentions: Option<Value>,
    /// The bot's reactions.
    pub reactions: Vec<String>,
    pub edits: usize,
}

/// A file that can be fetched.
pub struct Stored {
    pub path: String,
    pub bytes: Bytes,
}

/// The commands of the application: for all guilds, or for one.
#[derive(Debug, Clone)]
pub struct Command {
    pub id: Id,
    pub guild: Option<Id>,
    pub name: String,
    pub value: Value,
}

pub struct World {
    /// Where the server listens.
    pub url: String,
    /// The token of the bot, until Discord resets it.
    pub token: Option<String>,
    /// Who has registered the application.
    pub owner: Person,
    /// Whether the application belongs to a team, whose owner that person is.
    pub has_team: bool,
    pub people: BTreeMap<Id, Person>,
    pub guilds: BTreeMap<Id, Guild>,
    pub channels: BTreeMap<Id, Channel>,
    pub files: Vec<Stored>,
    pub commands: Vec<Command>,
    pub interactions: Vec<Interaction>,
    pub gateway: Gateway,
    pub limits: RateLimits,
    /// People who accept no direct messages from the bot.
    pub closed_to_bot: BTreeSet<Id>,
    /// The bot's messages by which a repeat is recognised: the text, when it was sent, the channel and the id.
    pub nonces: Vec<(String, Instant, Id, Id)>,
    /// How long Discord recognises the nonce of a message. It says: the past few minutes.
    pub nonce_window: Duration,
    /// How many threads of a guild can be active together.
    pub most_active_threads: usize,
    /// The largest file.
    pub upload_limit: usize,
    /// How long an interaction waits for its first answer.
    pub time_to_answer: Duration,
    /// How long the token of an interaction is good for.
    pub token_life: Duration,
    last_id: Id,
}

impl Default for World {
    fn default() -> World {
        World {
            url: String::new(),
            token: Some(super::TOKEN.to_owned()),
            owner: ADA,
            has_team: false,
            people: BTreeMap::new(),
            guilds: BTreeMap::new(),
            channels: BTreeMap::new(),
            files: Vec::new(),
            commands: Vec::new(),
            interactions: Vec::new(),
            gateway: Gateway::default(),
            limits: RateLimits::default(),
            closed_to_bot: BTreeSet::new(),
            nonces: Vec::new(),
            nonce_window: Duration::from_secs(180),
            most_active_threads: 1000,
            upload_limit: 10 << 20,
            time_to_answer: Duration::from_secs(3),
            token_life: Duration::from_secs(15 * 60),
            last_id: 0,
        }
    }
}

/// The time as Discord writes it.
pub fn now() -> String {
    written(Timestamp::now())
}

fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string()
}

/// When a thing with this id was made.
pub fn time_of(id: Id) -> String {
    let millis = i64::try_from(id >> 22).expect("small") + EPOCH;
    written(Timestamp::from_millisecond(millis).expect("a time"))
}

impl World {
    /// An id that is larger than all before it, with the time in its upper bits.
    pub fn next_id(&mut self) -> Id {
        let since = Timestamp::now().as_millisecond() - EPOCH;
        let of_now = u64::try_from(since).expect("later than 2015") << 22;
        self.last_id = of_now.max(self.last_id + 1);
        self.last_id
    }

    /// An id of a moment in the past.
    pub fn id_of(&mut self, ago: Duration) -> Id {
        let ago = u64::try_from(ago.as_millis()).expect("not long ago");
        self.next_id() - (ago << 22)
    }

    pub fn channel(&self, id: Id) -> &Channel {
        self.channels
            .get(&id)
            .unwrap_or_else(|| panic!("no channel {id}"))
    }

    pub fn channel_mut(&mut self, id: Id) -> &mut Channel {
        self.channels
            .get_mut(&id)
            .unwrap_or_else(|| panic!("no channel {id}"))
    }

    pub fn add_channel(&mut self, guild: Option<Id>, kind: ChannelKind, name: &str) -> Id {
        let id = self.next_id();
        self.put_channel(id, guild, kind, name);
        id
    }

    pub fn put_channel(&mut self, id: Id, guild: Option<Id>, kind: ChannelKind, name: &str) {
        let channel = Channel {
            id,
            kind,
            guild,
            name: name.to_owned(),
            position: 0,
            parent: None,
            recipient: None,
            overwrites: Vec::new(),
            thread: None,
            messages: BTreeMap::new(),
            tags: BTreeMap::new(),
            requires_tag: false,
            typed: 0,
            deleted: 0,
        };
        self.channels.insert(id, channel);
    }

    /// The direct channel with a person. There is one for each.
    pub fn direct(&mut self, person: Id) -> Id {
        let mut channels = self.channels.values();
        if let Some(known) = channels.find(|c| c.recipient == Some(person)) {
            return known.id;
        }
        let id = self.add_channel(None, ChannelKind::Direct, "");
        self.channel_mut(id).recipient = Some(person);
        id
    }

    /// Whether the bot and a person are in the same guild.
    pub fn shares_guild(&self, person: Id) -> bool {
        self.guilds
            .values()
            .any(|g| g.members.contains_key(&BOT_ID) && g.members.contains_key(&person))
    }

    /// The threads of a guild that are not archived.
    pub fn active_threads(&self, guild: Id) -> impl Iterator<Item = &Channel> {
        let of_guild = self.channels.values();
        of_guild.filter(move |channel| {
            let active = channel.thread.as_ref().is_some_and(|t| !t.archived);
            channel.guild == Some(guild) && active
        })
    }

    /// Removes a channel with its threads, and gives all that were removed.
    pub fn remove_channel(&mut self, id: Id) -> Vec<Channel> {
        let of = |channel: &&Channel| {
            channel.id == id || channel.thread.is_some() && channel.parent == Some(id)
        };
        let mut ids: Vec<Id> = self.channels.values().filter(of).map(|c| c.id).collect();
        ids.sort_by_key(|removed| *removed != id);
        ids.iter()
            .filter_map(|id| self.channels.remove(id))
            .collect()
    }

    /// Stores a file, and gives its address.
    pub fn store_file(&mut self, channel: Id, id: Id, name: &str, bytes: Bytes) -> String {
        let path = format!("/attachments/{channel}/{id}/{name}");
        let url = format!("{}{path}", self.url);
        self.files.push(Stored { path, bytes });
        url
    }
}
