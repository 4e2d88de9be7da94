//! The wire types between hermesctl and `hermesd diagnose`: one JSON object per line. Requests arrive on standard
//! input, answers leave on standard output.

use serde::{Deserialize, Serialize};

use super::{AgentView, FindingView};

/// Some requests hold a token, so this type has no `Debug`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum DiagnoseRequest {
    /// Diagnoses each enabled platform: one `platform` answer each, then `done`.
    Platforms,
    /// Lists the agents.
    Agents,
    /// Builds the adapter of a platform with these settings over the configured ones, and diagnoses it. Creates the
    /// home and its database where they are missing. The requests below use this adapter.
    Open {
        platform: String,
        /// The key of a setting and its value.
        settings: Vec<(String, String)>,
    },
    /// Reads which webhook receives the bot's messages.
    Webhook,
    RemoveWebhook,
    /// Lists what a person has to change on the platform's side before the bot can work: one `findings` answer.
    Obstacles,
    /// Asks for the link that brings the bot to a server: one `invitation` answer.
    Invitation,
    /// Lists the servers that the bot is on: one `servers` answer.
    Servers,
    /// Lists the chats of a server that can be a home: one `homes` answer.
    Homes {
        /// The id of the server.
        server: String,
        /// The person whose private chat is on the list too.
        owner: Option<PersonChoice>,
    },
    /// Asks who has registered the bot: one `owner` answer.
    Owner,
    /// Looks a person up: one `owner` answer. It is `failed` if there is no such person.
    Person {
        id: String,
    },
    /// Opens a thread in a home and deletes it: one `home_tried` answer. It is `failed` with the kind `home` if handoffs
    /// cannot go there.
    TryHome {
        chat: String,
        name: Option<String>,
        /// The id of the person who must be able to see it.
        owner: Option<String>,
    },
    /// Listens until the next request. Each /sethome is one `heard` answer.
    Listen,
    /// Sends a text to the chat of a `heard` answer.
    Reply {
        heard: usize,
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum DiagnoseAnswer {
    Platform {
        platform: String,
        /// The name of the bot's account. Only the answer to `open` has it.
        account: Option<String>,
        findings: Vec<FindingView>,
    },
    Agents {
        agents: Vec<AgentView>,
    },
    /// The host of the webhook, if one is set.
    Webhook {
        host: Option<String>,
    },
    Findings {
        findings: Vec<FindingView>,
    },
    Invitation {
        /// Absent if the bot needs no invitation.
        link: Option<String>,
    },
    Servers {
        /// Absent if a bot cannot list its chats there. A /sethome names the home then.
        servers: Option<Vec<ServerChoice>>,
    },
    Homes {
        /// In the order in which the platform shows them.
        homes: Vec<HomeChoice>,
    },
    Owner {
        person: Option<PersonChoice>,
        /// How people find their own id.
        own_id_hint: String,
    },
    /// Handoffs can go to that home.
    HomeTried {
        trial: HomeTrialView,
    },
    Heard {
        /// The number that `reply` takes.
        heard: usize,
        chat: String,
        chat_name: Option<String>,
        user: Option<String>,
        user_name: Option<String>,
    },
    Done,
    Failed {
        message: String,
        /// Present when the request was refused: a stable word, as in the errors of the control socket.
        kind: Option<String>,
    },
}

/// A server, team or workspace that the bot is on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerChoice {
    pub id: String,
    pub name: String,
}

/// A person on the platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PersonChoice {
    pub id: String,
    pub name: String,
}

/// A chat that can be the home of handoffs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HomeChoice {
    /// The value for `home_channel`.
    pub chat: String,
    pub name: String,
    /// What it is, in the platform's words.
    pub kind: String,
    /// The permissions that a handoff needs and that the bot lacks there.
    pub missing: Vec<String>,
}

/// How the trial of a home ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum HomeTrialView {
    /// A thread was opened and deleted.
    ThreadDeleted,
    /// A thread was opened and could not be deleted.
    ThreadLeft {
        /// Why, and what became of it.
        reason: String,
    },
    /// Handoffs go to the chat itself.
    Chat { reason: String },
}
