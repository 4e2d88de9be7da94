//! What the server answers and tells.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FindingView {
    /// What was looked at.
    pub what: String,
    /// `good`, `doubtful` or `bad`.
    pub grade: String,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Somebody who was let in, or asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonView {
    /// Where they write.
    pub platform: String,
    /// The platform's id of the person.
    pub user: String,
    /// What they call themselves there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When they got their code.
    pub asked_at: f64,
    /// Missing for those who still wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<f64>,
    /// Who keeps them: `hermes` in a pairing file of its own, or `hermesd`.
    #[serde(default)]
    pub by: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusView {
    /// The version of the daemon.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// The home that it serves.
    pub home: String,
    /// The Hermes profile whose home that is.
    #[serde(default)]
    pub profile: String,
    /// When it started.
    pub started_at: f64,
    /// The agent that answers where nobody chose another.
    pub agent: String,
    /// How many sessions the database has.
    pub sessions: i64,
    /// How many handoffs are being worked on.
    pub handoffs_running: usize,
    /// How many turns of agents are in progress.
    pub turns_running: usize,
    /// How many clients are connected.
    pub connections: usize,
    /// All platforms.
    pub platforms: Vec<PlatformView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricsView {
    /// In Prometheus' text format, version 0.0.4.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlatformView {
    /// The name that a handoff takes.
    pub name: String,
    /// `up`, `degraded`, `connecting`, `down` or `off`.
    pub state: String,
    /// The reason, when something is wrong.
    pub detail: Option<String>,
    /// The name or id of the chat that handoffs go to.
    pub home_channel: Option<String>,
    /// The id of the person who owns the bot there, where one is known.
    pub owner: Option<String>,
    /// Since when it is in this state.
    pub since: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    /// The name that `chat.open` takes.
    pub name: String,
    /// Whether it can be asked.
    pub ready: bool,
    /// What to do about it when it is not ready.
    pub detail: Option<String>,
    /// The model that it asks, where it says so.
    pub model: Option<String>,
    /// Whether it answers where nobody chose another.
    pub default: bool,
    /// It writes the transcript itself.
    pub keeps_transcript: bool,
}

/// How one question to an agent went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentTestView {
    /// Its name.
    pub agent: String,
    /// The model that answered.
    pub model: Option<String>,
    /// Seconds until the first sign of an answer, and until all of it.
    pub first: Option<f64>,
    /// Seconds until all of it.
    pub whole: f64,
    /// The first words.
    pub reply: Option<String>,
    /// Why there is no answer.
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// The id of the session.
    pub id: String,
    /// Its title; unique.
    pub title: Option<String>,
    /// Where it is: `cli`, `tui`, `acp`, or a platform.
    pub source: String,
    /// The model that answered last.
    pub model: Option<String>,
    /// When it began.
    pub started_at: f64,
    /// When it ended; null while it is live.
    pub ended_at: Option<f64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// How many messages it has.
    pub message_count: i64,
    /// The key of the chat that it is on.
    pub session_key: Option<String>,
    /// The id of that chat.
    pub chat_id: Option<String>,
    /// The id of the thread in it.
    pub thread_id: Option<String>,
    /// The state of its last handoff.
    pub handoff_state: Option<String>,
    /// Where that one went.
    pub handoff_platform: Option<String>,
    /// Why that one failed.
    pub handoff_error: Option<String>,
}

/// A message in which something was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HitView {
    /// The id of the session.
    pub session: String,
    /// Its title.
    pub title: Option<String>,
    /// Where the session is.
    pub source: String,
    /// The row of the message.
    pub message: i64,
    /// Who said it: `user`, `assistant` or `tool`.
    pub role: String,
    /// Set where a program said it and not a person, as Hermes names the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_kind: Option<String>,
    /// When it was said.
    pub timestamp: f64,
    /// A piece of it, with what was found between `>>>` and `<<<`.
    pub snippet: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TranscriptView {
    /// Whose it is.
    pub session: SessionView,
    /// In the order they were said.
    pub messages: Vec<MessageView>,
    /// There are earlier messages than these.
    pub earlier: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageView {
    /// The row of the message; `before` takes it.
    pub id: i64,
    /// Who said it: `user`, `assistant`, `tool` or `system`.
    pub role: String,
    /// Text, or a list of parts.
    pub content: Value,
    /// The tools that were called, as the agent wrote it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Value>,
    /// The call that this is the result of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<String>,
    /// When it was said.
    pub timestamp: f64,
    /// Set where a program said it and not a person, as Hermes names the kind: `internal_notification`, `model_switch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_kind: Option<String>,
    /// It is for the model alone. Such messages come only where they are asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffView {
    /// The number of the handoff.
    pub id: i64,
    /// The id of the session.
    pub session: String,
    /// Where to.
    pub platform: String,
    /// The word for the agent; cut to 200 characters in listings.
    pub note: Option<String>,
    /// `socket`, `direct` or `foreign`.
    pub via: String,
    /// `pending`, `running`, `completed` or `failed`.
    pub state: String,
    /// The last stage reached.
    pub stage: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// It waits for the end of a turn in progress.
    pub after_turn: bool,
    /// When it was asked for.
    pub requested_at: f64,
    /// When it ended.
    pub ended_at: Option<f64>,
    /// The id of the chat that it goes to.
    pub home_channel: Option<String>,
    /// The id of the thread there.
    pub thread: Option<String>,
    /// What the thread is called.
    pub thread_title: Option<String>,
    /// Why the home chat itself is used instead of a thread.
    pub no_thread: Option<String>,
    /// The key that the chat is bound by.
    pub session_key: Option<String>,
    /// What the agent said in the chat; null in listings.
    pub reply: Option<String>,
    /// The stages that it has reached.
    pub stages: Vec<StageView>,
    /// In the answer to a request that names no session, why this one was taken: `chat`, `hermesctl chat` has it open in the
    /// terminal; `terminal`, Hermes has noted it for the terminal; `only`, no other can be meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_by: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageView {
    /// Its name.
    pub stage: String,
    /// When it was reached.
    pub at: f64,
}

/// The session that a terminal is on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatView {
    /// As it is now.
    pub session: SessionView,
    /// It was there before; its transcript can be read.
    pub resumed: bool,
    /// The platform whose chat had it.
    pub came_from: Option<String>,
}

/// One answer in a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatTurnView {
    /// The id of the session from now on. It changes when Hermes splits the session during the turn.
    pub session: String,
    /// All of it; when it was interrupted, or the agent failed, what there is.
    pub reply: String,
    /// Whether it was cut off.
    pub interrupted: bool,
    /// Why there is no whole reply.
    pub error: Option<String>,
    /// A word to the person about the reply, such as that the model did not see all of the history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A session that was brought home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResumedView {
    /// As it is now.
    pub session: SessionView,
    /// The platform whose chat had it; none when it was at home already.
    pub came_from: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalThreadView {
    /// The number of the thread.
    pub id: i64,
    /// The chat that it is in.
    pub chat: String,
    /// What it is called.
    pub title: String,
    /// When it was opened.
    pub created_at: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalMessageView {
    /// The number of the message; `after` takes it.
    pub id: i64,
    /// `agent` or `user`.
    pub author: String,
    /// The words.
    pub text: String,
    /// When it was said.
    pub at: f64,
}

/// One thing that an approval is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubjectView {
    /// What it is: a command, the input of a tool, a change of a file.
    pub label: String,
    /// The thing itself, character by character.
    pub text: String,
}

/// `{"seq": 12, "at": 1767171600.5, "type": "handoff.stage", "id": 7, "session": "…", "platform": "local", "stage": "bound"}`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// Grows by one with every event of this daemon's life.
    pub seq: u64,
    /// When it happened.
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
    /// A handoff has reached a stage.
    #[serde(rename = "handoff.stage")]
    HandoffStage {
        id: i64,
        session: String,
        platform: String,
        stage: String,
    },
    /// A handoff is completed or has failed.
    #[serde(rename = "handoff.ended")]
    HandoffEnded {
        id: i64,
        session: String,
        platform: String,
        state: String,
        error: Option<String>,
    },
    /// A turn waits for the turn of another program, such as Hermes, in the same conversation.
    #[serde(rename = "turn.waiting")]
    TurnWaiting {
        session: String,
        /// The program that is waited for, in words.
        holder: String,
        /// Seconds so far.
        waited: u64,
    },
    /// An agent begins to answer.
    #[serde(rename = "turn.started")]
    TurnStarted {
        session: String,
        /// Numbers the turns of this daemon's life.
        turn: u64,
    },
    /// A piece of the answer.
    #[serde(rename = "turn.delta")]
    TurnDelta {
        session: String,
        turn: u64,
        text: String,
    },
    /// The agent has answered, or failed to.
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
        /// What is asked and what it is about, in one text.
        text: String,
        choices: Vec<String>,
        /// Other words than the choices are an answer too.
        open: bool,
        /// Names the question.
        #[serde(default)]
        question: String,
        /// What is asked, without what it is about.
        #[serde(default)]
        ask: String,
        /// What an approval is about, as the agent would do it.
        #[serde(default)]
        subject: Vec<SubjectView>,
        /// The platform that shows it, or `terminal`.
        #[serde(default)]
        place: String,
        /// The file with all of a long one; it stays until the question is closed.
        #[serde(default)]
        whole: Option<String>,
    },
    /// A question of an agent is answered, or no longer open. The first answer counts.
    #[serde(rename = "turn.question_closed")]
    TurnQuestionClosed {
        session: String,
        turn: u64,
        /// Names the question.
        question: String,
        /// `answered`, `timed_out`, `not_shown` or `withdrawn`.
        outcome: String,
        /// The choice, or the words.
        answer: Option<String>,
        /// Where it was answered: a platform, or `terminal`.
        place: Option<String>,
    },
    /// A conversation begins, or is taken up again in a terminal.
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
    /// A terminal's conversation ends, or a chat's by /new.
    #[serde(rename = "session.ended")]
    SessionEnded {
        session: String,
        platform: String,
        model: Option<String>,
        /// An answer was cut off by it.
        interrupted: bool,
    },
    /// A platform is in another state.
    #[serde(rename = "platform.changed")]
    PlatformChanged {
        platform: String,
        state: String,
        detail: Option<String>,
    },
    /// Something was said in a chat of the embedded platform.
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
            | EventKind::TurnWaiting { session, .. }
            | EventKind::TurnStarted { session, .. }
            | EventKind::TurnDelta { session, .. }
            | EventKind::TurnEnded { session, .. }
            | EventKind::TurnQuestion { session, .. }
            | EventKind::TurnQuestionClosed { session, .. }
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
            EventKind::TurnWaiting { .. } => "turn.waiting",
            EventKind::TurnStarted { .. } => "turn.started",
            EventKind::TurnDelta { .. } => "turn.delta",
            EventKind::TurnEnded { .. } => "turn.ended",
            EventKind::TurnQuestion { .. } => "turn.question",
            EventKind::TurnQuestionClosed { .. } => "turn.question_closed",
            EventKind::SessionStarted { .. } => "session.started",
            EventKind::SessionMoved { .. } => "session.moved",
            EventKind::SessionEnded { .. } => "session.ended",
            EventKind::PlatformChanged { .. } => "platform.changed",
            EventKind::LocalMessage { .. } => "local.message",
        }
    }
}
