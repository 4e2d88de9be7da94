//! Runs Hermes' own backend as a process and speaks newline-delimited JSON-RPC with it over standard input and output.
//! Answers carry the number of their request. Everything that happens in a session arrives as an event.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::sessions::{MOST_OPEN, Open, Sessions};
use crate::agent::AgentError;
use crate::agent::process::{Process, Program};
use crate::agent::supervised::Served;

/// The time limits for the start, the answer to a request, and an orderly end.
const START: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(3);
/// The length of a session's queue of events.
const EVENTS: usize = 4096;

pub(super) struct HermesProcess {
    stdin: tokio::sync::Mutex<ChildStdin>,
    next: AtomicU64,
    shared: Arc<Shared>,
    /// Open sessions, by conversation.
    pub(super) sessions: Sessions,
    /// Whether the task that closes idle sessions runs.
    closes_idle: AtomicBool,
    /// Held while surplus sessions are closed: two passes at a time would close too many.
    closing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<u64, oneshot::Sender<Result<Value, Refused>>>>,
    listeners: Mutex<HashMap<String, mpsc::Sender<HermesEvent>>>,
    ready: CancellationToken,
    ended: CancellationToken,
    /// Why the process ended.
    reason: Mutex<Option<String>>,
}

/// Hermes' refusal of a request.
#[derive(Debug)]
struct Refused {
    code: Option<i64>,
    message: String,
}

/// JSON-RPC's code for a method that the server does not have.
const UNKNOWN_METHOD: i64 = -32601;

/// An event of a session.
#[derive(Debug, Clone)]
pub(super) struct HermesEvent {
    pub(super) kind: String,
    pub(super) payload: Value,
}

impl HermesProcess {
    pub(super) async fn start(program: &Program) -> Result<HermesProcess, AgentError> {
        let mut process = program.start()?;
        let (stdin, stdout) = process.pipes()?;
        let shared: Arc<Shared> = Arc::default();
        // Ends the process if this future is dropped: no one else has a handle to it.
        let end_on_drop = shared.ended.clone().drop_guard();
        tokio::spawn(attend(process, stdout, shared.clone()));
        let backend = HermesProcess {
            stdin: tokio::sync::Mutex::new(stdin),
            next: AtomicU64::new(1),
            shared,
            sessions: Sessions::default(),
            closes_idle: AtomicBool::new(false),
            closing: tokio::sync::Mutex::default(),
        };
        tokio::select! {
            () = backend.shared.ready.cancelled() => {
                end_on_drop.disarm();
                Ok(backend)
            }
            () = backend.shared.ended.cancelled() => Err(backend.why()),
            () = tokio::time::sleep(START) => Err(AgentError::Failed(format!(
                "Hermes was not ready within {} s", START.as_secs()
            ))),
        }
    }

    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Value, AgentError> {
        let refused = |refused: Refused| {
            let message = refused.message;
            AgentError::Failed(format!("Hermes refused {method}: {message}"))
        };
        self.answered(method, params).await?.map_err(refused)
    }

    /// Calls a method that older versions of Hermes do not have. `None` if this one does not.
    pub(super) async fn call_if_known(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Option<Result<Value, String>>, AgentError> {
        Ok(match self.answered(method, params).await? {
            Ok(result) => Some(Ok(result)),
            Err(refused) if refused.code == Some(UNKNOWN_METHOD) => None,
            Err(refused) => Some(Err(refused.message)),
        })
    }

    async fn answered(
        &self,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, Refused>, AgentError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        locked(&self.shared.answers).insert(id, answer);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let line = format!("{request}\n");
        let written = self.stdin.lock().await.write_all(line.as_bytes()).await;
        let answered = async {
            if written.is_err() {
                self.shared.ended.cancelled().await;
            }
            tokio::time::timeout(ANSWER, answered).await
        };
        tokio::select! {
            answer = answered => match answer {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_)) => Err(self.why()),
                Err(_) => {
                    locked(&self.shared.answers).remove(&id);
                    Err(AgentError::Failed(format!("Hermes did not answer {method} within {} s", ANSWER.as_secs())))
                }
            },
            () = self.shared.ended.cancelled() => Err(self.why()),
        }
    }

    /// Subscribes to the events of a session.
    pub(super) fn listen(&self, live: &str) -> Listening {
        let (sender, events) = mpsc::channel(EVENTS);
        locked(&self.shared.listeners).insert(live.to_owned(), sender);
        Listening {
            live: live.to_owned(),
            events,
            later: VecDeque::new(),
            shared: self.shared.clone(),
        }
    }

    pub(super) async fn close_session(&self, open: &Open) {
        let params = json!({"session_id": open.live});
        if let Err(error) = self.call("session.close", params).await {
            tracing::debug!(%error, "Hermes did not close a session");
        }
    }

    /// Closes surplus sessions one at a time, because Hermes reads no other request meanwhile.
    async fn close_surplus(&self, idle: Duration) {
        let _closing = self.closing.lock().await;
        for (id, mut slot) in self.sessions.surplus(MOST_OPEN, idle) {
            if let Some(open) = slot.open.take() {
                tracing::debug!(session = id, "closing a surplus session of Hermes");
                self.close_session(&open).await;
            }
            self.sessions.forget(&id, slot);
        }
    }

    /// Closes surplus sessions now, and later those unused for `idle`, in the background. Called after a turn.
    pub(super) fn close_unused(self: &Arc<Self>, idle: Duration) {
        let backend = self.clone();
        tokio::spawn(async move { backend.close_surplus(idle).await });
        if self.closes_idle.swap(true, Ordering::Relaxed) {
            return;
        }
        // A weak reference, so that an unused process can end.
        let backend = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(idle / 4).await;
                match backend.upgrade().filter(|backend| backend.is_alive()) {
                    Some(backend) => backend.close_surplus(idle).await,
                    None => return,
                }
            }
        });
    }

    /// Why the process ended.
    pub(super) fn why(&self) -> AgentError {
        let reason = locked(&self.shared.reason).clone();
        AgentError::Failed(reason.unwrap_or_else(|| "Hermes has ended".to_owned()))
    }
}

