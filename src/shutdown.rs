//! Signals the two steps of a stop to all parts of the daemon.

use tokio_util::sync::CancellationToken;

/// First the daemon drains: no new work begins, and work in progress continues. Then it cuts off the rest.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// No new work begins. Cancelled first.
    pub draining: CancellationToken,
    /// Work in progress ends now. The next start resumes it.
    pub cut: CancellationToken,
    /// Another program serves the home from now on. Unfinished handoffs fail instead of waiting for the next start.
    pub yielding: CancellationToken,
    /// The daemon no longer listens to platforms. Cancelled with either of the two above.
    pub stop_listening: CancellationToken,
}

impl Shutdown {
    /// Begins the stop.
    pub fn begin(&self) {
        self.draining.cancel();
    }

    /// Also ends the work in progress.
    pub fn cut_off(&self) {
        self.draining.cancel();
        self.stop_listening.cancel();
        self.cut.cancel();
    }

    /// Begins a stop that leaves the home to another program, which already listens to the platforms.
    pub fn yield_home(&self) {
        self.yielding.cancel();
        self.stop_listening.cancel();
        self.draining.cancel();
    }
}
