//! A fake of Slack: the Web API and Socket Mode, as strict as the vendor, with workspaces behind them. Tests play the people there.
//!
//! A call has the name of its method in the record, such as `chat.postMessage`. A connection of Socket Mode is a call named
//! `socket`, which ends when the connection does. An upload is a call named `upload`, a download one named `file`, and an answer
//! to a command or a press one named `response_url`.

mod app;
mod assistant;
mod blocks;
mod chat;
mod controls;
mod conversations;
mod errors;
mod events;
mod files;
mod history;
mod limits;
mod lookups;
mod mentions;
mod methods;
mod pages;
mod people;
mod post;
mod presses;
mod reactions;
mod records;
mod request;
mod responses;
mod socket;
mod sockets;
mod streams;
mod tokens;
mod world;
mod writing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Map, Value, json};

pub use people::{ADA, BEN, CLEO, Person};
pub use sockets::Reason;
pub use world::{ChannelKind, Standing, World};

use super::fake::{
    Answer, Done, FakeServer, FakeState, Outcome, Place, RecordedCall, Refusal, RequestBody,
    Vendor, decode_path,
};
use errors::{Answered, ApiError};
use request::Call;

/// The token of the bot in the first workspace.
pub const TOKEN: &str = "xoxb-1234567890-1234567890-abcdefghijklmnopqrstuvwx";
pub const APP_TOKEN: &str = "xapp-1-A07HERMES01-1234567890-abcdef0123456789";
pub const APP_ID: &str = "A07HERMES01";
/// The first workspace, in which Ada, Ben and the bot are.
pub const TEAM: &str = "T07WORK001";
pub const BOT_NAME: &str = "hermes";

pub type Slack = FakeServer<World>;

type SlackState = FakeState<World>;

impl Vendor for World {
    const POLLS: &'static [&'static str] = &[socket::CONNECTION];

    /// The description is the name of an error. Slack refuses with status 200.
    fn refusal(status: u16, description: &str, retry_after: Option<Duration>) -> Refusal {
        match status {
            429 => errors::rate_limited(retry_after.unwrap_or_default()),
            _ => errors::refuse(status, description),
        }
    }

    fn place(call: &RecordedCall) -> Place {
        let text = |name: &str| call.params[name].as_str().map(str::to_owned);
        let posted = match &call.outcome {
            Outcome::Done(result) => result["message"]["thread_ts"].as_str(),
            _ => None,
        };
        Place {
            chat: text("channel").or(text("channel_id")),
            thread: text("thread_ts").or(posted.map(str::to_owned)),
        }
    }
}

impl Slack {
    pub fn start() -> Slack {
        let server = FakeServer::with_routes(World::with_first_team(), |state| {
            Router::new()
                .route("/link/", any(socket::connect))
                .fallback(answer)
                .layer(DefaultBodyLimit::max(request::LARGEST))
                .with_state(state)
        });
        server.world().url = server.url();
        server
    }

    /// The root of the Web API.
    pub fn api_url(&self) -> String {
        format!("{}/api/", self.url())
    }
}

async fn answer(State(state): State<Arc<SlackState>>, request: Request) -> Response {
    let path = decode_path(request.uri().path());
    if let Some(name) = path.strip_prefix("/api/") {
        return answer_method(&state, name, request).await;
    }
    if let Some(id) = path.strip_prefix("/upload/v1/") {
        return answer_upload(&state, id, request).await;
    }
    if path.starts_with("/files-pri/") {
        let token = request.headers().get(AUTHORIZATION);
        let token = token.and_then(|token| token.to_str().ok());
        let work = async { files::fetch(&state.world(), &path, token) };
        return state
            .serve("file", json!({"path": path}), Ok(()), work)
            .await;
    }
    if path.starts_with("/commands/") || path.starts_with("/actions/") {
        return answer_response(&state, &path, request).await;
    }
    errors::refuse(404, "not_found").into_response()
}

