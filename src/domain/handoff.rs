//! The states and stages of a handoff, and the evidence of each stage.

use super::{HomeChannel, ThreadOutcome};

/// Added to the error of a failed handoff whose notice could not be removed from the transcript.
pub const NOTICE_STAYS: &str =
    "its notice stays in the transcript, because Hermes compacted the conversation meanwhile";

/// The value of `sessions.handoff_state`, which other programs share. NULL means that no handoff was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoffState {
    Pending,
    Running,
    Completed,
    Failed,
}

impl HandoffState {
    pub const ALL: [HandoffState; 4] = [
        HandoffState::Pending,
        HandoffState::Running,
        HandoffState::Completed,
        HandoffState::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            HandoffState::Pending => "pending",
            HandoffState::Running => "running",
            HandoffState::Completed => "completed",
            HandoffState::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<HandoffState> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    pub fn is_final(self) -> bool {
        matches!(self, HandoffState::Completed | HandoffState::Failed)
    }
}

/// The progress of a running handoff. A stage is reached when its evidence is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandoffStage {
    /// This daemon owns the row and has a lease on it.
    Claimed,
    /// The platform's home channel is known.
    Homed,
    /// A new thread is open in the home channel, or the home chat itself is used.
    Threaded,
    /// The chat is bound to this session. The journal has the binding that the chat had before.
    Bound,
    /// The agent has answered the notice. Both are in the transcript.
    Answered,
    /// The reply is in the chat.
    Delivered,
    /// The row is `completed`.
    Settled,
}

impl HandoffStage {
    pub const ALL: [HandoffStage; 7] = [
        HandoffStage::Claimed,
        HandoffStage::Homed,
        HandoffStage::Threaded,
        HandoffStage::Bound,
        HandoffStage::Answered,
        HandoffStage::Delivered,
        HandoffStage::Settled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            HandoffStage::Claimed => "claimed",
            HandoffStage::Homed => "homed",
            HandoffStage::Threaded => "threaded",
            HandoffStage::Bound => "bound",
            HandoffStage::Answered => "answered",
            HandoffStage::Delivered => "delivered",
            HandoffStage::Settled => "settled",
        }
    }

    pub fn parse(text: &str) -> Option<HandoffStage> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    pub fn previous(self) -> Option<HandoffStage> {
        let at = Self::ALL.iter().position(|s| *s == self)?;
        at.checked_sub(1).map(|before| Self::ALL[before])
    }
}

/// The way in which a handoff was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedVia {
    /// A client of the control socket.
    Socket,
    /// hermesctl wrote to the database, because no daemon answered.
    Direct,
    /// Another program, such as Hermes' CLI, which does not know our tables.
    Foreign,
}

impl RequestedVia {
    pub fn as_str(self) -> &'static str {
        match self {
            RequestedVia::Socket => "socket",
            RequestedVia::Direct => "direct",
            RequestedVia::Foreign => "foreign",
        }
    }

    pub fn parse(text: &str) -> Option<RequestedVia> {
        [
            RequestedVia::Socket,
            RequestedVia::Direct,
            RequestedVia::Foreign,
        ]
        .into_iter()
        .find(|v| v.as_str() == text)
    }
}

/// One handoff, read from the journal. Evidence is `None` until its stage is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Handoff {
    pub id: i64,
    pub session_id: String,
    pub platform: String,
    pub note: Option<String>,
    pub via: RequestedVia,
    pub state: HandoffState,
    pub stage: Option<HandoffStage>,
    pub error: Option<String>,
    pub requested_at: f64,
    pub ended_at: Option<f64>,
    pub cancel_requested: bool,
    /// The handoff starts when the turn ends that was in progress at its request.
    pub after_turn: bool,
    pub home: Option<HomeChannel>,
    pub thread: Option<ThreadOutcome>,
    pub session_key: Option<String>,
    pub reply: Option<String>,
    pub sent_ids: Vec<String>,
    pub stages: Vec<(HandoffStage, f64)>,
}

impl Handoff {
    pub(crate) fn reach(&mut self, stage: HandoffStage, at: f64) {
        self.stage = Some(stage);
        self.stages.push((stage, at));
    }
}

/// Begins the message to the agent that announces a handoff.
const NOTICE: &str = "[Handoff] The session \"";
const NOTICE_TO: &str = "\" has moved from the terminal to this ";

/// The beginning of the message to the agent that announces a handoff: which session moved where.
pub fn handoff_notice(session: &str, platform: &str) -> String {
    format!("{NOTICE}{session}{NOTICE_TO}{platform} chat")
}

/// The platform of a handoff that a message in the role of the user announces. `None` if a person wrote the message.
pub fn announced_handoff(text: &str) -> Option<&str> {
    let (_, moved) = text.strip_prefix(NOTICE)?.split_once(NOTICE_TO)?;
    let (platform, rest) = moved.split_once(" chat ")?;
    // The number of the handoff follows.
    let is_name = !platform.is_empty() && !platform.contains(char::is_whitespace);
    (is_name && rest.starts_with('(')).then_some(platform)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other_and_read_back() {
        for pair in HandoffStage::ALL.windows(2) {
            assert_eq!(pair[1].previous(), Some(pair[0]));
            assert!(pair[0] < pair[1]);
        }
        assert_eq!(HandoffStage::Claimed.previous(), None);
        assert!(
            HandoffStage::ALL
                .iter()
                .all(|s| HandoffStage::parse(s.as_str()) == Some(*s))
        );
        assert!(
            HandoffState::ALL
                .iter()
                .all(|s| HandoffState::parse(s.as_str()) == Some(*s))
        );
    }
}
