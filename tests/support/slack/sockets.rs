//! What Socket Mode keeps: tickets, connections, and the envelopes that nobody has acknowledged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::responses::ResponseUrl;

/// How many connections an app can have.
pub const MOST_CONNECTIONS: usize = 10;

/// What an envelope has in it.
#[derive(Debug, Clone)]
pub enum Kind {
    Event,
    /// Where the answer within the acknowledgement goes.
    Command(ResponseUrl),
    Interaction,
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::Event => "events_api",
            Kind::Command(_) => "slash_commands",
            Kind::Interaction => "interactive",
        }
    }
}

#[derive(Debug, Clone)]
enum State {
    /// It goes out at this time, or with the next connection.
    Waiting(Instant),
    Sent {
        envelope: String,
        connection: u64,
        at: Instant,
    },
}

/// Something that the app has to acknowledge.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub kind: Kind,
    pub payload: Value,
    attempt: usize,
    reason: &'static str,
    state: State,
    /// The connection that got it last.
    last: Option<u64>,
    /// The connection that is to get it.
    kept_for: Option<u64>,
}

/// Why the server asks a client to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The end is near. The connection stays open until the client goes.
    Warning,
    RefreshRequested,
    /// Somebody has turned Socket Mode off.
    LinkDisabled,
    TooManyWebsockets,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Reason::Warning => "warning",
            Reason::RefreshRequested => "refresh_requested",
            Reason::LinkDisabled => "link_disabled",
            Reason::TooManyWebsockets => "too_many_websockets",
        }
    }
}

/// What a test has the server do to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Disconnect(Reason),
    /// Closes without a word.
    Drop,
}

/// What a connection has to do next.
pub enum Next {
    Order(Order),
    Envelope(Value),
    /// Something has changed that other connections have to look at.
    WakeOthers,
}

/// A frame of the app that acknowledged something.
#[derive(Debug, Clone)]
pub struct Acknowledgement {
    pub payload: Value,
    pub answer: Value,
    pub attempt: usize,
}

pub struct Sockets {
    pub tickets: BTreeSet<String>,
    /// The connections that are open, each with whether it is silent.
    pub connections: BTreeMap<u64, bool>,
    pub orders: VecDeque<(u64, Order)>,
    deliveries: VecDeque<Delivery>,
    pub acknowledged: Vec<Acknowledgement>,
    /// What nobody has acknowledged in time, after all attempts.
    pub unanswered: Vec<Delivery>,
    /// Frames of clients that acknowledge nothing.
    pub strays: Vec<String>,
    /// The time for an acknowledgement.
    pub ack_within: Duration,
    /// How long after a failure an event comes again.
    pub retry_after: [Duration; 3],
    pub ping_every: Duration,
    /// How often the server has pinged.
    pub pings: usize,
    /// Seconds until Slack refreshes a connection, as `hello` says.
    pub connection_time: u64,
    pub accepts: bool,
    next_number: u64,
    /// The connection that got the last envelope.
    last_used: u64,
}

impl Default for Sockets {
    fn default() -> Sockets {
        let seconds = Duration::from_secs;
        Sockets {
            tickets: BTreeSet::new(),
            connections: BTreeMap::new(),
            orders: VecDeque::new(),
            deliveries: VecDeque::new(),
            acknowledged: Vec::new(),
            unanswered: Vec::new(),
            strays: Vec::new(),
            ack_within: seconds(3),
            retry_after: [seconds(0), seconds(60), seconds(300)],
            ping_every: seconds(5),
            pings: 0,
            connection_time: 18_060,
            accepts: true,
            next_number: 0,
            last_used: 0,
        }
    }
}

impl Sockets {
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// Something new for the app. An event waits for a connection; a person who finds none is told so at once.
    pub fn push(&mut self, kind: Kind, payload: Value) {
        let is_open = !self.connections.is_empty();
        let is_event = matches!(kind, Kind::Event);
        let (attempt, reason) = match is_open {
            true => (0, ""),
            false => (1, "connection_failed"),
        };
        let delivery = Delivery {
            kind,
            payload,
            attempt,
            reason,
            state: State::Waiting(Instant::now()),
            last: None,
            kept_for: None,
        };
        match is_open || is_event {
            true => self.deliveries.push_back(delivery),
            false => self.unanswered.push(delivery),
        }
    }

    /// Sends an event again that the app may have had already.
    pub fn repeat(&mut self, payload: Value) {
        self.push(Kind::Event, payload);
        let delivery = self.deliveries.back_mut().expect("pushed above");
        (delivery.attempt, delivery.reason) = (1, "timeout");
    }

