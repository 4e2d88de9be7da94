//! The two steps of a stop, which all parts of the daemon share.

use tokio_util::sync::CancellationToken;

/// First the daemon drains: no new work begins, and work in progress goes on. Then it cuts off what is left.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// No new work begins. Cancelled first.
    pub draining: CancellationToken,
    /// Work in progress ends now, wherever it stands; the next start resumes it.
    pub cut: CancellationToken,
}

impl Shutdown {
    /// Begins the stop.
    pub fn begin(&self) {
        self.draining.cancel();
    }

    /// Ends the work in progress, too.
    pub fn cut_off(&self) {
        self.draining.cancel();
        self.cut.cancel();
    }
}
