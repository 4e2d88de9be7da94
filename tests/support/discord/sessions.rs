//! The sessions of the gateway: who gets which event, and what is kept for a client that comes back.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::gateway::RESUME_PATH;
use super::world::{Id, World};
use super::{APPLICATION_ID, BOT_ID, values};

pub const GUILDS: u64 = 1 << 0;
pub const GUILD_MEMBERS: u64 = 1 << 1;
pub const GUILD_PRESENCES: u64 = 1 << 8;
pub const GUILD_MESSAGES: u64 = 1 << 9;
pub const DIRECT_MESSAGES: u64 = 1 << 12;
pub const MESSAGE_CONTENT: u64 = 1 << 15;

/// The intents that the portal has to permit.
pub const PRIVILEGED: u64 = GUILD_MEMBERS | GUILD_PRESENCES | MESSAGE_CONTENT;

/// All intents that there are.
const KNOWN: u64 = 0x1_ffff | 1 << 20 | 1 << 21 | 1 << 24 | 1 << 25;

/// Something that happened.
#[derive(Debug, Clone)]
pub struct Event {
    pub name: &'static str,
    pub data: Value,
    /// A session gets it if it has one of these intents. 0 is for all sessions.
    pub intents: u64,
}

/// What a test has the gateway do to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Closes with this code.
    Close(u16),
    /// Closes without a word.
    Drop,
    /// Asks the client to reconnect and resume.
    Reconnect,
    /// Ends the session. The client may resume if this is true.
    Invalidate(bool),
}

pub struct Session {
    pub id: String,
    pub intents: u64,
    pub seq: u64,
    /// All that was dispatched, with its number.
    pub log: Vec<(u64, Value)>,
    /// The connection that it has now.
    pub connection: Option<u64>,
    /// The number of the last dispatch that was sent on this connection.
    pub sent: u64,
}

impl Session {
    fn push(&mut self, name: &str, data: Value) {
        self.seq += 1;
        let payload = json!({"op": 0, "t": name, "s": self.seq, "d": data});
        self.log.push((self.seq, payload));
    }
}

pub struct Gateway {
    pub sessions: Vec<Session>,
    pub orders: VecDeque<(u64, Order)>,
    /// The connections that are open.
    pub connections: BTreeSet<u64>,
    pub heartbeat_interval: Duration,
    /// Whether heartbeats are acknowledged.
    pub acknowledges: bool,
    /// Whether new connections are accepted.
    pub accepts: bool,
    /// The privileged intents that the portal permits.
    pub portal: u64,
    pub starts_left: u32,
    /// The time that has to pass between two identifies. Discord's is five seconds.
    pub between_starts: Duration,
    pub last_start: Option<Instant>,
    /// Whether each new session is declared invalid at once.
    pub starts_fail: bool,
    /// The last event that a person caused.
    pub last_of_people: Option<Event>,
    /// Events for the next session.
    pub for_next: Vec<Event>,
    next_number: u64,
}

/// How many sessions can be started in a day.
pub const STARTS: u32 = 1000;

impl Default for Gateway {
    fn default() -> Gateway {
        Gateway {
            sessions: Vec::new(),
            orders: VecDeque::new(),
            connections: BTreeSet::new(),
            heartbeat_interval: Duration::from_millis(41_250),
            acknowledges: true,
            accepts: true,
            portal: PRIVILEGED,
            starts_left: STARTS,
            between_starts: Duration::ZERO,
            last_start: None,
            starts_fail: false,
            last_of_people: None,
            for_next: Vec::new(),
            next_number: 0,
        }
    }
}

/// What a connection has to do next.
pub enum Next {
    Order(Order),
    Payload(u64, Value),
}

impl Gateway {
    /// A number that no connection or session has.
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub fn session(&mut self, id: &str) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// Ends sessions, so that nobody can resume them.
    pub fn forget(&mut self, id: &str) {
        self.sessions.retain(|session| session.id != id);
    }

    pub fn next(&mut self, connection: u64) -> Option<Next> {
        let mut orders = self.orders.iter();
        if let Some(at) = orders.position(|(of, _)| *of == connection) {
            let (_, order) = self.orders.remove(at).expect("found above");
            return Some(Next::Order(order));
        }
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|s| s.connection == Some(connection))?;
        let (seq, payload) = session.log.iter().find(|(seq, _)| *seq > session.sent)?;
        Some(Next::Payload(*seq, payload.clone()))
    }

    /// Ends the connection. Its session stays, for a client that resumes.
    pub fn disconnect(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.orders.retain(|(of, _)| *of != connection);
        for session in &mut self.sessions {
            if session.connection == Some(connection) {
                session.connection = None;
            }
        }
    }

    /// The flags of the application, which show the privileged intents. They are those of an application in few guilds.
    pub fn application_flags(&self) -> u64 {
        let shown = [
            (GUILD_PRESENCES, 1 << 13),
            (GUILD_MEMBERS, 1 << 15),
            (MESSAGE_CONTENT, 1 << 19),
        ];
        let on = shown.iter().filter(|(intent, _)| self.portal & intent != 0);
        on.fold(0, |flags, (_, flag)| flags | flag)
    }

    /// The code that refuses these intents.
    pub fn refuses(&self, intents: u64) -> Option<u16> {
        if intents & !KNOWN != 0 {
            return Some(4013);
        }
        (intents & PRIVILEGED & !self.portal != 0).then_some(4014)
    }
}