    /// Whether the app has acknowledged all that happened.
    pub fn is_settled(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Whether an event that was sent in vain is sent again, or is to be.
    pub fn has_repeats(&self) -> bool {
        self.deliveries.iter().any(|delivery| delivery.attempt > 0)
    }

    /// Lets envelopes wait again that were sent in vain.
    fn expire(&mut self, now: Instant) {
        let (within, retry_after) = (self.ack_within, self.retry_after);
        let open = &self.connections;
        let mut given_up = Vec::new();
        for (number, delivery) in self.deliveries.iter_mut().enumerate() {
            let State::Sent { connection, at, .. } = &delivery.state else {
                continue;
            };
            let is_lost = !open.contains_key(connection);
            if !is_lost && now < *at + within {
                continue;
            }
            if !matches!(delivery.kind, Kind::Event) || delivery.attempt >= retry_after.len() {
                given_up.push(number);
                continue;
            }
            delivery.state = State::Waiting(now + retry_after[delivery.attempt]);
            delivery.attempt += 1;
            delivery.reason = "timeout";
        }
        for number in given_up.into_iter().rev() {
            let delivery = self.deliveries.remove(number).expect("counted above");
            self.unanswered.push(delivery);
        }
    }

    /// The connection for an envelope: each in turn, and another one than the last time.
    fn choose(&self, last: Option<u64>) -> Option<u64> {
        let open = || self.connections.keys().copied();
        let others = || open().filter(|number| Some(*number) != last);
        let after = others().find(|number| *number > self.last_used);
        after.or(others().next()).or(open().next())
    }

    /// What this connection has to do now.
    pub fn next(&mut self, connection: u64) -> Option<Next> {
        let mut orders = self.orders.iter();
        if let Some(at) = orders.position(|(of, _)| *of == connection) {
            let (_, order) = self.orders.remove(at).expect("found above");
            return Some(Next::Order(order));
        }
        let now = Instant::now();
        self.expire(now);
        for number in 0..self.deliveries.len() {
            let delivery = &self.deliveries[number];
            if !matches!(delivery.state, State::Waiting(due) if due <= now) {
                continue;
            }
            let open = |number: &u64| self.connections.contains_key(number);
            let kept_for = delivery.kept_for.filter(open);
            if kept_for.is_some_and(|target| target != connection) {
                continue;
            }
            let target = match kept_for {
                Some(target) => target,
                None => {
                    let target = self.choose(delivery.last)?;
                    self.last_used = target;
                    target
                }
            };
            let silent = self.connections[&target];
            if silent || target == connection {
                let sent = self.send(number, target, now);
                return Some(match silent {
                    true => Next::WakeOthers,
                    false => Next::Envelope(sent),
                });
            }
            self.deliveries[number].kept_for = Some(target);
            return Some(Next::WakeOthers);
        }
        None
    }

    fn send(&mut self, number: usize, connection: u64, at: Instant) -> Value {
        let envelope = envelope_id(self.number());
        let delivery = &mut self.deliveries[number];
        delivery.last = Some(connection);
        delivery.kept_for = None;
        let mut value = json!({
            "envelope_id": envelope,
            "type": delivery.kind.name(),
            "payload": delivery.payload,
            "accepts_response_payload": !matches!(delivery.kind, Kind::Event),
        });
        if matches!(delivery.kind, Kind::Event) {
            value["retry_attempt"] = delivery.attempt.into();
            value["retry_reason"] = delivery.reason.into();
        }
        delivery.state = State::Sent {
            envelope,
            connection,
            at,
        };
        value
    }

    /// The next time at which something may have to be sent. What is due already waits for another connection.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let times = self.deliveries.iter().map(|delivery| match delivery.state {
            State::Waiting(due) => due,
            State::Sent { at, .. } => at + self.ack_within,
        });
        times.filter(|time| *time > now).min()
    }

    /// Takes an acknowledgement. Gives what was acknowledged.
    pub fn acknowledge(&mut self, envelope: &str, answer: Value) -> Option<Delivery> {
        let mut deliveries = self.deliveries.iter();
        let number = deliveries.position(
            |delivery| matches!(&delivery.state, State::Sent { envelope: id, .. } if id == envelope),
        )?;
        let delivery = self.deliveries.remove(number)?;
        self.acknowledged.push(Acknowledgement {
            payload: delivery.payload.clone(),
            answer,
            attempt: delivery.attempt,
        });
        Some(delivery)
    }

    pub fn disconnect(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.orders.retain(|(of, _)| *of != connection);
        self.expire(Instant::now());
    }
}

fn envelope_id(number: u64) -> String {
    format!("{number:08x}-0000-4000-8000-{:012x}", number * 7919)
}
