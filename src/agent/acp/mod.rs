//! Answers with any agent that speaks the Agent Client Protocol. The agent loads a session that it knows by its own id.
//! For any other session it gets the transcript once, as context, and from then on only messages that are new to it.

mod blocks;
mod connection;
mod diff;
mod tool;

use std::path::PathBuf;
use std::time::Duration;

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    RequestPermissionResponse, SelectedPermissionOutcome, StopReason, ToolCallUpdateFields,
};
use async_trait::async_trait;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::process::Program;
use super::supervised::Supervised;
use super::{Agent, AgentError, Prompt, Sink};
use crate::agent::PROBE;
use crate::domain::TranscriptWriter;
use crate::domain::transcript::Message;
use crate::domain::{Question, QuestionAnswer, Reply, Session};
use crate::store::Store;
use connection::{Connection, Known, Update};

/// The time that a cancelled turn has to end.
const REST: Duration = Duration::from_secs(4);
/// The source of sessions created over this protocol. An agent that shares our database writes their rows itself.
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

    /// Opens the session: from the agent's memory, by the id that an earlier process gave it, by our id, or anew.
    async fn open(
        &self,
        connection: &Connection,
        prompt: &Prompt<'_>,
    ) -> Result<Known, AgentError> {
        let (id, said) = (&prompt.session.id, prompt.transcript.messages.len());
        let own = prompt.session.source == OWN_SOURCE;
        let directory = directory(prompt.session);
        // Under our id, the agent writes into our transcript. That is wrong if we write the rows of this session. It is
        // also wrong if the agent needs messages of others as context: they would be stored as the person's text.
        let is_fit = |known: &Known| known.id != *id || own && known.messages >= said;
        // An agent cannot move a session that it has open. It loads or creates the session in the new directory.
        let is_there = |known: &Known| is_fit(known) && known.directory == directory;
        if let Some(known) = connection.opened(id).filter(is_there) {
            return Ok(known);
        }
        let command = self.program.words.join(" ");
        let earlier = self.store.acp_session(id, &command).map_err(unread)?;
        let earlier = earlier.map(|(id, messages)| Known {
            id,
            messages,
            directory: directory.clone(),
        });
        if let Some(known) = earlier.clone().filter(is_fit)
            && !connection.is_abandoned(&known.id)
            && connection.load(&known.id, &directory).await?
        {
            return Ok(known);
        }
        let is_new = earlier.is_none() && !connection.is_abandoned(id);
        if own && is_new && connection.load(id, &directory).await? {
            return Ok(Known {
                id: id.clone(),
                messages: said,
                directory,
            });
        }
        Ok(Known {
            id: connection.create(&directory).await?,
            messages: 0,
            directory,
        })
    }

    /// Records that the agent has seen the transcript before the turn and `stands` messages of the turn.
    async fn remember(
        &self,
        connection: &Connection,
        prompt: &Prompt<'_>,
        name: &str,
        stands: usize,
    ) {
        let id = &prompt.session.id;
        if id == PROBE {
            return;
        }
        let mut messages = prompt.transcript.messages.len() + stands;
        if name == id
            && let Ok(written) = self.store.transcript(id).await
        {
            // The agent wrote the rows itself, including those of its tools.
            messages = written.messages.len();
        }
        let known = Known {
            id: name.to_owned(),
            messages,
            directory: directory(prompt.session),
        };
        let command = self.program.words.join(" ");
        if let Err(error) = self
            .store
            .remember_acp_session(id, &command, &known.id, known.messages)
            .await
        {
            tracing::warn!(%error, session = id, "agent's session id not stored");
        }
        connection.remember(id, known);
    }
}

