//! Attaches terminals to sessions: a client opens a session, sends messages, and leaves or loses its connection. Either
//! way, messages and partial replies are stored, and the session is finalised once.

mod leave;
mod open;
mod say;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use leave::Reason;
pub use open::{OpenedSession, Opening};
pub use say::Outcome;

use crate::delivery::ChatQueue;
use crate::domain::TERMINAL_SOURCES;
use crate::events::Bus;
use crate::shutdown::Shutdown;
use crate::store::{Store, StoreError};
use crate::turn::{Chosen, Streamed, TurnError, Turns};

/// All terminals of this daemon. Cheap to clone.
#[derive(Clone)]
pub struct Terminals {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    turns: Arc<Turns>,
    /// Posts a note to a chat when its session returns to a terminal.
    chat_queue: Arc<dyn ChatQueue>,
    bus: Bus,
    tracker: TaskTracker,
    /// The daemon drains: no new turn begins.
    draining: CancellationToken,
    /// The daemon cuts off the turns in progress.
    stop: CancellationToken,
    /// By conversation, because a session has one terminal.
    attached: Mutex<HashMap<String, Arc<AttachedTerminal>>>,
    /// Cancelled when the sessions of the last run are finalised. No terminal attaches before: it may want one of them.
    recovered: CancellationToken,
}

/// One terminal, attached to one session.
#[derive(Debug)]
pub struct AttachedTerminal {
    /// The first row of the session. Compression does not change it.
    conversation: String,
    /// The last known row in which the session continues.
    session_id: Mutex<String>,
    tty: Option<String>,
    /// The agent chosen for a session that has no row yet, and so cannot store it.
    agent: Option<String>,
    /// The directory of such a session.
    cwd: Option<String>,
    /// Whether the session has a row. An untitled session gets it with its first message, so that an unused terminal
    /// leaves nothing behind.
    has_row: tokio::sync::Mutex<bool>,
    turn: Mutex<Option<LiveTurn>>,
    /// The terminal is leaving.
    leaving: AtomicBool,
    /// The daemon's stop has cut off a turn, which may be over before the terminal leaves.
    stopped: AtomicBool,
}

/// A turn in progress: stops it, and knows what it has streamed.
#[derive(Debug, Clone, Default)]
struct LiveTurn {
    streamed: Streamed,
    cancel: CancellationToken,
    /// Cancelled when the end of the turn is stored.
    ended: CancellationToken,
}

impl AttachedTerminal {
    fn new(
        conversation: String,
        session_id: String,
        tty: Option<String>,
        agent: Option<String>,
        cwd: Option<String>,
        has_row: bool,
    ) -> Arc<AttachedTerminal> {
        Arc::new(AttachedTerminal {
            conversation,
            session_id: Mutex::new(session_id),
            tty,
            agent,
            cwd,
            has_row: tokio::sync::Mutex::new(has_row),
            turn: Mutex::default(),
            leaving: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        })
    }

    /// The row of the session. Compression may replace the one that was opened.
    pub fn session_id(&self) -> String {
        self.at().clone()
    }

    fn continue_in(&self, session_id: String) {
        *self.at() = session_id;
    }

    fn at(&self) -> MutexGuard<'_, String> {
        self.session_id
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The conversation, by which questions are answered.
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Interrupts the answer in progress. Returns false if there is none.
    pub fn stop(&self) -> bool {
        let turn = self.turn().clone();
        turn.inspect(|turn| turn.cancel.cancel()).is_some()
    }

    fn turn(&self) -> MutexGuard<'_, Option<LiveTurn>> {
        self.turn
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Terminals {
    pub fn new(
        store: Store,
        turns: Arc<Turns>,
        chat_queue: Arc<dyn ChatQueue>,
        bus: Bus,
        shutdown: Shutdown,
    ) -> Terminals {
        Terminals {
            inner: Arc::new(Inner {
                store,
                turns,
                chat_queue,
                bus,
                tracker: TaskTracker::new(),
                draining: shutdown.draining,
                stop: shutdown.cut,
                attached: Mutex::default(),
                recovered: CancellationToken::new(),
            }),
        }
    }

    /// The agent that answers, or why none can.
    fn agent_at(&self, terminal: &AttachedTerminal) -> Result<Chosen, StoreError> {
        let (turns, source) = (&self.inner.turns, TERMINAL_SOURCES[0]);
        let Some(name) = &terminal.agent else {
            return turns.agent_of(&terminal.session_id(), source);
        };
        let agent = turns.agents().get(name).map_err(TurnError::Agent);
        Ok(agent.map(|agent| {
            let transcript_writer = agent.transcript_writer(source);
            (agent, transcript_writer)
        }))
    }

    /// The name of the agent that answers. `None` if none can.
    pub fn agent_name(&self, terminal: &AttachedTerminal) -> Option<String> {
        let chosen = self.agent_at(terminal).ok()?.ok();
        chosen.map(|(agent, _)| agent.name().to_owned())
    }

    /// The terminal attached to a session.
    fn terminal(&self, session_id: &str) -> Result<Option<Arc<AttachedTerminal>>, StoreError> {
        let conversation = self.inner.store.root(session_id)?;
        Ok(self.inner.attached().get(&conversation).cloned())
    }
}

impl Inner {
    fn attached(&self) -> MutexGuard<'_, HashMap<String, Arc<AttachedTerminal>>> {
        self.attached
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
