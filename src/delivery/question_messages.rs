//! Shows an agent's question in a chat, repeats it as a reminder, and marks it when it is closed.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::domain::Button;
use crate::domain::question_text::{self, Whole};
use crate::domain::{ChatType, Source};
use crate::metrics::Metrics;
use crate::platform::{
    CallEffort, CallFailure, OutboundMessage, Platform, PlatformError, Priority, RetryPolicy,
    with_retries,
};
use crate::turn::questions::{AskedQuestion, QuestionDisplay, Shown};

/// Begins the data of a question's button. The question's id and the choice follow.
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
                tracing::warn!(%error, platform = self.platform.name(), "question not shown");
                return;
            }
        }
        if let Some(reminder) = asked.reminder {
            tokio::time::sleep(reminder).await;
            if let Err(error) = self.put(asked, STILL_OPEN).await {
                tracing::warn!(%error, platform = self.platform.name(), "reminder of a question not sent");
            }
        }
        std::future::pending().await
    }

    fn close(&self, shown: Vec<Shown>, note: String) {
        let (platform, to) = (self.platform.clone(), self.to.clone());
        // In a task of its own, so that the turn continues meanwhile.
        tokio::spawn(async move {
            for message in shown {
                show_end(platform.as_ref(), &to, &message, &note).await;
            }
        });
    }
}

impl ChatQuestionDisplay {
    /// Sends the question with its buttons below the last piece. The full text of a long question comes first, as a
    /// file.
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
            let key = format!("question:{}:{}:{at}", asked.id, lead.len());
            match is_last {
                true => self.send_last(piece, &buttons, &key, asked).await?,
                false => {
                    let what = OutboundMessage {
                        text: piece,
                        ..question()
                    };
                    self.send(what, &key, RetryPolicy::Endless).await?;
                }
            }
        }
        Ok(())
    }

    /// Sends the message with the buttons. Each attempt runs in a task of its own: if the agent abandons the question
    /// meanwhile, the message that arrives still shows the end.
    async fn send_last(
        &self,
        text: &str,
        buttons: &[Button],
        key: &str,
        asked: &AskedQuestion,
    ) -> Result<(), CallFailure> {
        let attempt = |_| {
            let (platform, to) = (self.platform.clone(), self.to.clone());
            let (buttons, key) = (buttons.to_vec(), key.to_owned());
            let (text, recorder) = (text.to_owned(), asked.recorder());
            let attempt = tokio::spawn(async move {
                // In a private chat, every message notifies its person.
                let is_group = to.chat_type != ChatType::Dm;
                let what = OutboundMessage {
                    text: &text,
                    buttons: &buttons,
                    notifies: to.user_id.as_deref().filter(|_| is_group),
                    ..question()
                };
                let message_id = platform.send(&to, what, &key).await?;
                let shown = Shown { message_id, text };
                if let Some(note) = recorder.record(shown.clone()) {
                    show_end(platform.as_ref(), &to, &shown, &note).await;
                }
                Ok(())
            });
            async move {
                let ended = attempt.await;
                ended.unwrap_or_else(|_| Err(PlatformError::transient("the attempt ended early")))
            }
        };
        let (name, metrics, draining) = (self.platform.name(), &self.metrics, &self.draining);
        with_retries(name, RetryPolicy::Endless, metrics, draining, attempt).await
    }

    async fn attach(
        &self,
        file: &Path,
        asked: &AskedQuestion,
        lead: &str,
    ) -> Result<Whole<'static>, CallFailure> {
        let what = OutboundMessage {
            file: Some(file),
            ..question()
        };
        let key = format!("question:{}:{}:whole", asked.id, lead.len());
        match self.send(what, &key, RetryPolicy::Few).await {
            Ok(_) => Ok(Whole::Attached),
            Err(CallFailure::Stopping) => Err(CallFailure::Stopping),
            Err(error) => {
                tracing::warn!(%error, "full text of a question not sent as a file");
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
        let send = |_| self.platform.send(&self.to, what, key);
        let (name, metrics, draining) = (self.platform.name(), &self.metrics, &self.draining);
        let effort = match what.file {
            Some(_) => CallEffort::file(tries),
            None => CallEffort::from(tries),
        };
        with_retries(name, effort, metrics, draining, send).await
    }
}

/// Shows the end of a question in its message, without buttons.
async fn show_end(platform: &dyn Platform, to: &Source, message: &Shown, note: &str) {
    let text = format!("{}\n\n{note}", message.text);
    let what = OutboundMessage {
        text: &text,
        ..question()
    };
    if let Err(error) = platform.edit(to, &message.message_id, what).await {
        tracing::debug!(%error, "message of a closed question not edited");
    }
}

fn question<'a>() -> OutboundMessage<'a> {
    OutboundMessage {
        priority: Priority::Question,
        ..OutboundMessage::default()
    }
}
