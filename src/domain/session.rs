//! A session, as its row in `sessions` describes it.

/// The place of a session that is on no chat.
pub const TERMINAL: &str = "terminal";

/// The longest message that a person may send, in bytes.
pub const LONGEST_MESSAGE: usize = 100_000;

/// Sources of sessions that belong to a terminal, not to a chat.
pub const TERMINAL_SOURCES: [&str; 3] = ["cli", "tui", "acp"];

/// The most characters of a name that is made of first words.
const LONGEST_NAME: usize = 40;

/// The columns of one `sessions` row that hermesd uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: String,
    pub source: String,
    pub title: Option<String>,
    /// The beginning of the first message of a person. Set only where people see an untitled session.
    pub first_words: Option<String>,
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
            first_words: None,
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

    pub fn has_title(&self) -> bool {
        self.title
            .as_ref()
            .is_some_and(|title| !title.trim().is_empty())
    }

    /// The title, else the first words, else the whole id.
    pub fn label(&self) -> &str {
        let title = self.title.as_deref().filter(|t| !t.trim().is_empty());
        title.or(self.first_words.as_deref()).unwrap_or(&self.id)
    }

    /// The name for threads: the title, else the first words, else, as in Hermes, the first eight characters of the id.
    pub fn name(&self) -> String {
        match self.has_title() || self.first_words.is_some() {
            true => self.label().to_owned(),
            false => self.id.chars().take(8).collect(),
        }
    }

    /// As many whole words of the first line as fit into a short name. `None` if it has no words.
    pub fn first_words_of(text: &str) -> Option<String> {
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        let mut name = String::new();
        for word in line.split_whitespace() {
            let length = name.chars().count() + word.chars().count() + 1;
            if !name.is_empty() && length > LONGEST_NAME {
                return Some(format!("{name}…"));
            }
            if !name.is_empty() {
                name.push(' ');
            }
            name.push_str(word);
        }
        match name.chars().count() > LONGEST_NAME {
            true => Some(name.chars().take(LONGEST_NAME).chain(['…']).collect()),
            false => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untitled_session_is_called_by_its_first_words() {
        for (text, name) in [
            ("Fix the parser", Some("Fix the parser")),
            ("\n  Fix   the\tparser \nand more", Some("Fix the parser")),
            (
                "Can you find out why the parser chokes on empty lines?",
                Some("Can you find out why the parser chokes…"),
            ),
            (" \n ", None),
        ] {
            assert_eq!(Session::first_words_of(text).as_deref(), name, "{text:?}");
        }
        let long = Session::first_words_of(&"x".repeat(100)).expect("a name");
        assert_eq!(long.chars().count(), LONGEST_NAME + 1);
        let untitled = Session {
            first_words: Some("Fix it".into()),
            ..Session::unsaved("20260131_081500_a1b2c3", 0.0)
        };
        assert_eq!(
            (untitled.label(), untitled.name().as_str()),
            ("Fix it", "Fix it")
        );
        let empty = Session::unsaved("20260131_081500_a1b2c3", 0.0);
        assert_eq!(empty.name(), "20260131");
    }
}
