//! One connection: frames in, answers and events out. Requests run side by side and are answered as they finish; a
//! client that is slow, silent, malformed or gone costs nobody else anything.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Listener as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::endings;
use super::limits::{self, Kind, RequestBudget};
use super::outbox::{self, Outbox, response};
use super::{ControlContext, PeerPolicy};
use crate::control::handlers::{self, Answer, Place, Subscription};
use crate::domain::RefusalKind;
use crate::protocol::{self, Call, MAX_FRAME, RpcError, code};

/// A frame that was begun has to be finished within this time.
const FRAME_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether a client that says nothing more is still there.
const GONE_CHECK: Duration = Duration::from_millis(500);

/// Accepts until `stop`, then waits for the connections to finish their answers.
pub async fn serve(
    listener: Listener,
    context: Arc<ControlContext>,
    doorman: PeerPolicy,
    stop: CancellationToken,
) {
    let tracker = TaskTracker::new();
    tracker.spawn(endings::watch(context.clone(), stop.clone()));
    let permits = Arc::new(Semaphore::new(context.limits.connections));
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
                RpcError::new(code::REFUSED, reason)
                    .with_data(RefusalKind::Forbidden.as_str(), None),
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
        let (context, stop) = (context.clone(), stop.clone());
        tracker.spawn(async move {
            let _permit = permit;
            context.connections.fetch_add(1, Ordering::Relaxed);
            converse(&stream, &context, &stop).await;
            context.connections.fetch_sub(1, Ordering::Relaxed);
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

async fn converse(stream: &Stream, context: &Arc<ControlContext>, stop: &CancellationToken) {
    let place = Place::default();
    let seat = place.clone();
    let (outbox, frames) = Outbox::new();
    let (subscribe, subscriptions) = mpsc::channel(1);
    let mut reader = Reader {
        stream,
        context: context.clone(),
        outbox,
        subscribe,
        buffer: Vec::new(),
        place: place.clone(),
        room: RequestBudget::of_a_connection(),
        stop,
        ends_with_connection: JoinSet::new(),
        actions: TaskTracker::new(),
        greeted: false,
        subscribed: false,
    };
    let reading = async move {
        reader.run().await;
        // With the reader goes the way into the outbox: the writer ends when it has written what is left there. An answer
        // that still comes holds it up, so a terminal that is gone is told now: that cuts the answer off.
        drop(reader);
        place.vacate(&context.terminals);
    };
    let writing = outbox::write(stream, frames, subscriptions, context.limits.write);
    tokio::pin!(writing);
    tokio::select! {
        // The client is gone or does not read: whatever it still asked for is dropped.
        () = &mut writing => {}
        () = reading => writing.await,
    }
    // Whatever way a terminal went, its session is finalised.
    seat.vacate(&context.terminals);
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
    context: Arc<ControlContext>,
    outbox: Outbox,
    subscribe: mpsc::Sender<Subscription>,
    buffer: Vec<u8>,
    /// Where this client sits, once it is a terminal.
    place: Place,
    room: RequestBudget,
    stop: &'a CancellationToken,
    /// Reads and waits.
    ends_with_connection: JoinSet<()>,
    actions: TaskTracker,
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
    async fn run(&mut self) {
        let stop = self.stop;
        loop {
            let input = tokio::select! {
                input = self.next() => input,
                () = stop.cancelled() => Input::End,
            };
            match input {
                Input::Frame(frame) if frame.iter().all(u8::is_ascii_whitespace) => {}
                Input::Frame(frame) => {
                    if !self.take(&frame).await {
                        return;
                    }
                }
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
        let (waits, actions) = (&mut self.ends_with_connection, &self.actions);
        actions.close();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = async {
                while waits.join_next().await.is_some() {}
                actions.wait().await;
            } => {}
            () = gone(self.stream) => {}
        }
    }

    async fn refuse(&mut self, error: RpcError) {
        self.outbox.send(response(Value::Null, Err(error))).await;
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
            while self.ends_with_connection.try_join_next().is_some() {}
            let mut stream = self.stream;
            let read = stream.read(&mut chunk);
            // A frame has its time as a whole, however it drips in.
            let deadline = match begun {
                Some(begun) => Some(begun + FRAME_PATIENCE),
                None => self.context.limits.idle.map(|idle| Instant::now() + idle),
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
                            || !self.ends_with_connection.is_empty()
                            || !self.actions.is_empty() =>
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

    /// Handles one request. False: the client is gone, or the daemon stops.
    async fn take(&mut self, frame: &[u8]) -> bool {
        let (id, call) = protocol::parse_request(frame);
        match call {
            Err(error) => self.answer(id, Err(error)).await,
            Ok(Call::Hello(hello)) => {
                let result = handlers::hello(&self.context, &hello);
                self.greeted = self.greeted || result.is_ok();
                self.answer(id, result).await;
            }
            Ok(_) if !self.greeted => {
                let message = format!(
                    "say hello first: {{\"method\": \"hello\", \"params\": {{\"client\": …, \"version\": …, \"protocol\": {}}}}}",
                    protocol::PROTOCOL
                );
                self.answer(id, Err(RpcError::new(code::HELLO_FIRST, message)))
                    .await;
            }
            Ok(Call::EventsSubscribe(wish)) => {
                let subscription = Subscription {
                    topics: wish.topics,
                    session: wish.session,
                    events: self.context.bus.listen(),
                };
                self.subscribed = true;
                // The answer is queued first: no event overtakes it.
                self.answer(id, handlers::answer(&json!({}))).await;
                let _ = self.subscribe.send(subscription).await;
            }
            Ok(call) => return self.start(id, call, frame.len()).await,
        }
        true
    }

    /// Starts a request as soon as there is room for it. False: the client is gone, or the daemon stops.
    async fn start(&mut self, id: Option<Value>, call: Call, bytes: usize) -> bool {
        let kind = Kind::of(&call);
        let Some(own) = self.place(kind, bytes).await else {
            return false;
        };
        let Some(shared) = self.context.room.try_place(kind, bytes) else {
            let message = "too many requests of all clients are under way: try again later";
            let error = RpcError::new(code::UNAVAILABLE, message)
                .with_data(RefusalKind::TooMany.as_str(), None);
            self.answer(id, Err(error)).await;
            return true;
        };
        while self.ends_with_connection.try_join_next().is_some() {}
        let (context, outbox, place) = (
            self.context.clone(),
            self.outbox.clone(),
            self.place.clone(),
        );
        let room = (own, shared);
        match call {
            // There may be many who wait, so their tasks hold no more than that takes.
            Call::HandoffWait(wish) => {
                self.ends_with_connection.spawn(async move {
                    let _room = room;
                    let ended = handlers::ended(&context, wish.id).await;
                    let _turn = outbox.turn().await;
                    let answer = ended.and_then(|()| handlers::show(&context, wish.id));
                    outbox.respond(id, answer).await;
                });
            }
            call if kind == Kind::Read => {
                self.ends_with_connection.spawn(async move {
                    let _room = room;
                    let answer = handlers::perform(&context, &place, call).await;
                    outbox.respond(id, answer).await;
                });
            }
            // What a request has set going is not stopped by a client that leaves.
            call => {
                self.actions.spawn(async move {
                    let _room = room;
                    let answer = handlers::perform(&context, &place, call).await;
                    outbox.respond(id, answer).await;
                });
            }
        }
        true
    }

    /// Waits for room on this connection, as long as there is a client and the daemon runs.
    async fn place(&self, kind: Kind, bytes: usize) -> Option<limits::Place> {
        if let Some(place) = self.room.try_place(kind, bytes) {
            return Some(place);
        }
        tokio::select! {
            place = self.room.place(kind, bytes) => place,
            () = gone(self.stream) => None,
            () = self.stop.cancelled() => None,
        }
    }

    async fn answer(&self, id: Option<Value>, answer: Answer) {
        self.outbox.respond(id, answer).await;
    }
}
