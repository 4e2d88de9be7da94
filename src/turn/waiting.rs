//! Waits while another program has a turn of the conversation. That program holds the conversation's lease.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{SessionLock, Turns};
use crate::events::Event;
use crate::store::retry_while_busy;
use crate::store::{HeldBy, StoreError};

/// How often the lease is checked. A write of another program causes a check at once.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A notice is sent when the wait begins, again after this time,
const FIRST_REMINDER: Duration = Duration::from_secs(60);
/// and then at this interval.
const REMINDER: Duration = Duration::from_secs(300);

/// The result of a wait.
#[derive(Debug)]
pub enum WaitOutcome<T> {
    Begun(T),
    /// The other program held the conversation for longer than `agent.turn_lease_timeout`.
    StillHeld(HeldBy),
    /// The caller's `quit` ended the wait.
    Quit,
}

/// The notice to a person whose message was not processed.
pub fn kept_busy(by: &HeldBy) -> String {
    format!(
        "Another program kept this conversation busy for too long ({by}). Your message was not processed. \
         Send it again when that program is done."
    )
}

impl Turns {
    /// Calls `begin` as soon as no other program holds the conversation. Calls `notify` when a wait begins, and again
    /// while it lasts. The wait ends with `quit`, or after `agent.turn_lease_timeout`.
    pub async fn when_free<T, F>(
        &self,
        lock: &SessionLock,
        stop: &CancellationToken,
        quit: impl Future<Output = ()>,
        mut notify: impl FnMut(&HeldBy, Duration),
        mut begin: impl FnMut() -> F,
    ) -> Result<WaitOutcome<T>, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let since = Instant::now();
        let (mut quit, mut next_notice) = (pin!(quit), Duration::ZERO);
        loop {
            let mut by = match retry_while_busy(stop, &mut begin).await {
                Err(StoreError::TurnHeld(by)) => by,
                begun => return begun.map(WaitOutcome::Begun),
            };
            loop {
                let waited = since.elapsed();
                if waited >= self.timeouts.get().lease {
                    return Ok(WaitOutcome::StillHeld(by));
                }
                if waited >= next_notice {
                    next_notice = match next_notice {
                        Duration::ZERO => FIRST_REMINDER,
                        _ => waited + REMINDER,
                    };
                    self.publish_waiting(lock, &by, waited);
                    notify(&by, waited);
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                    () = self.others_wrote.notified() => {}
                    () = &mut quit => return Ok(WaitOutcome::Quit),
                }
                match lock.shared().map(|shared| shared.held_by()).transpose() {
                    Ok(Some(Some(still))) => by = still,
                    Ok(_) => break,
                    Err(error) => tracing::debug!(%error, "cannot read the turn lease"),
                }
            }
        }
    }

    /// Checks the lease now: another program has written, and may have ended its turn.
    pub fn others_wrote(&self) {
        self.others_wrote.notify_waiters();
    }

    fn publish_waiting(&self, lock: &SessionLock, by: &HeldBy, waited: Duration) {
        tracing::info!(
            conversation = lock.conversation(), %by, waited = waited.as_secs(),
            "waiting for the turn of another program"
        );
        self.bus.publish(Event::TurnWaiting {
            session_id: lock.session_id().to_owned(),
            holder: by.to_string(),
            waited: waited.as_secs(),
        });
    }
}
