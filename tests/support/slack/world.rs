//! The world of the fake: workspaces, people, channels, messages and files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use super::app::App;
use super::limits::RateLimits;
use super::people::Person;
use super::responses::ResponseUrl;
use super::sockets::Sockets;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    Public,
    Private,
    /// Between one person and the bot.
    Direct,
    /// Between several people, and the bot if it is a member.
    GroupDirect,
}

impl ChannelKind {
    /// The `channel_type` of events.
    pub fn event_type(self) -> &'static str {
        match self {
            ChannelKind::Public => "channel",
            ChannelKind::Private => "group",
            ChannelKind::Direct => "im",
            ChannelKind::GroupDirect => "mpim",
        }
    }

    /// The family of scopes and of message events.
    pub fn family(self) -> &'static str {
        match self {
            ChannelKind::Public => "channels",
            ChannelKind::Private => "groups",
            ChannelKind::Direct => "im",
            ChannelKind::GroupDirect => "mpim",
        }
    }

    /// The name in the argument `types` of `conversations.list`.
    pub fn listed_as(self) -> &'static str {
        match self {
            ChannelKind::Public => "public_channel",
            ChannelKind::Private => "private_channel",
            ChannelKind::Direct => "im",
            ChannelKind::GroupDirect => "mpim",
        }
    }

    /// The letter that ids begin with. Private channels have had `C` since 2021, and older ones keep `G`.
    fn letter(self) -> char {
        match self {
            ChannelKind::Public => 'C',
            ChannelKind::Private | ChannelKind::GroupDirect => 'G',
            ChannelKind::Direct => 'D',
        }
    }
}

/// What became of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Valid,
    /// The error `token_revoked`.
    Revoked,
    /// The error `account_inactive`: the app was removed from the workspace.
    Inactive,
}

/// A workspace with an installation of the app.
#[derive(Debug, Clone)]
pub struct Team {
    pub id: String,
    pub name: String,
    pub domain: String,
    /// The id and the name of the organisation that it belongs to.
    pub enterprise: Option<(String, String)>,
    pub bot_user: String,
    pub bot_id: String,
    pub token: String,
    pub standing: Standing,
    pub scopes: BTreeSet<String>,
}

#[derive(Debug, Clone)]
pub struct User {
    pub team: String,
    pub name: String,
    pub real_name: String,
    /// The id of the bot, if this is the user of a bot.
    pub bot_id: Option<String>,
    pub deleted: bool,
}

/// A message in a channel.
#[derive(Debug, Clone)]
pub struct Message {
    /// As the vendor shows it, without what is computed from its replies.
    pub value: Value,
    /// The user who wrote it.
    pub author: String,
    /// The bot of the workspace wrote it.
    pub by_bot: bool,
    /// Whom it notifies, as a test reads it.
    pub notified: Vec<String>,
    pub metadata: Option<Value>,
    /// Text is still being appended.
    pub streaming: bool,
    /// It was deleted and stands for the replies that are left.
    pub is_tombstone: bool,
    pub edits: usize,
    pub posted: Instant,
}

/// A message that only one person sees. It is in no history.
#[derive(Debug, Clone)]
pub struct Ephemeral {
    pub ts: String,
    pub to: String,
    pub text: String,
    pub blocks: Value,
    pub thread_ts: Option<String>,
}

/// The thread of an assistant: what people see beside its messages.
#[derive(Debug, Clone, Default)]
pub struct ThreadExtras {
    pub status: String,
    pub title: String,
    /// The titles and the messages of the suggested prompts.
    pub prompts: Vec<(String, String)>,
}

pub struct Channel {
    pub id: String,
    pub team: String,
    pub kind: ChannelKind,
    pub name: String,
    pub members: BTreeSet<String>,
    pub archived: bool,
    /// Only admins may post.
    pub restricted: bool,
    pub created: i64,
    /// By `ts`, whose texts have the order of their times.
    pub messages: BTreeMap<String, Message>,
    pub ephemerals: Vec<Ephemeral>,
    pub extras: BTreeMap<String, ThreadExtras>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Its address was asked for.
    Expected,
    Uploaded,
    /// It can be seen and shared.
    Complete,
    Deleted,
}

#[derive(Debug, Clone)]
pub struct StoredFile {
    pub team: String,
    pub user: String,
    pub name: String,
    pub title: String,
    /// The size that was announced.
    pub length: usize,
    pub bytes: Bytes,
    pub state: FileState,
    pub created: i64,
}

