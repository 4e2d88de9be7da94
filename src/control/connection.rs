//! One connection: frames in, answers and events out. Requests run side by side and are answered as they finish; a
//! client that is slow, silent, malformed or gone costs nobody else anything.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Listener as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::verbs::{self, Answer, Place, Subscription};
use super::{Desk, Doorman, views};
use crate::events::Told;
use crate::protocol::{self, Call, EventKind, MAX_FRAME, RpcError, code};

/// Requests of one connection that may be under way at once; past it the connection is not read.
const IN_FLIGHT: usize = 2048;
/// About what is written at a time.
const WRITE_SIZE: usize = 64 << 10;
/// Answers that may wait to be written.
const OUTBOX: usize = 64;
/// A frame that was begun has to be finished within this time.
const FRAME_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether a client that says nothing more is still there.
const GONE_CHECK: Duration = Duration::from_millis(500);

/// Accepts until `stop`, then waits for the connections to finish their answers.
pub async fn serve(listener: Listener, desk: Arc<Desk>, doorman: Doorman, stop: CancellationToken) {
    let tracker = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(desk.limits.connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // Out of descriptors, most likely: others have to finish first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Err(reason) = doorman.check(&stream) {
            tracing::warn!(reason, "a connection was turned away");
            tracker.spawn(turn_away(
                stream,
                RpcError::new(code::REFUSED, reason).with_data("forbidden", None),
            ));
            continue;
        }
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            let error = RpcError::new(
                code::UNAVAILABLE,
                "too many connections: try again, or raise control.max_connections",
            );
            tracker.spawn(turn_away(stream, error));
            continue;
        };
        let (desk, stop) = (desk.clone(), stop.clone());
        tracker.spawn(async move {
            let _permit = permit;
            desk.connections.fetch_add(1, Ordering::Relaxed);
            converse(&stream, &desk, &stop).await;
            desk.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    drop(listener);
    tracker.close();
    tracker.wait().await;
}

async fn turn_away(stream: Stream, error: RpcError) {
    let frame = response(Value::Null, Err(error));
    let _ = tokio::time::timeout(Duration::from_secs(1), (&stream).write_all(&frame)).await;
}

async fn converse(stream: &Stream, desk: &Arc<Desk>, stop: &CancellationToken) {
    let place = Place::default();
    let seat = place.clone();
    let (outbox, frames) = mpsc::channel(OUTBOX);
    let (subscribe, subscriptions) = mpsc::channel(1);
    let mut reader = Reader {
        stream,
        desk: desk.clone(),
        outbox,
        subscribe,
        buffer: Vec::new(),
        place: place.clone(),
        waits: JoinSet::new(),
        work: TaskTracker::new(),
        greeted: false,
        subscribed: false,
    };
    let reading = async move {
        reader.run(stop).await;
        // With the reader goes the way into the outbox: the writer ends when it has written what is left there. An answer
        // that still comes holds it up, so a terminal that is gone is told now: that cuts the answer off.
        drop(reader);
        place.vacate(&desk.terminals);
    };
    let writing = write(stream, frames, subscriptions, desk.limits.write);
    tokio::pin!(writing);
    tokio::select! {
        // The client is gone or does not read: whatever it still asked for is dropped.
        () = &mut writing => {}
        () = reading => writing.await,
    }
    // Whatever way a terminal went, its session is finalised.
    seat.vacate(&desk.terminals);
}

/// Resolves when the client has closed both directions. Reading cannot tell that from a half close, but a write of
/// nothing fails.
async fn gone(mut stream: &Stream) {
    loop {
        tokio::time::sleep(GONE_CHECK).await;
        if stream.write(&[]).await.is_err() {
            return;
        }
    }
}

struct Reader<'a> {
    stream: &'a Stream,
    desk: Arc<Desk>,
    outbox: mpsc::Sender<Vec<u8>>,
    subscribe: mpsc::Sender<Subscription>,
    buffer: Vec<u8>,
    /// Where this client sits, once it is a terminal.
    place: Place,
    waits: JoinSet<()>,
    work: TaskTracker,
    greeted: bool,
    subscribed: bool,
}

enum Input {
    Frame(Vec<u8>),
    TooLong,
    TooSlow,
    Idle,
    End,
}

