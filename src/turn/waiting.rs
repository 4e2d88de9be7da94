//! Waiting for the turn of another program: it holds the lease of the conversation, and a turn of ours begins when it is free.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{SessionLock, Turns};
use crate::events::Event;
use crate::store::retry_while_busy;
use crate::store::{HeldBy, StoreError};

/// How often the lease is looked at. A write of another program is a reason to look at once.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// A person who waits hears of it at once, again after this time,
const FIRST_REMINDER: Duration = Duration::from_secs(60);
/// and then every so often.
const REMINDER: Duration = Duration::from_secs(300);

/// What became of a wait.
#[derive(Debug)]
pub enum WaitOutcome<T> {
    Begun(T),
    /// The other program kept the conversation for longer than we wait.
    StillHeld(HeldBy),
    /// Somebody ended the wait.
    Quit,
}

/// What a person reads whose words were not processed.
pub fn kept_busy(by: &HeldBy) -> String {
    format!(
        "Another program kept this conversation busy for too long ({by}). Your message was not processed. \
         Send it again when that program is done."
    )
}

impl Turns {
    /// Begins a turn with `begin` as soon as no other program holds the conversation. `tell` is called when a wait begins, and now
    /// and then while it lasts. A wait ends with `quit`, or after `agent.turn_lease_timeout`.
    pub async fn when_free<T, F>(
        &self,
        lock: &SessionLock,
        stop: &CancellationToken,
        quit: impl Future<Output = ()>,
        mut tell: impl FnMut(&HeldBy, Duration),
        mut begin: impl FnMut() -> F,
    ) -> Result<WaitOutcome<T>, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let since = Instant::now();
        let (mut quit, mut next_word) = (pin!(quit), Duration::ZERO);
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
                if waited >= next_word {
                    next_word = match next_word {
                        Duration::ZERO => FIRST_REMINDER,
                        _ => waited + REMINDER,
                    };
                    self.publish_waiting(lock, &by, waited);
                    tell(&by, waited);
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                    () = self.others_wrote.notified() => {}
                    () = &mut quit => return Ok(WaitOutcome::Quit),
                }
                match lock.shared().map(|shared| shared.held_by()).transpose() {
                    Ok(Some(Some(still))) => by = still,
                    Ok(_) => break,
                    Err(error) => tracing::debug!(%error, "the turn lease could not be read"),
                }
            }
        }
    }

    /// Another program has written: it may have ended its turn.
    pub fn others_wrote(&self) {
        self.others_wrote.notify_waiters();
    }

    fn publish_waiting(&self, lock: &SessionLock, by: &HeldBy, waited: Duration) {
        tracing::info!(conversation = lock.conversation(), %by, waited = waited.as_secs(), "waiting for the turn of another program");
        self.bus.publish(Event::TurnWaiting {
            session_id: lock.session_id().to_owned(),
            holder: by.to_string(),
            waited: waited.as_secs(),
        });
    }
}
