//! A chat-completions endpoint that is as strict as a vendor's and does what a test tells it. It has a thread of its own, so
//! that it serves the built binaries as well as a daemon in this process.

mod rules;

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use super::{Daemon, Home};
use rules::Refusal;

/// The key that it wants.
pub const KEY: &str = "sk-test-0123456789abcdef";
/// The model that it has.
pub const MODEL: &str = "test-model-1";

/// What it does with a request that is as it should be. Without one it says how many messages it was given.
#[derive(Debug, Clone)]
pub enum Play {
    /// Streams this word by word.
    Say(&'static str),
    /// Thinks this, and says that.
    Think(&'static str, &'static str),
    /// Answers with a status, and perhaps with when to come back.
    Refuse {
        status: u16,
        retry_after: Option<String>,
        message: &'static str,
    },
    /// Refuses what not every endpoint takes, when it is there; else as without a play.
    Picky,
    /// Streams so many words, and the rest when there is a permit.
    Pause(usize, Arc<Semaphore>),
    /// Streams so many words, and then nothing for ever.
    FallSilent(usize),
    /// Takes the request and never answers.
    Mute,
    /// Takes the request and hangs up.
    HangUp,
    /// Streams so many words and hangs up.
    Cut(usize),
    /// Streams a word, and something that is no JSON.
    Malformed,
    /// Streams a word, and an error.
    BreakDown(&'static str),
    /// Streams a word, and ends for this reason.
    Finish(&'static str),
    /// Answers with this status and kind of content, in one line that never ends.
    Flood(u16, &'static str),
    /// Does not stream, though it was asked to.
    Whole,
}

impl Play {
    pub fn refuse(status: u16) -> Play {
        Play::Refuse {
            status,
            retry_after: None,
            message: "as the test wants it",
        }
    }

    pub fn come_back(status: u16, after: &str) -> Play {
        Play::Refuse {
            status,
            retry_after: Some(after.to_owned()),
            message: "as the test wants it",
        }
    }
}

/// A request as it came, whatever became of it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub at: Timestamp,
    /// Null for what is no JSON.
    pub body: Value,
}

impl Seen {
    pub fn messages(&self) -> Vec<Value> {
        self.body["messages"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    pub fn roles(&self) -> Vec<String> {
        let role = |m: &Value| m["role"].as_str().unwrap_or_default().to_owned();
        self.messages().iter().map(role).collect()
    }
}

#[derive(Default)]
struct Stage {
    plays: Mutex<VecDeque<Play>>,
    seen: Mutex<Vec<Seen>>,
    hung_up: AtomicUsize,
}

/// Gone when dropped, with all its connections.
pub struct Endpoint {
    address: String,
    stage: Arc<Stage>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    pub fn start() -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address").to_string();
        let stage = Arc::new(Stage::default());
        let router = Router::new().fallback(answer).with_state(stage.clone());
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
        Endpoint {
            address,
            stage,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// What is to be configured as its address.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Starts a daemon that asks it, with further settings, which win.
    pub fn start_daemon(&self, home: &Home, more: &[(&str, &str)]) -> Daemon {
        let url = self.url();
        let mut settings = vec![
            ("HERMESD_AGENT_DEFAULT", "openai"),
            ("HERMESD_AGENTS_OPENAI_BASE_URL", url.as_str()),
            ("HERMESD_AGENTS_OPENAI_API_KEY", KEY),
            ("HERMESD_AGENTS_OPENAI_MODEL", MODEL),
        ];
        settings.extend(more);
        home.start_with(&settings)
    }

    /// The next request that is as it should be meets this.
    pub fn then(&self, play: Play) -> &Endpoint {
        self.stage.plays.lock().unwrap().push_back(play);
        self
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.stage.seen.lock().unwrap().clone()
    }

    /// How many answers somebody hung up on before their end.
    pub fn hung_up(&self) -> usize {
        self.stage.hung_up.load(Ordering::Relaxed)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Counts as hung up on when it is dropped.
struct OnTheLine(Arc<Stage>);

impl Drop for OnTheLine {
    fn drop(&mut self) {
        self.0.hung_up.fetch_add(1, Ordering::Relaxed);
    }
}

async fn answer(State(stage): State<Arc<Stage>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, 64 << 20).await;
    let body: Option<Value> = serde_json::from_slice(&bytes.unwrap_or_default()).ok();
    stage.seen.lock().unwrap().push(Seen {
        at: Timestamp::now(),
        body: body.clone().unwrap_or_default(),
    });
    if let Err(refusal) = rules::check(&head, body.as_ref()) {
        return refusal.into_response();
    }
    let body = body.unwrap_or_default();
    let play = stage.plays.lock().unwrap().pop_front();
    match play {
        Some(Play::Refuse {
            status,
            retry_after,
            message,
        }) => {
            let refusal = Refusal {
                status,
                code: None,
                message: message.to_owned(),
            };
            let mut response = refusal.into_response();
            if let Some(after) = retry_after {
                let after = after.parse().expect("a header");
                response.headers_mut().insert("retry-after", after);
            }
            response
        }
        Some(Play::Picky) => match rules::extras(&body) {
            Some(refusal) => refusal.into_response(),
            None => stream(stage, body, None),
        },
        Some(Play::Mute) => {
            let _line = OnTheLine(stage);
            std::future::pending().await
        }
        // Ends the connection's task, and with it the connection, without a word to anybody.
        Some(Play::HangUp) => std::panic::resume_unwind(Box::new("hung up")),
        Some(Play::Flood(status, kind)) => flood(stage, status, kind),
        Some(Play::Whole) => completion(&body).into_response(),
        play if body["stream"] == true => stream(stage, body, play),
        _ => completion(&body).into_response(),
    }
}

fn greeting(body: &Value) -> String {
    let count = body["messages"].as_array().map_or(0, Vec::len);
    format!("I was given {count} messages.")
}

fn usage(body: &Value) -> Value {
    let (prompt, completion) = (10 * body["messages"].as_array().map_or(0, Vec::len), 7);
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
    })
}

fn completion(body: &Value) -> axum::Json<Value> {
    axum::Json(json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_767_258_000,
        "model": MODEL,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": greeting(body), "refusal": null},
            "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": usage(body),
    }))
}

fn stream(stage: Arc<Stage>, body: Value, play: Option<Play>) -> Response {
    let (line, heard) = mpsc::channel(1);
    let performer = Performer { stage, line, body };
    tokio::spawn(async move {
        // Whoever hangs up ends the play.
        let _ = performer.perform(play).await;
    });
    Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(Body::from_stream(ReceiverStream::new(heard)))
        .expect("a response")
}

fn flood(stage: Arc<Stage>, status: u16, kind: &str) -> Response {
    let (line, heard) = mpsc::channel::<Result<String, std::io::Error>>(1);
    tokio::spawn(async move {
        let _line = OnTheLine(stage);
        while line.send(Ok("x".repeat(64 << 10))).await.is_ok() {}
    });
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Body::from_stream(ReceiverStream::new(heard)))
        .expect("a response")
}

struct Performer {
    stage: Arc<Stage>,
    line: mpsc::Sender<Result<String, std::io::Error>>,
    body: Value,
}

/// They have hung up.
struct HungUp;

impl Performer {
    async fn perform(&self, play: Option<Play>) -> Result<(), HungUp> {
        let text = match &play {
            Some(Play::Say(text) | Play::Think(_, text)) => (*text).to_owned(),
            _ => greeting(&self.body),
        };
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        self.delta(json!({"role": "assistant", "content": "", "refusal": null}))
            .await?;
        if let Some(Play::Think(thought, _)) = &play {
            for word in thought.split_inclusive(' ') {
                self.delta(json!({"reasoning_content": word})).await?;
            }
        }
        let before = match &play {
            Some(Play::Pause(n, _) | Play::FallSilent(n) | Play::Cut(n)) => *n,
            Some(Play::Malformed | Play::BreakDown(_) | Play::Finish(_)) => 1,
            _ => words.len(),
        };
        self.say(&words[..before]).await?;
        match play {
            Some(Play::Pause(_, permits)) => {
                permits.acquire().await.expect("open").forget();
                self.say(&words[before..]).await?;
            }
            Some(Play::FallSilent(_)) => {
                let _line = OnTheLine(self.stage.clone());
                self.line.closed().await;
                return Err(HungUp);
            }
            // What is not ended properly is cut.
            Some(Play::Cut(_)) => return self.send(Err(std::io::Error::other("cut"))).await,
            Some(Play::Malformed) => return self.event("{\"choices\": [{\"del").await,
            Some(Play::BreakDown(message)) => {
                let error =
                    json!({"error": {"message": message, "type": "server_error", "code": null}});
                return self.event(&error.to_string()).await;
            }
            Some(Play::Finish(reason)) => return self.end(reason).await,
            _ => {}
        }
        self.end("stop").await
    }

    async fn say(&self, words: &[&str]) -> Result<(), HungUp> {
        for word in words {
            self.delta(json!({"content": word})).await?;
        }
        Ok(())
    }

    async fn end(&self, reason: &str) -> Result<(), HungUp> {
        let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": reason});
        self.chunk(vec![choice], Value::Null).await?;
        if self.wants_usage() {
            self.chunk(Vec::new(), usage(&self.body)).await?;
        }
        self.event("[DONE]").await
    }

    async fn delta(&self, delta: Value) -> Result<(), HungUp> {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
        self.chunk(vec![choice], Value::Null).await
    }

    async fn chunk(&self, choices: Vec<Value>, usage: Value) -> Result<(), HungUp> {
        let mut chunk = json!({
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_767_258_000,
            "model": MODEL,
            "choices": choices,
        });
        if self.wants_usage() {
            chunk["usage"] = usage;
        }
        self.event(&chunk.to_string()).await
    }

    fn wants_usage(&self) -> bool {
        self.body["stream_options"]["include_usage"] == true
    }

    async fn event(&self, data: &str) -> Result<(), HungUp> {
        self.send(Ok(format!("data: {data}\n\n"))).await
    }

    async fn send(&self, piece: Result<String, std::io::Error>) -> Result<(), HungUp> {
        self.line.send(piece).await.map_err(|_| HungUp)
    }
}
