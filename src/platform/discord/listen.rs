//! Receives events from the gateway, and forwards messages to the inbox in their order.

use std::pin::pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serenity::http::Route;
use serenity::model::gateway::GatewayIntents;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::channel::{Channel, id_of};
use super::gateway::{Connection, Dispatch, End, Login, Queues, Session};
use super::{Discord, NAME, parse};
use crate::clock;
use crate::domain::{ChatType, Source};
use crate::platform::{InboundEvent, InboundMessage, ListenContext, PlatformError};

/// Discord keeps a session without a connection for a short time only. An older one is not tried.
const SESSION_LIVES: f64 = 600.0;
/// The time between two beginnings of a session. Discord allows one in five seconds.
const BETWEEN_STARTS: Duration = Duration::from_millis(5_200);
/// The most events that wait to be handled. With more, the connection ends and the gateway repeats them.
const MOST_WAITING: usize = 10_000;
/// The time between two writes of the position. What is handled meanwhile may be received twice after a restart, and
/// `inbound` drops the second one.
const STORE_EVERY: Duration = Duration::from_secs(5);
/// How long answers to interactions may take after the connection has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// The stored position: the last message, and the session to continue.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) message: Option<String>,
    session: Option<Session>,
}

impl Position {
    fn advance(&mut self, message: String) {
        let number = |id: &str| id.parse::<u64>().ok();
        let is_newer = |known: &String| number(known) < number(&message);
        if self.message.as_ref().is_none_or(is_newer) {
            self.message = Some(message);
        }
    }
}

/// How far the events of an account are handled.
struct Progress {
    account: String,
    position: Position,
    stored: Option<Instant>,
    /// The present connection has a session.
    is_up: bool,
}

/// The events that the adapter uses: messages with their text, threads, channels and servers.
fn intents() -> GatewayIntents {
    GatewayIntents::GUILDS
        | GatewayIntents::GUILD_MESSAGES
        | GatewayIntents::DIRECT_MESSAGES
        | GatewayIntents::MESSAGE_CONTENT
}

impl Discord {
    /// Listens until an error ends it, and returns that error.
    pub(super) async fn receive(&self, context: &ListenContext) -> PlatformError {
        if let Err(error) = self.report_people(context).await {
            return error;
        }
        tokio::select! {
            error = self.receive_events(context) => error,
            error = self.offer_commands() => error,
        }
    }

    async fn receive_events(&self, context: &ListenContext) -> PlatformError {
        let account = self.me();
        let stored = match self.context.cursor(&account).await {
            Ok(stored) => stored,
            Err(error) => return error,
        };
        let age = stored
            .as_ref()
            .map_or(f64::MAX, |cursor| clock::now() - cursor.at);
        let mut position: Position = stored
            .and_then(|cursor| serde_json::from_str(&cursor.value).ok())
            .unwrap_or_default();
        if age > SESSION_LIVES {
            position.session = None;
        }
        let mut progress = Progress {
            account,
            position,
            stored: None,
            is_up: false,
        };
        loop {
            progress.is_up = false;
            let resumed = progress.position.session.is_some();
            match self.connection(context, &mut progress).await {
                End::Final(error) => return error,
                End::Resumable(reason) if progress.is_up => {
                    tracing::info!(platform = NAME, reason, "connecting to the gateway again");
                }
                // A session that is over may be the reason, so a new one is tried once.
                End::Fresh(reason) if progress.is_up || resumed => {
                    tracing::info!(
                        platform = NAME,
                        reason,
                        "beginning a new session of the gateway"
                    );
                    progress.position.session = None;
                }
                End::Resumable(reason) | End::Fresh(reason) => {
                    return PlatformError::transient(reason);
                }
            }
        }
    }

    /// One connection from its beginning to its end. Events that are received are handled even if the connection ends
    /// meanwhile.
    async fn connection(&self, context: &ListenContext, progress: &mut Progress) -> End {
        let position = &mut progress.position;
        let url = match self.gateway_url(position.session.is_none()).await {
            Ok(url) => url,
            Err(error) => return End::Final(error),
        };
        if let Some(session) = &mut position.session
            && self.allowed_gateway(&session.url).is_none()
        {
            session.url.clone_from(&url);
        }
        if position.session.is_none() {
            self.wait_for_start().await;
        }
        let login = Login {
            url: &url,
            token: self.api.bare_token(),
            intents: intents(),
            resume: position.session.clone(),
        };
        let connection = match Connection::open(login).await {
            Ok(connection) => connection,
            Err(end) => return end,
        };
        let (events, queue) = mpsc::channel(MOST_WAITING);
        let (interactions, presses) = mpsc::channel(MOST_WAITING);
        let queues = Queues {
            events,
            interactions,
        };
        let ended = tokio_util::sync::CancellationToken::new();
        let mut receiving = pin!(connection.run(queues));
        let mut handling = pin!(async {
            tokio::try_join!(
                self.handle_events(context, queue, progress),
                self.answer_interactions(context, presses, &ended, LAST_ANSWERS),
            )
        });
        let end = tokio::select! {
            end = &mut receiving => end,
            Err(error) = &mut handling => return End::Final(error),
        };
        ended.cancel();
        match handling.await {
            Ok(_) => end,
            // The event is repeated to the next connection, because it is not handled.
            Err(error) => End::Final(error),
        }
    }

    /// Waits until Discord allows another session to begin.
    async fn wait_for_start(&self) {
        let last = *self.last_start.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(last) = last {
            tokio::time::sleep_until(last + BETWEEN_STARTS).await;
        }
        *self.last_start.lock().unwrap_or_else(|e| e.into_inner()) = Some(Instant::now());
    }

