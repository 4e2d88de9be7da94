//! A typed client of the control socket, for hermesctl and the tests.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::tokio::Stream as _;
use interprocess::local_socket::{GenericFilePath, ToFsName};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::protocol::{self, Call, EventView, Hello, HelloView, PROTOCOL, RpcError};

/// The number of events that the client buffers for its caller. Beyond it, events are dropped and counted.
const EVENTS: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no daemon answers on {path}: {source}")]
    NoDaemon { path: PathBuf, source: io::Error },
    #[error("{}", .0.message)]
    Refused(RpcError),
    #[error("the connection to the daemon was lost")]
    Lost,
    #[error("the daemon sent an answer that this version cannot parse: {0}")]
    Garbled(String),
}

/// A notification to a subscriber.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    Event(Box<EventView>),
    /// The number of events that were dropped because this client was too slow.
    Missed(u64),
}

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>>>>;

pub struct Client {
    stream: Arc<Stream>,
    writing: tokio::sync::Mutex<()>,
    next_id: AtomicU64,
    waiting: Waiting,
    /// Why the server rejected the connection. It may say so before the first request.
    rejection: Arc<OnceLock<RpcError>>,
    news: tokio::sync::Mutex<mpsc::Receiver<News>>,
    reader: JoinHandle<()>,
    server: HelloView,
}

impl Client {
    /// Connects and sends `hello`.
    pub async fn connect(path: &Path) -> Result<Client, ClientError> {
        let unreachable = |source| ClientError::NoDaemon {
            path: path.to_owned(),
            source,
        };
        let name = path.to_fs_name::<GenericFilePath>().map_err(unreachable)?;
        let stream = Arc::new(Stream::connect(name).await.map_err(unreachable)?);
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let (sender, news) = mpsc::channel(EVENTS);
        let rejection = Arc::default();
        let reader = tokio::spawn(read(
            stream.clone(),
            waiting.clone(),
            Arc::clone(&rejection),
            sender,
        ));
        let mut client = Client {
            stream,
            writing: tokio::sync::Mutex::default(),
            next_id: AtomicU64::new(1),
            waiting,
            rejection,
            news: tokio::sync::Mutex::new(news),
            reader,
            server: HelloView {
                server: String::new(),
                version: String::new(),
                protocol: 0,
                home: String::new(),
                pid: 0,
            },
        };
        let hello = Hello {
            client: "hermesctl".into(),
            version: crate::VERSION.into(),
            protocol: PROTOCOL,
        };
        client.server = client.call(Call::Hello(hello)).await?;
        Ok(client)
    }

    pub fn server(&self) -> &HelloView {
        &self.server
    }

    /// Sends a request and waits for its answer. Calls may run concurrently.
    pub async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut request =
            serde_json::to_value(&call).map_err(|e| ClientError::Garbled(e.to_string()))?;
        request["jsonrpc"] = json!("2.0");
        request["id"] = json!(id);
        let (reply, answer) = oneshot::channel();
        self.locked(|waiting| waiting.insert(id, reply))
            .ok_or_else(|| self.lost())?;
        {
            let _writing = self.writing.lock().await;
            let mut stream = &*self.stream;
            // If the server has closed the connection, the reader ends the wait, with the reason if there is one.
            let _ = stream.write_all(&protocol::line(&request)).await;
        }
        let result = answer
            .await
            .map_err(|_| self.lost())?
            .map_err(ClientError::Refused)?;
        serde_json::from_value(result).map_err(|e| ClientError::Garbled(e.to_string()))
    }

    /// The next event, after `events.subscribe`. `None` if the connection is closed.
    pub async fn news(&self) -> Option<News> {
        self.news.lock().await.recv().await
    }

    fn lost(&self) -> ClientError {
        match self.rejection.get() {
            Some(error) => ClientError::Refused(error.clone()),
            None => ClientError::Lost,
        }
    }

    /// `None` if the connection is closed.
    fn locked<T>(
        &self,
        work: impl FnOnce(&mut HashMap<u64, oneshot::Sender<Result<Value, RpcError>>>) -> T,
    ) -> Option<T> {
        self.waiting
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .as_mut()
            .map(work)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(
    stream: Arc<Stream>,
    waiting: Waiting,
    rejection: Arc<OnceLock<RpcError>>,
    sender: mpsc::Sender<News>,
) {
    let mut lines = BufReader::new(&*stream).split(b'\n');
    let mut missed = 0;
    while let Ok(Some(line)) = lines.next_segment().await {
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            break;
        };
        match message.get("method").and_then(Value::as_str) {
            None => answer(&waiting, &rejection, message),
            Some("event") => {
                if let Ok(event) = serde_json::from_value(message["params"].clone()) {
                    missed = forward(&sender, missed, Some(event));
                }
            }
            Some("events.missed") => {
                missed += message["params"]["missed"].as_u64().unwrap_or(0);
                missed = forward(&sender, missed, None);
            }
            Some(_) => {}
        }
    }
    // This ends all waits, and refuses new ones.
    waiting
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .take();
}

/// Forwards the number of missed events, then the event. Returns the number that is still to be reported. It never
/// waits for the caller to read events: the caller may wait for an answer, which arrives on the same stream.
fn forward(sender: &mpsc::Sender<News>, missed: u64, event: Option<EventView>) -> u64 {
    if missed > 0 && sender.try_send(News::Missed(missed)).is_err() {
        return missed + u64::from(event.is_some());
    }
    let fits = event.is_none_or(|event| sender.try_send(News::Event(Box::new(event))).is_ok());
    u64::from(!fits)
}

fn answer(waiting: &Waiting, rejection: &OnceLock<RpcError>, mut message: Value) {
    let mut waiting = waiting
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let Some(waiting) = waiting.as_mut() else {
        return;
    };
    let result = match message.get_mut("error").map(Value::take) {
        Some(error) => {
            Err(serde_json::from_value(error).unwrap_or_else(|e| RpcError::new(0, e.to_string())))
        }
        None => Ok(message["result"].take()),
    };
    match message["id"].as_u64() {
        Some(id) => {
            if let Some(reply) = waiting.remove(&id) {
                let _ = reply.send(result);
            }
        }
        // An error without an id concerns the whole connection: all calls get it, present and future.
        None => {
            if let Err(error) = result {
                let _ = rejection.set(error.clone());
                for (_, reply) in waiting.drain() {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
}