async fn answer_method(state: &SlackState, name: &str, request: Request) -> Response {
    let Some(method) = methods::find(name) else {
        let more = json!({"req_method": name});
        let name = "unknown_method".to_owned();
        return Refusal::from(ApiError { name, more }).into_response();
    };
    let mut call = Call::new(method);
    let read = call.read(request).await;
    let (allowed, provided) = {
        let mut world = state.world();
        let authorized = world.authorize(&mut call).map_err(Refusal::from);
        let allowed = authorized
            .and_then(|()| world.limits.admit(&call, Instant::now()))
            .and_then(|()| read.map_err(Refusal::from))
            .and_then(|()| call.check_required().map_err(Refusal::from));
        (allowed, world.provided(&call))
    };
    let recorded = Value::Object(call.arguments.clone());
    let work = async { perform(state, &call) };
    let mut response = state.serve(method.name, recorded, allowed, work).await;
    let headers = response.headers_mut();
    let scopes = [
        ("x-oauth-scopes", provided),
        ("x-accepted-oauth-scopes", method.scopes.join(",")),
    ];
    for (name, value) in scopes {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn perform(state: &SlackState, call: &Call) -> Result<Done, Refusal> {
    let answered = dispatch(&mut state.world(), call);
    // What was done may be an event for Socket Mode.
    state.wake_clients();
    let mut result = answered?;
    let mut body = Map::from_iter([("ok".to_owned(), Value::Bool(true))]);
    if let Some(warning) = call.warning {
        result["warning"] = warning.into();
        result["response_metadata"]["warnings"] = json!([warning]);
    }
    body.extend(result.as_object().cloned().expect("fields"));
    let answer = Answer::json(200, &Value::Object(body));
    Ok(Done { result, answer })
}

fn dispatch(world: &mut World, call: &Call) -> Answered {
    match call.method.name {
        methods::OPEN_SOCKET => socket::open(world, call),
        "auth.test" => lookups::auth_test(world, call),
        "bots.info" => lookups::bots_info(world, call),
        "users.info" => lookups::users_info(world, call),
        "users.list" => lookups::users_list(world, call),
        "team.info" => lookups::team_info(world, call),
        "conversations.open" => conversations::open(world, call),
        "conversations.info" => conversations::info(world, call),
        "conversations.list" => conversations::list(world, call),
        "conversations.members" => conversations::members(world, call),
        "conversations.join" => conversations::join(world, call),
        "conversations.history" => history::history(world, call),
        "conversations.replies" => history::replies(world, call),
        "chat.postMessage" => chat::post_message(world, call),
        "chat.update" => chat::update(world, call),
        "chat.delete" => chat::delete(world, call),
        "chat.postEphemeral" => chat::post_ephemeral(world, call),
        "chat.getPermalink" => chat::get_permalink(world, call),
        "chat.startStream" => streams::start(world, call),
        "chat.appendStream" => streams::append(world, call),
        "chat.stopStream" => streams::stop(world, call),
        "reactions.add" => reactions::add(world, call),
        "reactions.remove" => reactions::remove(world, call),
        "files.getUploadURLExternal" => files::get_upload_url(world, call),
        "files.completeUploadExternal" => files::complete_upload(world, call),
        "files.info" => files::info(world, call),
        "assistant.threads.setStatus" => assistant::set_status(world, call),
        "assistant.threads.setTitle" => assistant::set_title(world, call),
        "assistant.threads.setSuggestedPrompts" => assistant::set_suggested_prompts(world, call),
        name => unreachable!("{name} is in the list of methods"),
    }
}

async fn answer_upload(state: &SlackState, id: &str, request: Request) -> Response {
    let kind = request.headers().get("content-type");
    let is_form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/form-data"));
    let bytes = match is_form {
        true => {
            let form = RequestBody::read(request, request::LARGEST).await;
            form.ok()
                .and_then(|form| Some(form.uploads.first()?.bytes.clone()))
        }
        false => axum::body::to_bytes(request.into_body(), request::LARGEST)
            .await
            .ok(),
    };
    let bytes = bytes.unwrap_or_default();
    let recorded = json!({"file": id, "size": bytes.len()});
    let work = async { files::upload(&mut state.world(), id, bytes) };
    state.serve("upload", recorded, Ok(()), work).await
}

async fn answer_response(state: &SlackState, path: &str, request: Request) -> Response {
    let bytes = axum::body::to_bytes(request.into_body(), request::LARGEST).await;
    let body: Option<Value> = serde_json::from_slice(&bytes.unwrap_or_default()).ok();
    let allowed = match body.as_ref().is_some_and(Value::is_object) {
        true => Ok(()),
        false => Err(errors::refuse(400, "invalid_payload")),
    };
    let body = body.unwrap_or_default();
    let recorded = json!({"path": path, "body": body});
    let work = async {
        let done = responses::answer(&mut state.world(), path, &body);
        state.wake_clients();
        done
    };
    state.serve("response_url", recorded, allowed, work).await
}
