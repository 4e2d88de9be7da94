//! The answers and the events of the daemon.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindingView {
    /// The thing that was checked.
    pub what: String,
    /// `good`, `doubtful` or `bad`.
    pub grade: String,
    /// The result in words.
    pub detail: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A person who has access by pairing, or waits for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonView {
    /// The platform on which the person writes.
    pub platform: String,
    /// The id of the person on the platform.
    pub user: String,
    /// The name of the person on the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When the person received the code.
    pub asked_at: f64,
    /// When the person got access. Missing while the person waits for approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<f64>,
    /// The program whose record it is: `hermes` (in its pairing files) or `hermesd`.
    #[serde(default)]
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// The version of the daemon.
    pub version: String,
    /// The process id of the daemon.
    pub pid: u32,
    /// The home that the daemon serves.
    pub home: String,
    /// The Hermes profile of that home.
    #[serde(default)]
    pub profile: String,
    /// When the daemon started.
    pub started_at: f64,
    /// The default agent.
    pub agent: String,
    /// The number of sessions in the database.
    pub sessions: i64,
    /// The number of handoffs in progress.
    pub handoffs_running: usize,
    /// The number of turns in progress.
    pub turns_running: usize,
    /// The number of connected clients.
    pub connections: usize,
    /// All platforms.
    pub platforms: Vec<PlatformView>,
    /// Configuration files that were changed after the daemon read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadFileView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnreadFileView {
    /// The path of the file.
    pub path: String,
    /// When it was changed. Null if it does not exist any more.
    pub changed_at: Option<f64>,
}

/// What a reload changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReloadView {
    /// The keys of the changed settings.
    pub changed: Vec<String>,
    /// Those of them that need a restart of the daemon.
    pub restart: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricsView {
    /// The metrics in Prometheus' text format, version 0.0.4.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlatformView {
    /// The name, as handoffs use it.
    pub name: String,
    /// `up`, `degraded`, `connecting`, `down` or `off`.
    pub state: String,
    /// What is wrong, if something is.
    pub detail: Option<String>,
    /// The name or id of the chat that handoffs go to.
    pub home_channel: Option<String>,
    /// The id of the bot's owner on the platform, if it is known.
    pub owner: Option<String>,
    /// Whether the configuration names the platform.
    pub configured: bool,
    /// When the platform entered this state.
    pub since: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    /// The name, as `chat.open` uses it.
    pub name: String,
    /// Whether the agent can answer.
    pub ready: bool,
    /// What is missing, if the agent is not ready.
    pub detail: Option<String>,
    /// The model that the agent uses, if it says so.
    pub model: Option<String>,
    /// Whether it is the default agent.
    pub default: bool,
    /// Whether the agent writes the transcript itself.
    pub keeps_transcript: bool,
}

/// The result of a test prompt to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentTestView {
    /// The name of the agent.
    pub agent: String,
    /// The model that answered.
    pub model: Option<String>,
    /// Seconds until the first piece of the reply. Null if the agent did not stream.
    pub first: Option<f64>,
    /// Seconds until the reply was complete, or the agent failed.
    pub whole: f64,
    /// The beginning of the reply.
    pub reply: Option<String>,
    /// Why there is no reply.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// The id of the session.
    pub id: String,
    /// The title, which is unique.
    pub title: Option<String>,
    /// The first words of a session without a title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_words: Option<String>,
    /// Where it is: `cli`, `tui`, `acp`, or a platform.
    pub source: String,
    /// The model that answered last.
    pub model: Option<String>,
    /// The directory that its agent works in.
    #[serde(default)]
    pub cwd: Option<String>,
    /// When it began.
    pub started_at: f64,
    /// When it ended. Null while it is live.
    pub ended_at: Option<f64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// The number of messages.
    pub message_count: i64,
    /// The key of its chat.
    pub session_key: Option<String>,
    /// The id of that chat.
    pub chat_id: Option<String>,
    /// The id of the thread in that chat.
    pub thread_id: Option<String>,
    /// The state of its last handoff.
    pub handoff_state: Option<String>,
    /// The platform of its last handoff.
    pub handoff_platform: Option<String>,
    /// Why its last handoff failed.
    pub handoff_error: Option<String>,
}

