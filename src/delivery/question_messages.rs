//! An agent's question in a chat: shown, repeated as a reminder, and marked when it is closed.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::domain::Button;
use crate::domain::Source;
use crate::domain::question_text::{self, Whole};
use crate::metrics::Metrics;
use crate::platform::{
    CallEffort, CallFailure, OutboundMessage, Platform, RetryPolicy, with_retries,
};
use crate::turn::questions::{AskedQuestion, QuestionDisplay, Shown};

/// The buttons of questions bring this back, with the question's id and the choice.
pub const CHOICE: &str = "choice";

const STILL_OPEN: &str = "This question is still open.\n\n";

/// Shows an agent's question in a chat.
pub struct ChatQuestionDisplay {
    pub metrics: Arc<Metrics>,
    pub platform: Arc<dyn Platform>,
    /// The chat, with the person whose turn asks.
    pub to: Source,
    pub draining: CancellationToken,
}

#[async_trait]
impl QuestionDisplay for ChatQuestionDisplay {
    fn chat(&self) -> &Source {
        &self.to
    }

    async fn show(&self, asked: &AskedQuestion) {
        match self.put(asked, "").await {
            Ok(()) => {}
            // The stop ends the turn, and with it the question.
            Err(CallFailure::Stopping) => std::future::pending().await,
            Err(error) => {
                tracing::warn!(%error, platform = self.platform.name(), "a question of the agent's could not be shown");
                return;
            }
        }
        if let Some(reminder) = asked.reminder {
            tokio::time::sleep(reminder).await;
            if let Err(error) = self.put(asked, STILL_OPEN).await {
                tracing::warn!(%error, platform = self.platform.name(), "a reminder of a question could not be sent");
            }
        }
        std::future::pending().await
    }

    fn close(&self, shown: Vec<Shown>, note: String) {
        let (platform, to) = (self.platform.clone(), self.to.clone());
        // On its own: the turn goes on meanwhile.
        tokio::spawn(async move {
            for message in shown {
                let text = format!("{}\n\n{note}", message.text);
                let what = OutboundMessage::from(text.as_str());
                platform.ready_for(&to).await;
                if let Err(error) = platform.edit(&to, &message.message_id, what).await {
                    tracing::debug!(%error, "the message of a closed question was not changed");
                }
            }
        });
    }
}

impl ChatQuestionDisplay {
    /// Sends the question, with its buttons below the last piece, and the whole of a long one before it.
    async fn put(&self, asked: &AskedQuestion, lead: &str) -> Result<(), CallFailure> {
        asked.is_sending(true);
        let sent = self.send_all(asked, lead).await;
        asked.is_sending(false);
        sent
    }

    async fn send_all(&self, asked: &AskedQuestion, lead: &str) -> Result<(), CallFailure> {
        let capabilities = self.platform.capabilities();
        let path = asked.whole().map(|path| path.display().to_string());
        let whole = match (asked.whole(), &path) {
            (Some(file), Some(path)) => match capabilities.files {
                true => self.attach(file, asked, lead).await?,
                false => Whole::At(path),
            },
            _ => Whole::Nowhere,
        };
        let text = format!("{lead}{}", question_text::in_chat(&asked.question, whole));
        let choices = asked.question.choices.iter().enumerate();
        let buttons: Vec<Button> = choices
            .filter(|_| capabilities.buttons)
            .map(|(at, label)| Button {
                label: crate::visible_text::visible_line(label).into_owned(),
                data: format!("{CHOICE}:{}:{at}", asked.id),
            })
            .collect();
        let pieces = self.platform.split(&text);
        for (at, piece) in pieces.iter().enumerate() {
            let is_last = at + 1 == pieces.len();
            let what = OutboundMessage {
                text: piece,
                file: None,
                buttons: if is_last { &buttons } else { &[] },
            };
            let key = format!("question:{}:{}:{at}", asked.id, lead.len());
            let message_id = self.send(what, &key, RetryPolicy::Endless).await?;
            if is_last {
                asked.is_shown(Shown {
                    message_id,
                    text: piece.clone(),
                });
            }
        }
        Ok(())
    }

    async fn attach(
        &self,
        file: &Path,
        asked: &AskedQuestion,
        lead: &str,
    ) -> Result<Whole<'static>, CallFailure> {
        let what = OutboundMessage {
            file: Some(file),
            ..OutboundMessage::default()
        };
        let key = format!("question:{}:{}:whole", asked.id, lead.len());
        match self.send(what, &key, RetryPolicy::Few).await {
            Ok(_) => Ok(Whole::Attached),
            Err(CallFailure::Stopping) => Err(CallFailure::Stopping),
            Err(error) => {
                tracing::warn!(%error, "the whole of a question could not be sent as a file");
                Ok(Whole::Nowhere)
            }
        }
    }

    async fn send(
        &self,
        what: OutboundMessage<'_>,
        key: &str,
        tries: RetryPolicy,
    ) -> Result<String, CallFailure> {
        let ready = || self.platform.ready_for(&self.to);
        let send = |_| self.platform.send(&self.to, what, key);
        let (name, metrics, draining) = (self.platform.name(), &self.metrics, &self.draining);
        let effort = match what.file {
            Some(_) => CallEffort::file(tries),
            None => CallEffort::from(tries),
        };
        with_retries(name, effort, metrics, draining, ready, send).await
    }
}
