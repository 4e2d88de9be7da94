//! One connection to Discord's gateway: hello, identify or resume, heartbeats, and the events in their order.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serenity::model::gateway::GatewayIntents;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::platform::PlatformError;

/// How long the connection and the first word of the gateway may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A session of the gateway, which another connection can continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) url: String,
    /// The number of the last event that is handled.
    pub(super) seq: u64,
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// Another connection can continue the session.
    Resumable(String),
    /// The session is over. A new one can begin.
    Fresh(String),
    /// Another connection would end in the same way.
    Final(PlatformError),
}

pub(super) struct Login<'a> {
    pub(super) url: &'a str,
    pub(super) token: &'a str,
    pub(super) intents: GatewayIntents,
    pub(super) resume: Option<Session>,
}

/// An event of the gateway.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) seq: u64,
    pub(super) name: String,
    pub(super) data: Value,
}

/// Where a connection puts its events. The most events that may wait are the capacity of the channel.
pub(super) struct Queues {
    /// All other events, in their order.
    pub(super) events: mpsc::Sender<Dispatch>,
    /// Presses of buttons and native commands. Discord waits for an answer for three seconds only, so they do not wait
    /// for other events.
    pub(super) interactions: mpsc::Sender<Value>,
}

pub(super) struct Connection {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    interval: Duration,
    next_beat: Instant,
    /// The last heartbeat is acknowledged.
    acknowledged: bool,
    /// The number of the last event that was received.
    seq: Option<u64>,
}

impl Connection {
    pub(super) async fn open(login: Login<'_>) -> Result<Connection, End> {
        let opening = Connection::begin(login);
        match tokio::time::timeout(PATIENCE, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(End::Resumable("the gateway does not answer".into())),
        }
    }

    async fn begin(login: Login<'_>) -> Result<Connection, End> {
        let url = login
            .resume
            .as_ref()
            .map_or(login.url, |session| &session.url);
        let url = format!("{}/?v=10&encoding=json", url.trim_end_matches('/'));
        let connected = tokio_tungstenite::connect_async(url).await;
        let (socket, _) = connected
            .map_err(|error| End::Resumable(format!("the gateway cannot be reached: {error}")))?;
        let mut connection = Connection {
            socket,
            interval: Duration::MAX,
            next_beat: Instant::now() + PATIENCE,
            acknowledged: true,
            seq: login.resume.as_ref().map(|session| session.seq),
        };
        let hello = connection.receive().await?;
        let interval = hello
            .pointer("/d/heartbeat_interval")
            .and_then(Value::as_u64);
        let Some(interval) = interval.filter(|_| hello["op"] == 10) else {
            return Err(End::Resumable("the gateway does not say hello".into()));
        };
        connection.interval = Duration::from_millis(interval.max(1));
        // Not all clients send their first heartbeat at the same moment.
        connection.next_beat = Instant::now() + connection.interval.mul_f64(fastrand::f64());
        let first = match &login.resume {
            Some(session) => json!({"op": 6, "d": {
                "token": login.token, "session_id": session.id, "seq": session.seq,
            }}),
            None => json!({"op": 2, "d": {
                "token": login.token,
                "intents": login.intents.bits(),
                "properties": {"os": "linux", "browser": "hermesd", "device": "hermesd"},
            }}),
        };
        connection.send(&first).await?;
        Ok(connection)
    }

    /// Receives events until the connection ends, and keeps the connection alive meanwhile. Never waits for the
    /// readers of the queues, because a heartbeat must not be late.
    pub(super) async fn run(mut self, queues: Queues) -> End {
        loop {
            let dispatch = match self.next().await {
                Ok(dispatch) => dispatch,
                Err(end) => return end,
            };
            let full = match dispatch.name.as_str() {
                "INTERACTION_CREATE" => queues.interactions.try_send(dispatch.data).is_err(),
                _ => queues.events.try_send(dispatch).is_err(),
            };
            if full {
                // The gateway repeats what is not handled.
                return End::Resumable("too many events wait to be handled".into());
            }
        }
    }

