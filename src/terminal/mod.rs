//! Sessions that live in a terminal: a client takes a terminal at one, speaks, and leaves, politely or not. Whatever way it
//! leaves, what was said and streamed so far is kept, and the session is finalised once.

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
    /// Tells chats that their session has gone home.
    chat_queue: Arc<dyn ChatQueue>,
    bus: Bus,
    tracker: TaskTracker,
    /// The daemon stops: no turn begins any more.
    draining: CancellationToken,
    /// The daemon stops: turns in progress end now.
    stop: CancellationToken,
    /// By conversation, the first row of its session: a session has one terminal.
    attached: Mutex<HashMap<String, Arc<AttachedTerminal>>>,
    /// Given when what the last run left is finalised. Nobody sits down before: it might be where they want to sit.
    recovered: CancellationToken,
}

/// The place of one terminal at one session.
#[derive(Debug)]
pub struct AttachedTerminal {
    /// The first row of the session: its name whatever compression does to it.
    conversation: String,
    /// The row that goes on, as far as it is known.
    session_id: Mutex<String>,
    tty: Option<String>,
    /// Who was chosen to answer in a session that has no row yet, and so cannot be remembered with anybody.
    agent: Option<String>,
    /// Whether the session has a row: an untitled one gets it with its first words, so that a terminal in which nothing
    /// was said leaves nothing behind.
    born: tokio::sync::Mutex<bool>,
    turn: Mutex<Option<LiveTurn>>,
    /// Somebody gets up here.
    leaving: AtomicBool,
    /// The daemon's stop has ended a turn of it, which is over by the time that the terminal gets up.
    stopped: AtomicBool,
}

/// A turn in progress, for whoever wants to stop it or to know how far it came.
#[derive(Debug, Clone, Default)]
struct LiveTurn {
    streamed: Streamed,
    cancel: CancellationToken,
    /// Given when everything of it is kept.
    ended: CancellationToken,
}

impl AttachedTerminal {
    fn new(
        conversation: String,
        session_id: String,
        tty: Option<String>,
        agent: Option<String>,
        born: bool,
    ) -> Arc<AttachedTerminal> {
        Arc::new(AttachedTerminal {
            conversation,
            session_id: Mutex::new(session_id),
            tty,
            agent,
            born: tokio::sync::Mutex::new(born),
            turn: Mutex::default(),
            leaving: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        })
    }

    /// The session that the terminal is at. Compression may put another row of it in place of the one that was opened.
    pub fn session_id(&self) -> String {
        self.at().clone()
    }

    /// The session goes on in this row.
    fn go_on_in(&self, session_id: String) {
        *self.at() = session_id;
    }

    fn at(&self) -> MutexGuard<'_, String> {
        self.session_id
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The name of the conversation, by which questions are answered.
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Interrupts the answer that is coming. False: none is.
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

    /// Who answers at a terminal, or why nobody can.
    fn agent_at(&self, terminal: &AttachedTerminal) -> Result<Chosen, StoreError> {
        let (turns, source) = (&self.inner.turns, TERMINAL_SOURCES[0]);
        let Some(name) = &terminal.agent else {
            return turns.agent_of(&terminal.session_id(), source);
        };
        let agent = turns.agents().get(name).map_err(TurnError::Agent);
        Ok(agent.map(|agent| {
            let scribe = agent.scribe(source);
            (agent, scribe)
        }))
    }

    /// The terminal at a session.
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
