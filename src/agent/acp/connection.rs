//! Runs an agent process and speaks the Agent Client Protocol with it over standard input and output. Only `agent::acp`
//! names the protocol's crate.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CancelNotification, ContentBlock, InitializeRequest, LoadSessionRequest,
    NewSessionRequest, PromptCapabilities, PromptRequest, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SessionNotification, SessionUpdate,
    StopReason, ToolCallUpdate,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent as TheAgent, ByteStreams, Client};
use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

use crate::agent::AgentError;
use crate::agent::process::{Process, Program};
use crate::agent::supervised::Served;

/// The time limit for the start of the process, and for a request that opens a session.
const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(3);
/// The length of a session's queue of updates.
const UPDATES: usize = 4096;

/// An update of a session during a prompt.
pub(super) enum Update {
    Words(String),
    /// A tool call. A later request for permission may refer to it.
    Tool(Box<ToolCallUpdate>),
    /// Activity that is not part of the answer: thoughts, plans.
    Life,
    Permission(
        Box<RequestPermissionRequest>,
        Responder<RequestPermissionResponse>,
    ),
}

type Listeners = Arc<Mutex<HashMap<String, mpsc::Sender<Update>>>>;

pub(super) struct Connection {
    agent: ConnectionTo<TheAgent>,
    can_load: bool,
    /// The content that the agent accepts in a prompt besides text and links.
    pub(super) takes: PromptCapabilities,
    listeners: Listeners,
    ended: CancellationToken,
    reason: Arc<Mutex<Option<String>>>,
    /// Sessions that this process has in memory, by our session id.
    open: Mutex<HashMap<String, Known>>,
    /// Sessions, by the agent's id, whose turn did not stop when it was cancelled. It may still run.
    abandoned: Mutex<HashSet<String>>,
}

/// A session as the agent knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    /// The agent's own id of the session.
    pub(super) id: String,
    /// The number of messages of the transcript that the agent has seen.
    pub(super) messages: usize,
    /// The directory that it works in.
    pub(super) directory: PathBuf,
}

impl Connection {
    pub(super) async fn start(program: &Program) -> Result<Connection, AgentError> {
        let mut process = program.start()?;
        let (stdin, stdout) = process.pipes()?;
        let (listeners, ended) = (Listeners::default(), CancellationToken::new());
        // Ends the process if this future is dropped: no one else has a handle to it.
        let end_on_drop = ended.clone().drop_guard();
        let (up, ready) = oneshot::channel();
        let served = serve(
            ByteStreams::new(stdin.compat_write(), stdout.compat()),
            listeners.clone(),
            up,
        );
        let reason = Arc::new(Mutex::new(None));
        let (end, why) = (ended.clone(), reason.clone());
        tokio::spawn(async move {
            let outcome = tokio::select! {
                outcome = served => outcome,
                () = end.cancelled() => Ok(()),
            };
            *locked(&why) = Some(end_reason(process, outcome).await);
            end.cancel();
        });
        let connection = |(agent, able): (_, AgentCapabilities)| Connection {
            agent,
            can_load: able.load_session,
            takes: able.prompt_capabilities,
            listeners,
            ended: ended.clone(),
            reason: reason.clone(),
            open: Mutex::default(),
            abandoned: Mutex::default(),
        };
        tokio::select! {
            ready = ready => match ready {
                Ok(ready) => {
                    end_on_drop.disarm();
                    Ok(connection(ready))
                }
                Err(_) => {
                    ended.cancelled().await;
                    Err(ended_because(&reason))
                }
            },
            () = tokio::time::sleep(START) => {
                Err(AgentError::Failed(format!("the agent was not ready within {} s", START.as_secs())))
            }
        }
    }

    pub(super) fn opened(&self, session_id: &str) -> Option<Known> {
        locked(&self.open).get(session_id).cloned()
    }

    pub(super) fn remember(&self, session_id: &str, known: Known) {
        locked(&self.open).insert(session_id.to_owned(), known);
    }

    /// Excludes a session of the agent from further prompts, as long as this process lives.
    pub(super) fn abandon(&self, id: &str) {
        locked(&self.open).retain(|_, known| known.id != id);
        locked(&self.abandoned).insert(id.to_owned());
    }

    pub(super) fn is_abandoned(&self, id: &str) -> bool {
        locked(&self.abandoned).contains(id)
    }

    /// Subscribes to the updates of a session.
    pub(super) fn listen(&self, id: &str) -> Listening {
        let (sender, updates) = mpsc::channel(UPDATES);
        locked(&self.listeners).insert(id.to_owned(), sender);
        Listening {
            id: id.to_owned(),
            updates,
            listeners: self.listeners.clone(),
        }
    }