    async fn next(&mut self) -> Result<Dispatch, End> {
        loop {
            let received = tokio::select! {
                received = self.socket.next() => Some(received),
                () = tokio::time::sleep_until(self.next_beat) => None,
            };
            let Some(received) = received else {
                self.beat().await?;
                continue;
            };
            let Some(mut payload) = read(received)? else {
                continue;
            };
            match payload["op"].as_u64() {
                Some(0) => {
                    let (name, data) = (payload["t"].take(), payload["d"].take());
                    let Value::String(name) = name else { continue };
                    let seq = payload["s"].as_u64().or(self.seq).unwrap_or_default();
                    self.seq = Some(seq);
                    return Ok(Dispatch { seq, name, data });
                }
                Some(1) => self.send_beat().await?,
                Some(7) => return Err(End::Resumable("the gateway asks to connect again".into())),
                Some(9) if payload["d"] == true => {
                    return Err(End::Resumable("the gateway interrupts the session".into()));
                }
                Some(9) => return Err(End::Fresh("the gateway ends the session".into())),
                Some(11) => self.acknowledged = true,
                _ => {}
            }
        }
    }

    async fn beat(&mut self) -> Result<(), End> {
        if !self.acknowledged {
            return Err(End::Resumable(
                "the connection is dead: a heartbeat was not acknowledged".into(),
            ));
        }
        self.acknowledged = false;
        self.next_beat = Instant::now() + self.interval;
        self.send_beat().await
    }

    async fn send_beat(&mut self) -> Result<(), End> {
        self.send(&json!({"op": 1, "d": self.seq})).await
    }

    async fn send(&mut self, payload: &Value) -> Result<(), End> {
        let sent = self.socket.send(Message::Text(payload.to_string())).await;
        sent.map_err(|error| End::Resumable(format!("the connection broke: {error}")))
    }

    async fn receive(&mut self) -> Result<Value, End> {
        loop {
            let received = self.socket.next().await;
            if let Some(payload) = read(received)? {
                return Ok(payload);
            }
        }
    }
}

impl Session {
    /// The session that a READY event begins.
    pub(super) fn begun(ready: &Value, seq: u64) -> Option<Session> {
        let text = |field: &str| ready.get(field)?.as_str().map(str::to_owned);
        Some(Session {
            id: text("session_id")?,
            url: text("resume_gateway_url")?,
            seq,
        })
    }
}

type Received = Option<Result<Message, tokio_tungstenite::tungstenite::Error>>;

fn read(received: Received) -> Result<Option<Value>, End> {
    match received {
        Some(Ok(Message::Text(text))) => Ok(serde_json::from_str(&text).ok()),
        Some(Ok(Message::Close(frame))) => Err(match frame {
            Some(frame) => closed(frame.code.into(), &frame.reason),
            None => End::Resumable("the gateway closed the connection".into()),
        }),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(End::Resumable(format!("the connection broke: {error}"))),
        None => Err(End::Resumable("the connection broke".into())),
    }
}

/// What a code of the gateway means for the next connection.
fn closed(code: u16, reason: &str) -> End {
    let said = format!("the gateway closed the connection ({code} {reason})");
    match code {
        4004 => End::Final(PlatformError::Unauthorized(
            "Discord does not know the bot's token: reset it in the developer portal (Bot) and set platforms.discord.token".into(),
        )),
        4014 => End::Final(PlatformError::Permanent(
            "the Message Content Intent is off (4014): switch it on in the developer portal (Bot, Privileged Gateway Intents), \
             then restart hermesd"
                .into(),
        )),
        4011 => End::Final(PlatformError::Permanent(
            "the bot is on too many servers for one connection (4011), which hermesd does not support".into(),
        )),
        4010 | 4012 | 4013 => End::Final(PlatformError::Permanent(said)),
        4003 | 4007 | 4009 => End::Fresh(said),
        _ => End::Resumable(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_decide_how_the_next_connection_begins() {
        let kind = |code| match closed(code, "") {
            End::Resumable(_) => "resume",
            End::Fresh(_) => "fresh",
            End::Final(_) => "final",
        };
        for (code, expected) in [
            (4000, "resume"),
            (4004, "final"),
            (4007, "fresh"),
            (4008, "resume"),
            (4009, "fresh"),
            (4013, "final"),
            (4014, "final"),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
    }
}
