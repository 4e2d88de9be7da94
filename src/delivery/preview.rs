//! What a chat sees of an answer before it is there: that somebody writes, and what was written so far.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::delivery::unfinished;
use crate::domain::Source;
use crate::platform::{Platform, PlatformError};
use crate::store::{Draft, Store, StoreError};
use crate::turn::Streamed;

/// What stands behind an answer that is still being written.
const GOES_ON: &str = " …";
/// A call that only makes a chat livelier is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same when the whole answer is there, and waits for it.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(5);

/// Shows that an answer is being written until `done`.
pub async fn show_typing(platform: &dyn Platform, to: &Source, done: &CancellationToken) {
    let Some(lasts) = platform.typing_interval() else {
        return;
    };
    loop {
        tokio::select! {
            outcome = platform.typing(to) => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, platform = platform.name(), "a sign of writing was not shown");
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

/// The answer to one message, shown in its chat while it is written.
pub struct Preview<'a> {
    pub store: &'a Store,
    pub platform: &'a dyn Platform,
    pub to: &'a Source,
    /// The message that is answered.
    pub inbound: i64,
    pub draft: Draft,
}

impl Preview<'_> {
    /// Shows what is streamed until `done`. A call to the platform that has begun is waited for: whether it arrived decides
    /// how the whole answer is sent.
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
            tokio::select! {
                () = self.platform.ready_for(self.to) => {}
                () = done.cancelled() => return,
            }
            let too_long = async {
                tokio::select! {
                    () = tokio::time::sleep(PATIENCE) => {}
                    () = done.cancelled() => tokio::time::sleep(PATIENCE_AT_THE_END).await,
                }
            };
            tokio::select! {
                put = self.put(&text) => match put {
                    Ok(()) => shown = text,
                    Err(Trouble::Later(after)) => next += after,
                    Err(Trouble::Never) => return,
                },
                () = too_long => return,
            }
        }
    }

    /// As much of it as one message takes.
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

    async fn put(&mut self, text: &str) -> Result<(), Trouble> {
        let platform = self.platform;
        match &self.draft {
            // A daemon died while it sent one: another would only add to the confusion.
            Draft::Sending => Err(Trouble::Never),
            Draft::Shown(id) => match platform.edit(self.to, id, text.into()).await {
                Ok(()) => Ok(()),
                Err(PlatformError::Transient { retry_after, .. }) => {
                    Err(Trouble::Later(retry_after.unwrap_or_default()))
                }
                Err(error) => {
                    tracing::debug!(%error, "an answer is no longer shown while it is written");
                    Err(Trouble::Never)
                }
            },
            Draft::None => {
                self.keep(Draft::Sending).await?;
                let key = format!("draft:{}", self.inbound);
                let sent = platform.send(self.to, text.into(), &key).await;
                match sent {
                    Ok(id) => self.keep(Draft::Shown(id)).await,
                    // Whether it is there is not known, which the whole answer will say.
                    Err(PlatformError::Transient { unsure: true, .. }) => Err(Trouble::Never),
                    Err(PlatformError::Transient { retry_after, .. }) => {
                        self.keep(Draft::None).await?;
                        Err(Trouble::Later(retry_after.unwrap_or_default()))
                    }
                    Err(error) => {
                        tracing::debug!(%error, "an answer is not shown while it is written");
                        self.keep(Draft::None).await?;
                        Err(Trouble::Never)
                    }
                }
            }
        }
    }

    async fn keep(&mut self, draft: Draft) -> Result<(), Trouble> {
        self.draft = draft;
        let kept = self.store.set_draft(self.inbound, &self.draft).await;
        kept.map_err(|error: StoreError| {
            tracing::warn!(%error, "what a chat is shown of an answer could not be kept");
            Trouble::Never
        })
    }
}

/// Why something could not be shown.
enum Trouble {
    /// It can be tried again, at the earliest after this.
    Later(Duration),
    Never,
}
