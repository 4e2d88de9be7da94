//! The gateway: one connection, from hello to its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::DiscordState;
use super::sessions::{Next, Order};

/// The name of a connection in the record of calls.
pub const CONNECTION: &str = "gateway";

/// Where sessions are resumed. Discord has other hosts for that, and this server has only one.
pub const RESUME_PATH: &str = "/resume/";

/// The largest payload of a client.
const LARGEST: usize = 4096;

/// How many payloads a client may send in a minute.
const PAYLOADS: usize = 120;

/// Why a connection ends.
enum End {
    /// Closes with this code.
    Close(u16),
    /// Closes without a word, or the client has closed.
    Silent,
}

struct Connection<'a> {
    state: &'a DiscordState,
    number: u64,
    session: Option<String>,
    last_heartbeat: Instant,
    payloads: VecDeque<Instant>,
    socket: WebSocket,
}

pub async fn connect(
    State(state): State<Arc<DiscordState>>,
    uri: Uri,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !state.world().gateway.accepts {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    upgrade.on_upgrade(move |socket| async move { run(&state, &uri, socket).await })
}

async fn run(state: &DiscordState, uri: &Uri, socket: WebSocket) {
    let query = uri.query().unwrap_or_default();
    let call = state.record(CONNECTION, json!({"path": uri.path(), "query": query}));
    let number = {
        let mut world = state.world();
        let number = world.gateway.number();
        world.gateway.connections.insert(number);
        number
    };
    let mut connection = Connection {
        state,
        number,
        session: None,
        last_heartbeat: Instant::now(),
        payloads: VecDeque::new(),
        socket,
    };
    let end = match fits(query) {
        Ok(()) => connection.talk().await,
        Err(code) => End::Close(code),
    };
    state.world().gateway.disconnect(number);
    if let End::Close(code) = end {
        let close = Message::Close(Some(CloseFrame {
            code,
            reason: reason(code).into(),
        }));
        let _ = connection.socket.send(close).await;
    }
    drop(call);
}

/// The version and the encoding that this gateway speaks.
fn fits(query: &str) -> Result<(), u16> {
    let mut version = None;
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("v", wanted)) => version = Some(wanted),
            Some(("encoding", encoding)) if encoding != "json" => return Err(4002),
            Some(("compress", _)) => return Err(4002),
            _ => {}
        }
    }
    (version == Some("10")).then_some(()).ok_or(4012)
}

