//! A handoff: its states and stages, and the road it takes. This file is pure; the stages beside it do the work.
//!
//! `queue` finds pending rows and runs them side by side, `watch` wakes it, `pipeline` walks one handoff through its
//! stages, one file a stage. Each stage commits its evidence before the next begins, so that a daemon that was killed
//! goes on where the journal stops.

mod answer;
mod bind;
mod deliver;
pub mod pause;
mod pipeline;
pub mod queue;
mod ration;
pub mod request;
mod scan;
mod settle;
mod thread;
pub mod watch;
pub mod which;
mod work;

pub use pipeline::Context;

use crate::platform::{Home, Opened};

/// What a failed handoff says when its notice could not be taken out of the transcript.
pub const NOTICE_STAYS: &str =
    "its notice stays in the transcript, because Hermes compacted the conversation meanwhile";

/// What `sessions.handoff_state` says. Shared with other programs; NULL is "never handed off".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Pending,
    Running,
    Completed,
    Failed,
}

impl State {
    pub const ALL: [State; 4] = [
        State::Pending,
        State::Running,
        State::Completed,
        State::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Running => "running",
            State::Completed => "completed",
            State::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<State> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    pub fn is_final(self) -> bool {
        matches!(self, State::Completed | State::Failed)
    }
}

/// How far a running handoff has come: each is reached when its evidence is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
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

impl Stage {
    pub const ALL: [Stage; 7] = [
        Stage::Claimed,
        Stage::Homed,
        Stage::Threaded,
        Stage::Bound,
        Stage::Answered,
        Stage::Delivered,
        Stage::Settled,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Claimed => "claimed",
            Stage::Homed => "homed",
            Stage::Threaded => "threaded",
            Stage::Bound => "bound",
            Stage::Answered => "answered",
            Stage::Delivered => "delivered",
            Stage::Settled => "settled",
        }
    }

    pub fn parse(text: &str) -> Option<Stage> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    pub fn previous(self) -> Option<Stage> {
        let at = Self::ALL.iter().position(|s| *s == self)?;
        at.checked_sub(1).map(|before| Self::ALL[before])
    }
}

/// Who asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// A client of the control socket.
    Socket,
    /// hermesctl, straight into the database, because no daemon answered.
    Direct,
    /// Another program (Hermes' own CLI) that knows nothing of our tables.
    Foreign,
}

impl Via {
    pub fn as_str(self) -> &'static str {
        match self {
            Via::Socket => "socket",
            Via::Direct => "direct",
            Via::Foreign => "foreign",
        }
    }

    pub fn parse(text: &str) -> Option<Via> {
        [Via::Socket, Via::Direct, Via::Foreign]
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
    pub via: Via,
    pub state: State,
    pub stage: Option<Stage>,
    pub error: Option<String>,
    pub requested_at: f64,
    pub ended_at: Option<f64>,
    pub cancel_requested: bool,
    /// It waits for the end of the turn that was in progress when it was asked for.
    pub after_turn: bool,
    pub home: Option<Home>,
    pub thread: Option<Opened>,
    pub session_key: Option<String>,
    pub reply: Option<String>,
    pub sent_ids: Vec<String>,
    pub stages: Vec<(Stage, f64)>,
}

impl Handoff {
    pub(crate) fn reach(&mut self, stage: Stage, at: f64) {
        self.stage = Some(stage);
        self.stages.push((stage, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_follow_each_other_and_read_back() {
        for pair in Stage::ALL.windows(2) {
            assert_eq!(pair[1].previous(), Some(pair[0]));
            assert!(pair[0] < pair[1]);
        }
        assert_eq!(Stage::Claimed.previous(), None);
        assert!(
            Stage::ALL
                .iter()
                .all(|s| Stage::parse(s.as_str()) == Some(*s))
        );
        assert!(
            State::ALL
                .iter()
                .all(|s| State::parse(s.as_str()) == Some(*s))
        );
    }
}
