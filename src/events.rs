//! Publishes what happens in the daemon. A listener that falls behind learns how many events it missed. Nothing depends
//! on an event alone: the store has the truth.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tokio::sync::{broadcast, mpsc, oneshot};

use crate::clock;
use crate::domain::{Handoff, HandoffStage, HandoffState};
use crate::domain::{Question, ToolReport};
use crate::journal_ids;

/// How many events a listener may fall behind before it loses some.
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
        /// Why there is no thread, with the stage `threaded`.
        no_thread: Option<String>,
    },
    /// A handoff waits before it can go on to its next stage. Published when the wait begins.
    HandoffWaiting {
        id: i64,
        session_id: String,
        platform: String,
        reason: String,
    },
    HandoffEnded {
        id: i64,
        session_id: String,
        platform: String,
        state: HandoffState,
        error: Option<String>,
    },
    /// A turn waits for the turn of another program. Published when the wait begins, and at intervals while it lasts.
    TurnWaiting {
        session_id: String,
        /// The program that has the turn.
        holder: String,
        /// Seconds so far.
        waited: u64,
    },
    TurnStarted {
        session_id: String,
        /// The number of the turn since the daemon's start.
        turn: u64,
    },
    /// A piece of the reply.
    TurnDelta {
        session_id: String,
        turn: u64,
        text: String,
    },
    /// The agent begins to use a tool, or has used it.
    TurnTool {
        session_id: String,
        turn: u64,
        report: ToolReport,
    },
    TurnEnded {
        session_id: String,
        turn: u64,
        error: Option<String>,
    },
    /// The agent asks the person something.
    TurnQuestion {
        session_id: String,
        turn: u64,
        /// The id of the question.
        id: String,
        question: Arc<Question>,
        /// The platform that shows it, or `terminal`.
        place: String,
        /// The file with the whole text of a long question. It exists until the question is closed.
        whole: Option<PathBuf>,
    },
    /// A question was answered, or is no longer open.
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
    /// A conversation began, or was resumed in a terminal.
    SessionStarted {
        session_id: String,
        platform: String,
        model: Option<String>,
        resumed: bool,
    },
    /// A conversation moved without a handoff.
    /// Another session has taken the place of this one in its chat.
    SessionReplaced {
        session_id: String,
        platform: String,
        /// The other session.
        by: String,
    },
    SessionMoved {
        session_id: String,
        /// A platform, or `terminal`.
        to: String,
    },
    /// The chat of a session ended. The session is on no chat now.
    SessionReleased {
        session_id: String,
        platform: String,
        chat_id: Option<String>,
        /// `locked`, `deleted` or `removed`.
        reason: &'static str,
        /// A chat was told, or will be.
        told: bool,
    },
    SessionEnded {
        session_id: String,
        platform: String,
        model: Option<String>,
        /// The end cut off an answer.
        interrupted: bool,
    },
    PlatformChanged {
        platform: String,
        state: &'static str,
        detail: Option<String>,
    },
    /// A message in a chat of the embedded platform.
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
    /// Whether hooks get the event. These events are rare. Pieces of a reply are not among them: there may be thousands
    /// per second.
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
    /// Grows by one with every event since the daemon's start.
    pub seq: u64,
    pub at: f64,
    pub event: Event,
}

/// Waits for the ends of handoffs, by handoff and then by the number of the wait, so that removing one is fast.
#[derive(Default)]
struct Endings {
    waits: HashMap<i64, HashMap<u64, oneshot::Sender<()>>>,
    last: u64,
}

#[derive(Clone)]
pub struct Bus {
    sender: broadcast::Sender<Arc<PublishedEvent>>,
    /// The hooks' own queue. A streamed reply cannot displace an event from it.
    hooks: Arc<OnceLock<mpsc::UnboundedSender<Arc<PublishedEvent>>>>,
    seq: Arc<AtomicU64>,
    /// Waits for the ends of handoffs. They get no other event.
    endings: Arc<Mutex<Endings>>,
    /// The newest handoffs whose request was published.
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
        let published = Arc::new(PublishedEvent {
            seq,
            at: clock::now(),
            event,
        });
        if published.event.is_for_hooks()
            && let Some(hooks) = self.hooks.get()
        {
            let _ = hooks.send(published.clone());
        }
        // An error means that there is no listener, which is the usual case.
        let _ = self.sender.send(published);
    }

    /// Publishes the request of a handoff, once. Both the writer and the claimer of the request call this, so that
    /// `handoff.requested` always precedes `handoff.ended`.
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
        // Under the lock: the other caller must not continue before this is published.
        self.publish(Event::HandoffRequested {
            id: handoff.id,
            session_id: handoff.session_id.clone(),
            platform: handoff.platform.clone(),
        });
    }

    /// Waits for the end of this handoff. Call this before you read the store, so that you miss no end.
    pub fn ending(&self, id: i64) -> Ending {
        let (ended, published) = oneshot::channel();
        let mut endings = self.endings();
        endings.last += 1;
        let wait = endings.last;
        endings.waits.entry(id).or_default().insert(wait, ended);
        Ending {
            id,
            wait,
            published,
            bus: self.clone(),
        }
    }

    /// The handoffs with waits.
    pub fn awaited_endings(&self) -> Vec<i64> {
        self.endings().waits.keys().copied().collect()
    }

    /// Ends the waits for this handoff. The waiters read the store themselves.
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

    /// All events for hooks, from now on, for one listener. The queue has no limit of its own: the listener takes each
    /// event at once, and limits the programs that wait.
    pub(crate) fn listen_for_hooks(&self) -> mpsc::UnboundedReceiver<Arc<PublishedEvent>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if self.hooks.set(sender).is_err() {
            tracing::error!("hooks subscribed twice, second subscription gets no events");
        }
        receiver
    }
}

/// The wait for a handoff's end. Removes itself when it is dropped.
pub struct Ending {
    id: i64,
    wait: u64,
    published: oneshot::Receiver<()>,
    bus: Bus,
}

impl Ending {
    /// Resolves when the end is published.
    pub async fn ended(&mut self) {
        // An error means that the bus is gone. The caller reads the store either way.
        let _ = (&mut self.published).await;
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
        first.ended().await;
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
        let mut published = Vec::new();
        while let Ok(event) = listener.try_recv() {
            if let Event::HandoffRequested { id, .. } = event.event {
                published.push(id);
            }
        }
        assert_eq!(published, [1, 2, 3]);
    }
}
