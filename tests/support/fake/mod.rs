//! The frame that all fake servers share. It starts a server on a loopback port, records each call, wakes tests and clients
//! that wait, and disturbs calls as a test scripts it.
//!
//! A fake adds what its vendor defines:
//! - a world type that implements [`Vendor`], with all that the vendor would store;
//! - a router whose handlers pass each request to [`FakeState::serve`];
//! - `impl FakeServer<World>` with a `start()` and with what the people in that world do.
//!
//! A connection that is more than one request and one answer, such as a WebSocket, gets a route and a handler of its own. Such
//! a handler records with [`FakeState::record`] and waits for events with [`FakeState::wait_for`].

mod answer;
mod body;
mod calls;
mod faults;
mod hold;
mod serve;
mod signal;
mod timeline;
mod tls;

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub use answer::{Answer, Done, Refusal};
pub use body::{BodyError, RequestBody, Upload, decode_path};
pub use calls::{OpenCall, Outcome, RecordedCall};
pub use faults::ScriptedFault;
pub use hold::Side;
pub use serve::disconnect;
pub use timeline::Place;
pub use tls::TlsFront;

use calls::CallLog;
use faults::FaultScript;
use signal::ChangeSignal;

/// What the frame has to know about a vendor.
pub trait Vendor: Send + 'static {
    /// Methods that wait for events. A client always has such a call open, so a fault for any call passes them over.
    const POLLS: &'static [&'static str];

    /// A refusal in the vendor's format.
    fn refusal(status: u16, description: &str, retry_after: Option<Duration>) -> Refusal;

    /// Where a call goes.
    fn place(call: &RecordedCall) -> Place;
}

/// What the thread of a server shares with the test.
pub struct FakeState<W> {
    world: Mutex<W>,
    calls: CallLog,
    faults: FaultScript,
    changes: Arc<ChangeSignal>,
}

impl<W> FakeState<W> {
    pub fn new(world: W) -> FakeState<W> {
        let changes = Arc::new(ChangeSignal::default());
        FakeState {
            world: Mutex::new(world),
            calls: CallLog::new(changes.clone()),
            faults: FaultScript::default(),
            changes,
        }
    }

    pub fn world(&self) -> MutexGuard<'_, W> {
        self.world.lock().unwrap()
    }

    /// Starts the record of a call.
    pub fn record(&self, method: &str, params: serde_json::Value) -> OpenCall<'_> {
        self.calls.begin(method, params)
    }

    /// Makes clients that wait for events look again.
    pub fn wake_clients(&self) {
        self.changes.wake_clients();
    }

    /// Waits on behalf of a client until `look` finds something in the world. Gives `None` at the deadline.
    pub async fn wait_for<T>(
        &self,
        deadline: Instant,
        mut look: impl FnMut(&mut W) -> Option<T>,
    ) -> Option<T> {
        let mut events = self.changes.subscribe();
        loop {
            if let Some(found) = look(&mut self.world()) {
                return Some(found);
            }
            // A test may wait for a client that waits.
            self.changes.wake_tests();
            let changed = tokio::time::timeout_at(deadline, events.changed()).await;
            changed.ok()?.ok()?;
        }
    }
}

/// A server with a thread of its own, so that it serves the built daemon. It ends when dropped, with all its connections.
pub struct FakeServer<W> {
    address: String,
    state: Arc<FakeState<W>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl<W: Send + 'static> FakeServer<W> {
    /// Starts a server with the router that `routes` makes.
    pub fn with_routes(
        world: W,
        routes: impl FnOnce(Arc<FakeState<W>>) -> Router,
    ) -> FakeServer<W> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(FakeState::new(world));
        let router = routes(state.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    _ = axum::serve(listener, router) => {}
                    _ = stopped => {}
                }
            });
        });
        FakeServer {
            address,
            state,
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl<W> FakeServer<W> {
    /// Where it listens, with `http://` and without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the routes of this server work with. A test can call a route without a connection.
    pub fn state(&self) -> &Arc<FakeState<W>> {
        &self.state
    }

    pub fn world(&self) -> MutexGuard<'_, W> {
        self.state.world()
    }

    /// Changes the world, and wakes clients and tests that wait for such a change.
    pub fn change<T>(&self, change: impl FnOnce(&mut W) -> T) -> T {
        let changed = change(&mut self.world());
        self.state.changes.wake_clients();
        self.state.changes.wake_tests();
        changed
    }

    /// Waits until `look` finds something. It looks at once, and again when a call arrives or ends and when the world changes.
    pub fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        self.state.changes.until(what, look)
    }
}

impl<W> Drop for FakeServer<W> {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
