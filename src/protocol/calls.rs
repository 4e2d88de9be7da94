//! What clients ask for: one variant a method, with its parameters.

use serde::{Deserialize, Serialize};

/// Every request. `{"method": "handoff.show", "params": {"id": 7}}` is `Call::HandoffShow`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params")]
pub enum Call {
    /// The first request of a connection.
    #[serde(rename = "hello")]
    Hello(Hello),
    /// What the daemon is doing.
    #[serde(rename = "status")]
    Status(Nothing),
    /// Numbers in Prometheus' text format.
    #[serde(rename = "metrics")]
    Metrics(Nothing),
    /// All platforms, and how each is doing.
    #[serde(rename = "platform.list")]
    PlatformList(Nothing),
    /// Looks whether a handoff to a platform would find what it needs.
    #[serde(rename = "platform.examine")]
    PlatformExamine(PlatformName),
    /// All agents, and what those that are not ready lack.
    #[serde(rename = "agent.list")]
    AgentList(Nothing),
    /// Asks an agent one thing, outside of any session.
    #[serde(rename = "agent.test")]
    AgentTest(AgentName),
    /// Who was let in by a pairing code, and who asks for it.
    #[serde(rename = "pair.list")]
    PairList(Nothing),
    /// Lets in whoever got this code.
    #[serde(rename = "pair.approve")]
    PairApprove(PairingCode),
    /// Takes that back.
    #[serde(rename = "pair.revoke")]
    PairRevoke(PersonName),
    /// Sessions, the newest first.
    #[serde(rename = "session.list")]
    SessionList(SessionList),
    /// One session.
    #[serde(rename = "session.show")]
    SessionShow(SessionName),
    /// What was said in a session: the last messages that fit a line.
    #[serde(rename = "session.transcript")]
    SessionTranscript(TranscriptWish),
    /// Messages in which all words are found, the best first.
    #[serde(rename = "session.search")]
    SessionSearch(SessionSearch),
    /// Gives a session another title.
    #[serde(rename = "session.rename")]
    SessionRename(SessionRename),
    /// Brings a session home from the chat that has it.
    #[serde(rename = "session.resume")]
    SessionResume(SessionResume),
    /// From now on this connection is a terminal at a session; it leaves with the connection at the latest.
    #[serde(rename = "chat.open")]
    ChatOpen(ChatOpen),
    /// Answered when the agent has answered; pieces come as `turn.delta` events before.
    #[serde(rename = "chat.say")]
    ChatSay(ChatSay),
    /// The answer to a question that the agent has for the person.
    #[serde(rename = "chat.answer")]
    ChatAnswer(ChatSay),
    /// Interrupts the answer that is coming.
    #[serde(rename = "chat.stop")]
    ChatStop(Nothing),
    /// Answered when the session is finalised.
    #[serde(rename = "chat.leave")]
    ChatLeave(Nothing),
    /// Asks for a handoff. Answered when the request is written, not when it has ended.
    #[serde(rename = "handoff.request")]
    HandoffRequest(HandoffRequest),
    /// Answered when the handoff has ended.
    #[serde(rename = "handoff.wait")]
    HandoffWait(HandoffId),
    /// Handoffs, the newest first.
    #[serde(rename = "handoff.list")]
    HandoffList(HandoffList),
    /// One handoff with its stages.
    #[serde(rename = "handoff.show")]
    HandoffShow(HandoffId),
    /// Stops a handoff that has not reached the chat yet. Answered when everything is put back.
    #[serde(rename = "handoff.cancel")]
    HandoffCancel(HandoffId),
    /// Asks again for a handoff that failed. The answer is the new one.
    #[serde(rename = "handoff.retry")]
    HandoffRetry(HandoffId),
    /// From now on this connection gets `event` notifications.
    #[serde(rename = "events.subscribe")]
    EventsSubscribe(EventsSubscribe),
    /// The threads of the embedded platform, the newest first.
    #[serde(rename = "local.threads")]
    LocalThreads(Nothing),
    /// Messages in a chat of the embedded platform.
    #[serde(rename = "local.read")]
    LocalRead(LocalRead),
    /// Says something in a chat of the embedded platform.
    #[serde(rename = "local.say")]
    LocalSay(LocalSay),
}

