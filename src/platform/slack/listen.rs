//! Keeps a connection of Socket Mode, and forwards what it receives to the inbox in its order.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::address::{Person, micros, ts_at};
use super::parse::{self, text};
use super::socket::{Connection, End, Envelope, Queues, Received};
use super::{NAME, Slack};
use crate::clock;
use crate::domain::{EndReason, EndedPlace, Source};
use crate::platform::{InboundEvent, InboundMessage, ListenContext, PlatformError};

/// The most events that wait to be handled. With more, the connection ends, and Slack sends them again.
const MOST_WAITING: usize = 10_000;
/// The time between two writes of the position. What is handled meanwhile may be received twice after a restart, and
/// `inbound` drops the second one.
const STORE_EVERY: Duration = Duration::from_secs(5);
/// Slack sends an event again that is not acknowledged for this time.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(3);
/// A connection that ends sooner does not work. The registry waits before it opens another.
const WORKS_AFTER: Duration = Duration::from_secs(3);
const PATIENCE_FOR_TITLES: Duration = Duration::from_secs(2);
/// The pause before another attempt to replace a connection that still works.
const REPLACE_AGAIN: Duration = Duration::from_secs(5);

/// The stored position.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Position {
    /// The time of the last message that is handled.
    pub(super) message: Option<String>,
}

impl Position {
    pub(super) fn advance(&mut self, message: &str) {
        let known = self.message.as_deref().and_then(micros);
        if micros(message) > known {
            self.message = Some(message.to_owned());
        }
    }
}

/// How far the events of an account are handled.
pub(super) struct Progress {
    account: String,
    pub(super) position: Position,
    stored: Option<Instant>,
}

/// What happens to a connection.
enum Step {
    /// It is there. The token tells it that another one has taken over.
    Opened(Box<Connection>, CancellationToken),
    NotOpened(PlatformError),
    /// The connection with this number has ended, after so long.
    Ended(u64, End, Duration),
    /// Slack has asked to leave it.
    Leaving,
}

/// The connection that is in use.
struct Current {
    number: u64,
    replaced: CancellationToken,
}

impl Slack {
    /// Listens until an error ends it, and returns that error.
    pub(super) async fn receive(&self, context: &ListenContext) -> PlatformError {
        let (events, received) = mpsc::channel(MOST_WAITING);
        let (interactions, presses) = mpsc::channel(MOST_WAITING);
        let queues = Queues {
            events,
            interactions,
        };
        tokio::select! {
            error = self.keep_connected(context, queues) => error,
            error = self.handle_received(context, received) => error,
            error = self.answer_interactions(context, presses) => error,
        }
    }

    /// Keeps one connection. If Slack asks to leave it, the next one is opened first.
    async fn keep_connected(&self, context: &ListenContext, queues: Queues) -> PlatformError {
        let mut steps: FuturesUnordered<BoxFuture<'_, Step>> = FuturesUnordered::new();
        let (leaving, mut requests) = mpsc::unbounded_channel();
        let open_next = |pause: Duration| self.open_next(pause, leaving.clone()).boxed();
        let mut current: Option<Current> = None;
        let (mut is_opening, mut number) = (true, 0);
        steps.push(open_next(Duration::ZERO));
        loop {
            let step = tokio::select! {
                Some(step) = steps.next() => step,
                Some(()) = requests.recv() => Step::Leaving,
                else => return PlatformError::transient("no connection of Socket Mode is left"),
            };
            match step {
                Step::Opened(connection, replaced) => {
                    (is_opening, number) = (false, number + 1);
                    context.alive();
                    match current.replace(Current { number, replaced }) {
                        Some(before) => before.replaced.cancel(),
                        // Before the events of this connection.
                        None => drop(queues.events.try_send(Received::Begun)),
                    }
                    let (number, begun) = (number, Instant::now());
                    let run = connection.run(queues.clone());
                    let ended = move |end| Step::Ended(number, end, begun.elapsed());
                    steps.push(run.map(ended).boxed());
                }
                Step::Leaving if is_opening => {}
                Step::Leaving => {
                    tracing::debug!(platform = NAME, "Slack asks for another connection");
                    is_opening = true;
                    steps.push(open_next(Duration::ZERO));
                }
                Step::NotOpened(error) => match (&current, error) {
                    (Some(_), PlatformError::Transient { reason, .. }) => {
                        tracing::info!(platform = NAME, reason, "connection not replaced yet");
                        steps.push(open_next(REPLACE_AGAIN));
                    }
                    (_, error) => return error,
                },
                Step::Ended(_, End::Final(error), _) => return error,
                Step::Ended(number, end, lasted) => {
                    // A connection that was replaced no longer matters.
                    if current
                        .as_ref()
                        .is_none_or(|current| current.number != number)
                    {
                        continue;
                    }
                    current = None;
                    if let End::Broken(reason) = end {
                        if lasted < WORKS_AFTER {
                            return PlatformError::transient(reason);
                        }
                        tracing::info!(platform = NAME, reason, "connecting to Slack again");
                    }
                    if !is_opening {
                        is_opening = true;
                        steps.push(open_next(Duration::ZERO));
                    }
                }
            }
        }
    }

