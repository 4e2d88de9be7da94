//! The signals that a terminal sends.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::CliError;

pub(super) struct Signals {
    interrupt: Signal,
    hangup: Signal,
    terminate: Signal,
}

pub(super) enum Sent {
    Interrupt,
    End(Ended),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Ended {
    Hangup,
    Terminate,
}

impl Ended {
    /// The exit code that a shell reports for the signal.
    pub(super) fn code(self) -> u8 {
        match self {
            Ended::Hangup => 129,
            Ended::Terminate => 143,
        }
    }
}

impl Signals {
    pub(super) fn new() -> Result<Signals, CliError> {
        let open =
            |kind| signal(kind).map_err(|e| CliError::Other(format!("cannot handle signals: {e}")));
        Ok(Signals {
            interrupt: open(SignalKind::interrupt())?,
            hangup: open(SignalKind::hangup())?,
            terminate: open(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) -> Sent {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Sent::Interrupt,
            Some(()) = self.hangup.recv() => Sent::End(Ended::Hangup),
            Some(()) = self.terminate.recv() => Sent::End(Ended::Terminate),
            else => std::future::pending().await,
        }
    }
}
