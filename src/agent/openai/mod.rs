//! Any OpenAI-compatible chat-completions endpoint, streaming.

mod endpoint;
mod parts;
mod request;
mod stream;

use async_trait::async_trait;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, Prompt, Reply, Sink};
use endpoint::Endpoint;

/// What is configured of it.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// `https://host/v1`; the rest of the address is ours.
    pub base_url: String,
    pub api_key: Option<SecretString>,
    pub model: String,
    /// Tokens that the model takes, history and reply together.
    pub context: usize,
}

pub struct OpenAi {
    endpoint: Endpoint,
    model: String,
    context: usize,
}

impl OpenAi {
    /// An error says what is wrong with the configuration.
    pub fn new(config: OpenAiConfig) -> Result<OpenAi, String> {
        Ok(OpenAi {
            endpoint: Endpoint::new(&config.base_url, config.api_key)?,
            model: config.model,
            context: config.context,
        })
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
        sink: &Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let answer = async {
            let along = parts::parts(prompt.attachments).await;
            let request = request::Request::new(&prompt, along, &self.model, self.context);
            if request.cut > 0 {
                tracing::info!(
                    session = prompt.session.id,
                    messages = request.cut,
                    "the beginning of the history was left out: it exceeds agents.openai.context"
                );
            }
            let stream = self.endpoint.ask(request).await?;
            let reply = stream::read(stream, sink).await;
            reply.map_err(|error| match error {
                AgentError::Failed(reason) => AgentError::Failed(self.endpoint.veil(&reason)),
                AgentError::Cancelled => AgentError::Cancelled,
            })
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