impl Reader<'_> {
    async fn run(&mut self, stop: &CancellationToken) {
        loop {
            let input = tokio::select! {
                input = self.next() => input,
                () = stop.cancelled() => Input::End,
            };
            match input {
                Input::Frame(frame) if frame.iter().all(u8::is_ascii_whitespace) => {}
                Input::Frame(frame) => self.take(&frame).await,
                Input::TooLong => {
                    let message = format!("a line has more than {MAX_FRAME} bytes");
                    return self
                        .refuse(RpcError::new(code::INVALID_REQUEST, message))
                        .await;
                }
                Input::TooSlow => {
                    let message = format!(
                        "a line was begun and not finished within {} s",
                        FRAME_PATIENCE.as_secs()
                    );
                    return self
                        .refuse(RpcError::new(code::INVALID_REQUEST, message))
                        .await;
                }
                Input::Idle => return,
                Input::End => break,
            }
        }
        // The client has said all it wants to: it still gets its answers, unless it has left for good or we stop.
        let (waits, work) = (&mut self.waits, &self.work);
        work.close();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = async {
                while waits.join_next().await.is_some() {}
                work.wait().await;
            } => {}
            () = gone(self.stream) => {}
        }
    }

    async fn refuse(&mut self, error: RpcError) {
        let _ = self.outbox.send(response(Value::Null, Err(error))).await;
    }

    async fn next(&mut self) -> Input {
        let mut chunk = [0; 8192];
        let mut searched = 0;
        let mut begun: Option<Instant> = (!self.buffer.is_empty()).then(Instant::now);
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|b| *b == b'\n') {
                let rest = self.buffer.split_off(searched + at + 1);
                let mut frame = std::mem::replace(&mut self.buffer, rest);
                frame.pop();
                return if frame.len() > MAX_FRAME {
                    Input::TooLong
                } else {
                    Input::Frame(frame)
                };
            }
            searched = self.buffer.len();
            if searched > MAX_FRAME {
                return Input::TooLong;
            }
            while self.waits.try_join_next().is_some() {}
            let mut stream = self.stream;
            let read = stream.read(&mut chunk);
            // A frame has its time as a whole, however it drips in.
            let deadline = match begun {
                Some(begun) => Some(begun + FRAME_PATIENCE),
                None => self.desk.limits.idle.map(|idle| Instant::now() + idle),
            };
            let read = match deadline {
                None => read.await,
                Some(deadline) => match tokio::time::timeout_at(deadline, read).await {
                    Ok(read) => read,
                    Err(_) if begun.is_some() => return Input::TooSlow,
                    // Whoever waits for an answer or for events is not idle, nor is a terminal.
                    Err(_)
                        if self.subscribed
                            || self.place.is_taken()
                            || !self.waits.is_empty()
                            || !self.work.is_empty() =>
                    {
                        continue;
                    }
                    Err(_) => return Input::Idle,
                },
            };
            match read {
                Ok(0) | Err(_) => return Input::End,
                Ok(n) => {
                    self.buffer.extend_from_slice(&chunk[..n]);
                    begun.get_or_insert_with(Instant::now);
                }
            }
        }
    }

    async fn take(&mut self, frame: &[u8]) {
        let (id, call) = protocol::parse_request(frame);
        let call = match call {
            Ok(call) => call,
            Err(error) => return self.answer(id, Err(error)).await,
        };
        match call {
            Call::Hello(hello) => {
                let result = verbs::hello(&self.desk, &hello);
                self.greeted = self.greeted || result.is_ok();
                self.answer(id, result).await;
            }
            _ if !self.greeted => {
                let message = format!(
                    "say hello first: {{\"method\": \"hello\", \"params\": {{\"client\": …, \"version\": …, \"protocol\": {}}}}}",
                    protocol::PROTOCOL
                );
                self.answer(id, Err(RpcError::new(code::HELLO_FIRST, message)))
                    .await;
            }
            Call::EventsSubscribe(wish) => {
                let subscription = Subscription {
                    topics: wish.topics,
                    session: wish.session,
                    events: self.desk.bus.listen(),
                };
                self.subscribed = true;
                // The answer is queued first: no event overtakes it.
                self.answer(id, verbs::answer(&json!({}))).await;
                let _ = self.subscribe.send(subscription).await;
            }
            call => self.start(id, call).await,
        }
    }

    async fn start(&mut self, id: Option<Value>, call: Call) {
        while self.waits.try_join_next().is_some() {}
        while self.waits.len() + self.work.len() >= IN_FLIGHT {
            tokio::time::sleep(Duration::from_millis(1)).await;
            while self.waits.try_join_next().is_some() {}
        }
        let (desk, outbox, place) = (self.desk.clone(), self.outbox.clone(), self.place.clone());
        // What a request has set going is not stopped by a client that leaves; only waiting is pointless then. There may
        // be many who wait, so their tasks hold no more than that takes.
        if let Call::HandoffWait(wish) = call {
            self.waits.spawn(async move {
                let answer = verbs::wait(&desk, wish.id).await;
                respond(&outbox, id, answer).await;
            });
        } else {
            self.work.spawn(async move {
                let answer = verbs::perform(&desk, &place, call).await;
                respond(&outbox, id, answer).await;
            });
        }
    }

    async fn answer(&self, id: Option<Value>, answer: Answer) {
        respond(&self.outbox, id, answer).await;
    }
}

async fn respond(outbox: &mpsc::Sender<Vec<u8>>, id: Option<Value>, answer: Answer) {
    // A request without an id wants no answer, not even a bad one.
    if let Some(id) = id {
        let _ = outbox.send(response(id, answer)).await;
    }
}

fn response(id: Value, answer: Answer) -> Vec<u8> {
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
async fn write(
    stream: &Stream,
    mut frames: mpsc::Receiver<Vec<u8>>,
    mut subscriptions: mpsc::Receiver<Subscription>,
    patience: Duration,
) {
    let mut subscription: Option<Subscription> = None;
    loop {
        let mut frame = tokio::select! {
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
                Some(frame) => frame,
                None => continue,
            },
        };
        // Answers that wait already go with it.
        while frame.len() < WRITE_SIZE
            && let Ok(next) = frames.try_recv()
        {
            frame.extend(next);
        }
        let mut stream = stream;
        if !matches!(
            tokio::time::timeout(patience, stream.write_all(&frame)).await,
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

fn wanted(subscription: &Subscription, told: &Told) -> Option<Vec<u8>> {
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
