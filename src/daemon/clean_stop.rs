//! Writes and removes Hermes' mark of a clean stop. A gateway that starts without the mark treats each chat that was
//! active in the last two minutes as interrupted, and runs its turn again.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// An empty file in the home. Hermes' gateway removes it when it starts.
const MARK: &str = ".clean_shutdown";
/// The time that a starting gateway has to remove the mark.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Removes the mark of an earlier stop. Call it when the daemon begins to serve.
pub(super) fn forget(home: &Path) {
    match std::fs::remove_file(home.join(MARK)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "cannot remove {MARK}: a Hermes gateway may take a crash for a clean stop");
        }
        _ => {}
    }
}

/// Writes the mark. Call it at the end, if no turn was cut off.
pub(super) fn mark(home: &Path) {
    if let Err(error) = std::fs::File::create(home.join(MARK)) {
        tracing::warn!(%error, "cannot write {MARK}: a Hermes gateway that starts soon may repeat a turn");
    }
}

/// Writes the mark for a gateway that is starting now, and removes it afterwards. A mark that stays would hide a later
/// crash of that gateway.
pub(super) async fn mark_for_starting_gateway(home: &Path) {
    mark(home);
    let begun = Instant::now();
    while home.join(MARK).exists() && begun.elapsed() < REMOVED_WITHIN {
        tokio::time::sleep(POLL_INTERVAL).await;
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
