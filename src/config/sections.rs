//! Settings grouped by the part of the daemon that reads them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// The timeouts of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the whole turn.
    pub whole: Duration,
    /// Until the agent's first sign of life.
    pub first: Option<Duration>,
    /// Between two signs of life.
    pub silence: Option<Duration>,
    /// For the person's answer to a question.
    pub question: QuestionTimeouts,
    /// For the wait for another program's turn.
    pub lease: Duration,
}

/// How long a question waits, and when its reminder is sent. `None`: forever, and never.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QuestionTimeouts {
    pub answer: Option<Duration>,
    pub reminder: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// `https://host/v1`. The agent appends the rest.
    pub base_url: String,
    pub api_key: Option<SecretString>,
    pub model: String,
    /// The tokens that the model accepts, history and reply together.
    pub context: usize,
}

/// How to open a database, as far as its file does not decide.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Whether a new file gets a write-ahead log. An existing file stays in its journal mode.
    pub create_in_wal: bool,
    /// The library with the tokenizer of Hermes' index for Chinese, Japanese and Korean. `None`: the index is not used.
    pub cjk_library: Option<PathBuf>,
    /// Hermes' name of the home's profile. `None`: the default one.
    pub profile: Option<String>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            create_in_wal: true,
            cjk_library: None,
            profile: None,
        }
    }
}

/// The hooks. `hooks.<name>` sets the program of each.
pub const HOOKS: [&str; 7] = [
    "on_session_start",
    "on_session_end",
    "on_handoff_requested",
    "on_handoff_completed",
    "on_handoff_failed",
    "on_turn_end",
    "on_question",
];

#[derive(Debug, Clone)]
pub struct HooksConfig {
    /// The program of each hook that is set.
    pub programs: BTreeMap<&'static str, String>,
    pub timeout: Duration,
}