impl Connection<'_> {
    async fn talk(&mut self) -> End {
        let interval = self.state.world().gateway.heartbeat_interval;
        let millis = u64::try_from(interval.as_millis()).expect("small");
        let hello = json!({"op": 10, "d": {"heartbeat_interval": millis, "_trace": []}});
        let mut outcome = self.send(hello).await;
        loop {
            if let Err(end) = outcome {
                return end;
            }
            // A client that misses two heartbeats is gone.
            let silent = self.last_heartbeat + 2 * interval + Duration::from_secs(1);
            let number = self.number;
            let next = self
                .state
                .wait_for(silent, |world| world.gateway.next(number));
            outcome = tokio::select! {
                frame = self.socket.recv() => match frame {
                    Some(Ok(frame)) => self.receive(frame).await,
                    _ => Err(End::Silent),
                },
                next = next => match next {
                    Some(next) => self.act(next).await,
                    None => self.end_session(4009),
                },
            };
        }
    }

    async fn send(&mut self, payload: Value) -> Result<(), End> {
        let frame = Message::Text(payload.to_string().into());
        self.socket.send(frame).await.map_err(|_| End::Silent)
    }

    async fn act(&mut self, next: Next) -> Result<(), End> {
        match next {
            Next::Payload(seq, payload) => {
                self.send(payload).await?;
                let id = self.session.clone().unwrap_or_default();
                if let Some(session) = self.state.world().gateway.session(&id) {
                    session.sent = seq;
                }
                Ok(())
            }
            Next::Order(Order::Close(code)) => match code {
                // These end the session.
                4004 | 4007 | 4009 => self.end_session(code),
                _ => Err(End::Close(code)),
            },
            Next::Order(Order::Drop) => Err(End::Silent),
            Next::Order(Order::Reconnect) => {
                self.send(json!({"op": 7, "d": null, "s": null, "t": null}))
                    .await
            }
            Next::Order(Order::Invalidate(resumable)) => {
                self.leave_session(resumable);
                self.send(json!({"op": 9, "d": resumable})).await
            }
        }
    }

    /// The session is no longer on this connection, and may be gone for good.
    fn leave_session(&mut self, resumable: bool) {
        let id = self.session.take().unwrap_or_default();
        let mut world = self.state.world();
        match (resumable, world.gateway.session(&id)) {
            (true, Some(session)) => session.connection = None,
            _ => world.gateway.forget(&id),
        }
    }

    fn end_session(&mut self, code: u16) -> Result<(), End> {
        let id = self.session.take().unwrap_or_default();
        self.state.world().gateway.forget(&id);
        Err(End::Close(code))
    }

    async fn receive(&mut self, frame: Message) -> Result<(), End> {
        let text = match frame {
            Message::Text(text) => text,
            Message::Binary(_) => return Err(End::Close(4002)),
            Message::Close(close) => {
                // A client that says goodbye does not come back to its session.
                if close.is_some_and(|close| matches!(close.code, 1000 | 1001)) {
                    let _ = self.end_session(1000);
                }
                return Err(End::Silent);
            }
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
        };
        let now = Instant::now();
        self.payloads.push_back(now);
        let minute = Duration::from_secs(60);
        self.payloads.retain(|sent| now - *sent < minute);
        if self.payloads.len() > PAYLOADS {
            return Err(End::Close(4008));
        }
        if text.len() > LARGEST {
            return Err(End::Close(4002));
        }
        let payload: Value = serde_json::from_str(&text).map_err(|_| End::Close(4002))?;
        let op = payload["op"].as_u64().ok_or(End::Close(4002))?;
        match op {
            1 => self.heartbeat().await,
            2 => self.identify(&payload["d"]).await,
            6 => self.resume(&payload["d"]).await,
            3 | 4 | 8 | 31 if self.session.is_none() => Err(End::Close(4003)),
            3 | 4 | 8 | 31 => Ok(()),
            _ => Err(End::Close(4001)),
        }
    }

    async fn heartbeat(&mut self) -> Result<(), End> {
        self.last_heartbeat = Instant::now();
        let acknowledges = self.state.world().gateway.acknowledges;
        match acknowledges {
            true => self.send(json!({"op": 11})).await,
            false => Ok(()),
        }
    }

    fn is_token(&self, token: &Value) -> bool {
        let world = self.state.world();
        let token = token.as_str().map(|t| t.trim_start_matches("Bot "));
        token.is_some() && token == world.token.as_deref()
    }

    async fn identify(&mut self, data: &Value) -> Result<(), End> {
        if self.session.is_some() {
            return Err(End::Close(4005));
        }
        if !data["properties"].is_object() || !data["token"].is_string() {
            return Err(End::Close(4002));
        }
        if !self.is_token(&data["token"]) {
            return Err(End::Close(4004));
        }
        let intents = data["intents"].as_u64().ok_or(End::Close(4013))?;
        let shard = data.get("shard").filter(|shard| !shard.is_null());
        if shard.is_some_and(|shard| *shard != json!([0, 1])) {
            return Err(End::Close(4010));
        }
        let started = {
            let mut world = self.state.world();
            if let Some(code) = world.gateway.refuses(intents) {
                return Err(End::Close(code));
            }
            let now = std::time::Instant::now();
            let last = world.gateway.last_start.replace(now);
            let pause = world.gateway.between_starts;
            if world.gateway.starts_left == 0 {
                // Too many sessions in a day: Discord ends them all and resets the token.
                world.token = None;
                world.gateway.sessions.clear();
                return Err(End::Close(4004));
            }
            world.gateway.starts_left -= 1;
            let too_soon = last.is_some_and(|last| now - last < pause);
            match too_soon || world.gateway.starts_fail {
                true => None,
                false => Some(world.start_session(self.number, intents)),
            }
        };
        self.session = started;
        match self.session {
            Some(_) => Ok(()),
            None => self.send(json!({"op": 9, "d": false})).await,
        }
    }

    async fn resume(&mut self, data: &Value) -> Result<(), End> {
        if self.session.is_some() {
            return Err(End::Close(4005));
        }
        let (Some(id), Some(seq)) = (data["session_id"].as_str(), data["seq"].as_u64()) else {
            return Err(End::Close(4002));
        };
        if !self.is_token(&data["token"]) {
            return Err(End::Close(4004));
        }
        let known = {
            let mut world = self.state.world();
            let last = world.gateway.session(id).map(|session| session.seq);
            if last.is_some_and(|last| seq > last) {
                world.gateway.forget(id);
                return Err(End::Close(4007));
            }
            if last.is_some() {
                world.resume_session(id, self.number, seq);
            }
            last.is_some()
        };
        match known {
            true => {
                self.session = Some(id.to_owned());
                Ok(())
            }
            false => self.send(json!({"op": 9, "d": false})).await,
        }
    }
}

fn reason(code: u16) -> &'static str {
    match code {
        4001 => "Unknown opcode.",
        4002 => "Decode error.",
        4003 => "Not authenticated.",
        4004 => "Authentication failed.",
        4005 => "Already authenticated.",
        4007 => "Invalid sequence.",
        4008 => "Rate limited.",
        4009 => "Session timed out.",
        4010 => "Invalid shard.",
        4012 => "Invalid API version.",
        4013 => "Invalid intent(s).",
        4014 => "Disallowed intent(s).",
        _ => "Unknown error.",
    }
}
