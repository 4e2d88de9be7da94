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
