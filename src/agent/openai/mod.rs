//! Answers with any OpenAI-compatible chat-completions endpoint, streaming.

mod endpoint;
mod parts;
mod request;
mod stream;

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, Prompt, Sink};
use crate::config::OpenAiConfig;
use crate::domain::Reply;
use endpoint::Endpoint;
use request::Request;

/// The limit of remembered sessions in `OpenAi::informed`.
const REMEMBERED: usize = 10_000;

pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
    context: usize,
    /// Sessions whose last reply came with the note that history is left out.
    informed: Mutex<HashSet<String>>,
}

impl OpenAi {
    /// The error says what is wrong with the configuration.
    pub fn new(config: OpenAiConfig) -> Result<OpenAi, String> {
        Ok(OpenAi {
            endpoint: Endpoint::new(&config.base_url, config.api_key)?,
            model: config.model,
            context: config.context,
            informed: Mutex::default(),
        })
    }

    /// Logs how much history is left out. Returns a note for the person when that begins.
    fn note(&self, session: &str, request: &Request) -> Option<String> {
        let (history, cut, context) = (request.history, request.cut, self.context);
        if cut == 0 {
            self.informed().remove(session);
            return None;
        }
        let text = "oldest messages left out: history exceeds agents.openai.context";
        if self.informed().contains(session) {
            tracing::info!(session, messages = cut, history, context, "{text}");
            return None;
        }
        tracing::warn!(session, messages = cut, history, context, "{text}");
        let seen = history - cut;
        Some(format!(
            "The model saw the last {seen} of {history} messages of this conversation. More does not fit into its context \
             of {context} tokens."
        ))
    }

    fn informed(&self) -> MutexGuard<'_, HashSet<String>> {
        self.informed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Records that the reply carries the note.
    fn remember(&self, session: &str) {
        let mut informed = self.informed();
        if informed.len() >= REMEMBERED {
            informed.clear();
        }
        informed.insert(session.to_owned());
    }
}

#[async_trait]
impl Agent for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn model(&self) -> Option<String> {
        Some(self.model.clone())
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let answer = async {
            let along = parts::parts(prompt.attachments).await;
            let request = Request::new(&prompt, along, &self.model, self.context);
            let note = self.note(&prompt.session.id, &request);
            let stream = self.endpoint.ask(request).await?;
            let reply = stream::read(stream, sink).await;
            let reply = reply.map_err(|error| match error {
                AgentError::Failed(reason) => AgentError::Failed(self.endpoint.redact(&reason)),
                AgentError::Cancelled => AgentError::Cancelled,
            })?;
            if note.is_some() {
                self.remember(&prompt.session.id);
            }
            Ok(Reply { note, ..reply })
        };
        tokio::select! {
            reply = answer => reply.map(|reply| Reply {
                model: reply.model.clone().or_else(|| Some(self.model.clone())),
                ..reply
            }),
            () = cancel.cancelled() => Err(AgentError::Cancelled),
        }
    }
}
