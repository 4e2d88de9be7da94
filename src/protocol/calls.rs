//! The requests of clients: one variant per method, with its parameters.

use serde::{Deserialize, Serialize};

/// Every request. `{"method": "handoff.show", "params": {"id": 7}}` is `Call::HandoffShow`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params")]
pub enum Call {
    /// The first request of a connection.
    #[serde(rename = "hello")]
    Hello(Hello),
    /// Shows the daemon, its work and its platforms.
    #[serde(rename = "status")]
    Status(Nothing),
    /// Returns the metrics in Prometheus' text format.
    #[serde(rename = "metrics")]
    Metrics(Nothing),
    /// Reads the configuration again, as SIGHUP does. A wrong configuration is refused, and changes nothing.
    #[serde(rename = "config.reload")]
    ConfigReload(Nothing),
    /// Lists all platforms with their states.
    #[serde(rename = "platform.list")]
    PlatformList(Nothing),
    /// Checks whether a handoff to a platform can succeed.
    #[serde(rename = "platform.examine")]
    PlatformExamine(PlatformName),
    /// Lists all agents, and what is missing if one is not ready.
    #[serde(rename = "agent.list")]
    AgentList(Nothing),
    /// Sends a test prompt to an agent, outside of any session.
    #[serde(rename = "agent.test")]
    AgentTest(AgentName),
    /// Lists the people who have access by pairing, and those who wait for approval.
    #[serde(rename = "pair.list")]
    PairList(Nothing),
    /// Gives access to the person who received this code.
    #[serde(rename = "pair.approve")]
    PairApprove(PairingCode),
    /// Revokes a person's access.
    #[serde(rename = "pair.revoke")]
    PairRevoke(PersonName),
    /// Lists sessions, the newest first.
    #[serde(rename = "session.list")]
    SessionList(SessionList),
    /// Shows one session.
    #[serde(rename = "session.show")]
    SessionShow(SessionName),
    /// Returns the last messages of a session that fit into one line.
    #[serde(rename = "session.transcript")]
    SessionTranscript(TranscriptWish),
    /// Finds the messages that contain all words, the best match first.
    #[serde(rename = "session.search")]
    SessionSearch(SessionSearch),
    /// Changes the title of a session.
    #[serde(rename = "session.rename")]
    SessionRename(SessionRename),
    /// Brings a session back from its chat.
    #[serde(rename = "session.resume")]
    SessionResume(SessionResume),
    /// Attaches this connection to a session as its terminal, until `chat.leave` or the end of the connection.
    #[serde(rename = "chat.open")]
    ChatOpen(ChatOpen),
    /// Sends a message to the agent. Returns when the agent has replied; pieces arrive before as `turn.delta` events.
    #[serde(rename = "chat.say")]
    ChatSay(ChatSay),
    /// Answers a question of the agent.
    #[serde(rename = "chat.answer")]
    ChatAnswer(ChatSay),
    /// Interrupts the reply in progress.
    #[serde(rename = "chat.stop")]
    ChatStop(Nothing),
    /// Detaches the terminal. Returns when the session is finalised.
    #[serde(rename = "chat.leave")]
    ChatLeave(Nothing),
    /// Requests a handoff. Returns when the request is stored, before the handoff ends.
    #[serde(rename = "handoff.request")]
    HandoffRequest(HandoffRequest),
    /// Returns when the handoff has ended.
    #[serde(rename = "handoff.wait")]
    HandoffWait(HandoffId),
    /// Lists handoffs, the newest first.
    #[serde(rename = "handoff.list")]
    HandoffList(HandoffList),
    /// Shows one handoff with its stages.
    #[serde(rename = "handoff.show")]
    HandoffShow(HandoffId),
    /// Cancels a handoff that has not reached the chat yet. Returns when everything is undone.
    #[serde(rename = "handoff.cancel")]
    HandoffCancel(HandoffId),
    /// Requests a failed handoff again. Returns the new handoff.
    #[serde(rename = "handoff.retry")]
    HandoffRetry(HandoffId),
    /// Sends `event` notifications to this connection from now on.
    #[serde(rename = "events.subscribe")]
    EventsSubscribe(EventsSubscribe),
    /// Lists the threads of the embedded platform, the newest first.
    #[serde(rename = "local.threads")]
    LocalThreads(Nothing),
    /// Returns messages of a chat of the embedded platform.
    #[serde(rename = "local.read")]
    LocalRead(LocalRead),
    /// Sends a message to a chat of the embedded platform.
    #[serde(rename = "local.say")]
    LocalSay(LocalSay),
}

