//! A fake of Discord: the REST API and the gateway, as strict as the vendor, with a world of guilds behind them. Tests play the
//! people there.
//!
//! A call has the name of its route in the record, such as [`SEND`]. A connection to the gateway is a call named `gateway`, which
//! ends when the connection does. Fetching a file is a call named `file`.

mod checks;
mod commands;
mod controls;
mod errors;
mod form;
mod gateway;
mod interactions;
mod limits;
mod lookups;
mod mentions;
mod messages;
mod people;
pub mod permissions;
mod post;
mod presses;
mod records;
mod routes;
pub mod sessions;
mod threads;
mod values;
mod world;
mod writing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, USER_AGENT};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Value, json};

pub use people::{ADA, BEN, Person};
pub use records::BotMessage;
pub use sessions::Order;
pub use world::{ChannelKind, Id, Whom, World};

use super::fake::{
    Answer, Done, FakeServer, FakeState, Outcome, Place, RecordedCall, Refusal, Vendor, decode_path,
};
use errors::LimitScope;
use routes::Call;

/// The token that it accepts.
pub const TOKEN: &str = "MTE5OTk5OTk5OTk5OTk5OTk5OQ.Gfake0.abcdefghijklmnopqrstuvwxyz0123456789AB";
pub const BOT_ID: Id = 1_199_999_999_999_999_999;
/// Newer applications share the id with their bot, older ones do not. This one does not, so that nobody mixes them up.
pub const APPLICATION_ID: Id = 1_188_888_888_888_888_888;
pub const BOT_NAME: &str = "hermes-test";

/// The route that sends a message.
pub const SEND: &str = "POST /channels/{}/messages";

pub type Discord = FakeServer<World>;

type DiscordState = FakeState<World>;

impl Vendor for World {
    const POLLS: &'static [&'static str] = &[gateway::CONNECTION];

    /// A description may begin with Discord's own code, as in `10003 Unknown Channel`.
    fn refusal(status: u16, description: &str, retry_after: Option<Duration>) -> Refusal {
        if status == 429 {
            return errors::too_many_requests(retry_after.unwrap_or_default(), LimitScope::User);
        }
        let code = description.split_once(' ');
        let code = code.and_then(|(code, message)| Some((code.parse().ok()?, message)));
        let (code, message) = code.unwrap_or((0, description));
        errors::refuse(status, code, message)
    }

    /// A thread is a channel of its own, so only its opening names both.
    fn place(call: &RecordedCall) -> Place {
        let channel = call.params["parts"][0].as_str();
        let channel = channel.filter(|_| call.method.contains(" /channels/"));
        let opened = match &call.outcome {
            Outcome::Done(result) if call.method.ends_with("/threads") => result["id"].as_str(),
            _ => None,
        };
        Place {
            chat: channel.map(str::to_owned),
            thread: opened.map(str::to_owned),
        }
    }
}

impl Discord {
    pub fn start() -> Discord {
        let server = FakeServer::with_routes(World::default(), |state| {
            Router::new()
                .route("/", any(gateway::connect))
                .route(gateway::RESUME_PATH, any(gateway::connect))
                .fallback(answer)
                .layer(DefaultBodyLimit::max(routes::LARGEST))
                .with_state(state)
        });
        server.world().url = server.url();
        server
    }

    /// The root of the REST API.
    pub fn api_url(&self) -> String {
        format!("{}/api/v10", self.url())
    }
}

async fn answer(State(state): State<Arc<DiscordState>>, request: Request) -> Response {
    let path = decode_path(request.uri().path());
    if path.starts_with("/attachments/") {
        let work = async { fetch(&state, &path) };
        return state
            .serve("file", json!({"path": path}), Ok(()), work)
            .await;
    }
    let mut call = match Call::of(&request) {
        Ok(call) => call,
        Err(refusal) => return refusal.into_response(),
    };
    let authorized = authorize(&state, &call, request.headers());
    let read = call.read(request).await;
    let (standing, admitted) = match authorized {
        Ok(()) => {
            let mut world = state.world();
            let (standing, admitted) = world.limits.admit(&call, Instant::now());
            (standing, admitted)
        }
        Err(refusal) => (None, Err(refusal)),
    };
    let allowed = admitted.and(read);
    let work = async { perform(&state, &call) };
    let mut response = state.serve(call.name, call.recorded(), allowed, work).await;
    if let Some(standing) = standing {
        standing.write(response.headers_mut());
    }
    response
}

fn authorize(state: &DiscordState, call: &Call, headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let agent: Option<&str> = text(USER_AGENT);
    if !agent.is_some_and(|agent| agent.starts_with("DiscordBot (")) {
        return Err(errors::blocked_agent());
    }
    if call.is_interaction() || call.name == "GET /gateway" {
        return Ok(());
    }
    let token = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bot "));
    let world = state.world();
    match token.is_some() && token == world.token.as_deref() {
        true => Ok(()),
        false => Err(errors::UNAUTHORIZED.into()),
    }
}

fn perform(state: &DiscordState, call: &Call) -> Result<Done, Refusal> {
    let (result, is_new_command) = {
        let mut world = state.world();
        let commands = world.commands.len();
        let (_, path) = call.name.split_once(" /").expect("a path");
        let result = match path.split('/').next() {
            Some("channels") if path.contains("/thread") => threads::perform(&mut world, call),
            Some("channels") if path.contains("/messages") => messages::perform(&mut world, call),
            Some("applications" | "oauth2") => commands::perform(&mut world, call),
            Some("interactions" | "webhooks") => interactions::perform(&mut world, call),
            _ => lookups::perform(&mut world, call),
        };
        let is_new = call.name.starts_with("POST") && world.commands.len() > commands;
        (result, is_new)
    };
    // What was done may be an event for the gateway.
    state.wake_clients();
    let result = result?;
    let answer = match &result {
        Value::Null => Answer {
            status: 204,
            headers: Vec::new(),
            body: Default::default(),
        },
        result if is_new_command || call.name.ends_with("/threads") => Answer::json(201, result),
        result => Answer::json(200, result),
    };
    Ok(Done { result, answer })
}

fn fetch(state: &DiscordState, path: &str) -> Result<Done, Refusal> {
    let world = state.world();
    let file = world.files.iter().find(|file| file.path == path);
    let file = file.ok_or(errors::NOT_FOUND)?;
    Ok(Done {
        result: json!(path),
        answer: Answer::new(200, "application/octet-stream", file.bytes.clone()),
    })
}
