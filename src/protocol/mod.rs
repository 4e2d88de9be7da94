//! The wire types of the control socket: JSON-RPC 2.0, one object per line. Only these types cross the socket.
//!
//! A request is a [`Call`]. The answer is one of the `…View` types or an [`RpcError`]. A connection that subscribed
//! receives [`EventView`]s as notifications called `event`, and `events.missed` if it falls behind.

mod calls;
mod diagnose;
mod views;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use calls::*;
pub use diagnose::{
    DiagnoseAnswer, DiagnoseRequest, HomeChoice, HomeTrialView, PersonChoice, ServerChoice,
};
pub use views::{
    AgentTestView, AgentView, ChatTurnView, ChatView, EventKind, EventView, FindingView,
    HandoffView, HitView, LocalMessageView, LocalThreadView, MessageView, MetricsView, PersonView,
    PlatformView, ReloadView, ResumedView, SessionView, StageView, StatusView, SubjectView,
    TranscriptView, UnreadFileView,
};

/// The version of the protocol. It changes only if a change breaks existing clients.
pub const PROTOCOL: u32 = 1;
/// The longest line either side may send.
pub const MAX_FRAME: usize = 1 << 20;

pub mod code {
    pub const PARSE: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const UNKNOWN_METHOD: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL: i64 = -32603;
    /// The daemon refuses the request. `data.kind` names the reason, `data.hint` the remedy.
    pub const REFUSED: i64 = -32000;
    pub const NOT_FOUND: i64 = -32001;
    pub const HELLO_FIRST: i64 = -32002;
    /// The daemon has no room for one more connection or request.
    pub const UNAVAILABLE: i64 = -32003;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ErrorData>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorData {
    /// A stable word: `unknown_platform`, `platform_off`, `no_home_channel`, `unknown_session`, `ambiguous_session`, …
    pub kind: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub fn with_data(self, kind: &str, hint: Option<String>) -> RpcError {
        RpcError {
            data: Some(ErrorData {
                kind: kind.to_owned(),
                hint,
            }),
            ..self
        }
    }
}

/// Parses a request line into its id (none for a notification) and the call, or the error to answer with.
pub fn parse_request(line: &[u8]) -> (Option<Value>, Result<Call, RpcError>) {
    let mut request: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(e) => {
            return (
                Some(Value::Null),
                Err(RpcError::new(code::PARSE, format!("not JSON: {e}"))),
            );
        }
    };
    let Some(object) = request.as_object_mut() else {
        let message = "a request is one JSON object per line: instead of a batch, send several lines without waiting";
        return (
            Some(Value::Null),
            Err(RpcError::new(code::INVALID_REQUEST, message)),
        );
    };
    let id = object.remove("id");
    if id
        .as_ref()
        .is_some_and(|id| !(id.is_string() || id.is_number() || id.is_null()))
    {
        return (
            Some(Value::Null),
            Err(RpcError::new(
                code::INVALID_REQUEST,
                "id must be a string or a number",
            )),
        );
    }
    if object.remove("jsonrpc").as_ref().and_then(Value::as_str) != Some("2.0") {
        return (
            id,
            Err(RpcError::new(
                code::INVALID_REQUEST,
                "jsonrpc must be \"2.0\"",
            )),
        );
    }
    let method = object
        .get("method")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if !METHODS.contains(&method.as_str()) {
        let message = format!(
            "there is no method {method:?}: the methods are {}",
            METHODS.join(", ")
        );
        return (id, Err(RpcError::new(code::UNKNOWN_METHOD, message)));
    }
    object
        .entry("params")
        .or_insert_with(|| Value::Object(serde_json::Map::new()));
    let call = serde_json::from_value(request)
        .map_err(|e| RpcError::new(code::INVALID_PARAMS, format!("{method}: {e}")));
    (id, call)
}

/// The answer to a request. Exactly one of `result` and `error` is set.
#[derive(Debug, Serialize)]
pub struct Response<'a, T> {
    pub jsonrpc: &'static str,
    pub id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<&'a T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a RpcError>,
}

#[derive(Debug, Serialize)]
pub struct Notification<'a, T> {
    pub jsonrpc: &'static str,
    pub method: &'static str,
    pub params: &'a T,
}

/// Serialises a request, response or notification as one line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // This cannot fail: all keys are strings.
    let mut bytes = serde_json::to_vec(message).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let parse = |text: &str| parse_request(text.as_bytes()).1.map_err(|e| e.code);
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"status"}"#),
            Ok(Call::Status(Nothing {}))
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"handoff.show","params":{"id":7}}"#),
            Ok(Call::HandoffShow(HandoffId { id: 7 }))
        );
        assert_eq!(parse("nonsense"), Err(code::PARSE));
        assert_eq!(parse("[]"), Err(code::INVALID_REQUEST));
        assert_eq!(
            parse(r#"{"id":1,"method":"status"}"#),
            Err(code::INVALID_REQUEST)
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":{},"method":"status"}"#),
            Err(code::INVALID_REQUEST)
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"dance"}"#),
            Err(code::UNKNOWN_METHOD)
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"handoff.show","params":{"id":"x"}}"#),
            Err(code::INVALID_PARAMS)
        );
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"status","params":{"no":1}}"#),
            Err(code::INVALID_PARAMS)
        );
    }

    #[test]
    fn every_method_has_a_call_and_the_other_way_round() {
        // serde's message about an unknown name lists all names that it knows.
        let error = serde_json::from_value::<Call>(json!({"method": "", "params": {}}))
            .unwrap_err()
            .to_string();
        for method in METHODS {
            assert!(
                error.contains(&format!("`{method}`")),
                "{method} has no call"
            );
        }
        assert_eq!(
            error.matches('`').count() / 2 - 1,
            METHODS.len(),
            "a call is not in METHODS: {error}"
        );
    }

    #[test]
    fn an_event_reads_back() {
        let event = EventView {
            seq: 1,
            at: 2.5,
            event: EventKind::HandoffStage {
                id: 7,
                session: "s".into(),
                platform: "local".into(),
                stage: "bound".into(),
                no_thread: None,
            },
        };
        let wire = serde_json::to_value(&event).unwrap();
        assert_eq!(wire["type"], event.event.type_name());
        assert_eq!(serde_json::from_value::<EventView>(wire).unwrap(), event);
    }

    proptest! {
        /// Every input is parsed or refused. Nothing panics.
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_request(&bytes);
        }
    }
}