/// A message that a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HitView {
    /// The id of the session.
    pub session: String,
    /// The title of the session.
    pub title: Option<String>,
    /// Where the session is: `cli`, `tui`, `acp`, or a platform.
    pub source: String,
    /// The row id of the message.
    pub message: i64,
    /// The author: `user`, `assistant` or `tool`.
    pub role: String,
    /// Set if a program wrote the message, not a person: the kind, in Hermes' words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_kind: Option<String>,
    /// When it was written.
    pub timestamp: f64,
    /// A piece of the message. The matches are between `>>>` and `<<<`.
    pub snippet: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptView {
    /// The session.
    pub session: SessionView,
    /// The messages, the oldest first.
    pub messages: Vec<MessageView>,
    /// Whether there are earlier messages.
    pub earlier: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageView {
    /// The row id of the message. `before` takes it.
    pub id: i64,
    /// The author: `user`, `assistant`, `tool` or `system`.
    pub role: String,
    /// Text, or a list of parts.
    pub content: Value,
    /// The tool calls, as the agent wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Value>,
    /// The call whose result this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// When it was written.
    pub timestamp: f64,
    /// Set if a program wrote the message, not a person: the kind, in Hermes' words, such as `model_switch`, or `handoff`
    /// for the message that announces a handoff to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_kind: Option<String>,
    /// Whether only the model sees it. Such messages are returned only if the request asks for them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffView {
    /// The number of the handoff.
    pub id: i64,
    /// The id of the session.
    pub session: String,
    /// The platform to hand off to.
    pub platform: String,
    /// The note for the agent. Lists cut it to 200 characters.
    pub note: Option<String>,
    /// Who requested it: `socket` (a client of this socket), `direct` (hermesctl, in the database, because no daemon
    /// answered) or `foreign` (another program in the database, such as Hermes' own CLI).
    pub via: String,
    /// `pending`, `running`, `completed` or `failed`.
    pub state: String,
    /// The last stage that the handoff reached.
    pub stage: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether it waits for the end of a turn in progress.
    pub after_turn: bool,
    /// When it was requested.
    pub requested_at: f64,
    /// When it ended.
    pub ended_at: Option<f64>,
    /// The id of the target chat.
    pub home_channel: Option<String>,
    /// The id of the thread in that chat.
    pub thread: Option<String>,
    /// The title of the thread.
    pub thread_title: Option<String>,
    /// Why the handoff uses the chat itself instead of a thread.
    pub no_thread: Option<String>,
    /// The key that binds the chat to the session.
    pub session_key: Option<String>,
    /// The agent's reply in the chat. Null in lists.
    pub reply: Option<String>,
    /// The stages that the handoff has reached.
    pub stages: Vec<StageView>,
    /// Why the daemon chose this session, if the request named none: `chat` (`hermesctl chat` has it open in your
    /// terminal), `terminal` (Hermes recorded it for your terminal) or `only` (no other session can be meant).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageView {
    /// The name of the stage.
    pub stage: String,
    /// When the handoff reached it.
    pub at: f64,
}

/// The session of an attached terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatView {
    /// The session as it is now.
    pub session: SessionView,
    /// Whether the session existed before.
    pub resumed: bool,
    /// The platform whose chat had the session.
    pub came_from: Option<String>,
    /// The agent that answers. Null if none can.
    #[serde(default)]
    pub agent: Option<String>,
}

