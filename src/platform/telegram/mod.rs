//! Telegram, by way of its Bot API: long polling in, messages out.

mod call;
mod examine;
mod format;
mod hear;
mod listen;
mod place;
mod send;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use secrecy::ExposeSecret;
use serde_json::Value;
use teloxide::Bot;
use teloxide::payloads::{CreateForumTopic, GetChat, GetMe, SetMyCommands};
use teloxide::types::BotCommand;

use super::{
    Capabilities, Finding, Home, Line, Opened, Outgoing, Pace, Platform, PlatformError, Press,
    Rate, RemoteFile,
};
use crate::command::{self, Place};
use crate::config::{Config, TelegramConfig};
use crate::name_lookup::NameLookup;
use crate::session::{ChatType, Source};
use crate::store::Store;
use call::{call, explain};
use hear::Me;

pub const NAME: &str = "telegram";

const LONGEST_TOPIC: usize = 128;
/// An answer to any call but the long poll comes within this, or never.
const PATIENCE: Duration = Duration::from_secs(50);

pub struct Telegram {
    bot: Bot,
    rules: TelegramConfig,
    store: Store,
    pace: Pace,
    me: Mutex<Option<Me>>,
}

impl Telegram {
    /// `None`: no token is configured.
    pub fn configured(config: &Config, store: &Store) -> Option<Telegram> {
        let token = config.platform(NAME)?.token.as_ref()?;
        let rules = config.telegram.clone();
        let client = teloxide::net::default_reqwest_settings()
            .timeout(PATIENCE.max(rules.poll + listen::DEAF))
            .dns_resolver(Arc::new(NameLookup::default()))
            .build();
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(%error, platform = NAME, "no client for Telegram could be made");
                return None;
            }
        };
        let mut bot = Bot::with_client(token.expose_secret(), client);
        if let Some(url) = &rules.base_url {
            // Ours ends before the token, the SDK's before the word in front of it.
            let root = url.trim_end_matches('/').trim_end_matches("/bot");
            match root.parse() {
                Ok(url) => bot = bot.set_api_url(url),
                Err(error) => {
                    tracing::error!(%error, platform = NAME, "platforms.telegram.base_url is not an address");
                    return None;
                }
            }
        }
        let per_second = u32::try_from(rules.messages_per_second).unwrap_or(1);
        Some(Telegram {
            bot,
            pace: Pace::new(Rate::per_second(per_second)),
            rules,
            store: store.clone(),
            me: Mutex::default(),
        })
    }

    fn me(&self) -> Me {
        let me = self.me.lock().unwrap_or_else(|e| e.into_inner());
        me.clone().unwrap_or_default()
    }

    /// What Telegram allows: one message a second to a person, twenty a minute to a group, and short bursts.
    fn rate(to: &Source) -> Rate {
        match to.chat_type {
            ChatType::Dm => Rate {
                every: Duration::from_secs(1),
                burst: 4,
            },
            _ => Rate {
                every: Duration::from_secs(4),
                burst: 5,
            },
        }
    }

    async fn menu(&self) {
        let commands = command::menu(Place::Chat)
            .map(|(word, what)| BotCommand::new(word, what))
            .collect::<Vec<_>>();
        if let Err(error) = call(&self.bot, SetMyCommands::new(commands)).await {
            let error = explain(error);
            tracing::warn!(%error, platform = NAME, "the menu of commands could not be set");
        }
    }

    async fn chat(&self, home: &Home) -> Result<place::Kind, PlatformError> {
        let to = place::recipient(&Source::new(NAME, ChatType::Dm, &home.chat_id));
        match call(&self.bot, GetChat::new(to)).await {
            Ok(chat) => match chat.get("id").and_then(Value::as_i64) {
                // What is said there comes from that id, and would not be known as said at home.
                Some(id) if home.chat_id.parse() != Ok(id) => {
                    Err(PlatformError::Permanent(format!(
                        "the home channel {} has the id {id}: set platforms.telegram.home_channel to that",
                        home.chat_id
                    )))
                }
                _ => Ok(place::Kind::of(&chat)),
            },
            Err(error) => Err(match explain(error) {
                PlatformError::Permanent(reason) => PlatformError::Permanent(format!(
                    "the home channel {} cannot be used ({reason}): write to the bot there, or add it to the group",
                    home.chat_id
                )),
                error => error,
            }),
        }
    }
}

