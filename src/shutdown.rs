//! The two steps of a stop, which all parts of the daemon share.

use tokio_util::sync::CancellationToken;

/// First the daemon drains: no new work begins, and work in progress goes on. Then it cuts off what is left.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// No new work begins. Cancelled first.
    pub draining: CancellationToken,
    /// Work in progress ends now, wherever it stands; the next start resumes it.
    pub cut: CancellationToken,
    /// Another program serves the home from now on: what cannot be finished is put back, not left for the next start.
    pub yielding: CancellationToken,
    /// Platforms are heard no more. Cancelled with either of the two above.
    pub deaf: CancellationToken,
}

impl Shutdown {
    /// Begins the stop.
    pub fn begin(&self) {
        self.draining.cancel();
    }

    /// Ends the work in progress, too.
    pub fn cut_off(&self) {
        self.draining.cancel();
        self.deaf.cancel();
        self.cut.cancel();
    }

    /// Begins a stop that leaves the home to another program. That program hears the platforms already.
    pub fn yield_home(&self) {
        self.yielding.cancel();
        self.deaf.cancel();
        self.draining.cancel();
    }
}