    /// Loads a session that the agent had before. Returns false if the agent does not have it. An agent that answers
    /// without an error but replays nothing does not have it either: it would refuse the next prompt.
    pub(super) async fn load(&self, id: &str, directory: &Path) -> Result<bool, AgentError> {
        if !self.can_load {
            return Ok(false);
        }
        let mut replayed = self.listen(id);
        let request = LoadSessionRequest::new(id.to_owned(), directory);
        let answer = self.within(self.agent.send_request(request).block_task());
        tokio::pin!(answer);
        let mut replayed_any = false;
        // The queue is drained meanwhile: a long conversation would fill it, and the answer would wait behind it.
        let answer = loop {
            tokio::select! {
                biased;
                Some(_) = replayed.updates.recv() => replayed_any = true,
                answer = &mut answer => break answer,
            }
        };
        let loaded = match answer {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::debug!(%error, session = id, "agent does not have this session");
                return Ok(false);
            }
        };
        replayed_any |= replayed.updates.try_recv().is_ok();
        Ok(replayed_any || loaded.modes.is_some() || loaded.config_options.is_some())
    }

    pub(super) async fn create(&self, directory: &Path) -> Result<String, AgentError> {
        let request = NewSessionRequest::new(directory);
        let created = self
            .within(self.agent.send_request(request).block_task())
            .await?;
        Ok(created.session_id.0.to_string())
    }

    /// Sends a prompt and returns how it ended. The reply goes to the [`Listening`] of the session.
    pub(super) async fn prompt(
        &self,
        id: &str,
        blocks: Vec<ContentBlock>,
    ) -> Result<StopReason, AgentError> {
        let request = PromptRequest::new(id.to_owned(), blocks);
        tokio::select! {
            answer = self.agent.send_request(request).block_task() => match answer {
                Ok(answer) => Ok(answer.stop_reason),
                Err(error) => Err(self.why(&error).await),
            },
            () = self.ended.cancelled() => Err(ended_because(&self.reason)),
        }
    }

    pub(super) fn cancel(&self, id: &str) {
        let _ = self
            .agent
            .send_notification(CancelNotification::new(id.to_owned()));
    }

    async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, agent_client_protocol::Error>>,
    ) -> Result<T, AgentError> {
        tokio::select! {
            answer = tokio::time::timeout(START, call) => match answer {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(error)) => Err(self.why(&error).await),
                Err(_) => Err(AgentError::Failed(format!("the agent did not answer within {} s", START.as_secs()))),
            },
            () = self.ended.cancelled() => Err(ended_because(&self.reason)),
        }
    }

    /// The reason of a failed request. If the connection has closed, that is why the process ended, which is known a
    /// moment later.
    async fn why(&self, error: &agent_client_protocol::Error) -> AgentError {
        if agent_client_protocol::is_incoming_transport_closed(error)
            || agent_client_protocol::is_connection_terminated(error)
        {
            self.ended.cancelled().await;
        }
        match locked(&self.reason).clone() {
            Some(reason) => AgentError::Failed(reason),
            None => explain(error),
        }
    }
}

#[async_trait]
impl Served for Connection {
    fn is_alive(&self) -> bool {
        !self.ended.is_cancelled()
    }

    async fn close(&self) {
        self.ended.cancel();
    }
}

/// The updates of one session. Unsubscribes when it is dropped.
pub(super) struct Listening {
    id: String,
    pub(super) updates: mpsc::Receiver<Update>,
    listeners: Listeners,
}

impl Drop for Listening {
    fn drop(&mut self) {
        locked(&self.listeners).remove(&self.id);
    }
}

/// Speaks the protocol until the agent closes the connection.
async fn serve<W, R>(
    streams: ByteStreams<W, R>,
    listeners: Listeners,
    up: oneshot::Sender<(ConnectionTo<TheAgent>, AgentCapabilities)>,
) -> Result<(), agent_client_protocol::Error>
where
    ByteStreams<W, R>: agent_client_protocol::ConnectTo<Client>,
{
    let (notified, asked) = (listeners.clone(), listeners);
    Client
        .v1()
        .name("hermesd")
        .on_receive_notification(
            async move |news: SessionNotification, _agent| {
                let update = match news.update {
                    SessionUpdate::AgentMessageChunk(chunk) => match chunk.content {
                        ContentBlock::Text(text) => Update::Words(text.text),
                        _ => Update::Life,
                    },
                    SessionUpdate::ToolCall(call) => Update::Tool(Box::new(call.into())),
                    SessionUpdate::ToolCallUpdate(call) => Update::Tool(Box::new(call)),
                    _ => Update::Life,
                };
                let listener = locked(&notified).get(&*news.session_id.0).cloned();
                if let Some(listener) = listener {
                    let _ = listener.send(update).await;
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _agent| {
                let listener = locked(&asked).get(&*request.session_id.0).cloned();
                let Some(listener) = listener else {
                    let cancelled = RequestPermissionOutcome::Cancelled;
                    return responder.respond(RequestPermissionResponse::new(cancelled));
                };
                let update = Update::Permission(Box::new(request), responder);
                if let Err(mpsc::error::SendError(Update::Permission(_, responder))) =
                    listener.send(update).await
                {
                    let cancelled = RequestPermissionOutcome::Cancelled;
                    return responder.respond(RequestPermissionResponse::new(cancelled));
                }
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(streams, async move |agent: ConnectionTo<TheAgent>| {
            let hello = InitializeRequest::new(ProtocolVersion::V1);
            let welcome = agent.send_request(hello).block_task().await?;
            let _ = up.send((agent.clone(), welcome.agent_capabilities));
            agent.incoming_closed().await;
            Ok(())
        })
        .await
}

/// Why the process ended.
async fn end_reason(
    mut process: Process,
    outcome: Result<(), agent_client_protocol::Error>,
) -> String {
    let ended = tokio::time::timeout(END, process.ended()).await;
    let reason = match (ended, outcome) {
        (Ok(Err(error)), _) => error,
        (Ok(Ok(())), Err(error)) => process.failure(&error.message),
        (Ok(Ok(())), Ok(())) => process.failure("it ended with status 0"),
        (Err(_), _) => process.failure("it closed its output but still runs"),
    };
    format!("the agent has ended: {reason}")
}

fn ended_because(reason: &Mutex<Option<String>>) -> AgentError {
    let reason = locked(reason).clone();
    AgentError::Failed(reason.unwrap_or_else(|| "the agent has ended".to_owned()))
}

fn explain(error: &agent_client_protocol::Error) -> AgentError {
    let detail = error.data.as_ref().map(|data| format!(" ({data})"));
    AgentError::Failed(format!("{}{}", error.message, detail.unwrap_or_default()))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
