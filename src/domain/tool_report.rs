//! What an agent reports about its use of a tool.

/// The longest name and the longest description, in characters.
const LONGEST_NAME: usize = 60;
const LONGEST_WHAT: usize = 300;

/// How far a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolState {
    Running,
    Completed,
    Failed,
}

impl ToolState {
    pub fn as_str(self) -> &'static str {
        match self {
            ToolState::Running => "running",
            ToolState::Completed => "completed",
            ToolState::Failed => "failed",
        }
    }
}

/// One use of a tool, when it begins and when it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReport {
    /// The agent's own id of the use.
    pub id: String,
    pub name: String,
    /// What the tool works on, in one line.
    pub what: String,
    pub state: ToolState,
    /// Seconds, when it has ended.
    pub took: Option<f64>,
}

impl ToolReport {
    pub fn new(id: &str, name: &str, what: &str, state: ToolState) -> ToolReport {
        ToolReport {
            id: id.chars().take(LONGEST_WHAT).collect(),
            name: one_line(name, LONGEST_NAME),
            what: one_line(what, LONGEST_WHAT),
            state,
            took: None,
        }
    }
}

fn one_line(text: &str, longest: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.chars().count() > longest {
        true => text.chars().take(longest - 1).chain(['…']).collect(),
        false => text,
    }
}
