//! Where an agent puts the pieces of its reply as they come, and how it reaches the person.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::Instant;

use super::{Answered, Question};
use crate::events::{Bus, Event};
use crate::turn::{Questions, Shows};

/// What has come of a reply so far. Cheap to clone; all clones see the same.
#[derive(Debug, Clone, Default)]
pub struct Streamed(Arc<Mutex<String>>);

impl Streamed {
    pub fn text(&self) -> String {
        self.locked().clone()
    }

    pub fn is_empty(&self) -> bool {
        self.locked().is_empty()
    }

    fn locked(&self) -> MutexGuard<'_, String> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Signs of life, for the clocks of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Pulse {
    pub at: Instant,
    /// Something of the answer has come.
    pub begun: bool,
    /// How many questions wait for the person, who may take their time.
    pub asking: usize,
}

pub struct Sink<'a> {
    pub(crate) bus: &'a Bus,
    pub(crate) session_id: &'a str,
    /// The conversation that the session is part of. It keeps its name when compression splits the session.
    pub(crate) conversation: &'a str,
    pub(crate) turn: u64,
    pub(crate) streamed: &'a Streamed,
    pub(crate) pulse: Mutex<Pulse>,
    pub(crate) questions: &'a Questions,
    /// Shows questions where the person is, unless they listen to events anyway.
    pub(crate) shows: Option<&'a dyn Shows>,
}

impl Sink<'_> {
    pub fn push(&self, piece: &str) {
        self.beat(|pulse| pulse.begun = true);
        self.streamed.locked().push_str(piece);
        self.bus.tell(Event::TurnDelta {
            session_id: self.session_id.to_owned(),
            turn: self.turn,
            text: piece.to_owned(),
        });
    }

    /// A sign of life that is no part of the answer: a tool at work, a thought.
    pub fn alive(&self) {
        self.beat(|pulse| pulse.begun = true);
    }

    /// Asks the person, and waits for an answer within the time that people get for it.
    pub async fn ask(&self, question: Question) -> Answered {
        self.beat(|pulse| pulse.asking += 1);
        // Also when the agent gives the question up.
        let _asking = Asking(self);
        tracing::debug!(
            session = self.session_id,
            question = question.text,
            "the agent asks the person"
        );
        let asked = self.questions.ask(self.conversation, question.clone());
        self.bus.tell(Event::TurnQuestion {
            session_id: self.session_id.to_owned(),
            turn: self.turn,
            text: question.text.clone(),
            choices: question.choices.clone(),
            open: question.open,
        });
        if let Some(shows) = self.shows {
            shows.show(&question, asked.id).await;
        }
        asked.answered().await
    }

    pub fn pulse(&self) -> Pulse {
        *self.locked()
    }

    fn beat(&self, change: impl FnOnce(&mut Pulse)) {
        let mut pulse = self.locked();
        pulse.at = Instant::now();
        change(&mut pulse);
    }

    fn locked(&self) -> MutexGuard<'_, Pulse> {
        self.pulse
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A question that waits. Dropped, the clocks of the turn run again.
struct Asking<'a>(&'a Sink<'a>);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.beat(|pulse| pulse.asking -= 1);
    }
}