#[async_trait]
impl Served for HermesProcess {
    fn is_alive(&self) -> bool {
        !self.shared.ended.is_cancelled()
    }

    /// Closes each session, so that Hermes stores what it has learned, and then closes the input of the process.
    async fn close(&self) {
        let ending = async {
            for open in self.sessions.resting() {
                self.close_session(&open).await;
            }
            let _ = self.stdin.lock().await.shutdown().await;
            self.shared.ended.cancelled().await;
        };
        let _ = tokio::time::timeout(END, ending).await;
        // `attend` drops the process, which kills its group.
        self.shared.ended.cancel();
    }
}

/// The events of a session. Unsubscribes when it is dropped.
pub(super) struct Listening {
    live: String,
    events: mpsc::Receiver<HermesEvent>,
    /// Events that arrived while a question was open.
    later: VecDeque<HermesEvent>,
    shared: Arc<Shared>,
}

impl Listening {
    /// `None` if the process has ended.
    pub(super) async fn next(&mut self) -> Option<HermesEvent> {
        match self.later.pop_front() {
            Some(event) => Some(event),
            None => self.newest().await,
        }
    }

    /// Returns when the turn ends while its question is open, because Hermes waits a limited time for an answer. Events
    /// that arrive until then stay queued for [`Listening::next`].
    pub(super) async fn over(&mut self) {
        while self.later.len() < EVENTS {
            let Some(event) = self.newest().await else {
                return;
            };
            let is_end = matches!(event.kind.as_str(), "message.complete" | "error");
            self.later.push_back(event);
            if is_end {
                return;
            }
        }
        std::future::pending().await
    }

    /// Whether Hermes asked for another approval while one was open.
    pub(super) fn asks_again(&self) -> bool {
        let mut later = self.later.iter();
        later.any(|event| event.kind == "approval.request")
    }

    async fn newest(&mut self) -> Option<HermesEvent> {
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = self.shared.ended.cancelled() => None,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        locked(&self.shared.listeners).remove(&self.live);
    }
}

/// Owns the process and reads its output until it ends or [`HermesProcess::close`] ends it.
async fn attend(mut process: Process, stdout: ChildStdout, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stdout).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = shared.ended.cancelled() => return,
        };
        match line {
            Ok(Some(line)) => receive(&shared, &line).await,
            Ok(None) | Err(_) => break,
        }
    }
    let ended = tokio::time::timeout(END, process.ended()).await;
    let reason = match ended {
        Ok(Err(error)) => format!("Hermes has ended: {error}"),
        Ok(Ok(())) => process
            .failure("Hermes has ended with status 0")
            .to_string(),
        Err(_) => process
            .failure("Hermes closed its output but still runs")
            .to_string(),
    };
    *locked(&shared.reason) = Some(reason);
    locked(&shared.answers).clear();
    shared.ended.cancel();
}

async fn receive(shared: &Shared, line: &str) {
    let Ok(mut message) = serde_json::from_str::<Value>(line) else {
        tracing::debug!(line, "Hermes wrote a line that is not JSON");
        return;
    };
    if message["method"] == "event" {
        let mut params = message["params"].take();
        let kind = params["type"].as_str().unwrap_or_default().to_owned();
        if kind == "gateway.ready" {
            shared.ready.cancel();
            return;
        }
        let session = params["session_id"].as_str().unwrap_or_default();
        let listener = locked(&shared.listeners).get(session).cloned();
        if let Some(listener) = listener {
            let payload = params["payload"].take();
            let _ = listener.send(HermesEvent { kind, payload }).await;
        }
        return;
    }
    let Some(answer) = message["id"]
        .as_u64()
        .and_then(|id| locked(&shared.answers).remove(&id))
    else {
        return;
    };
    let result = match message.get("error") {
        Some(error) => Err(Refused {
            code: error["code"].as_i64(),
            message: error["message"]
                .as_str()
                .unwrap_or("no reason given")
                .to_owned(),
        }),
        None => Ok(message["result"].take()),
    };
    let _ = answer.send(result);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
