//! The control socket: who may connect, the connection itself, and one handler a verb.

mod connection;
pub mod listener;
mod peer;
mod verbs;
pub mod views;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::events::Bus;
use crate::handoff::queue;
use crate::platform::Platforms;
use crate::router::Router;
use crate::store::Store;
use crate::terminal::Terminals;
use crate::turn::Turns;

pub use connection::serve;
pub use peer::Doorman;

/// What the handlers work with.
pub struct Desk {
    pub store: Store,
    pub platforms: Platforms,
    pub turns: Arc<Turns>,
    pub router: Router,
    pub terminals: Terminals,
    pub queue: queue::Handle,
    pub bus: Bus,
    pub home: String,
    pub local_home: String,
    pub started_at: f64,
    pub connections: AtomicUsize,
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub connections: usize,
    pub idle: Option<Duration>,
    pub write: Duration,
}