/// One turn in a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatTurnView {
    /// The id of the session from now on. It changes if Hermes splits the session during the turn.
    pub session: String,
    /// The reply. If it was interrupted, or the agent failed, the part that exists.
    pub reply: String,
    /// Whether the reply was interrupted.
    pub interrupted: bool,
    /// Why the reply is missing or incomplete.
    pub error: Option<String>,
    /// A note about the reply for the person, such as that the model did not see the whole history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A session that was brought back from its chat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumedView {
    /// The session as it is now.
    pub session: SessionView,
    /// The platform whose chat had the session. Null if no chat had it.
    pub came_from: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalThreadView {
    /// The number of the thread.
    pub id: i64,
    /// The id of its chat.
    pub chat: String,
    /// The title.
    pub title: String,
    /// When it was opened.
    pub created_at: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalMessageView {
    /// The number of the message. `after` takes it.
    pub id: i64,
    /// `agent` or `user`.
    pub author: String,
    /// The text.
    pub text: String,
    /// When it was written.
    pub at: f64,
}

/// One thing that an approval is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubjectView {
    /// Its kind: a command, the input of a tool, a change of a file.
    pub label: String,
    /// The exact text.
    pub text: String,
}

/// `{"seq": 12, "at": 1767171600.5, "type": "handoff.stage", "id": 7, "session": "…", "platform": "local", "stage": "bound"}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// The number of the event, counted from the start of the daemon.
    pub seq: u64,
    /// When it happened.
    pub at: f64,
    #[serde(flatten)]
    pub event: EventKind,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventKind {
    /// A handoff was requested, by hermesd's clients or by another program. It is the first event of each handoff.
    #[serde(rename = "handoff.requested")]
    HandoffRequested {
        id: i64,
        session: String,
        platform: String,
    },
    /// A handoff has reached a stage.
    #[serde(rename = "handoff.stage")]
    HandoffStage {
        id: i64,
        session: String,
        platform: String,
        stage: String,
        /// With the stage `threaded`: why the handoff uses the chat itself instead of a thread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        no_thread: Option<String>,
    },
    /// A handoff waits before it can go on to its next stage. It is published when the wait begins.
    #[serde(rename = "handoff.waiting")]
    HandoffWaiting {
        id: i64,
        session: String,
        platform: String,
        /// What it waits for, in words.
        reason: String,
    },
    /// A handoff completed or failed.
    #[serde(rename = "handoff.ended")]
    HandoffEnded {
        id: i64,
        session: String,
        platform: String,
        state: String,
        error: Option<String>,
    },
    /// A turn waits for the turn of another program, such as Hermes, in the same session.
    #[serde(rename = "turn.waiting")]
    TurnWaiting {
        session: String,
        /// The other program, in words.
        holder: String,
        /// Seconds so far.
        waited: u64,
    },
    /// A turn begins.
    #[serde(rename = "turn.started")]
    TurnStarted {
        session: String,
        /// The number of the turn, counted from the start of the daemon.
        turn: u64,
    },
    /// A piece of the reply.
    #[serde(rename = "turn.delta")]
    TurnDelta {
        session: String,
        turn: u64,
        text: String,
    },
    /// The agent uses a tool: once when that begins, once when it ends. Not every agent reports its tools.
    #[serde(rename = "turn.tool")]
    TurnTool {
        session: String,
        turn: u64,
        /// The agent's id of this use.
        call: String,
        /// The tool.
        name: String,
        /// What the tool works on, in one line.
        what: String,
        /// `running`, `completed` or `failed`.
        state: String,
        /// How long it took, at the end.
        seconds: Option<f64>,
    },
    /// The agent has replied or failed.
    #[serde(rename = "turn.ended")]
    TurnEnded {
        session: String,
        turn: u64,
        error: Option<String>,
    },
    /// The agent asks a question. A terminal answers with `chat.answer`.
    #[serde(rename = "turn.question")]
    TurnQuestion {
        session: String,
        turn: u64,
        /// The question and its subject, in one text.
        text: String,
        choices: Vec<String>,
        /// Whether an answer may differ from the choices.
        open: bool,
        /// The id of the question.
        #[serde(default)]
        question: String,
        /// The question without its subject.
        #[serde(default)]
        ask: String,
        /// The exact actions that an approval is about.
        #[serde(default)]
        subject: Vec<SubjectView>,
        /// The platform that shows it, or `terminal`.
        #[serde(default)]
        place: String,
        /// The file with the full text of a long question; it exists until the question is closed.
        #[serde(default)]
        whole: Option<String>,
    },
    /// A question is answered, or no longer open. The first answer counts.
    #[serde(rename = "turn.question_closed")]
    TurnQuestionClosed {
        session: String,
        turn: u64,
        /// The id of the question.
        question: String,
        /// `answered`, `timed_out`, `not_shown` or `withdrawn`.
        outcome: String,
        /// The choice, or the text.
        answer: Option<String>,
        /// The place of the answer: a platform, or `terminal`.
        place: Option<String>,
    },
    /// A session begins, or is resumed in a terminal.
    #[serde(rename = "session.started")]
    SessionStarted {
        session: String,
        platform: String,
        model: Option<String>,
        /// Whether the session existed before.
        resumed: bool,
    },
    /// Another session was handed off to the chat of this one, which has no threads, and has taken its place.
    #[serde(rename = "session.replaced")]
    SessionReplaced {
        session: String,
        platform: String,
        /// The id of the other session.
        by: String,
    },
    /// A session moved without a handoff.
    #[serde(rename = "session.moved")]
    SessionMoved {
        session: String,
        /// A platform, or `terminal`.
        to: String,
    },
    /// The chat of a session ended: it was deleted or locked, or the bot was removed from its server. The session is on no chat now.
    #[serde(rename = "session.released")]
    SessionReleased {
        session: String,
        platform: String,
        /// The id of the chat that ended.
        chat: Option<String>,
        /// `locked`, `deleted` or `removed`.
        reason: String,
        /// Whether another chat gets a note about it.
        told: bool,
    },
    /// The session of a terminal ends, or /new ends the session of a chat.
    #[serde(rename = "session.ended")]
    SessionEnded {
        session: String,
        platform: String,
        model: Option<String>,
        /// Whether the end interrupted a reply.
        interrupted: bool,
    },
    /// The state of a platform changed.
    #[serde(rename = "platform.changed")]
    PlatformChanged {
        platform: String,
        state: String,
        detail: Option<String>,
    },
    /// A chat of the embedded platform has a new message.
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
    /// The session that the event is about.
    pub fn session(&self) -> Option<&str> {
        match self {
            EventKind::HandoffRequested { session, .. }
            | EventKind::HandoffStage { session, .. }
            | EventKind::HandoffWaiting { session, .. }
            | EventKind::HandoffEnded { session, .. }
            | EventKind::TurnWaiting { session, .. }
            | EventKind::TurnStarted { session, .. }
            | EventKind::TurnDelta { session, .. }
            | EventKind::TurnTool { session, .. }
            | EventKind::TurnEnded { session, .. }
            | EventKind::TurnQuestion { session, .. }
            | EventKind::TurnQuestionClosed { session, .. }
            | EventKind::SessionStarted { session, .. }
            | EventKind::SessionReplaced { session, .. }
            | EventKind::SessionMoved { session, .. }
            | EventKind::SessionReleased { session, .. }
            | EventKind::SessionEnded { session, .. } => Some(session),
            EventKind::PlatformChanged { .. } | EventKind::LocalMessage { .. } => None,
        }
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            EventKind::HandoffRequested { .. } => "handoff.requested",
            EventKind::HandoffStage { .. } => "handoff.stage",
            EventKind::HandoffWaiting { .. } => "handoff.waiting",
            EventKind::HandoffEnded { .. } => "handoff.ended",
            EventKind::TurnWaiting { .. } => "turn.waiting",
            EventKind::TurnStarted { .. } => "turn.started",
            EventKind::TurnDelta { .. } => "turn.delta",
            EventKind::TurnTool { .. } => "turn.tool",
            EventKind::TurnEnded { .. } => "turn.ended",
            EventKind::TurnQuestion { .. } => "turn.question",
            EventKind::TurnQuestionClosed { .. } => "turn.question_closed",
            EventKind::SessionStarted { .. } => "session.started",
            EventKind::SessionReplaced { .. } => "session.replaced",
            EventKind::SessionMoved { .. } => "session.moved",
            EventKind::SessionReleased { .. } => "session.released",
            EventKind::SessionEnded { .. } => "session.ended",
            EventKind::PlatformChanged { .. } => "platform.changed",
            EventKind::LocalMessage { .. } => "local.message",
        }
    }
}
