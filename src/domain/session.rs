//! A session, as its row in `sessions` describes it.

/// The place of a session that is on no chat.
pub const TERMINAL: &str = "terminal";

/// The longest message that a person may send, in bytes.
pub const LONGEST_MESSAGE: usize = 100_000;

/// Sources of sessions that belong to a terminal, not to a chat.
pub const TERMINAL_SOURCES: [&str; 3] = ["cli", "tui", "acp"];

/// The columns of one `sessions` row that hermesd uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: String,
    pub source: String,
    pub title: Option<String>,
    pub model: Option<String>,
    /// The directory that agents work in, as an absolute path.
    pub cwd: Option<String>,
    /// Set only by `Store::briefing`, for turns.
    pub system_prompt: Option<String>,
    pub session_key: Option<String>,
    pub chat_id: Option<String>,
    pub thread_id: Option<String>,
    pub started_at: f64,
    pub ended_at: Option<f64>,
    pub end_reason: Option<String>,
    pub message_count: i64,
    pub handoff_state: Option<String>,
    pub handoff_platform: Option<String>,
    pub handoff_error: Option<String>,
}

impl Session {
    /// A session that has no row yet.
    pub fn unsaved(id: &str, started_at: f64) -> Session {
        Session {
            id: id.to_owned(),
            source: "cli".to_owned(),
            title: None,
            model: None,
            cwd: None,
            system_prompt: None,
            session_key: None,
            chat_id: None,
            thread_id: None,
            started_at,
            ended_at: None,
            end_reason: None,
            message_count: 0,
            handoff_state: None,
            handoff_platform: None,
            handoff_error: None,
        }
    }

    /// The title, else the whole id.
    pub fn label(&self) -> &str {
        let title = self.title.as_deref();
        title.filter(|t| !t.trim().is_empty()).unwrap_or(&self.id)
    }

    /// The name for threads, as in Hermes: the title, else the first eight characters of the id.
    pub fn name(&self) -> String {
        match &self.title {
            Some(title) if !title.trim().is_empty() => title.clone(),
            _ => self.id.chars().take(8).collect(),
        }
    }
}
