//! Receives an agent's reply as it streams, and asks the person the agent's questions.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::agent::Sink;
use crate::domain::{Question, QuestionAnswer, ToolReport};
use crate::events::{Bus, Event};
use crate::turn::questions::{AskedQuestion, Closed, TERMINAL, Waiting};
use crate::turn::{QuestionDisplay, Questions};
use crate::visible_text::{markdown, visible_line};

/// The text of a reply so far. Clones share it.
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

/// How long a closed question waits for a message that still shows it.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// The agent's last activity, for the timeouts of a turn.
#[derive(Debug, Clone, Copy)]
pub struct Pulse {
    pub at: Instant,
    /// A part of the answer has arrived.
    pub begun: bool,
    /// The number of questions that wait for the person. Timeouts do not run meanwhile.
    pub asking: usize,
}

pub struct TurnSink<'a> {
    pub(crate) bus: &'a Bus,
    pub(crate) session_id: &'a str,
    /// The conversation of the session. Its name stays the same when compression splits the session.
    pub(crate) conversation: &'a str,
    pub(crate) turn: u64,
    pub(crate) streamed: &'a Streamed,
    pub(crate) pulse: Mutex<Pulse>,
    pub(crate) questions: &'a Questions,
    /// Shows questions in a chat. `None` if the person listens to events.
    pub(crate) display: Option<&'a dyn QuestionDisplay>,
}

#[async_trait]
impl Sink for TurnSink<'_> {
    fn conversation(&self) -> &str {
        self.conversation
    }

    fn push(&self, piece: &str) {
        self.beat(|pulse| pulse.begun = true);
        self.streamed.locked().push_str(piece);
        self.bus.publish(Event::TurnDelta {
            session_id: self.session_id.to_owned(),
            turn: self.turn,
            text: piece.to_owned(),
        });
    }

    fn alive(&self) {
        self.beat(|pulse| pulse.begun = true);
    }

    fn tool(&self, report: ToolReport) {
        self.alive();
        self.bus.publish(Event::TurnTool {
            session_id: self.session_id.to_owned(),
            turn: self.turn,
            report,
        });
    }

    async fn ask(&self, question: Question) -> QuestionAnswer {
        self.beat(|pulse| pulse.asking += 1);
        // Dropped too if the agent abandons the question.
        let _asking = Asking(self);
        tracing::debug!(
            session = self.session_id,
            question = question.ask,
            "agent asks the person"
        );
        let chat = self.display.map(QuestionDisplay::chat);
        let asked = self.questions.ask(self.conversation, question, chat);
        let Some((asked, waiting)) = asked.await else {
            return QuestionAnswer::Nobody;
        };
        self.bus.publish(Event::TurnQuestion {
            session_id: self.session_id.to_owned(),
            turn: self.turn,
            id: asked.id.to_string(),
            question: asked.question.clone(),
            place: chat.map_or(TERMINAL, |chat| &chat.platform).to_owned(),
            whole: asked.whole().map(ToOwned::to_owned),
        });
        let mut ending = Ending {
            sink: self,
            asked,
            closed: Closed::Withdrawn,
        };
        ending.closed = match self.display {
            None => waiting.closed().await,
            Some(display) => shown_until_closed(display, &ending.asked, waiting).await,
        };
        ending.closed.answer()
    }
}

impl TurnSink<'_> {
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

/// Shows the question in its chat until it is closed.
async fn shown_until_closed(
    display: &dyn QuestionDisplay,
    asked: &AskedQuestion,
    waiting: Waiting,
) -> Closed {
    let (closed, showing) = (waiting.closed(), display.show(asked));
    tokio::pin!(closed, showing);
    let closed = tokio::select! {
        biased;
        closed = closed => closed,
        () = &mut showing => return Closed::NotShown,
    };
    // A message may be in the chat before its id is known. Without the id it cannot be edited to show the end.
    let sent = async {
        tokio::select! {
            () = showing => {}
            () = asked.sent() => {}
        }
    };
    let _ = tokio::time::timeout(UNDER_WAY, sent).await;
    closed
}

/// Stops the timeouts of the turn while it exists.
struct Asking<'a>(&'a TurnSink<'a>);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.beat(|pulse| pulse.asking -= 1);
    }
}

/// An open question. Dropping it closes the question everywhere, also if the agent abandons it.
struct Ending<'a> {
    sink: &'a TurnSink<'a>,
    asked: AskedQuestion,
    closed: Closed,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let (sink, closed) = (self.sink, &self.closed);
        let answer = closed.in_words(&self.asked.question);
        let place = sink.display.map(|display| display.chat().platform.as_str());
        let note = match (closed, &answer) {
            (Closed::Given(given), Some(answer)) => {
                let answer = markdown(&visible_line(answer));
                match given.place.as_str() {
                    here if Some(here) == place => format!("→ {answer}"),
                    TERMINAL => format!("→ {answer} (answered in the terminal)"),
                    other => format!("→ {answer} (answered on {other})"),
                }
            }
            (Closed::TimedOut, _) => "(no answer in time)".to_owned(),
            _ => "(no longer open)".to_owned(),
        };
        let shown = self.asked.close(&note);
        if let Some(display) = sink.display.filter(|_| !shown.is_empty()) {
            display.close(shown, note);
        }
        sink.bus.publish(Event::TurnQuestionClosed {
            session_id: sink.session_id.to_owned(),
            turn: sink.turn,
            id: self.asked.id.to_string(),
            outcome: closed.as_str(),
            answer,
            place: closed.place().map(str::to_owned),
        });
    }
}
