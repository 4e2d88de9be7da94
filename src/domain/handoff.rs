//! A handoff: its states, its stages and the evidence of each. No work is done here.

use super::{HomeChannel, ThreadOutcome};

/// What a failed handoff says when its notice could not be taken out of the transcript.
pub const NOTICE_STAYS: &str =
    "its notice stays in the transcript, because Hermes compacted the conversation meanwhile";

/// What `sessions.handoff_state` says. Shared with other programs; NULL is "never handed off".
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

/// How far a running handoff has come: each is reached when its evidence is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandoffStage {
    /// The row is ours, with a lease.
    Claimed,
    /// The platform's home channel is known.
    Homed,
    /// A fresh thread is open there, or the home chat itself is used.
    Threaded,
    /// The chat is on this session; what it was on before is remembered.
    Bound,
    /// The agent has answered the notice, and both stand in the transcript.
    Answered,
    /// The reply is in the chat.
    Delivered,
    /// The row says completed.
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

/// Who asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedVia {
    /// A client of the control socket.
    Socket,
    /// hermesctl, straight into the database, because no daemon answered.
    Direct,
    /// Another program (Hermes' own CLI) that knows nothing of our tables.
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

/// One handoff as the journal tells it. `None` in the evidence means that its stage is not reached.
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
    /// It waits for the end of the turn that was in progress when it was asked for.
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
