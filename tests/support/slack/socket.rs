//! Socket Mode: one connection, from its ticket to its end.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::errors::Answered;
use super::request::Call;
use super::sockets::{Kind, MOST_CONNECTIONS, Next, Order, Reason};
use super::world::World;
use super::{APP_ID, SlackState};

/// The name of a connection in the record of calls.
pub const CONNECTION: &str = "socket";

const HOST: &str = "applink-fake-0";

/// How long a connection stays after the request to leave, so that the client reads it.
const GRACE: Duration = Duration::from_millis(500);

/// `apps.connections.open`: a new address with a ticket that works once.
pub fn open(world: &mut World, call: &Call) -> Answered {
    if !call.by_post {
        return Err("insecure_request".into());
    }
    let ticket = format!("{:08x}-fake-ticket", world.sockets.number());
    world.sockets.tickets.insert(ticket.clone());
    let address = world.url.trim_start_matches("http");
    Ok(json!({"url": format!("ws{address}/link/?ticket={ticket}&app_id={APP_ID}")}))
}

/// Why a connection ends.
enum End {
    /// With a close frame.
    Close,
    /// Without a word, or the client has closed.
    Silent,
}

struct Connection<'a> {
    state: &'a SlackState,
    number: u64,
    socket: WebSocket,
    /// When it ends, after the request to leave.
    leaves: Option<Instant>,
}

pub async fn connect(
    State(state): State<Arc<SlackState>>,
    uri: Uri,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !state.world().sockets.accepts {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let query = uri.query().unwrap_or_default().to_owned();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let ticket = pairs
        .filter(|(name, _)| *name == "ticket")
        .map(|(_, t)| t)
        .next();
    if !state
        .world()
        .sockets
        .tickets
        .remove(ticket.unwrap_or_default())
    {
        return StatusCode::NOT_FOUND.into_response();
    }
    upgrade.on_upgrade(move |socket| async move { run(&state, &query, socket).await })
}

async fn run(state: &SlackState, query: &str, socket: WebSocket) {
    let call = state.record(CONNECTION, json!({"query": query}));
    let number = state.world().sockets.number();
    let mut connection = Connection {
        state,
        number,
        socket,
        leaves: None,
    };
    let end = match connection.greet().await {
        Ok(()) => connection.talk().await,
        Err(end) => end,
    };
    state.world().sockets.disconnect(number);
    state.wake_clients();
    if let End::Close = end {
        let close = Message::Close(Some(CloseFrame {
            code: 1000,
            reason: "".into(),
        }));
        let _ = connection.socket.send(close).await;
    }
    drop(call);
}

impl Connection<'_> {
    /// Says hello. From then on it gets envelopes.
    async fn greet(&mut self) -> Result<(), End> {
        let (count, seconds) = {
            let world = self.state.world();
            (
                world.sockets.connections.len(),
                world.sockets.connection_time,
            )
        };
        if count >= MOST_CONNECTIONS {
            self.disconnect(Reason::TooManyWebsockets).await?;
            return Err(End::Close);
        }
        let hello = json!({
            "type": "hello",
            "num_connections": count + 1,
            "debug_info": {
                "host": HOST,
                "build_number": 10,
                "approximate_connection_time": seconds,
            },
            "connection_info": {"app_id": APP_ID},
        });
        self.send(hello).await?;
        let mut world = self.state.world();
        world.sockets.connections.insert(self.number, false);
        Ok(())
    }

    async fn talk(&mut self) -> End {
        let mut pinged = Instant::now();
        loop {
            let (ping_at, wakes) = {
                let world = self.state.world();
                let ping_at = pinged + world.sockets.ping_every;
                (ping_at, world.sockets.due(Instant::now()))
            };
            let deadline = [Some(ping_at), wakes, self.leaves]
                .into_iter()
                .flatten()
                .min();
            let deadline = deadline.expect("a time");
            let number = self.number;
            let next = self
                .state
                .wait_for(deadline, |world| world.sockets.next(number));
            let outcome = tokio::select! {
                frame = self.socket.recv() => match frame {
                    Some(Ok(frame)) => self.receive(frame),
                    _ => Err(End::Silent),
                },
                next = next => match next {
                    Some(next) => self.act(next).await,
                    None if Instant::now() >= ping_at => {
                        pinged = Instant::now();
                        self.ping().await
                    }
                    None => Ok(()),
                },
            };
            if let Err(end) = outcome {
                return end;
            }
            if self.leaves.is_some_and(|leaves| Instant::now() >= leaves) {
                return End::Close;
            }
        }
    }

    async fn ping(&mut self) -> Result<(), End> {
        let silent = {
            let world = self.state.world();
            let silent = world.sockets.connections.get(&self.number);
            silent.copied().unwrap_or_default()
        };
        if silent {
            return Ok(());
        }
        let ping = Message::Ping(format!("Ping from {HOST}").into_bytes().into());
        let sent = self.socket.send(ping).await;
        self.state.world().sockets.pings += 1;
        self.state.wake_clients();
        sent.map_err(|_| End::Silent)
    }

    async fn send(&mut self, value: Value) -> Result<(), End> {
        let frame = Message::Text(value.to_string().into());
        self.socket.send(frame).await.map_err(|_| End::Silent)
    }

    async fn disconnect(&mut self, reason: Reason) -> Result<(), End> {
        let info = json!({"host": HOST});
        let value = json!({"type": "disconnect", "reason": reason.name(), "debug_info": info});
        self.send(value).await
    }

    async fn act(&mut self, next: Next) -> Result<(), End> {
        match next {
            Next::Envelope(envelope) => self.send(envelope).await,
            Next::WakeOthers => {
                self.state.wake_clients();
                Ok(())
            }
            Next::Order(Order::Drop) => Err(End::Silent),
            Next::Order(Order::Disconnect(reason)) => {
                if reason != Reason::Warning {
                    self.leaves = Some(Instant::now() + GRACE);
                }
                self.disconnect(reason).await
            }
        }
    }

    /// An acknowledgement is the only frame that means something.
    fn receive(&mut self, frame: Message) -> Result<(), End> {
        let text = match frame {
            Message::Text(text) => text.to_string(),
            Message::Binary(_) => "binary".to_owned(),
            Message::Close(_) => return Err(End::Silent),
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
        };
        let mut world = self.state.world();
        if world.sockets.connections.get(&self.number) == Some(&true) {
            return Ok(());
        }
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        let answer = value.get("payload").cloned().unwrap_or(Value::Null);
        let envelope = value["envelope_id"].as_str().unwrap_or_default();
        match world.sockets.acknowledge(envelope, answer.clone()) {
            None => world.sockets.strays.push(text),
            Some(delivery) => {
                if let Kind::Command(to) = delivery.kind
                    && answer.as_object().is_some_and(|answer| !answer.is_empty())
                    && world.respond(&to, &answer).is_err()
                {
                    world.sockets.strays.push(text);
                }
            }
        }
        drop(world);
        self.state.wake_clients();
        Ok(())
    }
}