/// The methods, for telling an unknown one from wrong parameters and for the manual.
pub const METHODS: [&str; 31] = [
    "hello",
    "status",
    "metrics",
    "platform.list",
    "platform.examine",
    "agent.list",
    "agent.test",
    "pair.list",
    "pair.approve",
    "pair.revoke",
    "session.list",
    "session.show",
    "session.transcript",
    "session.search",
    "session.rename",
    "session.resume",
    "chat.open",
    "chat.say",
    "chat.answer",
    "chat.stop",
    "chat.leave",
    "handoff.request",
    "handoff.wait",
    "handoff.list",
    "handoff.show",
    "handoff.cancel",
    "handoff.retry",
    "events.subscribe",
    "local.threads",
    "local.read",
    "local.say",
];

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformName {
    /// Its name.
    pub platform: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairingCode {
    /// As the bot gave it; case and what is neither letter nor digit do not matter.
    pub code: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonName {
    /// Where they were let in.
    pub platform: String,
    /// The platform's id of the person.
    pub user: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The program that speaks, for the log.
    pub client: String,
    /// Its version, for the log.
    pub version: String,
    /// The version of the protocol that it speaks: 1.
    pub protocol: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelloView {
    /// Always `hermesd`.
    pub server: String,
    /// The version of the daemon.
    pub version: String,
    /// The version of the protocol that it speaks.
    pub protocol: u32,
    /// The home that it serves.
    pub home: String,
    /// Its process id.
    pub pid: u32,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionList {
    /// Only sessions from here: `cli`, `tui`, `acp`, or a platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only sessions that have not ended.
    #[serde(default)]
    pub live: bool,
    /// How many at the most; 20 when not given, never more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentName {
    /// Its name.
    pub agent: String,
}

/// An id, a title, or the beginning of an id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionName {
    /// Id, title, or beginning of an id.
    pub session: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptWish {
    /// Id, title, or beginning of an id.
    pub session: String,
    /// Only the last so many messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
    /// Only messages before this row, for paging back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// Also messages that are for the model alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSearch {
    /// Words or phrases, all of which have to be there; one may end in `*`.
    pub words: Vec<String>,
    /// How many at the most; 20 when not given, never more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRename {
    /// Id, title, or beginning of an id.
    pub session: String,
    /// Empty to take the title away.
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffRequest {
    /// Where to.
    pub platform: String,
    /// Id, title, or beginning of an id; without it, the session that the asker must mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A word for the agent on top of the transcript, of up to 4000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The terminal of whoever asks, when no session is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// The same by the names that Hermes may have given it in `terminal-sessions/`, such as `tty-dev-pts-3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terminals: Vec<String>,
    /// When that terminal was opened: notes from before are about another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_since: Option<f64>,
    /// Wait for the end of a turn in progress instead of refusing.
    #[serde(default)]
    pub after_turn: bool,
    /// Do not mind what another program seems to be doing with the session.
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionResume {
    /// Without it, the only session that was handed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatOpen {
    /// Id, title, beginning of an id, or `last`; without it a new session begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// For a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Who is to answer in it from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The terminal of whoever sits there, for handoffs that name no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSay {
    /// The words.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffId {
    /// The number of the handoff.
    pub id: i64,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffList {
    /// Only those of this session: id, title, or beginning of an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only those that are not ended.
    #[serde(default)]
    pub in_flight: bool,
    /// How many at the most; 20 when not given, never more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsSubscribe {
    /// Only events whose type begins with one of these (`handoff`, `turn`, `session`, `platform`, `local`); none means all.
    #[serde(default)]
    pub topics: Vec<String>,
    /// Only events about this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalRead {
    /// A thread's number; without it the home chat itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<i64>,
    /// Only messages after this one.
    #[serde(default)]
    pub after: i64,
    /// How many of the newest at the most; 200 when not given, never more than 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSay {
    /// A thread's number; without it the home chat itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<i64>,
    /// The words.
    pub text: String,
}
