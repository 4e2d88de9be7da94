//! Telegram's Bot API, as strict as the vendor's, with a world of chats behind it in which the tests play the people. It has a
//! thread of its own, so that it serves the built daemon.

mod html;
mod methods;
mod people;
mod plays;
mod records;
mod request;
mod rules;
mod send;
mod tls;
mod updates;
mod world;
mod writing;

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

pub use plays::Play;
pub use records::{BotMessage, Call, Outcome};
pub use tls::TlsFront;
pub use world::Rights;
pub use writing::{ADA, BEN, Person};

use plays::Plays;
use request::Params;
use rules::Refusal;
use world::World;

/// The token that it wants.
pub const TOKEN: &str = "4242424242:AAtest-0123456789abcdefghijklmnopqr";
pub const BOT_ID: i64 = 4_242_424_242;
/// The bot's name, without the `@`.
pub const BOT_NAME: &str = "hermes_test_bot";

struct Stage {
    world: Mutex<World>,
    plays: Plays,
    calls: Mutex<Vec<Call>>,
    /// Changes whenever a poll that waits should look again.
    news: watch::Sender<()>,
}

impl Stage {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn arrived(&self, method: &str, params: &Params) -> usize {
        let mut calls = self.calls.lock().unwrap();
        calls.push(Call::new(method, Value::Object(params.values.clone())));
        calls.len() - 1
    }

    fn ended(&self, call: usize, outcome: &Result<Value, Refusal>) {
        self.calls.lock().unwrap()[call].outcome = match outcome {
            Ok(value) => Outcome::Done(value.clone()),
            Err(refusal) => Outcome::Refused(refusal.status, refusal.description.clone()),
        };
    }
}

/// Gone when dropped, with all its connections.
pub struct BotApi {
    address: String,
    stage: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BotApi {
    pub fn start() -> BotApi {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address").to_string();
        let stage = Arc::new(Stage {
            world: Mutex::default(),
            plays: Plays::default(),
            calls: Mutex::default(),
            news: watch::Sender::new(()),
        });
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::max(request::LARGEST))
            .with_state(stage.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
        });
        BotApi {
            address,
            stage,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Where the vendor's libraries find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What users of Hermes configure as `extra.base_url`.
    pub fn hermes_base_url(&self) -> String {
        format!("http://{}/bot", self.address)
    }
}

impl Drop for BotApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is asked for with which token: a method, or a file.
enum Wish<'a> {
    Method(&'a str, &'a str),
    File(&'a str, &'a str),
}

impl Wish<'_> {
    fn of(path: &str) -> Option<Wish<'_>> {
        match path.strip_prefix("/file/bot") {
            Some(file) => file.split_once('/').map(|(t, path)| Wish::File(t, path)),
            None => {
                let (token, method) = path.strip_prefix("/bot")?.split_once('/')?;
                Some(Wish::Method(token, method))
            }
        }
    }
}

async fn answer(State(stage): State<Arc<Stage>>, request: Request) -> Response {
    let path = request::decoded(request.uri().path());
    let wish = Wish::of(&path);
    let token = match wish {
        Some(Wish::Method(token, _) | Wish::File(token, _)) => token,
        None => "",
    };
    let well_formed = token.split_once(':').is_some_and(|(id, secret)| {
        !secret.is_empty() && !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())
    });
    let Some(wish) = wish.filter(|_| well_formed) else {
        return Refusal::new(404, "Not Found").into_response();
    };
    match wish {
        Wish::File(token, file) => {
            let call = stage.arrived("file", &Params::default());
            let authorized = authorize(token);
            let doing = async { fetch(&stage, file) };
            let body = match run(&stage, "file", call, authorized, doing).await {
                Ok(body) => body,
                Err(response) => return response,
            };
            let number = body.as_u64().expect("a file's number") as usize;
            stage.world().files[number].bytes.clone().into_response()
        }
        Wish::Method(token, name) => {
            let Some((method, wanted)) = rules::method(name) else {
                return Refusal::new(404, "Not Found: method not found").into_response();
            };
            let (params, checked) = request::read(method, &wanted, request).await;
            let call = stage.arrived(method, &params);
            let allowed = authorize(token).and(checked);
            let doing = perform(&stage, method, &params);
            match run(&stage, method, call, allowed, doing).await {
                Ok(result) => axum::Json(json!({"ok": true, "result": result})).into_response(),
                Err(response) => response,
            }
        }
    }
}

fn authorize(token: &str) -> Result<(), Refusal> {
    match token == TOKEN {
        true => Ok(()),
        false => Err(Refusal::unauthorized()),
    }
}

/// A call that is underway. When it goes without having been done, it never will be.
struct Underway<'a>(&'a Stage, usize);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let outcome = &mut self.0.calls.lock().unwrap()[self.1].outcome;
        if *outcome == Outcome::Arrived {
            *outcome = Outcome::Abandoned;
        }
    }
}

/// Does what is asked, unless it is not allowed or the play is another.
async fn run(
    stage: &Arc<Stage>,
    method: &str,
    call: usize,
    allowed: Result<(), Refusal>,
    doing: impl Future<Output = Result<Value, Refusal>>,
) -> Result<Value, Response> {
    if let Err(refusal) = allowed {
        stage.ended(call, &Err(refusal.clone()));
        return Err(refusal.into_response());
    }
    let _underway = Underway(stage, call);
    stage.plays.pass().await;
    let play = stage.plays.next(method);
    if let Some(response) = plays::before(play.as_ref()).await {
        if let Some(refusal) = response.refusal {
            stage.ended(call, &Err(refusal));
        }
        return Err(response.response);
    }
    let done = doing.await;
    stage.ended(call, &done);
    plays::after(play.as_ref()).await;
    match (play, done) {
        (Some(Play::Strange), Ok(_)) => Ok(json!({"sent": "in a way that is new"})),
        (_, done) => done.map_err(IntoResponse::into_response),
    }
}

async fn perform(stage: &Arc<Stage>, method: &str, params: &Params) -> Result<Value, Refusal> {
    match method {
        "getUpdates" => updates::get(stage, params).await,
        _ => methods::perform(&mut stage.world(), method, params),
    }
}

/// The number of a file.
fn fetch(stage: &Stage, path: &str) -> Result<Value, Refusal> {
    let world = stage.world();
    let number = world.files.iter().position(|file| file.path == path);
    number
        .map(|number| json!(number))
        .ok_or_else(|| Refusal::new(404, "Not Found"))
}