    /// Handles events in their order until there are no more.
    async fn handle_events(
        &self,
        context: &ListenContext,
        mut queue: mpsc::Receiver<Dispatch>,
        progress: &mut Progress,
    ) -> Result<(), PlatformError> {
        while let Some(Dispatch { seq, name, data }) = queue.recv().await {
            if matches!(name.as_str(), "READY" | "RESUMED") {
                progress.is_up = true;
                context.alive();
            }
            let handled = match name.as_str() {
                "READY" => {
                    let newest = self.fetch_missed(context, &progress.position).await?;
                    // Before an ended chat is released, what was said there is accepted.
                    self.find_ended(context, &data).await?;
                    // Only now, so that an error above leads to another READY.
                    progress.position.session = Session::begun(&data, seq);
                    progress.stored = None;
                    // Without any message so far, the backlog of the next start begins now.
                    let known = progress.position.message.is_some();
                    newest.or_else(|| (!known).then(|| parse::id_at(clock::now()).to_string()))
                }
                _ => self.handle(context, &name, &data).await?,
            };
            if let Some(session) = &mut progress.position.session {
                session.seq = seq;
            }
            if let Some(message) = handled {
                progress.position.advance(message);
            }
            self.store(progress).await;
        }
        Ok(())
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

    /// The address of the gateway. `None` of our servers means Discord's: a server of yours must name its own.
    async fn gateway_url(&self, identifies: bool) -> Result<String, PlatformError> {
        let answer = self.api.get(Route::GatewayBot).await?;
        let limit = answer.get("session_start_limit");
        let number = |field: &str| limit?.get(field)?.as_u64();
        if identifies && number("remaining") == Some(0) {
            let pause = Duration::from_millis(number("reset_after").unwrap_or(60_000));
            return Err(PlatformError::Transient {
                reason: "Discord allows no more sessions of the gateway today".into(),
                retry_after: Some(pause),
                unsure: false,
            });
        }
        let url = id_of(&answer, "url").unwrap_or_default();
        match self.allowed_gateway(&url) {
            Some(url) => Ok(url.to_owned()),
            None => Err(PlatformError::Permanent(
                "the server of platforms.discord.base_url names no gateway of its own".into(),
            )),
        }
    }

    /// Discord's own gateway gets no token that is meant for another server.
    fn allowed_gateway<'a>(&self, url: &'a str) -> Option<&'a str> {
        let parsed = reqwest::Url::parse(url).ok()?;
        let is_vendor = parsed
            .host_str()
            .is_some_and(|host| host.ends_with("discord.gg"));
        let is_own = self.rules.base_url.is_some();
        let is_socket = matches!(parsed.scheme(), "ws" | "wss");
        (is_socket && !(is_own && is_vendor)).then_some(url)
    }

    /// Handles one event. Returns the id of a message that is accepted.
    async fn handle(
        &self,
        context: &ListenContext,
        name: &str,
        data: &Value,
    ) -> Result<Option<String>, PlatformError> {
        self.report_end(context, name, data).await?;
        match name {
            "GUILD_CREATE" => self.remember_guild(data),
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                if let Some(channel) = Channel::read(data) {
                    self.channels.remember(channel);
                }
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(id) = id_of(data, "id") {
                    self.channels.forget(&id);
                }
            }
            "MESSAGE_CREATE" => return self.accept(context, data, InboundEvent::Message).await,
            // Discord also reports previews of links and the like as updates.
            "MESSAGE_UPDATE" if data.get("edited_timestamp").is_some_and(Value::is_string) => {
                self.accept(context, data, InboundEvent::Changed).await?;
            }
            "MESSAGE_DELETE" => self.withdraw(context, data).await?,
            _ => {}
        }
        Ok(None)
    }

    async fn withdraw(&self, context: &ListenContext, data: &Value) -> Result<(), PlatformError> {
        let (Some(chat), Some(message_id)) = (id_of(data, "channel_id"), id_of(data, "id")) else {
            return Ok(());
        };
        let source = Source::new(NAME, ChatType::Group, &chat);
        let event = InboundEvent::Deleted { source, message_id };
        let accepted = context.inbox.accept(event).await;
        accepted.map_err(|error| PlatformError::Storage(error.to_string()))
    }

    fn remember_guild(&self, guild: &Value) {
        if let (Some(id), Some(name)) = (id_of(guild, "id"), id_of(guild, "name")) {
            self.channels.remember_guild(id, name);
        }
        for list in ["channels", "threads"] {
            for channel in guild
                .get(list)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                if let Some(mut channel) = Channel::read(channel) {
                    channel.guild = id_of(guild, "id");
                    self.channels.remember(channel);
                }
            }
        }
    }

    pub(super) async fn accept(
        &self,
        context: &ListenContext,
        data: &Value,
        event: fn(InboundMessage) -> InboundEvent,
    ) -> Result<Option<String>, PlatformError> {
        let me = self.me();
        if !parse::is_for_us(data, &me) {
            return Ok(None);
        }
        let Some(place) = self.place_of(data).await? else {
            return Ok(None);
        };
        let Some(message) = parse::message(data, &place, &me) else {
            tracing::warn!(platform = NAME, "unreadable message skipped");
            return Ok(None);
        };
        let id = message.message_id.clone();
        let accepted = context.inbox.accept(event(message)).await;
        accepted.map_err(|error| PlatformError::Storage(error.to_string()))?;
        Ok(Some(id))
    }
}
