//! One connection of Socket Mode: hello, the envelopes and their acknowledgements, and signs of life.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tokio_util::sync::CancellationToken;

use crate::platform::PlatformError;

/// How long the connection and its first word may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time between two pings of ours.
const PING_EVERY: Duration = Duration::from_secs(4);
/// After so many pings without an answer, the connection is dead.
const MOST_UNANSWERED: u32 = 3;
/// A connection without a ping or a message of Slack for this time is dead. Slack pings every few seconds, so four times
/// its usual pause is enough, within these limits.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
const SHORTEST_SILENCE: Duration = Duration::from_secs(5);
/// How long a connection that was replaced is still read.
const DRAIN: Duration = Duration::from_secs(2);
/// The longest wait for the acknowledgements of what such a connection has received.
const LONGEST_DRAIN: Duration = Duration::from_secs(30);

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// It was replaced by another one, or Slack closed it after its request.
    Replaced,
    Broken(String),
    /// Another connection would end in the same way.
    Final(PlatformError),
}

/// An event that Slack wants to be acknowledged.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) payload: Value,
    pub(super) received: Instant,
    id: String,
    acks: mpsc::UnboundedSender<String>,
}

impl Envelope {
    /// False if the connection is gone. Then Slack sends the event again.
    pub(super) fn acknowledge(self) -> bool {
        self.acks.send(self.id).is_ok()
    }
}

/// A press of a button, or a native command. Both are acknowledged already: a person waits.
#[derive(Debug)]
pub(super) enum Interaction {
    Pressed(Value),
    Command(Value),
}

/// What is received, in its order.
#[derive(Debug)]
pub(super) enum Received {
    /// A connection begins. Events may be lost that happened before it.
    Begun,
    Event(Envelope),
}

/// Where connections put what they receive. The most that may wait is the capacity of the channels.
#[derive(Clone)]
pub(super) struct Queues {
    pub(super) events: mpsc::Sender<Received>,
    /// Presses and commands do not wait for other events.
    pub(super) interactions: mpsc::Sender<Interaction>,
}

pub(super) struct Connection {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    acks: mpsc::UnboundedReceiver<String>,
    give_acks: mpsc::UnboundedSender<String>,
    /// Events that are not acknowledged.
    open: usize,
    heard: Instant,
    last_ping: Option<Instant>,
    /// The longest pause between two pings of Slack.
    usual_pause: Option<Duration>,
    next_ping: Instant,
    /// The pings of ours since the last answer to one.
    unanswered: u32,
    /// Where it says that Slack has asked to leave.
    leaving: mpsc::UnboundedSender<()>,
    is_leaving: bool,
    /// Another connection has taken over.
    replaced: CancellationToken,
}

impl Connection {
    /// Connects and waits for Slack's hello. An error does not contain the address, which has a ticket in it.
    pub(super) async fn open(
        url: Url,
        leaving: mpsc::UnboundedSender<()>,
        replaced: CancellationToken,
    ) -> Result<Connection, End> {
        match tokio::time::timeout(PATIENCE, Connection::begin(url, leaving, replaced)).await {
            Ok(opened) => opened,
            Err(_) => Err(End::Broken("Socket Mode does not answer".into())),
        }
    }

    async fn begin(
        url: Url,
        leaving: mpsc::UnboundedSender<()>,
        replaced: CancellationToken,
    ) -> Result<Connection, End> {
        let connected = tokio_tungstenite::connect_async(url.as_str()).await;
        let (socket, _) = connected
            .map_err(|error| End::Broken(format!("Socket Mode cannot be reached: {error}")))?;
        let (give_acks, acks) = mpsc::unbounded_channel();
        let now = Instant::now();
        let mut connection = Connection {
            socket,
            acks,
            give_acks,
            open: 0,
            heard: now,
            last_ping: None,
            usual_pause: None,
            next_ping: now + PING_EVERY,
            unanswered: 0,
            leaving,
            is_leaving: false,
            replaced,
        };
        loop {
            let received = connection.socket.next().await;
            let Some(frame) = connection.read(received)? else {
                continue;
            };
            match frame["type"].as_str() {
                Some("hello") => return Ok(connection),
                Some("disconnect") => {
                    return Err(parting(&frame).unwrap_or_else(|| {
                        End::Broken("Slack refuses the connection for now".into())
                    }));
                }
                _ => {}
            }
        }
    }

    /// Receives until the connection ends. Never waits for the readers of the queues.
    pub(super) async fn run(mut self, queues: Queues) -> End {
        let Err(end) = self.receive(&queues).await;
        let _ = self.socket.close(None).await;
        end
    }