    async fn open_next(&self, pause: Duration, leaving: mpsc::UnboundedSender<()>) -> Step {
        tokio::time::sleep(pause).await;
        let url = match self.connection_url().await {
            Ok(url) => url,
            Err(error) => return Step::NotOpened(error),
        };
        let replaced = CancellationToken::new();
        match Connection::open(url, leaving, replaced.clone()).await {
            Ok(connection) => Step::Opened(Box::new(connection), replaced),
            Err(End::Final(error)) => Step::NotOpened(error),
            Err(End::Broken(reason)) => Step::NotOpened(PlatformError::transient(reason)),
            Err(End::Replaced) => {
                Step::NotOpened(PlatformError::transient("Slack closed the connection"))
            }
        }
    }

    /// Handles what is received in its order.
    async fn handle_received(
        &self,
        context: &ListenContext,
        mut received: mpsc::Receiver<Received>,
    ) -> PlatformError {
        let me = self.me();
        let account = format!("{}:{}", me.workspace, me.user);
        let stored = match self.context.cursor(&account).await {
            Ok(stored) => stored,
            Err(error) => return error,
        };
        let position = stored.and_then(|cursor| serde_json::from_str(&cursor.value).ok());
        let mut progress = Progress {
            account,
            position: position.unwrap_or_default(),
            stored: None,
        };
        while let Some(received) = received.recv().await {
            let handled = match received {
                Received::Begun => self.begin(context, &mut progress).await,
                Received::Event(envelope) => self.handle(context, envelope, &mut progress).await,
            };
            // Slack sends an event again that is not acknowledged.
            if let Err(error) = handled {
                return error;
            }
            self.store(&mut progress).await;
        }
        PlatformError::transient("no connection of Socket Mode is left")
    }

    async fn begin(
        &self,
        context: &ListenContext,
        progress: &mut Progress,
    ) -> Result<(), PlatformError> {
        if progress.position.message.is_none() {
            // Without any message so far, the backlog of the next start begins now.
            progress.position.message = Some(ts_at(clock::now()));
        } else {
            self.fetch_missed(context, &mut progress.position).await?;
        }
        progress.stored = None;
        Ok(())
    }

    async fn handle(
        &self,
        context: &ListenContext,
        envelope: Envelope,
        progress: &mut Progress,
    ) -> Result<(), PlatformError> {
        if let Some(message) = self.handle_event(context, &envelope.payload).await? {
            progress.position.advance(&message);
        }
        let took = envelope.received.elapsed();
        if took > ACKNOWLEDGED_WITHIN {
            tracing::warn!(
                platform = NAME,
                seconds = took.as_secs(),
                "event acknowledged late, Slack may send it again"
            );
        }
        let event = envelope.payload["event"].clone();
        envelope.acknowledge();
        self.entitle(&event).await;
        Ok(())
    }

    /// The first words in a thread of the assistant become its title in the assistant's history.
    async fn entitle(&self, event: &Value) {
        let (channel, thread) = (text(event, "channel"), text(event, "thread_ts"));
        if self.places.takes_title(channel, thread) {
            let words = super::words::read(text(event, "text"), &self.me().user).text;
            // Events behind it must not wait for a title.
            let set = self.set_title(channel, thread, &words);
            let _ = tokio::time::timeout(PATIENCE_FOR_TITLES, set).await;
        }
    }

    async fn store(&self, progress: &mut Progress) {
        let is_recent = |at: Instant| at.elapsed() < STORE_EVERY;
        if progress.stored.is_some_and(is_recent) {
            return;
        }
        let value = serde_json::to_string(&progress.position).unwrap_or_default();
        match self.context.set_cursor(&progress.account, &value).await {
            Ok(()) => progress.stored = Some(Instant::now()),
            // The messages are fetched again, and `inbound` drops the duplicates.
            Err(error) => tracing::warn!(%error, platform = NAME, "position not stored"),
        }
    }

