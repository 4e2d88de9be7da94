//! Serves the control socket: checks who may connect, and handles the requests of each connection.

mod connection;
mod endings;
mod handlers;
mod limits;
pub mod listener;
mod outbox;
mod peer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::events::Bus;
use crate::handoff::queue;
use crate::inbound::Chats;
use crate::metrics::{Metrics, Now};
use crate::platform::Platforms;
use crate::protocol::ReloadView;
use crate::reloadable::Reloadable;
use crate::store::Store;
use crate::terminal::Terminals;
use crate::turn::Turns;

pub use connection::serve;
pub use handlers::agent_views;
pub use limits::RequestBudget;
pub use peer::PeerPolicy;

/// The parts of the daemon that the handlers use.
pub struct ControlContext {
    pub store: Store,
    pub platforms: Platforms,
    pub turns: Arc<Turns>,
    pub chats: Chats,
    pub terminals: Terminals,
    pub queue: queue::Handle,
    pub bus: Bus,
    pub metrics: Arc<Metrics>,
    pub home: String,
    pub local_home: String,
    pub started_at: f64,
    pub reload: ReloadHandle,
    /// Cancelled when the daemon begins to stop. It begins no new work then.
    pub draining: CancellationToken,
    pub connections: AtomicUsize,
    pub limits: Limits,
    /// The requests of all connections.
    pub budget: RequestBudget,
}

impl ControlContext {
    /// The metrics as text, with the depths and states of this moment.
    pub fn metrics_text(&self) -> String {
        let platforms = self.platforms.all().into_iter();
        self.metrics.text(&Now {
            platforms: platforms.map(|p| (p.name, p.state.as_str())).collect(),
            // The store reports a database that cannot be read.
            handoffs_pending: self.store.pending_count().unwrap_or_default(),
            handoffs_running: self.queue.running(),
            turns_running: self.turns.locks.count(),
            messages_waiting: self.chats.waiting(),
            connections: self.connections.load(Ordering::Relaxed),
        })
    }
}

/// What a reload changed, or why the configuration is wrong.
pub type ReloadOutcome = Result<ReloadView, String>;

/// Asks the daemon to read its configuration, and knows which files it has read.
pub struct ReloadHandle {
    pub(crate) requests: mpsc::Sender<oneshot::Sender<ReloadOutcome>>,
    pub(crate) files: Arc<Reloadable<ConfigFiles>>,
}

/// Files with the times of their last changes when they were read.
pub(crate) type ConfigFiles = Vec<(PathBuf, Option<SystemTime>)>;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub connections: usize,
    pub idle: Option<Duration>,
    pub write: Duration,
}
