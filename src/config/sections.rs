//! Settings of one part of the daemon each, as that part reads them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

/// How long an agent may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For all of it.
    pub whole: Duration,
    /// Until its first sign of life.
    pub first: Option<Duration>,
    /// Between two signs of life.
    pub silence: Option<Duration>,
    /// For the person, when it asks something.
    pub question: QuestionTimeouts,
    /// For the turn of another program, before a turn of ours.
    pub lease: Duration,
}

/// How long questions wait, and after what time a chat is reminded; `None` for never.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QuestionTimeouts {
    pub answer: Option<Duration>,
    pub reminder: Option<Duration>,
}

/// What is configured of it.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// `https://host/v1`; the rest of the address is ours.
    pub base_url: String,
    pub api_key: Option<SecretString>,
    pub model: String,
    /// Tokens that the model takes, history and reply together.
    pub context: usize,
}

/// How a database is opened, beside what the file itself says.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Whether a file that does not exist yet gets a write-ahead log. An existing file keeps its journal mode.
    pub create_in_wal: bool,
    /// The library with the tokenizer of Hermes' index for Chinese, Japanese and Korean. `None`: do without that index.
    pub cjk_library: Option<PathBuf>,
    /// Hermes' name for the profile that the home is. `None`: the default one.
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

/// The events that may have a program. `hooks.<name>` configures it.
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
    /// The program of each event that has one.
    pub programs: BTreeMap<&'static str, String>,
    pub timeout: Duration,
}
