//! A session, as one row of the table describes it.

/// The place of a session that is on no chat: a person talks to it in a terminal.
pub const TERMINAL: &str = "terminal";

/// The longest message that a person may send, in bytes.
pub const LONGEST_MESSAGE: usize = 100_000;

/// Sources of sessions that live in a terminal rather than in a chat.
pub const TERMINAL_SOURCES: [&str; 3] = ["cli", "tui", "acp"];

/// One row of `sessions`, as much of it as we use.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: String,
    pub source: String,
    pub title: Option<String>,
    pub model: Option<String>,
    /// Read for turns alone: `Store::briefing`.
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
    /// One that has no row yet.
    pub fn unsaved(id: &str, started_at: f64) -> Session {
        Session {
            id: id.to_owned(),
            source: "cli".to_owned(),
            title: None,
            model: None,
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

    /// The title, else the whole id: what tells it from all others.
    pub fn label(&self) -> &str {
        let title = self.title.as_deref();
        title.filter(|t| !t.trim().is_empty()).unwrap_or(&self.id)
    }

    /// What a thread is called after it, as Hermes does: the title, else the first eight characters of the id.
    pub fn name(&self) -> String {
        match &self.title {
            Some(title) if !title.trim().is_empty() => title.clone(),
            _ => self.id.chars().take(8).collect(),
        }
    }
}
