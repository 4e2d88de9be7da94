//! What the server answers and tells.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Somebody who was let in, or asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonView {
    pub platform: String,
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub asked_at: f64,
    /// Missing for those who still wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<f64>,
}

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
pub struct MetricsView {
    /// In Prometheus' text format, version 0.0.4.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlatformView {
    pub name: String,
    /// `up`, `degraded`, `connecting`, `down` or `off`.
    pub state: String,
    pub detail: Option<String>,
    pub home_channel: Option<String>,
    pub since: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    pub name: String,
    pub ready: bool,
    /// What to do about it when it is not ready.
    pub detail: Option<String>,
    pub model: Option<String>,
    pub default: bool,
    /// It writes the transcript itself.
    pub keeps_transcript: bool,
}

/// How one question to an agent went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentTestView {
    pub agent: String,
    pub model: Option<String>,
    /// Seconds until the first sign of an answer, and until all of it.
    pub first: Option<f64>,
    pub whole: f64,
    /// The first words.
    pub reply: Option<String>,
    pub error: Option<String>,
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
    /// It waits for the end of a turn in progress.
    pub after_turn: bool,
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

/// The session that a terminal is on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatView {
    pub session: SessionView,
    /// It was there before; its transcript can be read.
    pub resumed: bool,
    /// The platform whose chat had it.
    pub came_from: Option<String>,
}

/// One answer in a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatTurnView {
    pub session: String,
    /// All of it; when it was interrupted, or the agent failed, what there is.
    pub reply: String,
    pub interrupted: bool,
    /// Why there is no whole reply.
    pub error: Option<String>,
}

/// A session that was brought home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumedView {
    pub session: SessionView,
    /// The platform whose chat had it; none when it was at home already.
    pub came_from: Option<String>,
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
    TurnStarted {
        session: String,
        /// Numbers the turns of this daemon's life.
        turn: u64,
    },
    #[serde(rename = "turn.delta")]
    TurnDelta {
        session: String,
        turn: u64,
        text: String,
    },
    #[serde(rename = "turn.ended")]
    TurnEnded {
        session: String,
        turn: u64,
        error: Option<String>,
    },
    /// The agent wants to know something; `chat.answer` tells it.
    #[serde(rename = "turn.question")]
    TurnQuestion {
        session: String,
        turn: u64,
        text: String,
        choices: Vec<String>,
        /// Other words than the choices are an answer too.
        open: bool,
    },
    #[serde(rename = "session.started")]
    SessionStarted {
        session: String,
        platform: String,
        model: Option<String>,
        /// It was there before and is taken up again.
        resumed: bool,
    },
    /// Brought elsewhere without a handoff.
    #[serde(rename = "session.moved")]
    SessionMoved {
        session: String,
        /// A platform, or `terminal`.
        to: String,
    },
    #[serde(rename = "session.ended")]
    SessionEnded {
        session: String,
        platform: String,
        model: Option<String>,
        /// An answer was cut off by it.
        interrupted: bool,
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
    /// The session that it is about.
    pub fn session(&self) -> Option<&str> {
        match self {
            EventKind::HandoffRequested { session, .. }
            | EventKind::HandoffStage { session, .. }
            | EventKind::HandoffEnded { session, .. }
            | EventKind::TurnStarted { session, .. }
            | EventKind::TurnDelta { session, .. }
            | EventKind::TurnEnded { session, .. }
            | EventKind::TurnQuestion { session, .. }
            | EventKind::SessionStarted { session, .. }
            | EventKind::SessionMoved { session, .. }
            | EventKind::SessionEnded { session, .. } => Some(session),
            EventKind::PlatformChanged { .. } | EventKind::LocalMessage { .. } => None,
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            EventKind::HandoffRequested { .. } => "handoff.requested",
            EventKind::HandoffStage { .. } => "handoff.stage",
            EventKind::HandoffEnded { .. } => "handoff.ended",
            EventKind::TurnStarted { .. } => "turn.started",
            EventKind::TurnDelta { .. } => "turn.delta",
            EventKind::TurnEnded { .. } => "turn.ended",
            EventKind::TurnQuestion { .. } => "turn.question",
            EventKind::SessionStarted { .. } => "session.started",
            EventKind::SessionMoved { .. } => "session.moved",
            EventKind::SessionEnded { .. } => "session.ended",
            EventKind::PlatformChanged { .. } => "platform.changed",
            EventKind::LocalMessage { .. } => "local.message",
        }
    }
}
