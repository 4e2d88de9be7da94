//! The adapter of Discord. It uses the REST API and the gateway.

mod address;
mod api;
mod backlog;
mod buckets;
mod channel;
mod commands;
mod config;
mod descriptor;
mod diagnose;
mod ended;
mod failure;
mod format;
mod gateway;
mod interactions;
mod left;
mod listen;
mod parse;
mod people;
mod permissions;
mod send;
mod setup;
mod threads;
mod wanted;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use serenity::http::Route;

use super::sign_in::sign_in;
use super::{
    Account, AdapterContext, BuildError, Capabilities, CountedCalls, Dedup, Finding, HoldScope,
    HomeTrial, InboundMessage, Limit, ListenContext, OutboundMessage, Platform, PlatformError,
    PossibleHome, Rates, ReplyHandle, Server,
};
use crate::config::PlatformConfig;
use crate::domain::{HomeChannel, RemoteFile, Source, ThreadOutcome};
use api::Api;
use channel::{Channels, channel_id, id_of};
use config::DiscordConfig;
pub use descriptor::DESCRIPTOR;
use interactions::OpenCommands;
use left::Departures;
use send::ShownButtons;

pub const NAME: &str = "discord";

/// Discord recognises a repeated nonce for "a few minutes".
const NONCE_LASTS: Duration = Duration::from_secs(120);

pub struct Discord {
    api: Api,
    rules: DiscordConfig,
    context: AdapterContext,
    me: Mutex<Option<Account>>,
    channels: Channels,
    /// When the last session of the gateway was begun.
    last_start: Mutex<Option<tokio::time::Instant>>,
    /// Held while a thread is opened, so that no attempt takes the thread of another one for its own.
    opening: tokio::sync::Mutex<()>,
    /// The threads that this process has opened.
    opened: Mutex<HashSet<String>>,
    open_commands: OpenCommands,
    buttons: ShownButtons,
    /// The ids of people whom the settings name.
    people: Mutex<HashMap<String, String>>,
    departures: Departures,
}

pub fn build(
    settings: &PlatformConfig,
    context: AdapterContext,
) -> Result<Arc<dyn Platform>, BuildError> {
    let missing = || BuildError("platforms.discord.token is missing".into());
    let token = settings.values.secret("token").ok_or_else(missing)?;
    let rules = DiscordConfig::read(settings);
    let api = Api::new(context.http_client()?, &token, rules.base_url.as_deref())?;
    Ok(Arc::new(Discord {
        api,
        rules,
        context,
        me: Mutex::default(),
        channels: Channels::default(),
        last_start: Mutex::default(),
        opening: tokio::sync::Mutex::default(),
        opened: Mutex::default(),
        open_commands: OpenCommands::default(),
        buttons: ShownButtons::default(),
        people: Mutex::default(),
        departures: Departures::default(),
    }))
}

impl Discord {
    /// The id of the bot.
    fn me(&self) -> String {
        let me = self.me.lock().unwrap_or_else(|e| e.into_inner());
        me.as_ref().map(|me| me.id.clone()).unwrap_or_default()
    }

    fn opened(&self) -> MutexGuard<'_, HashSet<String>> {
        self.opened.lock().unwrap_or_else(|e| e.into_inner())
    }

    async fn account(&self) -> Result<Account, PlatformError> {
        let answer = self.api.get(Route::UserMe).await?;
        let name = answer.get("username").and_then(Value::as_str);
        Ok(Account {
            id: id_of(&answer, "id").unwrap_or_default(),
            name: format!("@{}", name.unwrap_or_default()),
        })
    }
}

