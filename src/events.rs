//! What happens in the daemon, told to whoever listens. Listeners that fall behind learn how much they missed; nothing
//! depends on an event alone, since the store has it all.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tokio::sync::{broadcast, mpsc, oneshot};

use crate::clock;
use crate::domain::Question;
use crate::domain::{Handoff, HandoffStage, HandoffState};
use crate::journal_ids;

/// Events that a listener may be behind before it loses some.
const BACKLOG: usize = 1024;

#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    HandoffRequested {
        id: i64,
        session_id: String,
        platform: String,
    },
    HandoffStage {
        id: i64,
        session_id: String,
        platform: String,
        stage: HandoffStage,
    },
    HandoffEnded {
        id: i64,
        session_id: String,
        platform: String,
        state: HandoffState,
        error: Option<String>,
    },
    /// A turn waits for the turn of another program. Published when the wait begins, and now and then while it lasts.
    TurnWaiting {
        session_id: String,
        /// The program that is waited for.
        holder: String,
        /// Seconds so far.
        waited: u64,
    },
    TurnStarted {
        session_id: String,
        /// Turns are numbered from the daemon's start.
        turn: u64,
    },
    /// A piece of the reply as it comes.
    TurnDelta {
        session_id: String,
        turn: u64,
        text: String,
    },
    TurnEnded {
        session_id: String,
        turn: u64,
        error: Option<String>,
    },
    /// The agent wants to know something of the person.
    TurnQuestion {
        session_id: String,
        turn: u64,
        /// Names it among all questions.
        id: String,
        question: Arc<Question>,
        /// The platform that shows it, or `terminal`.
        place: String,
        /// The file with all of a long one. It stays until the question is closed.
        whole: Option<PathBuf>,
    },
    /// A question is answered, or no longer open.
    TurnQuestionClosed {
        session_id: String,
        turn: u64,
        id: String,
        /// `answered`, `timed_out`, `not_shown` or `withdrawn`.
        outcome: &'static str,
        answer: Option<String>,
        /// Where it was answered: a platform, or `terminal`.
        place: Option<String>,
    },
    /// A conversation began: a new one, or one that was taken up again in a terminal.
    SessionStarted {
        session_id: String,
        platform: String,
        model: Option<String>,
        resumed: bool,
    },
    /// A conversation was brought elsewhere without a handoff.
    SessionMoved {
        session_id: String,
        /// A platform, or `terminal`.
        to: String,
    },
    SessionEnded {
        session_id: String,
        platform: String,
        model: Option<String>,
        /// An answer was cut off by it.
        interrupted: bool,
    },
    PlatformChanged {
        platform: String,
        state: &'static str,
        detail: Option<String>,
    },
    /// Something was said in a chat of the embedded platform.
    LocalMessage {
        id: i64,
        chat_id: String,
        thread_id: String,
        author: String,
        text: String,
        at: f64,
    },
}

impl Event {
    /// Hooks hear of it. These are rare; the pieces of a reply, of which there may be thousands a second, are not among them.
    fn is_for_hooks(&self) -> bool {
        matches!(
            self,
            Event::HandoffRequested { .. }
                | Event::HandoffEnded { .. }
                | Event::TurnEnded { .. }
                | Event::TurnQuestion { .. }
                | Event::SessionStarted { .. }
                | Event::SessionEnded { .. }
        )
    }
}

#[derive(Debug)]
pub struct PublishedEvent {
    /// Grows by one with every event of this daemon's life.
    pub seq: u64,
    pub at: f64,
    pub event: Event,
}

/// Waits for the ends of handoffs: by handoff, then by the wait's own number, so that any of thousands is removed at once.
#[derive(Default)]
struct Endings {
    waits: HashMap<i64, HashMap<u64, oneshot::Sender<()>>>,
    last: u64,
}

#[derive(Clone)]
pub struct Bus {
    sender: broadcast::Sender<Arc<PublishedEvent>>,
    /// The hooks' own queue. Nothing that streams can push an event out of it.
    hooks: Arc<OnceLock<mpsc::UnboundedSender<Arc<PublishedEvent>>>>,
    seq: Arc<AtomicU64>,
    /// Who waits for the end of which handoff: they need not hear all the rest.
    endings: Arc<Mutex<Endings>>,
    /// The newest handoffs whose request was told.
    requested: Arc<Mutex<BTreeSet<i64>>>,
}

impl Default for Bus {
    fn default() -> Self {
        Bus {
            sender: broadcast::channel(BACKLOG).0,
            hooks: Arc::default(),
            seq: Arc::default(),
            endings: Arc::default(),
            requested: Arc::default(),
        }
    }
}

