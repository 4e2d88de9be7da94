//! What a connection is still to be sent: answers, bounded by their bytes, and events.

use std::sync::Arc;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::control::handlers::{Answer, Subscription};
use crate::events::PublishedEvent;
use crate::protocol::{self, EventKind, MAX_FRAME, RpcError, code};
use crate::views;

/// About what is written at a time.
const WRITE_SIZE: usize = 64 << 10;
/// Answers that may wait to be written, and the bytes of them.
const FRAMES: usize = 64;
const BYTES: usize = 2 * MAX_FRAME;
/// Waits that make their answers at one time: many may have waited for the same long one.
const AT_ONCE: usize = 4;

/// The way to the client for whoever has an answer.
#[derive(Clone)]
pub(super) struct Outbox {
    frames: mpsc::Sender<Frame>,
    bytes: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

pub(super) struct Frame {
    bytes: Vec<u8>,
    room: Option<OwnedSemaphorePermit>,
}

impl Outbox {
    pub(super) fn new() -> (Outbox, mpsc::Receiver<Frame>) {
        let (frames, written) = mpsc::channel(FRAMES);
        let outbox = Outbox {
            frames,
            bytes: Arc::new(Semaphore::new(BYTES)),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        };
        (outbox, written)
    }

    /// Waits until an answer may be made. Hold what it returns until the answer is handed over.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.turns.clone().acquire_owned().await.ok()
    }

    pub(super) async fn respond(&self, id: Option<Value>, answer: Answer) {
        // A request without an id wants no answer, not even a bad one.
        if let Some(id) = id {
            self.send(response(id, answer)).await;
        }
    }

    pub(super) async fn send(&self, bytes: Vec<u8>) {
        let size = u32::try_from(bytes.len().min(BYTES)).unwrap_or(u32::MAX);
        let room = self.bytes.clone().acquire_many_owned(size).await.ok();
        // A client that is gone no longer wants it.
        let _ = self.frames.send(Frame { bytes, room }).await;
    }
}

pub(super) fn response(id: Value, answer: Answer) -> Vec<u8> {
    let respond = |answer: &Answer| {
        protocol::line(&protocol::Response {
            jsonrpc: "2.0",
            id: &id,
            result: answer.as_ref().ok(),
            error: answer.as_ref().err(),
        })
    };
    let frame = respond(&answer);
    if frame.len() <= MAX_FRAME {
        return frame;
    }
    let error = RpcError::new(
        code::INTERNAL,
        format!(
            "the answer has {} bytes and a line may have {MAX_FRAME}: ask for less",
            frame.len()
        ),
    );
    respond(&Err(error))
}

/// Writes until there is nobody left to write for, or the client takes too long over a frame.
pub(super) async fn write(
    stream: &Stream,
    mut frames: mpsc::Receiver<Frame>,
    mut subscriptions: mpsc::Receiver<Subscription>,
    patience: Duration,
) {
    let mut subscription: Option<Subscription> = None;
    loop {
        let Frame { mut bytes, room } = tokio::select! {
            biased;
            frame = frames.recv() => match frame {
                Some(frame) => frame,
                None => return,
            },
            Some(new) = subscriptions.recv() => {
                subscription = Some(new);
                continue;
            }
            told = next_event(&mut subscription) => match told {
                Some(bytes) => Frame { bytes, room: None },
                None => continue,
            },
        };
        let mut room = vec![room];
        // Answers that wait already go with it.
        while bytes.len() < WRITE_SIZE
            && let Ok(next) = frames.try_recv()
        {
            bytes.extend(next.bytes);
            room.push(next.room);
        }
        let mut stream = stream;
        if !matches!(
            tokio::time::timeout(patience, stream.write_all(&bytes)).await,
            Ok(Ok(()))
        ) {
            tracing::debug!("a client went away or did not read its answers");
            return;
        }
    }
}

/// The next event that this connection wants, as a frame; how many it missed, when it was too slow.
async fn next_event(subscription: &mut Option<Subscription>) -> Option<Vec<u8>> {
    let Some(subscription) = subscription else {
        return std::future::pending().await;
    };
    match subscription.events.recv().await {
        Ok(told) => wanted(subscription, &told),
        Err(RecvError::Lagged(missed)) => Some(protocol::line(
            &json!({"jsonrpc": "2.0", "method": "events.missed", "params": {"missed": missed}}),
        )),
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

fn wanted(subscription: &Subscription, told: &PublishedEvent) -> Option<Vec<u8>> {
    let event = views::event(told);
    let name = EventKind::type_name(&event.event);
    let (topics, session) = (&subscription.topics, subscription.session.as_deref());
    if session.is_some() && event.event.session() != session {
        return None;
    }
    let fits = topics.is_empty()
        || topics.iter().any(|topic| {
            name == topic
                || name
                    .strip_prefix(topic.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
        });
    fits.then(|| {
        protocol::line(&protocol::Notification {
            jsonrpc: "2.0",
            method: "event",
            params: &event,
        })
    })
}
