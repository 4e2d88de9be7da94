//! What the server answers and tells.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    pub version: String,
    pub pid: u32,
    pub home: String,
    pub started_at: f64,
    pub agent: String,
    pub sessions: i64,
    pub handoffs_running: usize,
    pub turns_running: usize,
    pub connections: usize,
    pub platforms: Vec<PlatformView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlatformView {
    pub name: String,
    /// `up`, `connecting`, `down` or `off`.
    pub state: String,
    pub detail: Option<String>,
    pub home_channel: Option<String>,
    pub since: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    pub id: String,
    pub title: Option<String>,
    pub source: String,
    pub model: Option<String>,
    pub started_at: f64,
    pub ended_at: Option<f64>,
    pub end_reason: Option<String>,
    pub message_count: i64,
    pub session_key: Option<String>,
    pub chat_id: Option<String>,
    pub thread_id: Option<String>,
    pub handoff_state: Option<String>,
    pub handoff_platform: Option<String>,
    pub handoff_error: Option<String>,
}

/// A message in which something was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HitView {
    pub session: String,
    pub title: Option<String>,
    pub source: String,
    /// The row of the message.
    pub message: i64,
    pub role: String,
    pub timestamp: f64,
    /// A piece of it, with what was found between `>>>` and `<<<`.
    pub snippet: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptView {
    pub session: SessionView,
    pub messages: Vec<MessageView>,
    /// There are earlier messages than these.
    pub earlier: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageView {
    pub id: i64,
    pub role: String,
    /// Text, or a list of parts.
    pub content: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    pub timestamp: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffView {
    pub id: i64,
    pub session: String,
    pub platform: String,
    pub note: Option<String>,
    /// `socket`, `direct` or `foreign`.
    pub via: String,
    /// `pending`, `running`, `completed` or `failed`.
    pub state: String,
    /// The last stage reached.
    pub stage: Option<String>,
    pub error: Option<String>,
    pub requested_at: f64,
    pub ended_at: Option<f64>,
    pub home_channel: Option<String>,
    pub thread: Option<String>,
    pub thread_title: Option<String>,
    /// Why the home chat itself is used instead of a thread.
    pub no_thread: Option<String>,
    pub session_key: Option<String>,
    pub reply: Option<String>,
    pub stages: Vec<StageView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageView {
    pub stage: String,
    pub at: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalThreadView {
    pub id: i64,
    pub chat: String,
    pub title: String,
    pub created_at: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalMessageView {
    pub id: i64,
    /// `agent` or `user`.
    pub author: String,
    pub text: String,
    pub at: f64,
}

/// `{"seq": 12, "at": 1767171600.5, "type": "handoff.stage", "id": 7, "session": "…", "platform": "local", "stage": "bound"}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    pub seq: u64,
    pub at: f64,
    #[serde(flatten)]
    pub event: EventKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventKind {
    /// The first of a handoff, also when another program asked for it.
    #[serde(rename = "handoff.requested")]
    HandoffRequested {
        id: i64,
        session: String,
        platform: String,
    },
    #[serde(rename = "handoff.stage")]
    HandoffStage {
        id: i64,
        session: String,
        platform: String,
        stage: String,
    },
    #[serde(rename = "handoff.ended")]
    HandoffEnded {
        id: i64,
        session: String,
        platform: String,
        state: String,
        error: Option<String>,
    },
    #[serde(rename = "turn.started")]
    TurnStarted { session: String },
    #[serde(rename = "turn.delta")]
    TurnDelta { session: String, text: String },
    #[serde(rename = "turn.ended")]
    TurnEnded {
        session: String,
        error: Option<String>,
    },
    #[serde(rename = "platform.changed")]
    PlatformChanged {
        platform: String,
        state: String,
        detail: Option<String>,
    },
    #[serde(rename = "local.message")]
    LocalMessage {
        id: i64,
        chat: String,
        thread: String,
        author: String,
        text: String,
    },
}

impl EventKind {
    pub fn type_name(&self) -> &'static str {
        match self {
            EventKind::HandoffRequested { .. } => "handoff.requested",
            EventKind::HandoffStage { .. } => "handoff.stage",
            EventKind::HandoffEnded { .. } => "handoff.ended",
            EventKind::TurnStarted { .. } => "turn.started",
            EventKind::TurnDelta { .. } => "turn.delta",
            EventKind::TurnEnded { .. } => "turn.ended",
            EventKind::PlatformChanged { .. } => "platform.changed",
            EventKind::LocalMessage { .. } => "local.message",
        }
    }
}
