//! Hermes' mark of a clean stop. A gateway that starts without it takes every chat that was active in the last two minutes
//! for an interrupted one, and runs its turn again.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// An empty file in the home. Hermes' gateway removes it when it starts.
const MARK: &str = ".clean_shutdown";
/// How long a gateway that starts beside us has for that.
const READ_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// At a start: from now on only another clean stop counts.
pub(super) fn forget(home: &Path) {
    match std::fs::remove_file(home.join(MARK)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "{MARK} cannot be removed; a Hermes gateway may take a crash for a clean stop");
        }
        _ => {}
    }
}

/// At the end, when no turn was cut off.
pub(super) fn mark(home: &Path) {
    if let Err(error) = std::fs::File::create(home.join(MARK)) {
        tracing::warn!(%error, "{MARK} cannot be written; a Hermes gateway that starts soon may repeat a turn");
    }
}

/// The same for a gateway that is starting now. The mark must not stay: it would hide a later crash of that gateway.
pub(super) async fn mark_for_starting_gateway(home: &Path) {
    mark(home);
    let begun = Instant::now();
    while home.join(MARK).exists() && begun.elapsed() < READ_WITHIN {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    forget(home);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_mark_for_a_starting_gateway_never_stays() {
        let home = tempfile::tempdir().unwrap();
        mark_for_starting_gateway(home.path()).await;
        assert!(!home.path().join(MARK).exists());
    }
}
