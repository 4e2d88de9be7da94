//! Answers offline and deterministically, so that you can try hermesd without a model. The reply proves that the agent
//! got the whole transcript.

use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Agent, AgentError, Prompt, Sink};
use crate::domain::Attachment;
use crate::domain::Reply;
use crate::domain::transcript::{Message, Role, Transcript};

#[derive(Debug, Clone, Default)]
pub struct Echo {
    /// The pause after each word, to make streaming visible.
    pub pace: Option<Duration>,
}

#[async_trait]
impl Agent for Echo {
    fn name(&self) -> &'static str {
        "echo"
    }

    fn model(&self) -> Option<String> {
        Some("echo".to_owned())
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        _cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let reply = if prompt.handoff {
            welcome(&prompt)
        } else {
            answer(&prompt)
        };
        match self.pace {
            None => reply.split_inclusive('\n').for_each(|line| sink.push(line)),
            Some(pace) => {
                for word in reply.split_inclusive(char::is_whitespace) {
                    sink.push(word);
                    tokio::time::sleep(pace).await;
                }
            }
        }
        Ok(Reply::from(reply))
    }
}

fn welcome(prompt: &Prompt<'_>) -> String {
    let mut lines = vec![format!(
        "I am here with \"{}\": {}.",
        prompt.session.name(),
        summary(prompt.transcript)
    )];
    if let Some(last) = last_message(prompt.transcript, Role::User) {
        lines.push(format!("You last said: {last}"));
    }
    if let Some(last) = last_message(prompt.transcript, Role::Assistant) {
        lines.push(format!("I last said: {last}"));
    }
    lines.push("Go on whenever you like.".into());
    lines.join("\n")
}

fn answer(prompt: &Prompt<'_>) -> String {
    let sent: Vec<String> = prompt.attachments.iter().map(named).collect();
    let sent = match sent.join(", ") {
        none if none.is_empty() => none,
        sent => format!("\n(You sent {sent}.)"),
    };
    format!(
        "You said: {}{sent}\n(I remember {}.)",
        prompt.message,
        summary(prompt.transcript)
    )
}

fn named(attachment: &Attachment) -> String {
    let kind = attachment.kind.in_words();
    format!("{kind} {}", attachment.shown_name())
}

fn summary(transcript: &Transcript) -> String {
    let count = |role: Role| {
        transcript
            .messages
            .iter()
            .filter(|m| m.role == role)
            .count()
    };
    format!(
        "{} messages, {} of yours, {} of mine, {} tool results",
        transcript.messages.len(),
        count(Role::User),
        count(Role::Assistant),
        count(Role::Tool)
    )
}

fn last_message(transcript: &Transcript, role: Role) -> Option<String> {
    let said = transcript
        .messages
        .iter()
        .rev()
        .filter(|m| m.role == role)
        .map(Message::plain);
    let words = said
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .find(|text| !text.is_empty())?;
    let short: String = words.chars().take(120).collect();
    Some(if short.len() < words.len() {
        format!("{short}…")
    } else {
        short
    })
}
