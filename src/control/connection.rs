//! Serves the connections of the control socket: reads frames, starts their requests, sends answers and events.
//! Requests run concurrently. A slow, silent, malformed or closed client does not affect other clients.

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
use super::limits::{Kind, Permit, RequestBudget};
use super::outbox::{self, ClientOutbox, response};
use super::{ControlContext, PeerPolicy};
use crate::control::handlers::{self, Answer, Subscription, TerminalSlot};
use crate::domain::RefusalKind;
use crate::protocol::{self, Call, MAX_FRAME, RpcError, code};

/// The time from the first byte of a frame to its last.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval between checks whether a half-closed client is still there.
const GONE_CHECK: Duration = Duration::from_millis(500);

/// Accepts until `stop`, then waits for the connections to finish their answers.
pub async fn serve(
    listener: Listener,
    context: Arc<ControlContext>,
    peer_policy: PeerPolicy,
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
                // Most likely there are no descriptors left. Other connections have to close first.
                tracing::warn!(%error, "cannot accept connection, will retry");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        if let Err(reason) = peer_policy.check(&stream) {
            tracing::warn!(reason, "connection rejected");
            tracker.spawn(reject(
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
            tracker.spawn(reject(stream, error));
            continue;
        };
        let (context, stop) = (context.clone(), stop.clone());
        tracker.spawn(async move {
            let _permit = permit;
            context.connections.fetch_add(1, Ordering::Relaxed);
            serve_connection(&stream, &context, &stop).await;
            context.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
    drop(listener);
    tracker.close();
    tracker.wait().await;
}

async fn reject(stream: Stream, error: RpcError) {
    let frame = response(Value::Null, Err(error));
    let _ = tokio::time::timeout(Duration::from_secs(1), (&stream).write_all(&frame)).await;
}

async fn serve_connection(
    stream: &Stream,
    context: &Arc<ControlContext>,
    stop: &CancellationToken,
) {
    let terminal = TerminalSlot::default();
    let terminal_of_reader = terminal.clone();
    let (outbox, frames) = ClientOutbox::new();
    let (subscribe, subscriptions) = mpsc::channel(1);
    let mut reader = Reader {
        stream,
        context: context.clone(),
        outbox,
        subscribe,
        buffer: Vec::new(),
        terminal: terminal.clone(),
        budget: RequestBudget::of_a_connection(),
        stop,
        ends_with_connection: JoinSet::new(),
        actions: TaskTracker::new(),
        greeted: false,
        subscribed: false,
    };
    let reading = async move {
        reader.run().await;
        // The writer ends when all senders of the outbox are dropped. A turn in progress still holds one. Detaching
        // the terminal interrupts that turn.
        drop(reader);
        terminal_of_reader.detach(&context.terminals);
    };
    let writing = outbox::write(stream, frames, subscriptions, context.limits.write);
    tokio::pin!(writing);
    tokio::select! {
        // The client has closed the connection or does not read: its reads and waits are dropped.
        () = &mut writing => {}
        () = reading => writing.await,
    }
    // In both cases the session of a terminal is finalised.
    terminal.detach(&context.terminals);
}

/// Resolves when the client has closed both directions. A read cannot tell that from a half close, but an empty write
/// fails.
async fn closed(mut stream: &Stream) {
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
    outbox: ClientOutbox,
    subscribe: mpsc::Sender<Subscription>,
    buffer: Vec<u8>,
    /// Set after `chat.open`.
    terminal: TerminalSlot,
    budget: RequestBudget,
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
                    if !self.handle(&frame).await {
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
                        "a line was not finished within {} s",
                        FRAME_TIMEOUT.as_secs()
                    );
                    return self
                        .refuse(RpcError::new(code::INVALID_REQUEST, message))
                        .await;
                }
                Input::Idle => return,
                Input::End => break,
            }
        }
        // The client sends nothing more. It still gets its answers, until it closes the connection or the daemon stops.
        let (waits, actions) = (&mut self.ends_with_connection, &self.actions);
        actions.close();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = async {
                while waits.join_next().await.is_some() {}
                actions.wait().await;
            } => {}
            () = closed(self.stream) => {}
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
            // The timeout covers the whole frame, not each read.
            let deadline = match begun {
                Some(begun) => Some(begun + FRAME_TIMEOUT),
                None => self.context.limits.idle.map(|idle| Instant::now() + idle),
            };
            let read = match deadline {
                None => read.await,
                Some(deadline) => match tokio::time::timeout_at(deadline, read).await {
                    Ok(read) => read,
                    Err(_) if begun.is_some() => return Input::TooSlow,
                    // A client that waits for an answer or for events is not idle, nor is a terminal.
                    Err(_)
                        if self.subscribed
                            || self.terminal.is_attached()
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

    /// Handles one frame. Returns false if the client has closed the connection or the daemon stops.
    async fn handle(&mut self, frame: &[u8]) -> bool {
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
                    "send hello first: {{\"method\": \"hello\", \"params\": {{\"client\": …, \"version\": …, \"protocol\": {}}}}}",
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
                // The answer is queued first, so that no event overtakes it.
                self.answer(id, handlers::answer(&json!({}))).await;
                let _ = self.subscribe.send(subscription).await;
            }
            Ok(call) => return self.start(id, call, frame.len()).await,
        }
        true
    }

    /// Starts a request when its budget allows it. Returns false if the client has closed the connection or the daemon
    /// stops.
    async fn start(&mut self, id: Option<Value>, call: Call, bytes: usize) -> bool {
        let kind = Kind::of(&call);
        let Some(own) = self.permit(kind, bytes).await else {
            return false;
        };
        let Some(shared) = self.context.budget.try_acquire(kind, bytes) else {
            let message = "too many requests of all clients are in progress: try again later";
            let error = RpcError::new(code::UNAVAILABLE, message)
                .with_data(RefusalKind::TooMany.as_str(), None);
            self.answer(id, Err(error)).await;
            return true;
        };
        while self.ends_with_connection.try_join_next().is_some() {}
        let (context, outbox, terminal) = (
            self.context.clone(),
            self.outbox.clone(),
            self.terminal.clone(),
        );
        let permits = (own, shared);
        match call {
            // Thousands of these may wait, so their tasks hold only what the wait needs.
            Call::HandoffWait(wish) => {
                self.ends_with_connection.spawn(async move {
                    let _permits = permits;
                    let ended = handlers::ended(&context, wish.id).await;
                    let _answering = outbox.answering().await;
                    let answer = ended.and_then(|()| handlers::show(&context, wish.id));
                    outbox.respond(id, answer).await;
                });
            }
            call if kind == Kind::Read => {
                self.ends_with_connection.spawn(async move {
                    let _permits = permits;
                    let answer = handlers::perform(&context, &terminal, call).await;
                    outbox.respond(id, answer).await;
                });
            }
            // A change is finished even if the client closes the connection.
            call => {
                self.actions.spawn(async move {
                    let _permits = permits;
                    let answer = handlers::perform(&context, &terminal, call).await;
                    outbox.respond(id, answer).await;
                });
            }
        }
        true
    }

    /// Waits for the connection's own budget. `None` if the client closes the connection or the daemon stops.
    async fn permit(&self, kind: Kind, bytes: usize) -> Option<Permit> {
        if let Some(permit) = self.budget.try_acquire(kind, bytes) {
            return Some(permit);
        }
        tokio::select! {
            permit = self.budget.acquire(kind, bytes) => permit,
            () = closed(self.stream) => None,
            () = self.stop.cancelled() => None,
        }
    }

    async fn answer(&self, id: Option<Value>, answer: Answer) {
        self.outbox.respond(id, answer).await;
    }
}
