//! What a chat sees of an answer before it is there: that somebody writes, what was written so far, and what the agent has
//! to ask.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Shows, Streamed, in_words};
use crate::agent::Question;
use crate::clock;
use crate::metrics::Metrics;
use crate::platform::{Button, Outgoing, Platform, PlatformError, Tries, with_retries};
use crate::session::Source;
use crate::store::{Draft, Store, StoreError};

/// The buttons of questions bring this back, with the question's id and the choice.
pub const CHOICE: &str = "choice";
/// What stands behind an answer that is still being written.
const GOES_ON: &str = " …";
/// A call that only makes a chat livelier is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same when the whole answer is there, and waits for it.
const PATIENCE_AT_THE_END: Duration = Duration::from_secs(5);

/// Shows an agent's question in a chat.
pub struct InChat {
    pub metrics: Arc<Metrics>,
    pub platform: Arc<dyn Platform>,
    pub to: Source,
    pub draining: CancellationToken,
}

#[async_trait]
impl Shows for InChat {
    async fn show(&self, question: &Question, id: u64) {
        let buttons: Vec<Button> = match self.platform.capabilities().buttons {
            true => question.choices.iter().enumerate(),
            false => [].iter().enumerate(),
        }
        .map(|(at, label)| Button {
            label: label.clone(),
            data: format!("{CHOICE}:{id:x}:{at}"),
        })
        .collect();
        let text = in_words(question);
        let what = Outgoing {
            text: &text,
            file: None,
            buttons: &buttons,
        };
        // A question that is repeated after a crash is another one: whoever asked it is gone.
        let key = format!("question:{}", clock::now());
        let name = self.platform.name();
        let ready = || self.platform.ready_for(&self.to);
        let send = |_| self.platform.send(&self.to, what, &key);
        let (metrics, draining) = (&self.metrics, &self.draining);
        let sent = with_retries(name, Tries::Few, metrics, draining, ready, send);
        if let Err(error) = sent.await {
            tracing::warn!(%error, platform = name, "a question of the agent's could not be shown");
        }
    }
}

/// Shows that somebody writes until `done`.
pub async fn show_typing(platform: &dyn Platform, to: &Source, done: &CancellationToken) {
    let Some(lasts) = platform.typing_lasts() else {
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
pub struct Live<'a> {
    pub store: &'a Store,
    pub platform: &'a dyn Platform,
    pub to: &'a Source,
    /// The message that is answered.
    pub inbound: i64,
    pub draft: Draft,
}

impl Live<'_> {
    /// Shows what is streamed until `done`. A call to the platform that has begun is waited for: whether it arrived decides
    /// how the whole answer is sent.
    pub async fn show(&mut self, streamed: &Streamed, done: &CancellationToken) {
        let Some(every) = self.platform.edits_every(self.to) else {
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
        let pieces = self.platform.pieces(text.trim());
        let mut first = pieces.into_iter().next()?;
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
