//! Reads the streamed answer: pieces, reasoning, token usage, and the end. A stream that breaks off is a failure. The
//! sink has the pieces that arrived.

use std::sync::atomic::{AtomicUsize, Ordering};

use eventsource_stream::{EventStreamError, Eventsource};
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use tokio_stream::StreamExt;

use super::endpoint::explain;
use crate::agent::{AgentError, Sink};
use crate::domain::{Reply, Usage};

/// The size limit of a reply.
const LONGEST_REPLY: usize = 4 << 20;
/// The size limit of an unstreamed response, which includes JSON syntax.
const LONGEST_BODY: usize = 2 * LONGEST_REPLY;
/// The size limit of one event of a stream.
const LONGEST_EVENT: usize = 1 << 20;

pub(super) async fn read(response: Response, sink: &dyn Sink) -> Result<Reply, AgentError> {
    let kind = response.headers().get(CONTENT_TYPE);
    let streams = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let mut reading = Reading::default();
    if !streams {
        // Some endpoints ignore the request to stream.
        let body = whole(response).await?;
        reading.feed(&body, sink)?;
        return reading.end();
    }
    // Bytes since the last event. An event is held in memory until it is complete.
    let pending = AtomicUsize::new(0);
    let bytes = response.bytes_stream().map(|piece| {
        let piece = piece.map_err(|e| broken(&explain(e)))?;
        let before = pending.fetch_add(piece.len(), Ordering::Relaxed);
        match before + piece.len() {
            length if length > LONGEST_EVENT => Err(too_long(LONGEST_EVENT)),
            _ => Ok(piece),
        }
    });
    let mut events = bytes.eventsource();
    while let Some(event) = events.next().await {
        let event = event.map_err(|e| match e {
            EventStreamError::Transport(error) => error,
            EventStreamError::Utf8(e) => broken(&e.to_string()),
            EventStreamError::Parser(e) => broken(&e.to_string()),
        })?;
        pending.store(0, Ordering::Relaxed);
        if event.data.trim() == "[DONE]" {
            reading.done = true;
            break;
        }
        reading.feed(&event.data, sink)?;
    }
    reading.end()
}

/// A body in one piece.
async fn whole(mut response: Response) -> Result<String, AgentError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| broken(&explain(e)))? {
        body.extend_from_slice(&chunk);
        if body.len() > LONGEST_BODY {
            return Err(too_long(LONGEST_BODY));
        }
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn too_long(limit: usize) -> AgentError {
    let limit = limit >> 20;
    AgentError::Failed(format!("the reply is longer than {limit} MiB"))
}

fn broken(why: &str) -> AgentError {
    AgentError::Failed(format!("the stream broke off: {why}"))
}

#[derive(Default)]
struct Reading {
    reply: Reply,
    reasoning: String,
    finish: Option<String>,
    done: bool,
}

impl Reading {
    /// One chunk, or a whole completion.
    fn feed(&mut self, data: &str, sink: &dyn Sink) -> Result<(), AgentError> {
        if data.trim().is_empty() {
            return Ok(());
        }
        let chunk: Value = serde_json::from_str(data).map_err(|e| {
            let shown: String = data.chars().take(200).collect();
            AgentError::Failed(format!("the endpoint sent invalid JSON ({e}): {shown}"))
        })?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            let message = error.get("message").and_then(Value::as_str);
            let message = message.map_or_else(|| error.to_string(), str::to_owned);
            return Err(AgentError::Failed(format!(
                "the endpoint reported an error: {message}"
            )));
        }
        if let Some(model) = chunk.get("model").and_then(Value::as_str) {
            self.reply.model = Some(model.to_owned());
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.reply.usage = Some(read_usage(usage));
        }
        let Some(choice) = chunk.pointer("/choices/0") else {
            return Ok(());
        };
        let said = choice.get("delta").or_else(|| choice.get("message"));
        let text = |name: &str| {
            said.and_then(|said| said.get(name)?.as_str())
                .unwrap_or_default()
        };
        let thought = match text("reasoning_content") {
            "" => text("reasoning"),
            thought => thought,
        };
        if !thought.is_empty() {
            self.reasoning.push_str(thought);
            sink.alive();
        }
        let piece = text("content");
        if !piece.is_empty() {
            self.reply.text.push_str(piece);
            sink.push(piece);
        }
        if self.reply.text.len() + self.reasoning.len() > LONGEST_REPLY {
            return Err(too_long(LONGEST_REPLY));
        }
        if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish = Some(finish.to_owned());
        }
        Ok(())
    }

    fn end(self) -> Result<Reply, AgentError> {
        match self.finish.as_deref() {
            None if !self.done => return Err(broken("it ended before the reply did")),
            Some("content_filter") => {
                return Err(AgentError::Failed(
                    "the endpoint's filter stopped the reply".into(),
                ));
            }
            Some("tool_calls") if self.reply.text.trim().is_empty() => {
                return Err(AgentError::Failed(
                    "the model called a tool, but this agent has no tools".into(),
                ));
            }
            _ => {}
        }
        Ok(Reply {
            finish_reason: self.finish.filter(|finish| finish == "length"),
            reasoning: Some(self.reasoning).filter(|thought| !thought.is_empty()),
            ..self.reply
        })
    }
}

fn read_usage(usage: &Value) -> Usage {
    let count = |path: &str| {
        usage
            .pointer(path)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    Usage {
        input: count("/prompt_tokens"),
        output: count("/completion_tokens"),
        cache_read: count("/prompt_tokens_details/cached_tokens"),
        reasoning: count("/completion_tokens_details/reasoning_tokens"),
    }
}