impl Bus {
    pub fn publish(&self, event: Event) {
        if let Event::HandoffEnded { id, .. } = &event {
            self.release(*id);
        }
        let seq = self.seq.fetch_add(1, Ordering::Relaxed) + 1;
        let told = Arc::new(PublishedEvent {
            seq,
            at: clock::now(),
            event,
        });
        if told.event.is_for_hooks()
            && let Some(hooks) = self.hooks.get()
        {
            let _ = hooks.send(told.clone());
        }
        // No listener at all is the usual case.
        let _ = self.sender.send(told);
    }

    /// Tells once that a handoff was asked for. Whoever wrote the request tells it, and so does whoever finds it first, so
    /// that no listener hears of a handoff's fate before it hears of the handoff.
    pub fn publish_requested(&self, handoff: &Handoff) {
        let mut requested = self
            .requested
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if !requested.insert(handoff.id) {
            return;
        }
        if requested.len() > BACKLOG {
            requested.pop_first();
        }
        tracing::info!(
            message_id = journal_ids::HANDOFF_REQUESTED,
            handoff = handoff.id,
            session = handoff.session_id,
            platform = handoff.platform,
            via = handoff.via.as_str(),
            "handoff requested"
        );
        // Under the lock: the other one must not go on before this is told.
        self.publish(Event::HandoffRequested {
            id: handoff.id,
            session_id: handoff.session_id.clone(),
            platform: handoff.platform.clone(),
        });
    }

    /// Resolves when the end of this handoff is told. Ask before looking into the store, so that no end falls in between.
    pub fn ending(&self, id: i64) -> Ending {
        let (ended, told) = oneshot::channel();
        let mut endings = self.endings();
        endings.last += 1;
        let wait = endings.last;
        endings.waits.entry(id).or_default().insert(wait, ended);
        Ending {
            id,
            wait,
            told,
            bus: self.clone(),
        }
    }

    /// Handoffs whose end something waits for.
    pub fn awaited_endings(&self) -> Vec<i64> {
        self.endings().waits.keys().copied().collect()
    }

    /// Ends the waits for this handoff, which look into the store themselves.
    pub fn release(&self, id: i64) {
        let waits = self.endings().waits.remove(&id);
        for ended in waits.unwrap_or_default().into_values() {
            let _ = ended.send(());
        }
    }

    fn endings(&self) -> MutexGuard<'_, Endings> {
        self.endings
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn listen(&self) -> broadcast::Receiver<Arc<PublishedEvent>> {
        self.sender.subscribe()
    }

    /// Every event that hooks hear of, from now on. For one listener. The queue has no bound of its own: the listener takes
    /// an event at once, and bounds the programs that wait.
    pub(crate) fn listen_for_hooks(&self) -> mpsc::UnboundedReceiver<Arc<PublishedEvent>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.hooks.set(sender).is_err() {
            tracing::error!("hooks listen twice; the second hears nothing");
        }
        receiver
    }
}

/// The wait for a handoff's end. Dropped, it leaves nothing behind.
pub struct Ending {
    id: i64,
    wait: u64,
    told: oneshot::Receiver<()>,
    bus: Bus,
}

impl Ending {
    pub async fn told(&mut self) {
        // An error would mean that nobody can tell any more; the caller looks into the store either way.
        let _ = (&mut self.told).await;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut endings = self.bus.endings();
        if let Some(waits) = endings.waits.get_mut(&self.id) {
            waits.remove(&self.wait);
            if waits.is_empty() {
                endings.waits.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RequestedVia;

    fn handoff(id: i64) -> Handoff {
        Handoff {
            id,
            session_id: "s".into(),
            platform: "local".into(),
            note: None,
            via: RequestedVia::Socket,
            state: HandoffState::Pending,
            stage: None,
            error: None,
            requested_at: 0.0,
            ended_at: None,
            cancel_requested: false,
            after_turn: false,
            home: None,
            thread: None,
            session_key: None,
            reply: None,
            sent_ids: Vec::new(),
            stages: Vec::new(),
        }
    }

    #[tokio::test]
    async fn who_waits_for_an_end_leaves_nothing_behind() {
        let bus = Bus::default();
        let (mut first, second) = (bus.ending(1), bus.ending(1));
        drop(second);
        bus.publish(Event::HandoffEnded {
            id: 1,
            session_id: "s".into(),
            platform: "local".into(),
            state: HandoffState::Completed,
            error: None,
        });
        first.told().await;
        drop(bus.ending(2));
        drop(first);
        assert!(bus.endings().waits.is_empty());
    }

    #[test]
    fn a_request_is_told_once_whoever_tells_it() {
        let bus = Bus::default();
        let mut listener = bus.listen();
        for id in [1, 2, 1, 2, 3] {
            bus.publish_requested(&handoff(id));
        }
        let mut told = Vec::new();
        while let Ok(event) = listener.try_recv() {
            if let Event::HandoffRequested { id, .. } = event.event {
                told.push(id);
            }
        }
        assert_eq!(told, [1, 2, 3]);
    }
}