/// All methods. The parser uses the list to tell an unknown method from wrong parameters.
pub const METHODS: [&str; 32] = [
    "hello",
    "status",
    "metrics",
    "config.reload",
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
    /// The name.
    pub platform: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairingCode {
    /// The code that the bot sent. Case and separators do not matter.
    pub code: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersonName {
    /// The platform on which the person has access.
    pub platform: String,
    /// The id of the person on the platform.
    pub user: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// The name of the client program, for the log.
    pub client: String,
    /// The version of the client program, for the log.
    pub version: String,
    /// The version of the protocol that the client speaks: 1.
    pub protocol: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HelloView {
    /// Always `hermesd`.
    pub server: String,
    /// The version of the daemon.
    pub version: String,
    /// The version of the protocol that the daemon speaks.
    pub protocol: u32,
    /// The home that the daemon serves.
    pub home: String,
    /// The process id of the daemon.
    pub pid: u32,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionList {
    /// Only sessions of this source: `cli`, `tui`, `acp`, or a platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Only sessions that have not ended.
    #[serde(default)]
    pub live: bool,
    /// The maximum number of results: 20 by default, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentName {
    /// The name.
    pub agent: String,
}

/// What people call a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionName {
    /// Title or id, a part of the title, beginning or end of the id, or `last`.
    pub session: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TranscriptWish {
    /// Title or id, a part of the title, beginning or end of the id, or `last`.
    pub session: String,
    /// Only this many messages, counted from the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<usize>,
    /// Only messages before this row id, for paging back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<i64>,
    /// Includes messages that only the model sees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSearch {
    /// Words or phrases. A message matches if it contains all of them. A word may end in `*`.
    pub words: Vec<String>,
    /// The maximum number of results: 20 by default, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRename {
    /// Title or id, a part of the title, beginning or end of the id, or `last`.
    pub session: String,
    /// The new title. An empty one removes the title.
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffRequest {
    /// The platform to hand off to.
    pub platform: String,
    /// Title or id, a part of the title, beginning or end of the id, or `last`. If it is missing, the daemon chooses the session: see `chosen_by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A note for the agent, of up to 4000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The terminal of the requesting user, to find the session if none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// The names that Hermes may use for that terminal in `terminal-sessions/`, such as `tty-dev-pts-3`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terminals: Vec<String>,
    /// When that terminal was opened. The daemon ignores older records of Hermes, which are about another terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_since: Option<f64>,
    /// Waits for the end of a turn in progress. Without it, the daemon refuses the request.
    #[serde(default)]
    pub after_turn: bool,
    /// Hands off even if another program seems to use the session.
    #[serde(default)]
    pub force: bool,
    /// Takes the place of another session that was handed off to the same chat, if the chat has no threads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionResume {
    /// Title or id, a part of the title, beginning or end of the id, or `last`. If it is missing, the only session that was handed off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatOpen {
    /// Title or id, a part of the title, beginning or end of the id, or `last`. If it is missing, a new session begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The title of a new session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The agent that answers in the session from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The terminal of the user, for handoffs that name no session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// The current directory of the user, as an absolute path. The session works there, unless it has a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Moves a session that has a directory to `cwd`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub here: bool,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatSay {
    /// The text.
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
    /// Only handoffs of this session: title or id, a part of the title, beginning or end of the id, or `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Only handoffs that have not ended.
    #[serde(default)]
    pub in_flight: bool,
    /// The maximum number of results: 20 by default, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsSubscribe {
    /// Only events of these types, or of the topics `handoff`, `turn`, `session`, `platform`, `local`. Empty means all.
    #[serde(default)]
    pub topics: Vec<String>,
    /// Only events about the session with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalRead {
    /// The number of a thread. If it is missing, the home chat itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<i64>,
    /// Only messages after this one.
    #[serde(default)]
    pub after: i64,
    /// The maximum number of messages, the newest ones: 200 by default, at most 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSay {
    /// The number of a thread. If it is missing, the home chat itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<i64>,
    /// The text.
    pub text: String,
}
