//! The errors that end the daemon, with their exit codes. The service manager restarts the daemon only after code 1.

use tokio::task::JoinError;

use crate::control::listener;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("{0}")]
    Config(String),
    /// Another daemon or a Hermes gateway serves this home.
    #[error("{0}")]
    HomeTaken(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task that everything else depends on has panicked.
    #[error("an internal task ended unexpectedly: {0}")]
    Broken(String),
    #[error(transparent)]
    Listen(#[from] listener::ListenError),
    #[error("{what}: {source}")]
    Io {
        what: &'static str,
        source: std::io::Error,
    },
}

impl DaemonError {
    /// `hermesd --help` documents the codes. A restart can help only after 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            DaemonError::Config(_)
            | DaemonError::Listen(
                listener::ListenError::InHome { .. } | listener::ListenError::OutOfReach { .. },
            ) => 78,
            DaemonError::HomeTaken(_) | DaemonError::Listen(listener::ListenError::Taken(..)) => 69,
            DaemonError::Store(StoreError::Replaced(_) | StoreError::Closed) => 1,
            DaemonError::Store(error) if error.is_transient() => 1,
            DaemonError::Store(_) => 65,
            DaemonError::Broken(_) | DaemonError::Listen(_) | DaemonError::Io { .. } => 1,
        }
    }
}

/// Converts the end of the handoff queue's task into the end of the daemon.
pub(super) fn queue_end(
    ended: Result<Result<(), StoreError>, JoinError>,
) -> Result<(), DaemonError> {
    match ended {
        Ok(outcome) => Ok(outcome?),
        Err(error) => Err(DaemonError::Broken(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn the_exit_code_tells_whether_a_restart_can_help() {
        let panicked = tokio::spawn(async { panic!("on purpose") }).await;
        let error = queue_end(panicked).unwrap_err();
        assert_eq!(error.exit_code(), 1, "{error}");
        let ended = tokio::spawn(std::future::ready(Err(StoreError::Full))).await;
        assert_eq!(queue_end(ended).unwrap_err().exit_code(), 1);
        let busy = DaemonError::Store(StoreError::Busy(Duration::from_secs(5)));
        assert_eq!(busy.exit_code(), 1);
        let missing = DaemonError::Store(StoreError::Missing { path: "x".into() });
        assert_eq!(missing.exit_code(), 65);
    }
}
