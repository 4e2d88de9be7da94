//! What a vendor refuses, in the vendor's words.

use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{KEY, MODEL};

#[derive(Debug)]
pub struct Refusal {
    pub status: u16,
    pub code: Option<&'static str>,
    pub message: String,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let kind = match self.status {
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let body = json!({
            "error": {"message": self.message, "type": kind, "param": null, "code": self.code},
        });
        let status = StatusCode::from_u16(self.status).expect("a status");
        (status, axum::Json(body)).into_response()
    }
}

fn refuse(status: u16, code: Option<&'static str>, message: impl Into<String>) -> Refusal {
    Refusal {
        status,
        code,
        message: message.into(),
    }
}

fn bad(message: impl Into<String>) -> Refusal {
    refuse(400, None, message)
}

/// The keys that the interface knows, as far as anybody here might send them.
const KEYS: [&str; 14] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "n",
    "stop",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "tool_choice",
    "reasoning_effort",
    "user",
];

const MESSAGE_KEYS: [&str; 7] = [
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning_content",
    "reasoning_details",
];

pub fn check(head: &Parts, body: Option<&Value>) -> Result<(), Refusal> {
    let header = |name: &str| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    };
    if head.method != "POST" || head.uri.path() != "/v1/chat/completions" {
        let message = format!("Invalid URL ({} {})", head.method, head.uri.path());
        return Err(refuse(404, None, message));
    }
    let key = header("authorization").strip_prefix("Bearer ");
    if key != Some(KEY) {
        let message = "Incorrect API key provided: sk-****.".to_owned();
        return Err(refuse(401, Some("invalid_api_key"), message));
    }
    let body = body
        .filter(|_| header("content-type").starts_with("application/json"))
        .and_then(Value::as_object)
        .ok_or_else(|| bad("We could not parse the JSON body of your request."))?;
    if let Some(key) = body.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(bad(format!(
            "Unrecognized request argument supplied: {key}"
        )));
    }
    match body.get("model").and_then(Value::as_str) {
        Some(MODEL) => {}
        Some(other) => {
            let message = format!("The model `{other}` does not exist");
            return Err(refuse(404, Some("model_not_found"), message));
        }
        None => return Err(bad("you must provide a model parameter")),
    }
    if body.contains_key("stream_options") && body.get("stream") != Some(&json!(true)) {
        return Err(bad(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ));
    }
    let messages = body.get("messages").and_then(Value::as_array);
    let messages = messages.filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| {
        bad("Invalid 'messages': empty array. Expected an array with minimum length 1.")
    })?;
    for (at, message) in messages.iter().enumerate() {
        one(message).map_err(|why| bad(format!("Invalid 'messages[{at}]': {why}")))?;
    }
    calls_and_results(messages).map_err(bad)
}

/// What a stricter endpoint than this one knows nothing of.
pub fn extras(body: &Value) -> Option<Refusal> {
    if body.get("stream_options").is_some() {
        return Some(bad(
            "DeliveryExtra inputs are not permitted: 'stream_options'",
        ));
    }
    let messages = body["messages"].as_array()?;
    let strange = |m: &Value| {
        m.get("reasoning_content")
            .or(m.get("reasoning_details"))
            .is_some()
    };
    let at = messages.iter().position(strange)?;
    Some(bad(format!(
        "Additional properties are not allowed ('reasoning_content' was unexpected) - 'messages.{at}'"
    )))
}

fn one(message: &Value) -> Result<(), String> {
    let fields = message.as_object().ok_or("expected an object")?;
    if let Some(key) = fields.keys().find(|k| !MESSAGE_KEYS.contains(&k.as_str())) {
        return Err(format!("unknown field '{key}'"));
    }
    let role = message["role"].as_str().unwrap_or_default();
    if !["system", "developer", "user", "assistant", "tool"].contains(&role) {
        return Err(format!("'{role}' is not one of the roles"));
    }
    let calls = message.get("tool_calls");
    if calls.is_some() && role != "assistant" {
        return Err(format!("'tool_calls' does not belong to '{role}'"));
    }
    if let Some(calls) = calls {
        let calls = calls.as_array().filter(|calls| !calls.is_empty());
        for call in calls.ok_or("'tool_calls' is empty")? {
            let texts = [
                &call["id"],
                &call["function"]["name"],
                &call["function"]["arguments"],
            ];
            if call["type"] != "function" || !texts.iter().all(|text| text.is_string()) {
                return Err(format!("not a call: {call}"));
            }
        }
    }
    if message["tool_call_id"].is_string() != (role == "tool") {
        return Err("'tool_call_id' belongs to 'tool', and has to be there".to_owned());
    }
    match &message["content"] {
        Value::String(_) => Ok(()),
        Value::Array(parts) if !parts.is_empty() => {
            parts.iter().try_for_each(|part| one_part(part, role))
        }
        Value::Null if calls.is_some() => Ok(()),
        other => Err(format!(
            "expected a string or an array of parts as content, got {other}"
        )),
    }
}

/// A piece of a message that is more than a text.
fn one_part(part: &Value, role: &str) -> Result<(), String> {
    let keys = |of: &Value| -> Vec<String> {
        let fields = of.as_object().into_iter().flatten();
        fields.map(|(key, _)| key.clone()).collect()
    };
    match part["type"].as_str() {
        Some("text") if keys(part) == ["type", "text"] && part["text"].is_string() => Ok(()),
        Some("image_url") if role != "user" => Err(format!(
            "'image_url' in content does not belong to '{role}'"
        )),
        Some("image_url") if keys(part) == ["type", "image_url"] => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            let is_picture = keys(&part["image_url"]) == ["url"] && is_picture(url);
            is_picture.then_some(()).ok_or_else(|| {
                "'image_url' in content: expected a base64-encoded data URL with an image MIME type".into()
            })
        }
        _ => Err(format!("not a part of content: {part}")),
    }
}

/// As `data:image/png;base64,…`, where the picture is what it says.
fn is_picture(url: &str) -> bool {
    let starts: [(&str, &[u8]); 4] = [
        ("png", b"\x89PNG\r\n\x1a\n"),
        ("jpeg", b"\xff\xd8\xff"),
        ("gif", b"GIF8"),
        ("webp", b"RIFF"),
    ];
    starts.into_iter().any(|(kind, start)| {
        let data = url.strip_prefix(&format!("data:image/{kind};base64,"));
        let bytes = data.and_then(|data| STANDARD.decode(data).ok());
        bytes.is_some_and(|bytes| bytes.starts_with(start))
    })
}

/// Every call has its result right behind it, and every result its call before it.
fn calls_and_results(messages: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let answered = |open: &[&str]| match open {
        [] => Ok(()),
        ids => Err(format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each \
             'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            ids.join(", ")
        )),
    };
    for message in messages {
        if message["role"] == "tool" {
            let at = open.iter().position(|id| message["tool_call_id"] == *id);
            let at = at.ok_or(
                "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            )?;
            open.remove(at);
            continue;
        }
        answered(&open)?;
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        open = calls.filter_map(|call| call["id"].as_str()).collect();
    }
    answered(&open)
}