impl World {
    /// Starts a session on a connection.
    pub fn start_session(&mut self, connection: u64, intents: u64) -> String {
        let number = self.gateway.number();
        let id = format!(
            "{:032x}",
            u128::from(number) << 64 | u128::from(number * 7919)
        );
        let mut session = Session {
            id: id.clone(),
            intents,
            seq: 0,
            log: Vec::new(),
            connection: Some(connection),
            sent: 0,
        };
        let joined = || {
            let guilds = self.guilds.values();
            guilds.filter(|guild| guild.members.contains_key(&BOT_ID))
        };
        let unavailable =
            joined().map(|guild| json!({"id": guild.id.to_string(), "unavailable": true}));
        let mut user = values::bot();
        let more = json!({"verified": true, "mfa_enabled": false, "email": null, "flags": 0});
        values::extend(&mut user, more);
        let ready = json!({
            "v": 10,
            "user": user,
            "guilds": unavailable.collect::<Vec<_>>(),
            "session_id": id,
            "session_type": "normal",
            "resume_gateway_url": format!("{}{}", self.gateway_url(), RESUME_PATH.trim_end_matches('/')),
            "shard": [0, 1],
            "application": {
                "id": APPLICATION_ID.to_string(),
                "flags": self.gateway.application_flags(),
            },
            "private_channels": [],
            "relationships": [],
            "presences": [],
            "user_settings": {},
        });
        session.push("READY", ready);
        if intents & GUILDS != 0 {
            for guild in joined() {
                session.push("GUILD_CREATE", self.guild_create(guild));
            }
        }
        self.gateway.sessions.push(session);
        for event in std::mem::take(&mut self.gateway.for_next) {
            let session = self.gateway.sessions.last_mut().expect("pushed above");
            give(session, &event);
        }
        id
    }

    /// Lets a session continue on a new connection after this number.
    pub fn resume_session(&mut self, id: &str, connection: u64, after: u64) {
        self.gateway.for_next.clear();
        let session = self.gateway.session(id).expect("a session");
        session.log.retain(|(_, payload)| payload["t"] != "RESUMED");
        session.connection = Some(connection);
        session.sent = after;
        session.push("RESUMED", json!({"_trace": []}));
    }

    /// Without a path, as that of Discord.
    pub fn gateway_url(&self) -> String {
        let address = self.url.trim_start_matches("http");
        format!("ws{address}")
    }

    /// Tells all sessions of something, if the bot can see where it happened.
    pub fn dispatch(&mut self, channel: Option<Id>, event: Event) {
        let seen = channel.is_none_or(|id| {
            let channel = self.channels.get(&id);
            channel.is_none_or(|channel| self.permissions(BOT_ID, channel) != 0)
        });
        if !seen {
            return;
        }
        for session in &mut self.gateway.sessions {
            give(session, &event);
        }
    }

    /// Like [`World::dispatch`], for something that a person did.
    pub fn dispatch_of_people(&mut self, channel: Option<Id>, event: Event) {
        self.gateway.last_of_people = Some(event.clone());
        self.dispatch(channel, event);
    }

    /// Dispatches the last event of a person again. If nobody is connected, the next session gets it too.
    pub fn repeat_last(&mut self) {
        let event = self.gateway.last_of_people.clone().expect("an event");
        let connected = |session: &Session| session.connection.is_some();
        if !self.gateway.sessions.iter().any(connected) {
            self.gateway.for_next.push(event.clone());
        }
        for session in &mut self.gateway.sessions {
            give(session, &event);
        }
    }
}

fn give(session: &mut Session, event: &Event) {
    if event.intents != 0 && session.intents & event.intents == 0 {
        return;
    }
    let mut data = event.data.clone();
    if event.name.starts_with("MESSAGE_") && session.intents & MESSAGE_CONTENT == 0 {
        hide_content(&mut data);
    }
    session.push(event.name, data);
}

/// Without the intent for content, a bot reads its own messages, direct ones, and those that mention it.
fn hide_content(message: &mut Value) {
    let bot = BOT_ID.to_string();
    let own = message["author"]["id"] == bot;
    let direct = message.get("guild_id").is_none();
    let mentions = message["mentions"].as_array();
    let mentioned = mentions.is_some_and(|m| m.iter().any(|user| user["id"] == bot));
    if own || direct || mentioned || message.get("content").is_none() {
        return;
    }
    message["content"] = json!("");
    for list in ["attachments", "embeds", "components"] {
        message[list] = json!([]);
    }
}

/// The intents for messages in a channel.
pub fn message_intents(guild: Option<Id>) -> u64 {
    match guild {
        Some(_) => GUILD_MESSAGES,
        None => DIRECT_MESSAGES,
    }
}