    /// Handles one event. Returns the time of a message that is accepted.
    async fn handle_event(
        &self,
        context: &ListenContext,
        payload: &Value,
    ) -> Result<Option<String>, PlatformError> {
        let event = &payload["event"];
        if !self.is_of_our_workspace(payload) {
            return Ok(None);
        }
        match (text(event, "type"), text(event, "subtype")) {
            ("message", "message_changed") => self.changed(context, event).await.map(|()| None),
            ("message", "message_deleted") => {
                let deleted = text(event, "deleted_ts");
                self.deleted(context, event, deleted).await.map(|()| None)
            }
            ("message" | "app_mention", _) => {
                self.accept(context, event, InboundEvent::Message).await
            }
            ("assistant_thread_started", _) => {
                let thread = &event["assistant_thread"];
                let (channel, ts) = (text(thread, "channel_id"), text(thread, "thread_ts"));
                self.places.assistant_opened(channel, ts);
                Ok(None)
            }
            (name, _) if let Some((place, reason)) = end_of(name, event) => {
                let platform = NAME;
                let ended = InboundEvent::Ended {
                    platform,
                    place,
                    reason,
                };
                let accepted = context.inbox.accept(ended).await;
                accepted.map_err(|error| PlatformError::Storage(error.to_string()))?;
                Ok(None)
            }
            ("tokens_revoked" | "app_uninstalled", _) => Err(PlatformError::transient(
                "Slack says that the app's tokens are no longer valid",
            )),
            _ => Ok(None),
        }
    }

    /// One app may be in several workspaces, and all their events arrive here.
    fn is_of_our_workspace(&self, payload: &Value) -> bool {
        let ours = self.me().workspace;
        let authorizations = payload["authorizations"].as_array().into_iter().flatten();
        let authorized = authorizations.map(|of| text(of, "team_id"));
        let named = [text(payload, "team_id"), text(payload, "context_team_id")];
        let mut teams = named
            .into_iter()
            .chain(authorized)
            .filter(|team| !team.is_empty());
        let is_ours = ours.is_empty() || teams.any(|team| team == ours);
        if !is_ours {
            self.warn_of_workspace(text(payload, "team_id"));
        }
        is_ours
    }

    /// A message was edited, or Slack has changed something about it.
    async fn changed(&self, context: &ListenContext, event: &Value) -> Result<(), PlatformError> {
        let (now, before) = (&event["message"], &event["previous_message"]);
        // The first message of a thread stays as a note when it is deleted.
        if text(now, "subtype") == "tombstone" {
            return self.deleted(context, event, text(now, "ts")).await;
        }
        if !now["edited"].is_object() || now["text"] == before["text"] {
            return Ok(());
        }
        let mut changed = now.clone();
        for field in ["channel", "channel_type"] {
            changed[field] = event[field].clone();
        }
        self.accept(context, &changed, InboundEvent::Changed)
            .await?;
        Ok(())
    }

    async fn deleted(
        &self,
        context: &ListenContext,
        event: &Value,
        ts: &str,
    ) -> Result<(), PlatformError> {
        let channel = text(event, "channel");
        let place = self.place(channel, event["channel_type"].as_str()).await?;
        let deleted = InboundEvent::Deleted {
            source: Source::new(NAME, place.kind.chat_type(), channel),
            message_id: ts.to_owned(),
        };
        let accepted = context.inbox.accept(deleted).await;
        accepted.map_err(|error| PlatformError::Storage(error.to_string()))
    }

    /// Reports a message. Returns its time.
    pub(super) async fn accept(
        &self,
        context: &ListenContext,
        event: &Value,
        report: fn(InboundMessage) -> InboundEvent,
    ) -> Result<Option<String>, PlatformError> {
        let me = self.me();
        if !parse::is_for_us(event, &me) {
            return Ok(None);
        }
        let place = self.place(text(event, "channel"), event["channel_type"].as_str());
        let place = place.await?;
        let id = parse::author(event);
        let name = match id.filter(|id| super::address::is_person(id)) {
            Some(id) => self.person_name(id).await,
            None => Some(text(event, "username").to_owned()).filter(|name| !name.is_empty()),
        };
        let person = Person {
            id: id.map(str::to_owned),
            name,
        };
        let Some(message) = parse::message(event, &place, &person, &me, self.rules.threads) else {
            tracing::warn!(platform = NAME, "unreadable message skipped");
            return Ok(None);
        };
        let ts = message.message_id.clone();
        let accepted = context.inbox.accept(report(message)).await;
        accepted.map_err(|error| PlatformError::Storage(error.to_string()))?;
        Ok(Some(ts))
    }
}

/// The end of a channel that an event tells of.
fn end_of(name: &str, event: &Value) -> Option<(EndedPlace, EndReason)> {
    let reason = match name {
        "channel_archive" | "group_archive" => EndReason::Locked,
        "channel_deleted" | "group_deleted" => EndReason::Deleted,
        "channel_left" | "group_left" => EndReason::Removed,
        _ => return None,
    };
    Some((EndedPlace::Chat(text(event, "channel").to_owned()), reason))
}
