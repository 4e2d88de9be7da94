//! Any agent that speaks the Agent Client Protocol. It gets a session that it knows by its own name for it; another one gets
//! the transcript once, as context, and from then on only what is new to it.

mod connection;

use std::time::Duration;

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, StopReason,
};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::process::Program;
use super::supervised::Supervised;
use super::{Agent, AgentError, Answered, Prompt, Question, Reply, Sink};
use crate::session::transcript::Message;
use crate::store::{Scribe, Store};
use connection::{Connection, Known, Update};

/// How long a cancelled turn may take to come to rest.
const REST: Duration = Duration::from_secs(4);
/// The source of sessions that were made over this protocol. An agent that shares our database writes their rows itself.
const OWN_SOURCE: &str = "acp";

pub struct Acp {
    program: Program,
    connection: Supervised<Connection>,
    store: Store,
}

impl Acp {
    pub fn new(program: Program, idle: Duration, store: Store) -> Acp {
        Acp {
            program,
            connection: Supervised::new("acp", idle),
            store,
        }
    }

    /// The session as the agent knows it: in its memory, from an earlier life of it, by our own name, or not at all.
    async fn open(
        &self,
        connection: &Connection,
        prompt: &Prompt<'_>,
    ) -> Result<Known, AgentError> {
        let id = &prompt.session.id;
        if let Some(known) = connection.opened(id) {
            return Ok(known);
        }
        let command = self.program.words.join(" ");
        let earlier = self.store.acp_session(id, &command).map_err(unread)?;
        if let Some((name, messages)) = earlier
            && connection.load(&name).await?
        {
            return Ok(Known { id: name, messages });
        }
        if prompt.session.source == OWN_SOURCE && connection.load(id).await? {
            let messages = prompt.transcript.messages.len();
            return Ok(Known {
                id: id.clone(),
                messages,
            });
        }
        Ok(Known {
            id: connection.create().await?,
            messages: 0,
        })
    }

    /// The agent has seen everything up to its own answer.
    async fn remember(&self, connection: &Connection, prompt: &Prompt<'_>, name: String) {
        let messages = prompt.transcript.messages.len() + 2;
        let id = &prompt.session.id;
        let command = self.program.words.join(" ");
        if let Err(error) = self
            .store
            .remember_acp_session(id, &command, &name, messages)
            .await
        {
            tracing::warn!(%error, session = id, "the agent's name for a session was not kept");
        }
        connection.remember(id, Known { id: name, messages });
    }
}

#[async_trait]
impl Agent for Acp {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn scribe(&self, source: &str) -> Scribe {
        match source {
            OWN_SOURCE => Scribe::TheAgent,
            _ => Scribe::We,
        }
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &Sink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let connection = self
            .connection
            .get(|| Connection::start(&self.program))
            .await?;
        sink.alive();
        let known = self.open(&connection, &prompt).await?;
        sink.alive();
        let mut listening = connection.listen(&known.id);
        let mut texts: Vec<String> = context(&prompt, known.messages).into_iter().collect();
        texts.push(prompt.message.to_owned());
        let answer = connection.prompt(&known.id, texts);
        tokio::pin!(answer);
        let mut left = Left {
            connection: &connection,
            id: &known.id,
            armed: true,
        };
        let mut reply = String::new();
        let mut stopping = false;
        let stop = loop {
            tokio::select! {
                biased;
                Some(update) = listening.updates.recv() => hear(update, sink, &mut reply).await,
                stop = &mut answer => break stop?,
                () = cancel.cancelled(), if !stopping => {
                    stopping = true;
                    connection.cancel(&known.id);
                }
                () = tokio::time::sleep(REST), if stopping => break StopReason::Cancelled,
            }
        };
        left.armed = false;
        // What was on its way when the end came.
        while let Ok(update) = listening.updates.try_recv() {
            hear(update, sink, &mut reply).await;
        }
        self.remember(&connection, &prompt, known.id.clone()).await;
        match stop {
            StopReason::Cancelled => Err(AgentError::Cancelled),
            StopReason::Refusal => Err(AgentError::Failed("the agent refuses to go on".into())),
            _ => {
                self.connection.worked().await;
                Ok(Reply::from(reply.trim_end().to_owned()))
            }
        }
    }

    async fn close(&self) {
        self.connection.close().await;
    }
}

/// A turn that nobody waits for any more is cancelled.
struct Left<'a> {
    connection: &'a Connection,
    id: &'a str,
    armed: bool,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.connection.cancel(self.id);
        }
    }
}

async fn hear(update: Update, sink: &Sink<'_>, reply: &mut String) {
    match update {
        Update::Words(words) => {
            reply.push_str(&words);
            sink.push(&words);
        }
        Update::Life => sink.alive(),
        Update::Permission(request, responder) => {
            let outcome = permit(&request, sink).await;
            // An agent that waits no longer needs no answer.
            let _ = responder.respond(RequestPermissionResponse::new(outcome));
        }
    }
}

/// Asks the person. Without an answer it is no.
async fn permit(request: &RequestPermissionRequest, sink: &Sink<'_>) -> RequestPermissionOutcome {
    let what = request.tool_call.fields.title.as_deref();
    let question = Question {
        text: format!(
            "May I do this?\n{}",
            what.unwrap_or("something that it does not name")
        ),
        choices: request.options.iter().map(|o| o.name.clone()).collect(),
        open: false,
    };
    let chosen = match sink.ask(question).await {
        Answered::Choice(at) => request.options.get(at),
        Answered::Words(_) | Answered::Nobody => None,
    };
    match chosen.or_else(|| no(&request.options)) {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            option.option_id.clone(),
        )),
        None => RequestPermissionOutcome::Cancelled,
    }
}

/// The option that says no, and rather only this once.
fn no(options: &[PermissionOption]) -> Option<&PermissionOption> {
    let of = |kind: PermissionOptionKind| options.iter().find(|o| o.kind == kind);
    of(PermissionOptionKind::RejectOnce).or_else(|| of(PermissionOptionKind::RejectAlways))
}

/// What was said that the agent does not know of, to be read before the new words.
fn context(prompt: &Prompt<'_>, known: usize) -> Option<String> {
    let new = prompt.transcript.messages.get(known..)?;
    if new.is_empty() {
        return None;
    }
    let said: Vec<String> = new.iter().map(line).collect();
    let what = match known {
        0 => "This conversation was begun elsewhere. This is what was said so far:",
        _ => "Meanwhile this was said elsewhere in this conversation:",
    };
    Some(format!(
        "{what}\n\n{}\n\nWhat follows is said to you now.",
        said.join("\n\n")
    ))
}

fn line(message: &Message) -> String {
    let who = match &message.tool_name {
        Some(tool) => format!("{} ({tool})", message.role.as_str()),
        None => message.role.as_str().to_owned(),
    };
    let calls = message.tool_calls.iter().map(|call| {
        let function = &call["function"];
        format!(
            "[calls {} with {}]",
            function["name"].as_str().unwrap_or("a tool"),
            function["arguments"].as_str().unwrap_or_default()
        )
    });
    let words = Some(message.plain()).filter(|words| !words.is_empty());
    let words: Vec<String> = words.into_iter().chain(calls).collect();
    format!("{who}: {}", words.join("\n"))
}

fn unread(error: crate::store::StoreError) -> AgentError {
    AgentError::Failed(error.to_string())
}
