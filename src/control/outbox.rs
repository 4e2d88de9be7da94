//! Sends answers and events to one client. The bytes of waiting answers are limited.

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

/// About the size of one write.
const WRITE_SIZE: usize = 64 << 10;
/// The number and the bytes of answers that may wait to be written.
const FRAMES: usize = 64;
const BYTES: usize = 2 * MAX_FRAME;
/// The waits that build their answers at the same time. Many may have waited for the same handoff with a long reply.
const ANSWERING: usize = 4;

/// Queues answers for the client.
#[derive(Clone)]
pub(super) struct ClientOutbox {
    frames: mpsc::Sender<Frame>,
    bytes: Arc<Semaphore>,
    answering: Arc<Semaphore>,
}

pub(super) struct Frame {
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ClientOutbox {
    pub(super) fn new() -> (ClientOutbox, mpsc::Receiver<Frame>) {
        let (frames, receiver) = mpsc::channel(FRAMES);
        let outbox = ClientOutbox {
            frames,
            bytes: Arc::new(Semaphore::new(BYTES)),
            answering: Arc::new(Semaphore::new(ANSWERING)),
        };
        (outbox, receiver)
    }

    /// Waits until an answer may be built. Hold the permit until the answer is queued.
    pub(super) async fn answering(&self) -> Option<OwnedSemaphorePermit> {
        self.answering.clone().acquire_owned().await.ok()
    }

    pub(super) async fn respond(&self, id: Option<Value>, answer: Answer) {
        // A request without an id gets no answer, not even an error.
        if let Some(id) = id {
            self.send(response(id, answer)).await;
        }
    }

    pub(super) async fn send(&self, bytes: Vec<u8>) {
        let size = u32::try_from(bytes.len().min(BYTES)).unwrap_or(u32::MAX);
        let permit = self.bytes.clone().acquire_many_owned(size).await.ok();
        // This fails only if the client has closed the connection.
        let _ = self.frames.send(Frame { bytes, permit }).await;
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
            "the answer has {} bytes, and a line may have at most {MAX_FRAME}: ask for less",
            frame.len()
        ),
    );
    respond(&Err(error))
}

/// Writes until all senders of the outbox are dropped, or the client does not read a write within `timeout`.
pub(super) async fn write(
    stream: &Stream,
    mut frames: mpsc::Receiver<Frame>,
    mut subscriptions: mpsc::Receiver<Subscription>,
    timeout: Duration,
) {
    let mut subscription: Option<Subscription> = None;
    loop {
        let Frame { mut bytes, permit } = tokio::select! {
            biased;
            frame = frames.recv() => match frame {
                Some(frame) => frame,
                None => return,
            },
            Some(new) = subscriptions.recv() => {
                subscription = Some(new);
                continue;
            }
            event = next_event(&mut subscription) => match event {
                Some(bytes) => Frame { bytes, permit: None },
                None => continue,
            },
        };
        let mut permits = vec![permit];
        // Answers that wait already go into the same write.
        while bytes.len() < WRITE_SIZE
            && let Ok(next) = frames.try_recv()
        {
            bytes.extend(next.bytes);
            permits.push(next.permit);
        }
        let mut stream = stream;
        if !matches!(
            tokio::time::timeout(timeout, stream.write_all(&bytes)).await,
            Ok(Ok(()))
        ) {
            tracing::debug!("client closed the connection or does not read");
            return;
        }
    }
}

/// The next event as a frame, or the number of missed events if the client was too slow. `None` if the subscription
/// excludes the event.
async fn next_event(subscription: &mut Option<Subscription>) -> Option<Vec<u8>> {
    let Some(subscription) = subscription else {
        return std::future::pending().await;
    };
    match subscription.events.recv().await {
        Ok(event) => wanted(subscription, &event),
        Err(RecvError::Lagged(missed)) => Some(protocol::line(
            &json!({"jsonrpc": "2.0", "method": "events.missed", "params": {"missed": missed}}),
        )),
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

fn wanted(subscription: &Subscription, event: &PublishedEvent) -> Option<Vec<u8>> {
    let event = views::event(event);
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
