//! What `hermesctl setup` learns from an adapter.

/// A server, team or workspace that the bot is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub id: String,
    pub name: String,
}

/// A chat that can be the home of handoffs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PossibleHome {
    /// The value for `home_channel`.
    pub chat: String,
    pub name: String,
    /// What it is, in the platform's words.
    pub kind: String,
    /// The permissions that a handoff needs and that the bot lacks there, by their names on the platform.
    pub missing: Vec<String>,
}

/// How the trial of a home ended, if handoffs can go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeTrial {
    /// A thread was opened and deleted.
    ThreadDeleted,
    /// A thread was opened and could not be deleted: why, and what became of it.
    ThreadLeft(String),
    /// Handoffs go to the chat itself, with the reason.
    Chat(String),
}
