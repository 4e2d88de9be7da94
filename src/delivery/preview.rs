//! Shows a chat that a reply is being written, and the text so far.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::delivery::unfinished;
use crate::domain::Source;
use crate::platform::{OutboundMessage, Platform, PlatformError, Priority};
use crate::store::{Draft, Store, StoreError};
use crate::turn::Streamed;

/// Follows a reply that is still being written.
const GOES_ON: &str = " …";
/// The longest wait for a call that only updates the preview.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same when the whole reply is ready and waits for that call.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(5);

/// Shows until `done` that a reply is being written.
pub async fn show_typing(platform: &dyn Platform, to: &Source, done: &CancellationToken) {
    let Some(lasts) = platform.typing_interval() else {
        return;
    };
    loop {
        tokio::select! {
            outcome = platform.typing(to) => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, platform = platform.name(), "typing indicator not shown");
                }
            }
            () = done.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(lasts) => {}
            () = done.cancelled() => return,
        }
    }
}

/// Shows the reply to one message in its chat while it is written.
pub struct Preview<'a> {
    pub store: &'a Store,
    pub platform: &'a dyn Platform,
    pub to: &'a Source,
    /// The row of the message that is answered.
    pub inbound: i64,
    pub draft: Draft,
}

impl Preview<'_> {
    /// Shows the streamed text until `done`. Waits for a call in progress, because its outcome decides how the whole
    /// reply is sent.
    pub async fn show(&mut self, streamed: &Streamed, done: &CancellationToken) {
        let Some(every) = self.platform.edit_interval(self.to) else {
            return;
        };
        let mut shown = String::new();
        let mut next = Instant::now() + every;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = done.cancelled() => return,
            }
            next = Instant::now() + every;
            let Some(text) = self.beginning(&streamed.text()) else {
                continue;
            };
            if text == shown {
                continue;
            }
            let too_long = async {
                tokio::select! {
                    () = tokio::time::sleep(PATIENCE) => {}
                    () = done.cancelled() => tokio::time::sleep(PATIENCE_AT_THE_END).await,
                }
            };
            tokio::select! {
                outcome = self.show_text(&text) => match outcome {
                    Ok(()) => shown = text,
                    Err(NotShown::Later(after)) => next += after,
                    Err(NotShown::Never) => return,
                },
                () = too_long => return,
            }
        }
    }

    /// The first message of the text. `None`: it has no text yet.
    fn beginning(&self, text: &str) -> Option<String> {
        let text = match self.platform.capabilities().files {
            true => unfinished(text),
            false => text.to_owned(),
        };
        let pieces = self.platform.split(text.trim());
        let first = pieces.into_iter().next();
        let mut first = first.filter(|text| !text.trim().is_empty())?;
        first.push_str(GOES_ON);
        Some(first)
    }

    async fn show_text(&mut self, text: &str) -> Result<(), NotShown> {
        let platform = self.platform;
        match &self.draft {
            // A daemon died while it sent a preview. A second one would confuse the reader. The whole reply finds it.
            Draft::Sending(_) => Err(NotShown::Never),
            Draft::Shown(id) => match platform.edit(self.to, id, preview(text)).await {
                Ok(()) => Ok(()),
                Err(PlatformError::Transient { retry_after, .. }) => {
                    Err(NotShown::Later(retry_after.unwrap_or_default()))
                }
                Err(error) => {
                    tracing::debug!(%error, "preview is no longer updated");
                    Err(NotShown::Never)
                }
            },
            Draft::None => {
                self.store_draft(Draft::Sending(Some(clock::now()))).await?;
                let key = draft_key(self.inbound);
                let first = OutboundMessage {
                    answers: self.to.message_id.as_deref(),
                    ..preview(text)
                };
                let sent = platform.send(self.to, first, &key).await;
                match sent {
                    Ok(id) => self.store_draft(Draft::Shown(id)).await,
                    // It may have arrived. The whole reply says so.
                    Err(PlatformError::Transient { unsure: true, .. }) => Err(NotShown::Never),
                    Err(PlatformError::Transient { retry_after, .. }) => {
                        self.store_draft(Draft::None).await?;
                        Err(NotShown::Later(retry_after.unwrap_or_default()))
                    }
                    Err(error) => {
                        tracing::debug!(%error, "preview not shown");
                        self.store_draft(Draft::None).await?;
                        Err(NotShown::Never)
                    }
                }
            }
        }
    }

    async fn store_draft(&mut self, draft: Draft) -> Result<(), NotShown> {
        self.draft = draft;
        let stored = self.store.set_draft(self.inbound, &self.draft).await;
        stored.map_err(|error: StoreError| {
            tracing::warn!(%error, "state of the preview not stored");
            NotShown::Never
        })
    }
}

/// The send key of the preview of the answer to a message.
pub fn draft_key(inbound: i64) -> String {
    format!("draft:{inbound}")
}

/// A preview without room in the rate limit is dropped. A newer one follows.
fn preview(text: &str) -> OutboundMessage<'_> {
    OutboundMessage {
        priority: Priority::Preview,
        ..text.into()
    }
}

/// Why a preview could not be shown.
enum NotShown {
    /// Retry, after this time at the earliest.
    Later(Duration),
    Never,
}