#[async_trait]
impl Platform for Discord {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: true,
            send_dedup: Dedup::For(NONCE_LASTS),
            // An empty thread of an earlier attempt is found by its name.
            thread_dedup: Dedup::For(threads::REUSED_WITHIN),
            buttons: true,
            files: true,
        }
    }

    /// Discord documents 50 calls a second for a bot. Its answers say the rest, which `buckets` remembers.
    fn rates(&self) -> Rates {
        let five = Some(Limit::new(5, Duration::from_secs(5)));
        Rates {
            overall: Some(Limit::new(45, Duration::from_secs(1))),
            private_chat: five,
            group: five,
            counted: CountedCalls::default(),
            hold: HoldScope::Chat,
        }
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        let me = sign_in(NAME, || self.account()).await?;
        tracing::debug!(bot = me.name, "token accepted");
        *self.me.lock().unwrap_or_else(|e| e.into_inner()) = Some(me);
        // Before the first message, which may be of one of these people.
        self.find_people().await
    }

    async fn identify(&self) -> Result<Option<Account>, PlatformError> {
        Ok(Some(self.account().await?))
    }

    async fn diagnose(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        self.look_around(home).await
    }

    async fn obstacles(&self) -> Vec<Finding> {
        self.missing_intent().await.into_iter().collect()
    }

    async fn invitation(&self) -> Result<Option<String>, PlatformError> {
        Ok(self.application().await?.invitation())
    }

    async fn servers(&self) -> Result<Option<Vec<Server>>, PlatformError> {
        Ok(Some(self.guilds().await?))
    }

    async fn homes(
        &self,
        server: &str,
        owner: Option<&Account>,
    ) -> Result<Vec<PossibleHome>, PlatformError> {
        Ok(self.homes_of(server, owner).await?)
    }

    async fn owner(&self) -> Result<Option<Account>, PlatformError> {
        Ok(self.application().await?.owner())
    }

    async fn person(&self, id: &str) -> Result<Account, PlatformError> {
        self.user(id).await
    }

    fn own_id_hint(&self) -> &'static str {
        "switch on Developer Mode under User Settings, Advanced; then right-click your name and choose Copy User ID"
    }

    async fn try_home(&self, home: &HomeChannel) -> Result<HomeTrial, PlatformError> {
        self.try_out(home).await
    }

    async fn listen(&self, context: &ListenContext) -> PlatformError {
        self.receive(context).await
    }

    async fn open_thread(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        self.open(&self.with_owner_id(home), title, open_key).await
    }

    async fn open_thread_on(
        &self,
        message: &InboundMessage,
    ) -> Result<Option<Source>, PlatformError> {
        self.open_on(message).await
    }

    async fn delete_thread(&self, destination: &Source) -> Result<(), PlatformError> {
        let Some(thread) = &destination.thread_id else {
            return Err(PlatformError::Permanent(
                "the chat itself cannot be deleted".into(),
            ));
        };
        let route = Route::Channel {
            channel_id: channel_id(thread)?,
        };
        self.api.delete(route).await?;
        if let Some(around) = &destination.parent_chat_id {
            self.delete_seed(around, thread).await;
        }
        Ok(())
    }

    async fn thread_left(&self, thread: &Source) -> Result<(), PlatformError> {
        self.show_departure(thread).await
    }

    async fn thread_resumed(&self, thread: &Source) -> Result<(), PlatformError> {
        self.show_return(thread).await
    }

    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source {
        self.placed(address::of_home(&self.with_owner_id(home), opened))
    }

    async fn find_home(&self, home: &HomeChannel) -> Result<Source, PlatformError> {
        self.home_for_notes(home).await
    }

    fn parent(&self, thread: &Source) -> Option<Source> {
        address::parent(thread).filter(|around| self.may_have_messages(around))
    }

    fn split(&self, markdown: &str) -> Vec<String> {
        format::pieces(markdown)
    }

    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError> {
        Ok(self.post(to, what, send_key).await?)
    }

    fn edit_interval(&self, _to: &Source) -> Option<Duration> {
        Some(Duration::from_millis(1500))
    }

    async fn edit(
        &self,
        to: &Source,
        message_id: &str,
        what: OutboundMessage<'_>,
    ) -> Result<(), PlatformError> {
        Ok(self.change(to, message_id, what).await?)
    }

    fn typing_interval(&self) -> Option<Duration> {
        Some(Duration::from_secs(9))
    }

    async fn typing(&self, to: &Source) -> Result<(), PlatformError> {
        Ok(self.show_typing(to).await?)
    }

    async fn acknowledge(&self, source: &Source, message_id: &str) -> Result<(), PlatformError> {
        match self.rules.reactions {
            true => Ok(self.react(source, message_id).await?),
            false => Ok(()),
        }
    }

    fn precedes(&self, message_id: &str, other: &str) -> Option<bool> {
        crate::platform::by_number(message_id, other)
    }

    async fn confirm(&self, handle: &ReplyHandle, text: &str) -> Result<(), PlatformError> {
        match handle.secret() {
            Some(secret) => Ok(self.confirm_interaction(secret, text).await?),
            None => Ok(()),
        }
    }

    async fn fetch(
        &self,
        file: &RemoteFile,
        to: &std::path::Path,
        largest: u64,
    ) -> Result<(), PlatformError> {
        self.download(file, to, largest).await
    }
}