#[derive(Default)]
pub struct World {
    /// Where the server listens.
    pub url: String,
    pub teams: BTreeMap<String, Team>,
    pub app: App,
    pub users: BTreeMap<String, User>,
    pub channels: BTreeMap<String, Channel>,
    pub files: BTreeMap<String, StoredFile>,
    pub responses: Vec<ResponseUrl>,
    pub sockets: Sockets,
    pub limits: RateLimits,
    /// How long a message can be edited, where the workspace limits it.
    pub edit_window: Option<Duration>,
    next_number: u64,
    /// The last `ts` in microseconds.
    last_ts: i64,
}

pub fn seconds() -> i64 {
    Timestamp::now().as_second()
}

impl World {
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// A new id with this letter, such as `C07FAKE000A`.
    pub fn new_id(&mut self, letter: char) -> String {
        format!("{letter}07FAKE{:04X}", self.number())
    }

    /// A new `ts`. All are different and grow.
    pub fn new_ts(&mut self) -> String {
        let now = Timestamp::now().as_microsecond();
        self.last_ts = now.max(self.last_ts + 1);
        format!(
            "{}.{:06}",
            self.last_ts / 1_000_000,
            self.last_ts % 1_000_000
        )
    }

    pub fn add_channel(&mut self, team: &str, kind: ChannelKind, name: &str) -> &mut Channel {
        let id = self.new_id(kind.letter());
        let channel = Channel {
            id: id.clone(),
            team: team.to_owned(),
            kind,
            name: name.to_owned(),
            members: BTreeSet::new(),
            archived: false,
            restricted: false,
            created: seconds(),
            messages: BTreeMap::new(),
            ephemerals: Vec::new(),
            extras: BTreeMap::new(),
        };
        self.channels.entry(id).or_insert(channel)
    }

    pub fn add_person(&mut self, team: &str, person: &Person) {
        let user = User {
            team: team.to_owned(),
            name: person.name.to_owned(),
            real_name: person.real_name.to_owned(),
            bot_id: None,
            deleted: false,
        };
        self.users.entry(person.id.to_owned()).or_insert(user);
    }

    /// A channel that a test names.
    pub fn channel(&self, id: &str) -> &Channel {
        self.channels.get(id).unwrap_or_else(|| panic!("no {id}"))
    }

    pub fn channel_mut(&mut self, id: &str) -> &mut Channel {
        let channel = self.channels.get_mut(id);
        channel.unwrap_or_else(|| panic!("no {id}"))
    }

    /// The workspace of a channel that a test names.
    pub fn team_of(&self, channel: &str) -> &Team {
        &self.teams[&self.channel(channel).team]
    }

    /// The channel with exactly these members.
    fn between(&self, kind: ChannelKind, members: &BTreeSet<String>) -> Option<String> {
        let mut channels = self.channels.values();
        let found = channels.find(|c| c.kind == kind && c.members == *members);
        found.map(|channel| channel.id.clone())
    }

    /// The direct channel of the bot with these people, which is made when there is none. Says whether it was there.
    pub fn direct(&mut self, team: &str, people: &[String]) -> (String, bool) {
        let bot = self.teams[team].bot_user.clone();
        let members: BTreeSet<String> = people.iter().cloned().chain([bot]).collect();
        let kind = match people.len() {
            1 => ChannelKind::Direct,
            _ => ChannelKind::GroupDirect,
        };
        if let Some(id) = self.between(kind, &members) {
            return (id, true);
        }
        let names: Vec<&str> = people.iter().map(|id| &*self.users[id].name).collect();
        let name = match kind {
            ChannelKind::Direct => String::new(),
            _ => format!("mpdm-{}-1", names.join("--")),
        };
        let channel = self.add_channel(team, kind, &name);
        channel.members = members;
        (channel.id.clone(), false)
    }

    pub fn message(&self, channel: &str, ts: &str) -> Option<&Message> {
        self.channels.get(channel)?.messages.get(ts)
    }
}

impl Channel {
    /// The replies in a thread, without its root.
    pub fn replies<'a>(&'a self, root: &'a str) -> impl Iterator<Item = (&'a String, &'a Message)> {
        let in_thread = move |m: &Message| m.value["thread_ts"] == root;
        let messages = self.messages.iter();
        messages.filter(move |(ts, message)| *ts != root && in_thread(message))
    }

    /// A message as the vendor shows it now.
    pub fn shown(&self, ts: &str) -> Value {
        let mut value = self.messages[ts].value.clone();
        let replies: Vec<_> = self.replies(ts).collect();
        if let Some((latest, _)) = replies.last() {
            let users: BTreeSet<&str> = replies.iter().map(|(_, m)| &*m.author).collect();
            value["thread_ts"] = ts.into();
            value["reply_count"] = replies.len().into();
            value["reply_users_count"] = users.len().into();
            value["reply_users"] = users.into_iter().map(Value::from).collect();
            value["latest_reply"] = latest.as_str().into();
            value["is_locked"] = false.into();
            value["subscribed"] = false.into();
        }
        value
    }
}
