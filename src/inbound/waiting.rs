//! A message whose conversation another program has a turn of: the chat hears of the wait, and of its end.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::inbound::Inner;
use crate::store::{HeldBy, Inbound, StoreError};
use crate::turn::{SessionLock, WaitOutcome, kept_busy};

/// What a person reads who has stopped a wait.
const STOPPED: &str = "Stopped. Your message was not processed.";

impl Inner {
    /// Begins with `begin` when no other program has a turn of the conversation. `None`: the message is dismissed, or the
    /// daemon stops and the next start sees to it.
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
        let mut told = 0;
        let tell = |by: &HeldBy, waited: Duration| {
            self.say_waiting(inbound, told, by, waited);
            told += 1;
        };
        let waited = self
            .turns
            .when_free(lock, &self.stop, quit, tell, begin)
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

    /// Only a courtesy: it is sent once, or not.
    fn say_waiting(&self, inbound: &Inbound, told: usize, by: &HeldBy, waited: Duration) {
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
        let key = format!("waiting:{}:{told}", inbound.id);
        self.tracker.spawn(async move {
            platform.ready_for(&source).await;
            if let Err(error) = platform.send(&source, text.as_str().into(), &key).await {
                tracing::debug!(%error, "a note about a wait was not sent");
            }
        });
    }
}
