//! A fake of a chat-completions endpoint: as strict as a vendor's, with replies that a test scripts.

mod rules;

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

use super::fake::{FakeServer, FakeState, disconnect};
use super::{Daemon, Home};
use rules::Refusal;

/// The only key that it accepts.
pub const KEY: &str = "sk-test-0123456789abcdef";
/// The model that it has.
pub const MODEL: &str = "test-model-1";

/// What it does with a valid request. Without one it says how many messages it was given.
#[derive(Debug, Clone)]
pub enum ScriptedReply {
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
    /// Refuses parameters that not every endpoint knows. Without such parameters it replies as if nothing was scripted.
    Picky,
    /// Streams so many words, and the rest when there is a permit.
    Pause(usize, Arc<Semaphore>),
    /// Streams so many words, and then nothing for ever.
    FallSilent(usize),
    /// Never answers.
    Hang,
    /// Closes the connection.
    Disconnect,
    /// Streams so many words and closes the connection.
    Cut(usize),
    /// Streams a word, and something that is no JSON.
    Malformed,
    /// Streams a word, and an error.
    BreakDown(&'static str),
    /// Streams a word, and ends for this reason.
    Finish(&'static str),
    /// Answers with this status and content type, in one line that never ends.
    Flood(u16, &'static str),
    /// Does not stream, though it was asked to.
    Whole,
}

impl ScriptedReply {
    pub fn refuse(status: u16) -> ScriptedReply {
        ScriptedReply::Refuse {
            status,
            retry_after: None,
            message: "as the test wants it",
        }
    }

    pub fn come_back(status: u16, after: &str) -> ScriptedReply {
        ScriptedReply::Refuse {
            status,
            retry_after: Some(after.to_owned()),
            message: "as the test wants it",
        }
    }
}

/// A request as it arrived, whatever became of it.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    pub at: Timestamp,
    /// Null if it is no JSON.
    pub body: Value,
}

impl ReceivedRequest {
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
struct Replies {
    scripted: VecDeque<ScriptedReply>,
    seen: Vec<ReceivedRequest>,
    hung_up: usize,
}

type EndpointState = FakeState<Replies>;

/// It ends when dropped, with all its connections.
pub struct Endpoint(FakeServer<Replies>);

impl Endpoint {
    pub fn start() -> Endpoint {
        Endpoint(FakeServer::with_routes(Replies::default(), |state| {
            Router::new().fallback(answer).with_state(state)
        }))
    }

    /// The address for the configuration.
    pub fn url(&self) -> String {
        format!("{}/v1", self.0.url())
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

    /// The reply to the next valid request that has none yet.
    pub fn then(&self, reply: ScriptedReply) -> &Endpoint {
        self.0.world().scripted.push_back(reply);
        self
    }

    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.0.world().seen.clone()
    }

    /// How many answers the client did not want to the end.
    pub fn hung_up(&self) -> usize {
        self.0.world().hung_up
    }
}

/// Counts a client that hangs up, when dropped.
struct CountHangUp(Arc<EndpointState>);

impl Drop for CountHangUp {
    fn drop(&mut self) {
        self.0.world().hung_up += 1;
    }
}

async fn answer(State(state): State<Arc<EndpointState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, 64 << 20).await;
    let body: Option<Value> = serde_json::from_slice(&bytes.unwrap_or_default()).ok();
    state.world().seen.push(ReceivedRequest {
        at: Timestamp::now(),
        body: body.clone().unwrap_or_default(),
    });
    if let Err(refusal) = rules::check(&head, body.as_ref()) {
        return refusal.into_response();
    }
    let body = body.unwrap_or_default();
    let reply = state.world().scripted.pop_front();
    match reply {
        Some(ScriptedReply::Refuse {
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
        Some(ScriptedReply::Picky) => match rules::extras(&body) {
            Some(refusal) => refusal.into_response(),
            None => stream(state, body, None),
        },
        Some(ScriptedReply::Hang) => {
            let _count = CountHangUp(state);
            std::future::pending().await
        }
        Some(ScriptedReply::Disconnect) => disconnect(),
        Some(ScriptedReply::Flood(status, kind)) => flood(state, status, kind),
        Some(ScriptedReply::Whole) => completion(&body).into_response(),
        reply if body["stream"] == true => stream(state, body, reply),
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

fn stream(state: Arc<EndpointState>, body: Value, reply: Option<ScriptedReply>) -> Response {
    let (pieces, sent) = mpsc::channel(1);
    let writer = ReplyWriter {
        state,
        pieces,
        body,
    };
    tokio::spawn(async move {
        // A client that hangs up ends the reply.
        let _ = writer.write(reply).await;
    });
    Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(Body::from_stream(ReceiverStream::new(sent)))
        .expect("a response")
}

fn flood(state: Arc<EndpointState>, status: u16, kind: &str) -> Response {
    let (pieces, sent) = mpsc::channel::<Result<String, std::io::Error>>(1);
    tokio::spawn(async move {
        let _count = CountHangUp(state);
        while pieces.send(Ok("x".repeat(64 << 10))).await.is_ok() {}
    });
    Response::builder()
        .status(status)
        .header("content-type", kind)
        .body(Body::from_stream(ReceiverStream::new(sent)))
        .expect("a response")
}

struct ReplyWriter {
    state: Arc<EndpointState>,
    pieces: mpsc::Sender<Result<String, std::io::Error>>,
    body: Value,
}

/// The client has hung up.
struct HungUp;

impl ReplyWriter {
    async fn write(&self, reply: Option<ScriptedReply>) -> Result<(), HungUp> {
        let text = match &reply {
            Some(ScriptedReply::Say(text) | ScriptedReply::Think(_, text)) => (*text).to_owned(),
            _ => greeting(&self.body),
        };
        let words: Vec<&str> = text.split_inclusive(' ').collect();
        self.delta(json!({"role": "assistant", "content": "", "refusal": null}))
            .await?;
        if let Some(ScriptedReply::Think(thought, _)) = &reply {
            for word in thought.split_inclusive(' ') {
                self.delta(json!({"reasoning_content": word})).await?;
            }
        }
        let before = match &reply {
            Some(
                ScriptedReply::Pause(n, _) | ScriptedReply::FallSilent(n) | ScriptedReply::Cut(n),
            ) => *n,
            Some(
                ScriptedReply::Malformed | ScriptedReply::BreakDown(_) | ScriptedReply::Finish(_),
            ) => 1,
            _ => words.len(),
        };
        self.say(&words[..before]).await?;
        match reply {
            Some(ScriptedReply::Pause(_, permits)) => {
                permits.acquire().await.expect("open").forget();
                self.say(&words[before..]).await?;
            }
            Some(ScriptedReply::FallSilent(_)) => {
                let _count = CountHangUp(self.state.clone());
                self.pieces.closed().await;
                return Err(HungUp);
            }
            // A body that ends with an error ends the connection.
            Some(ScriptedReply::Cut(_)) => {
                return self.send(Err(std::io::Error::other("cut"))).await;
            }
            Some(ScriptedReply::Malformed) => return self.event("{\"choices\": [{\"del").await,
            Some(ScriptedReply::BreakDown(message)) => {
                let error =
                    json!({"error": {"message": message, "type": "server_error", "code": null}});
                return self.event(&error.to_string()).await;
            }
            Some(ScriptedReply::Finish(reason)) => return self.end(reason).await,
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
        self.pieces.send(piece).await.map_err(|_| HungUp)
    }
}