    async fn receive(&mut self, queues: &Queues) -> Result<Infallible, End> {
        let mut drained: Option<Instant> = None;
        let replaced = self.replaced.clone();
        loop {
            let silent_at = self.heard + self.longest_silence();
            let ends_at = match drained {
                Some(at) if self.open == 0 => Some(at + DRAIN),
                Some(at) => Some(at + LONGEST_DRAIN),
                None => None,
            };
            let ends = async {
                match ends_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = self.socket.next() => {
                    if let Some(frame) = self.read(received)? {
                        self.take(frame, queues).await?;
                    }
                }
                Some(id) = self.acks.recv() => {
                    self.open = self.open.saturating_sub(1);
                    self.acknowledge(&id).await?;
                }
                () = replaced.cancelled(), if drained.is_none() => drained = Some(Instant::now()),
                () = ends => return Err(End::Replaced),
                () = tokio::time::sleep_until(self.next_ping) => self.ping().await?,
                () = tokio::time::sleep_until(silent_at) => {
                    return Err(End::Broken("the connection is silent".into()));
                }
            }
        }
    }

    async fn take(&mut self, mut frame: Value, queues: &Queues) -> Result<(), End> {
        let id = frame["envelope_id"].as_str().unwrap_or_default().to_owned();
        let payload = frame["payload"].take();
        let kind = frame["type"].as_str().unwrap_or_default();
        let full = match kind {
            "events_api" => {
                self.open += 1;
                let envelope = Envelope {
                    payload,
                    received: Instant::now(),
                    id,
                    acks: self.give_acks.clone(),
                };
                queues.events.try_send(Received::Event(envelope)).is_err()
            }
            "interactive" | "slash_commands" => {
                self.acknowledge(&id).await?;
                let interaction = match kind {
                    "interactive" => Interaction::Pressed(payload),
                    _ => Interaction::Command(payload),
                };
                queues.interactions.try_send(interaction).is_err()
            }
            "disconnect" => {
                if let Some(end) = parting(&frame) {
                    return Err(end);
                }
                self.is_leaving = true;
                let _ = self.leaving.send(());
                false
            }
            // An envelope of a kind that is new.
            _ if !id.is_empty() => {
                self.acknowledge(&id).await?;
                false
            }
            _ => false,
        };
        match full {
            // Slack sends again what is not acknowledged.
            true => Err(End::Broken("too many events wait to be handled".into())),
            false => Ok(()),
        }
    }

    fn longest_silence(&self) -> Duration {
        let usual = self.usual_pause.map(|pause| pause * 4);
        let usual = usual.unwrap_or(LONGEST_SILENCE);
        usual.clamp(SHORTEST_SILENCE, LONGEST_SILENCE)
    }

    async fn ping(&mut self) -> Result<(), End> {
        if self.unanswered >= MOST_UNANSWERED {
            return Err(End::Broken(
                "the connection is dead: pings are not answered".into(),
            ));
        }
        self.unanswered += 1;
        self.next_ping = Instant::now() + PING_EVERY;
        self.send(Message::Ping(Vec::new())).await
    }

    async fn acknowledge(&mut self, id: &str) -> Result<(), End> {
        let ack = json!({"envelope_id": id}).to_string();
        self.send(Message::Text(ack)).await
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        let sent = self.socket.send(message).await;
        sent.map_err(|error| End::Broken(format!("the connection broke: {error}")))
    }

    fn read(&mut self, received: Frame) -> Result<Option<Value>, End> {
        let now = Instant::now();
        let message = match received {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Err(End::Broken(format!("the connection broke: {error}"))),
            None => return Err(self.closed("the connection broke")),
        };
        // Any server answers pings. Only Slack's own pings and messages show that it serves the connection.
        if !matches!(message, Message::Pong(_)) {
            self.heard = now;
        }
        match message {
            Message::Text(text) => Ok(serde_json::from_str(&text).ok()),
            Message::Close(_) => Err(self.closed("Slack closed the connection")),
            Message::Ping(_) => {
                let pause = self.last_ping.map(|last| now - last);
                self.usual_pause = self.usual_pause.max(pause);
                self.last_ping = Some(now);
                Ok(None)
            }
            Message::Pong(_) => {
                self.unanswered = 0;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn closed(&self, reason: &str) -> End {
        match self.is_leaving {
            true => End::Replaced,
            false => End::Broken(reason.to_owned()),
        }
    }
}

type Frame = Option<Result<Message, tokio_tungstenite::tungstenite::Error>>;

/// The end that a request to leave means. `None`: another connection can take over.
fn parting(frame: &Value) -> Option<End> {
    match frame["reason"].as_str().unwrap_or_default() {
        "link_disabled" => Some(End::Final(PlatformError::Permanent(
            "Socket Mode is off (link_disabled): switch it on at api.slack.com/apps (Socket Mode), then restart hermesd"
                .into(),
        ))),
        "too_many_websockets" => Some(End::Broken(
            "the app has too many connections (too_many_websockets): end other programs that use its app-level token".into(),
        )),
        _ => None,
    }
}