#[async_trait]
impl Platform for Telegram {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: true,
            idempotent_sends: false,
            idempotent_threads: false,
            buttons: true,
            files: true,
        }
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        let me: Value = call(&self.bot, GetMe::new()).await.map_err(explain)?;
        let me = Me::of(&me);
        tracing::debug!(bot = me.name, topics = me.topics, "Telegram knows the bot");
        let first = {
            let mut known = self.me.lock().unwrap_or_else(|e| e.into_inner());
            known.replace(me).is_none()
        };
        if first {
            self.menu().await;
        }
        Ok(())
    }

    async fn examine(&self, home: Option<&Home>) -> Vec<Finding> {
        self.look_around(home).await
    }

    async fn listen(&self, line: &Line) -> PlatformError {
        self.poll(line).await
    }

    async fn open_thread(
        &self,
        home: &Home,
        title: &str,
        _open_key: &str,
    ) -> Result<Opened, PlatformError> {
        let kind = self.chat(home).await?;
        let me = self.me();
        let instead = |mut reason: String| {
            if kind.chat_type == ChatType::Group && !me.hears_all {
                reason.push_str(
                    "; the bot's privacy mode is on, so reply to its messages there, or make it an administrator",
                );
            }
            Ok(kind.home(home, reason))
        };
        match kind.chat_type {
            ChatType::Dm if !me.topics => {
                return instead(
                    "private chats with this bot have no topics: @BotFather can switch them on (Threads Settings)".into(),
                );
            }
            ChatType::Channel => return instead("a channel has no topics".into()),
            ChatType::Group if !kind.forum => {
                return instead("the group has no topics: its owner can switch them on".into());
            }
            _ => {}
        }
        let name: String = title.chars().take(LONGEST_TOPIC).collect();
        let to = place::recipient(&Source::new(NAME, kind.chat_type, &home.chat_id));
        let created = call(&self.bot, CreateForumTopic::new(to, name)).await;
        match created.map_err(explain) {
            Ok(topic) => match topic.get("message_thread_id").and_then(Value::as_i64) {
                Some(id) => Ok(Opened::Thread {
                    id: id.to_string(),
                    title: title.to_owned(),
                    repeated: false,
                    within: Some(kind.chat_type),
                }),
                None => instead("Telegram's answer has no topic in it".into()),
            },
            Err(PlatformError::Permanent(reason) | PlatformError::Gone(reason)) => {
                instead(format!("no topic could be opened: {reason}"))
            }
            Err(later) => Err(later),
        }
    }

    fn source_of(&self, home: &Home, opened: &Opened) -> Source {
        place::of_home(home, opened)
    }

    fn private_chat(&self, user_id: &str) -> Option<Source> {
        Some(place::private(user_id))
    }

    fn pieces(&self, markdown: &str) -> Vec<String> {
        format::pieces(markdown)
    }

    async fn ready_for(&self, to: &Source) {
        let chat = to.chat_id.as_deref().unwrap_or_default();
        self.pace.ready(chat, Telegram::rate(to)).await;
    }

    async fn send(
        &self,
        to: &Source,
        what: Outgoing<'_>,
        _send_key: &str,
    ) -> Result<String, PlatformError> {
        let sent = match what.file {
            Some(file) => self.send_file(to, file, what.text).await,
            None => self.send_text(to, what).await,
        };
        self.minding_limits(to, sent)
    }

    fn edits_every(&self, to: &Source) -> Option<Duration> {
        Some(match to.chat_type {
            ChatType::Dm => Duration::from_millis(1500),
            _ => Duration::from_secs(4),
        })
    }

    async fn edit(
        &self,
        to: &Source,
        message_id: &str,
        what: Outgoing<'_>,
    ) -> Result<(), PlatformError> {
        let edited = self.edit_text(to, message_id, what).await;
        self.minding_limits(to, edited)
    }

    fn typing_lasts(&self) -> Option<Duration> {
        Some(Duration::from_millis(4500))
    }

    async fn typing(&self, to: &Source) -> Result<(), PlatformError> {
        self.show_action(to).await
    }

    async fn acknowledge(&self, source: &Source, message_id: &str) -> Result<(), PlatformError> {
        self.react(source, message_id).await
    }

    fn precedes(&self, message_id: &str, other: &str) -> Option<bool> {
        crate::platform::by_number(message_id, other)
    }

    async fn answer_press(&self, press: &Press, said: &str) -> Result<(), PlatformError> {
        self.answer_query(&press.id, said).await
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
