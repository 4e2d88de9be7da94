//! Waits while another program has a turn of the conversation, and tells the chat about the wait and its end.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::inbound::Inner;
use crate::store::{HeldBy, Inbound, StoreError};
use crate::turn::{SessionLock, WaitOutcome, kept_busy};

/// The answer to a person who has stopped the wait.
const STOPPED: &str = "Stopped. Your message was not processed.";

impl Inner {
    /// Calls `begin` when no other program has a turn of the conversation. `None`: the message is dismissed, or the
    /// daemon stops and the next start processes it.
    pub(super) async fn when_free<T, F>(
        self: &Arc<Self>,
        inbound: &Inbound,
        lock: &SessionLock,
        cancel: &CancellationToken,
        begin: impl FnMut() -> F,
    ) -> Result<Option<T>, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let quit = async {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = self.draining.cancelled() => {}
            }
        };
        let mut notes = 0;
        let on_wait = |by: &HeldBy, waited: Duration| {
            self.note_wait(inbound, notes, by, waited);
            notes += 1;
        };
        let waited = self
            .turns
            .when_free(lock, &self.stop, quit, on_wait, begin)
            .await?;
        let why = match waited {
            WaitOutcome::Begun(begun) => return Ok(Some(begun)),
            WaitOutcome::StillHeld(by) => kept_busy(&by),
            WaitOutcome::Quit if self.draining.is_cancelled() => return Ok(None),
            WaitOutcome::Quit => STOPPED.to_owned(),
        };
        self.dismiss(inbound, why).await?;
        Ok(None)
    }

    /// Sends a note about the wait. Best effort: it is not retried.
    fn note_wait(&self, inbound: &Inbound, number: usize, by: &HeldBy, waited: Duration) {
        let Some(platform) = self.platforms.adapter(&inbound.source.platform) else {
            return;
        };
        let text = match waited.as_secs() / 60 {
            0 => format!(
                "Another program is at work in this conversation ({by}). I answer when it is done; /stop withdraws your message."
            ),
            minutes => format!("Still waiting for the other program ({minutes} min)."),
        };
        let source = inbound.source.clone();
        let key = format!("waiting:{}:{number}", inbound.id);
        self.tracker.spawn(async move {
            if let Err(error) = platform.send(&source, text.as_str().into(), &key).await {
                tracing::debug!(%error, "note about a wait not sent");
            }
        });
    }
}
