//! Receives events from the gateway, and fetches the messages of the time without a connection.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serenity::http::Route;
use serenity::model::channel::ChannelType as Kind;
use serenity::model::gateway::GatewayIntents;

use super::channel::{Channel, channel_id, id_of};
use super::failure::Failure;
use super::gateway::{Connection, End, Login, Session};
use super::{Discord, NAME, parse};
use crate::clock;
use crate::platform::{InboundEvent, ListenContext, PlatformError};

/// Discord keeps a session without a connection for a short time only. An older one is not tried.
const SESSION_LIVES: f64 = 600.0;
/// Events of several channels may arrive in another order than their ids, so the backlog begins this much earlier.
const OVERLAP: f64 = 60.0;
/// The pause before a new session, as the documentation asks for.
const FRESH_PAUSE: Duration = Duration::from_secs(2);
/// The most messages of one channel that are fetched after an absence.
const MOST_MISSED: usize = 1000;
const PAGE: usize = 100;
/// The most chats whose history is read after an absence. Each costs a call.
pub(super) const MOST_CHATS: usize = 200;

/// The stored position: the last message, and the session to continue.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Position {
    message: Option<String>,
    session: Option<Session>,
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
        loop {
            let mut was_up = false;
            let resumed = position.session.is_some();
            let end = self.connection(context, &account, &mut position, &mut was_up);
            match end.await {
                End::Final(error) => return error,
                End::Resumable(reason) if was_up => {
                    tracing::info!(platform = NAME, reason, "connecting to the gateway again");
                }
                // A session that is over may be the reason, so a new one is tried once.
                End::Fresh(reason) if was_up || resumed => {
                    tracing::info!(
                        platform = NAME,
                        reason,
                        "beginning a new session of the gateway"
                    );
                    position.session = None;
                    tokio::time::sleep(FRESH_PAUSE).await;
                }
                End::Resumable(reason) | End::Fresh(reason) => {
                    return PlatformError::transient(reason);
                }
            }
        }
    }

    /// One connection from its beginning to its end.
    async fn connection(
        &self,
        context: &ListenContext,
        account: &str,
        position: &mut Position,
        was_up: &mut bool,
    ) -> End {
        let url = match self.gateway_url(position.session.is_none()).await {
            Ok(url) => url,
            Err(error) => return End::Final(error),
        };
        let resume = position.session.take().map(|session| Session {
            url: self
                .allowed_gateway(&session.url)
                .unwrap_or(&url)
                .to_owned(),
            ..session
        });
        position.session.clone_from(&resume);
        let login = Login {
            url: &url,
            token: self.api.bare_token(),
            intents: intents(),
            resume,
        };
        let mut connection = match Connection::open(login).await {
            Ok(connection) => connection,
            Err(end) => return end,
        };
        loop {
            let next = connection.next().await;
            position.session = connection.session();
            let (name, data) = match next {
                Ok(event) => event,
                Err(end) => return end,
            };
            if matches!(name.as_str(), "READY" | "RESUMED") {
                *was_up = true;
                context.alive();
            }
            let handled = match name.as_str() {
                // Before an ended chat is released, what was said there is accepted.
                "READY" => match self.fetch_missed(context, position).await {
                    Ok(newest) => self.find_ended(context, &data).await.map(|()| newest),
                    Err(error) => Err(error),
                },
                _ => self.handle(context, &name, &data).await,
            };
            match handled {
                Ok(None) => {}
                Ok(Some(message)) => {
                    position.message = Some(message);
                    self.store(account, position).await;
                }
                // The event is repeated to the next connection, because it is not handled.
                Err(error) => return End::Final(error),
            }
        }
    }

    async fn store(&self, account: &str, position: &Position) {
        let value = serde_json::to_string(position).unwrap_or_default();
        if let Err(error) = self.context.set_cursor(account, &value).await {
            // The messages are fetched again, and `inbound` drops the duplicates.
            tracing::warn!(%error, platform = NAME, "position not stored");
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
                return self.accept(context, data, InboundEvent::Changed).await;
            }
            "INTERACTION_CREATE" if data["type"] == 3 => self.pressed(context, data).await?,
            _ => {}
        }
        Ok(None)
    }

    fn remember_guild(&self, guild: &Value) {
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

    async fn accept(
        &self,
        context: &ListenContext,
        data: &Value,
        event: fn(crate::platform::InboundMessage) -> InboundEvent,
    ) -> Result<Option<String>, PlatformError> {
        let me = self.me();
        if !parse::is_for_us(data, &me) {
            return Ok(None);
        }
        let Some(channel) = self.channel_of(data).await? else {
            return Ok(None);
        };
        let Some(message) = parse::message(data, &channel, &me) else {
            tracing::warn!(platform = NAME, "unreadable message skipped");
            return Ok(None);
        };
        let id = message.message_id.clone();
        let accepted = context.inbox.accept(event(message)).await;
        accepted.map_err(|error| PlatformError::Storage(error.to_string()))?;
        Ok(Some(id))
    }

    async fn pressed(&self, context: &ListenContext, data: &Value) -> Result<(), PlatformError> {
        let Some(channel) = self.channel_of(data).await? else {
            return Ok(());
        };
        if let Some(press) = parse::press(data, &channel) {
            let accepted = context.inbox.accept(InboundEvent::Pressed(press)).await;
            accepted.map_err(|error| PlatformError::Storage(error.to_string()))?;
        }
        Ok(())
    }

    /// The channel of a message. `None`: it no longer exists.
    async fn channel_of(&self, data: &Value) -> Result<Option<Channel>, PlatformError> {
        let Some(id) = id_of(data, "channel_id") else {
            return Ok(None);
        };
        if id_of(data, "guild_id").is_none() {
            return Ok(Some(Channel {
                id,
                kind: Kind::Private,
                name: None,
                guild: None,
                parent: None,
                required_tag: None,
            }));
        }
        match self.channel(&id).await {
            Ok(mut channel) => {
                channel.guild = id_of(data, "guild_id");
                Ok(Some(channel))
            }
            Err(failure) if failure.is_final() => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Accepts what was said without us in the chats that are on a session, in the order in which it was said. The
    /// messages of a channel's history have no guild, so the chat's source says where they are.
    async fn fetch_missed(
        &self,
        context: &ListenContext,
        position: &Position,
    ) -> Result<Option<String>, PlatformError> {
        let Some(last) = position.message.as_deref().and_then(parse::time_of) else {
            return Ok(None);
        };
        let after = parse::id_at(last - OVERLAP);
        let mut missed = Vec::new();
        for chat in self.context.bound_chats(MOST_CHATS).await? {
            let Some(id) = &chat.chat_id else { continue };
            match self.history(id, after).await {
                Ok(messages) => missed.extend(messages.into_iter().map(|mut message| {
                    if let Some(guild) = &chat.scope_id {
                        message["guild_id"] = Value::String(guild.clone());
                    } else if chat.chat_type != crate::domain::ChatType::Dm {
                        message["guild_id"] = Value::String(String::new());
                    }
                    message
                })),
                Err(failure) if failure.is_final() => {
                    tracing::debug!(?failure, chat = id, "history of a chat cannot be read");
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        let number = |message: &Value| id_of(message, "id")?.parse::<u64>().ok();
        missed.sort_by_key(number);
        let mut newest = None;
        for message in &missed {
            let accepted = self.accept(context, message, InboundEvent::Message).await?;
            newest = accepted.or(newest);
        }
        Ok(newest)
    }

    /// The messages of a channel after an id.
    async fn history(&self, id: &str, after: u64) -> Result<Vec<Value>, Failure> {
        let (mut messages, mut after) = (Vec::new(), after);
        while messages.len() < MOST_MISSED {
            let route = Route::ChannelMessages {
                channel_id: channel_id(id)?,
            };
            let params = vec![("after", after.to_string()), ("limit", PAGE.to_string())];
            let Value::Array(page) = self.api.get_with(route, params).await? else {
                break;
            };
            let number = |message: &Value| id_of(message, "id")?.parse::<u64>().ok();
            let Some(newest) = page.iter().filter_map(number).max() else {
                break;
            };
            let is_last = page.len() < PAGE;
            messages.extend(page);
            if is_last {
                break;
            }
            after = newest;
        }
        Ok(messages)
    }
}
