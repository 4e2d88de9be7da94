//! A fake of Telegram's Bot API: as strict as the vendor, with a world of chats behind it. Tests play the people there.

mod html;
mod limits;
mod methods;
mod people;
mod records;
mod request;
mod rules;
mod send;
mod topics;
mod updates;
mod world;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

pub use super::fake::{Outcome, ScriptedFault, TlsFront};
pub use limits::{RateLimit, RateLimiter, VendorLimits};
pub use records::BotMessage;
pub use rules::CONFLICT;
pub use world::Rights;
pub use writing::{ADA, BEN, Person};

use super::fake::{
    Answer, Done, FakeServer, FakeState, Place, RecordedCall, Refusal, Vendor, decode_path,
};
use request::Params;
pub use world::World;

/// The only token that it accepts.
pub const TOKEN: &str = "4242424242:AAtest-0123456789abcdefghijklmnopqr";
pub const BOT_ID: i64 = 4_242_424_242;
/// The bot's name, without the `@`.
pub const BOT_NAME: &str = "hermes_test_bot";

/// Fetching a file is a method called `file` in the record.
pub type BotApi = FakeServer<World>;

type BotState = FakeState<World>;

impl Vendor for World {
    const POLLS: &'static [&'static str] = &["getUpdates"];

    fn refusal(status: u16, description: &str, retry_after: Option<Duration>) -> Refusal {
        match retry_after {
            Some(retry_after) => rules::too_many_requests(retry_after),
            None => rules::refuse(status, description),
        }
    }

    fn place(call: &RecordedCall) -> Place {
        let number_or_name = |value: &Value| match value {
            Value::Null => None,
            Value::String(name) => Some(name.clone()),
            number => Some(number.to_string()),
        };
        // The thread of a topic that is new, or of an answer in a topic, is in the result.
        let thread = number_or_name(&call.params["message_thread_id"]);
        let thread = thread.or_else(|| match &call.outcome {
            Outcome::Done(result) => number_or_name(&result["message_thread_id"]),
            _ => None,
        });
        Place {
            chat: number_or_name(&call.params["chat_id"]),
            thread,
        }
    }
}

impl BotApi {
    pub fn start() -> BotApi {
        FakeServer::with_routes(World::default(), |state| {
            Router::new()
                .fallback(answer)
                .layer(DefaultBodyLimit::max(request::LARGEST))
                .with_state(state)
        })
    }

    /// What users of Hermes configure as `extra.base_url`.
    pub fn hermes_base_url(&self) -> String {
        format!("{}/bot", self.url())
    }
}

impl TlsFront {
    /// What users of Hermes configure as `extra.base_url`.
    pub fn hermes_base_url(&self) -> String {
        format!("{}/bot", self.url())
    }
}

/// Does the work, and answers with a result that no library can read.
pub fn unreadable_result() -> ScriptedFault {
    let body = json!({"ok": true, "result": {"sent": "in a way that is new"}});
    ScriptedFault::AnswerAfter(Answer::json(200, &body))
}

/// Says at once that there are no updates, however long the client would wait.
pub fn no_updates() -> ScriptedFault {
    ScriptedFault::Answer(Answer::json(200, &json!({"ok": true, "result": []})))
}

/// What a request asks for, and the token in its path.
enum Target<'a> {
    Method(&'a str, &'a str),
    File(&'a str, &'a str),
}

impl Target<'_> {
    /// `None` if the path has no token that looks like one.
    fn of(path: &str) -> Option<Target<'_>> {
        let (target, token) = match path.strip_prefix("/file/bot") {
            Some(file) => {
                let (token, path) = file.split_once('/')?;
                (Target::File(token, path), token)
            }
            None => {
                let (token, method) = path.strip_prefix("/bot")?.split_once('/')?;
                (Target::Method(token, method), token)
            }
        };
        let (id, secret) = token.split_once(':')?;
        let number = !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit());
        (number && !secret.is_empty()).then_some(target)
    }
}

async fn answer(State(state): State<Arc<BotState>>, request: Request) -> Response {
    let path = decode_path(request.uri().path());
    match Target::of(&path) {
        None => rules::refuse(404, "Not Found").into_response(),
        Some(Target::File(token, file)) => {
            let work = async { fetch(&state, file) };
            let allowed = authorize(token);
            state.serve("file", json!({}), allowed, work).await
        }
        Some(Target::Method(token, name)) => {
            let Some((method, wanted)) = rules::method(name) else {
                return rules::refuse(404, "Not Found: method not found").into_response();
            };
            let (params, checked) = request::read(method, &wanted, request).await;
            let allowed = authorize(token).and(checked);
            let work = perform(&state, method, &params);
            let recorded = Value::Object(params.values.clone());
            state.serve(method, recorded, allowed, work).await
        }
    }
}

fn authorize(token: &str) -> Result<(), Refusal> {
    match token == TOKEN {
        true => Ok(()),
        false => Err(rules::refuse(401, "Unauthorized")),
    }
}

async fn perform(state: &BotState, method: &str, params: &Params) -> Result<Done, Refusal> {
    let result = match method {
        "getUpdates" => updates::get(state, params).await?,
        _ => methods::perform(&mut state.world(), method, params)?,
    };
    let answer = Answer::json(200, &json!({"ok": true, "result": result}));
    Ok(Done { result, answer })
}

fn fetch(state: &BotState, path: &str) -> Result<Done, Refusal> {
    let world = state.world();
    let file = world.files.iter().find(|file| file.path == path);
    let bytes: Option<Bytes> = file.map(|file| file.bytes.clone());
    let bytes = bytes.ok_or_else(|| rules::refuse(404, "Not Found"))?;
    Ok(Done {
        result: json!(path),
        answer: Answer::new(200, "application/octet-stream", bytes),
    })
}
