//! Hermes' own backend as a process: newline-delimited JSON-RPC over its standard input and output. Requests are answered
//! by number, what happens in a session comes as events.

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

/// How long it may take to come up, to answer a request, and to end in good order.
const START: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(3);
/// Events of a session that may wait for its turn.
const EVENTS: usize = 4096;

pub(super) struct Backend {
    stdin: tokio::sync::Mutex<ChildStdin>,
    next: AtomicU64,
    shared: Arc<Shared>,
    /// Sessions that it has open, by conversation.
    pub(super) sessions: Sessions,
    /// A task closes those that are not used any more.
    tended: AtomicBool,
    /// Held while surplus sessions are closed: two at a time would close too many.
    closing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>,
    listeners: Mutex<HashMap<String, mpsc::Sender<Event>>>,
    ready: CancellationToken,
    ended: CancellationToken,
    /// Why it ended.
    reason: Mutex<Option<String>>,
}

/// Something that happened in a session.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) payload: Value,
}

impl Backend {
    pub(super) async fn start(program: &Program) -> Result<Backend, AgentError> {
        let mut process = program.start()?;
        let (stdin, stdout) = process.pipes()?;
        let shared: Arc<Shared> = Arc::default();
        // Whoever waits for it may go, and nobody else knows of it then.
        let unwanted = shared.ended.clone().drop_guard();
        tokio::spawn(attend(process, stdout, shared.clone()));
        let backend = Backend {
            stdin: tokio::sync::Mutex::new(stdin),
            next: AtomicU64::new(1),
            shared,
            sessions: Sessions::default(),
            tended: AtomicBool::new(false),
            closing: tokio::sync::Mutex::default(),
        };
        tokio::select! {
            () = backend.shared.ready.cancelled() => {
                unwanted.disarm();
                Ok(backend)
            }
            () = backend.shared.ended.cancelled() => Err(backend.why()),
            () = tokio::time::sleep(START) => Err(AgentError::Failed(format!(
                "Hermes was not ready within {} s", START.as_secs()
            ))),
        }
    }

    /// A request and its answer.
    pub(super) async fn call(&self, method: &str, params: Value) -> Result<Value, AgentError> {
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
                Ok(Ok(Ok(result))) => Ok(result),
                Ok(Ok(Err(message))) => Err(AgentError::Failed(format!("Hermes refused {method}: {message}"))),
                Ok(Err(_)) => Err(self.why()),
                Err(_) => {
                    locked(&self.shared.answers).remove(&id);
                    Err(AgentError::Failed(format!("Hermes did not answer {method} within {} s", ANSWER.as_secs())))
                }
            },
            () = self.shared.ended.cancelled() => Err(self.why()),
        }
    }

    /// What happens in a session from now on.
    pub(super) fn listen(&self, live: &str) -> Listening {
        let (tell, events) = mpsc::channel(EVENTS);
        locked(&self.shared.listeners).insert(live.to_owned(), tell);
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

    /// Closes the sessions that are not worth their memory, one at a time: Hermes reads nothing else meanwhile.
    async fn close_surplus(&self, idle: Duration) {
        let _closing = self.closing.lock().await;
        for (id, mut slot) in self.sessions.surplus(MOST_OPEN, idle) {
            if let Some(open) = slot.open.take() {
                tracing::debug!(session = id, "closing a session that Hermes has open");
                self.close_session(&open).await;
            }
            self.sessions.forget(&id, slot);
        }
    }

    /// A turn has ended. Closes what is surplus now, and later what is not used for `idle`, without making the caller wait.
    pub(super) fn tend(self: &Arc<Self>, idle: Duration) {
        let backend = self.clone();
        tokio::spawn(async move { backend.close_surplus(idle).await });
        if self.tended.swap(true, Ordering::Relaxed) {
            return;
        }
        // It does not keep the process alive: that ends when it is not used.
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

    /// Why it is no more.
    pub(super) fn why(&self) -> AgentError {
        let reason = locked(&self.shared.reason).clone();
        AgentError::Failed(reason.unwrap_or_else(|| "Hermes has ended".to_owned()))
    }
}

#[async_trait]
impl Served for Backend {
    fn is_alive(&self) -> bool {
        !self.shared.ended.is_cancelled()
    }

    /// Its sessions are closed one by one, so that it keeps what it has learned; then it sees the end of its input.
    async fn close(&self) {
        let ending = async {
            for open in self.sessions.resting() {
                self.close_session(&open).await;
            }
            let _ = self.stdin.lock().await.shutdown().await;
            self.shared.ended.cancelled().await;
        };
        let _ = tokio::time::timeout(END, ending).await;
        // Whoever holds the process lets go of it, and it ends with its group.
        self.shared.ended.cancel();
    }
}

/// A session's events. Dropped, nobody listens any more.
pub(super) struct Listening {
    live: String,
    events: mpsc::Receiver<Event>,
    /// What came while a question was open.
    later: VecDeque<Event>,
    shared: Arc<Shared>,
}

impl Listening {
    /// `None`: the process has ended.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self.later.pop_front() {
            Some(event) => Some(event),
            None => self.newest().await,
        }
    }

    /// Returns when the turn is over, though a question of it is open: Hermes waits only so long for an answer. What comes
    /// until then is kept for [`Listening::next`].
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

    /// Whether Hermes has asked for another approval while one was open.
    pub(super) fn asks_again(&self) -> bool {
        let mut later = self.later.iter();
        later.any(|event| event.kind == "approval.request")
    }

    async fn newest(&mut self) -> Option<Event> {
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

/// Reads until the process ends or is no longer wanted, and holds it that long.
async fn attend(mut process: Process, stdout: ChildStdout, shared: Arc<Shared>) {
    let mut lines = BufReader::new(stdout).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = shared.ended.cancelled() => return,
        };
        match line {
            Ok(Some(line)) => hear(&shared, &line).await,
            Ok(None) | Err(_) => break,
        }
    }
    let ended = tokio::time::timeout(END, process.ended()).await;
    let reason = match ended {
        Ok(Err(error)) => format!("Hermes has ended: {error}"),
        Ok(Ok(())) => process.complained("Hermes has ended by itself").to_string(),
        Err(_) => process.complained("Hermes says nothing more").to_string(),
    };
    *locked(&shared.reason) = Some(reason);
    locked(&shared.answers).clear();
    shared.ended.cancel();
}

async fn hear(shared: &Shared, line: &str) {
    let Ok(mut message) = serde_json::from_str::<Value>(line) else {
        tracing::debug!(line, "Hermes said something that is no JSON");
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
            let _ = listener.send(Event { kind, payload }).await;
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
        Some(error) => Err(error["message"]
            .as_str()
            .unwrap_or("no reason given")
            .to_owned()),
        None => Ok(message["result"].take()),
    };
    let _ = answer.send(result);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