#[async_trait]
impl Agent for Acp {
    fn name(&self) -> &'static str {
        "acp"
    }

    fn missing(&self) -> Option<String> {
        self.program.missing()
    }

    fn works_in_directory(&self) -> bool {
        true
    }

    fn transcript_writer(&self, source: &str) -> TranscriptWriter {
        match source {
            OWN_SOURCE => TranscriptWriter::Agent,
            _ => TranscriptWriter::Daemon,
        }
    }

    fn needs_time_to_stop(&self) -> bool {
        true
    }

    async fn turn(
        &self,
        prompt: Prompt<'_>,
        sink: &dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Reply, AgentError> {
        let opened = async {
            let start = || Connection::start(&self.program);
            let connection = self.connection.get(start).await?;
            sink.alive();
            let known = self.open(&connection, &prompt).await?;
            let mut texts: Vec<String> = context(&prompt, known.messages).into_iter().collect();
            texts.push(prompt.message.to_owned());
            let blocks = blocks::blocks(texts, prompt.attachments, &connection.takes).await;
            Ok((connection, known, blocks))
        };
        let (connection, known, blocks) = tokio::select! {
            opened = opened => opened?,
            () = cancel.cancelled() => return Err(AgentError::Cancelled),
        };
        sink.alive();
        let mut listening = connection.listen(&known.id);
        let answer = connection.prompt(&known.id, blocks);
        tokio::pin!(answer);
        let mut turn = AcpTurn {
            connection: &connection,
            id: &known.id,
            sink,
            cancel,
            reply: String::new(),
            calls: tool::Calls::default(),
            rest: None,
            over: false,
        };
        let stop = loop {
            let rest = turn.rest;
            tokio::select! {
                biased;
                Some(update) = listening.updates.recv() => turn.receive(update).await,
                stop = &mut answer => break stop,
                () = cancel.cancelled(), if rest.is_none() => turn.stop(),
                () = until(rest) => return Err(AgentError::Cancelled),
            }
        };
        turn.over = true;
        // Updates that were queued when the prompt ended.
        while let Ok(update) = listening.updates.try_recv() {
            turn.receive(update).await;
        }
        let (stop, reply) = (stop?, turn.reply.trim_end().to_owned());
        let outcome = match stop {
            StopReason::Cancelled => Err(AgentError::Cancelled),
            StopReason::Refusal => Err(AgentError::Failed("the agent refused to continue".into())),
            _ => Ok(()),
        };
        let stands = match &outcome {
            Ok(()) if !reply.is_empty() => 2,
            // The rows of a failed handoff are retracted.
            _ if prompt.handoff => 0,
            Err(AgentError::Cancelled) if !reply.is_empty() => 2,
            _ => 1,
        };
        self.remember(&connection, &prompt, &known.id, stands).await;
        // Even a failed turn proves that the process works.
        self.connection.worked().await;
        outcome.map(|()| Reply::from(reply))
    }

    async fn close(&self) {
        self.connection.close().await;
    }
}

/// A prompt in progress. If it is dropped before its end, it is cancelled and its session abandoned.
struct AcpTurn<'a> {
    connection: &'a Connection,
    /// The agent's own id of the session.
    id: &'a str,
    sink: &'a dyn Sink,
    cancel: &'a CancellationToken,
    reply: String,
    calls: tool::Calls,
    /// The deadline for the end of a cancelled prompt.
    rest: Option<Instant>,
    over: bool,
}

impl AcpTurn<'_> {
    fn stop(&mut self) {
        if self.rest.is_none() {
            self.rest = Some(Instant::now() + REST);
            self.connection.cancel(self.id);
        }
    }

    async fn receive(&mut self, update: Update) {
        match update {
            Update::Words(words) => {
                self.reply.push_str(&words);
                self.sink.push(&words);
            }
            Update::Life => self.sink.alive(),
            Update::Tool(call) => match self.calls.receive(*call) {
                Some(report) => self.sink.tool(report),
                None => self.sink.alive(),
            },
            Update::Permission(request, responder) => {
                let call = self.calls.about(&request.tool_call);
                let outcome = tokio::select! {
                    biased;
                    () = self.cancel.cancelled() => {
                        self.stop();
                        RequestPermissionOutcome::Cancelled
                    }
                    outcome = permit(&request, call, self.sink) => outcome,
                };
                // An agent that no longer waits needs no answer.
                let _ = responder.respond(RequestPermissionResponse::new(outcome));
            }
        }
    }
}

impl Drop for AcpTurn<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.stop();
            self.connection.abandon(self.id);
        }
    }
}

/// The directory that a session works in: its own, else the user's home.
fn directory(session: &Session) -> PathBuf {
    let own = session.cwd.as_ref().map(PathBuf::from);
    own.or_else(std::env::home_dir)
        .unwrap_or_else(|| PathBuf::from("/"))
}

/// Waits forever if there is no time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Asks the person. No answer counts as a rejection.
async fn permit(
    request: &RequestPermissionRequest,
    call: ToolCallUpdateFields,
    sink: &dyn Sink,
) -> RequestPermissionOutcome {
    let question = Question {
        ask: "May I do this?".to_owned(),
        subject: tool::subject(&call),
        choices: request.options.iter().map(|o| o.name.clone()).collect(),
        open: false,
    };
    let chosen = match sink.ask(question).await {
        QuestionAnswer::Choice(at) => request.options.get(at),
        QuestionAnswer::Words(_) | QuestionAnswer::Nobody => None,
    };
    match chosen.or_else(|| no(&request.options)) {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            option.option_id.clone(),
        )),
        None => RequestPermissionOutcome::Cancelled,
    }
}

/// The option that rejects, preferably only this time.
fn no(options: &[PermissionOption]) -> Option<&PermissionOption> {
    let of = |kind: PermissionOptionKind| options.iter().find(|o| o.kind == kind);
    of(PermissionOptionKind::RejectOnce).or_else(|| of(PermissionOptionKind::RejectAlways))
}

/// The messages that the agent has not seen, as text in front of the new message.
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
