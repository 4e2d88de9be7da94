//! The adapter of Telegram. It uses the Bot API with long polling.

mod address;
mod api;
mod config;
mod descriptor;
mod diagnose;
mod failure;
mod format;
mod moved;
mod origin;
mod parse;
mod poll;
mod send;
mod upload;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use teloxide_core::payloads::{
    CreateForumTopic, DeleteForumTopic, DeleteWebhook, GetChat, GetMe, SetMyCommands,
};
use teloxide_core::types::BotCommand;

use super::sign_in::sign_in;
use super::{
    Account, AdapterContext, BuildError, Capabilities, CountedCalls, Dedup, Finding, HoldScope,
    Limit, ListenContext, OutboundMessage, Platform, PlatformError, Rates, ReplyHandle,
};
use crate::config::PlatformConfig;
use crate::domain::slash_command::{self, Place};
use crate::domain::{ChatType, Source};
use crate::domain::{HomeChannel, RemoteFile, ThreadOutcome};
use crate::platform::telegram::api::Api;
use crate::platform::telegram::parse::Me;
use config::TelegramConfig;
pub use descriptor::DESCRIPTOR;
use moved::Moves;

pub const NAME: &str = "telegram";

const LONGEST_TOPIC: usize = 128;

pub struct Telegram {
    api: Api,
    rules: TelegramConfig,
    context: AdapterContext,
    me: Mutex<Option<Me>>,
    moves: Moves,
}

pub fn build(
    settings: &PlatformConfig,
    context: AdapterContext,
) -> Result<Arc<dyn Platform>, BuildError> {
    let missing = || BuildError("platforms.telegram.token is missing".into());
    let token = settings.values.secret("token").ok_or_else(missing)?;
    let rules = TelegramConfig::read(&settings.values);
    let api = Api::new(context.http_client()?, &token, rules.base_url.as_deref())?;
    Ok(Arc::new(Telegram {
        api,
        rules,
        context,
        me: Mutex::default(),
        moves: Moves::default(),
    }))
}

impl Telegram {
    fn me(&self) -> Me {
        let me = self.me.lock().unwrap_or_else(|e| e.into_inner());
        me.clone().unwrap_or_default()
    }

    async fn menu(&self) {
        let commands = slash_command::menu(Place::Chat)
            .map(|entry| BotCommand::new(entry.word, entry.what))
            .collect::<Vec<_>>();
        if let Err(error) = self.api.call(SetMyCommands::new(commands)).await {
            let error = PlatformError::from(error);
            tracing::warn!(%error, platform = NAME, "menu of commands not set");
        }
    }

    async fn get_me(&self) -> Result<Me, PlatformError> {
        let answer = self.api.call(GetMe::new()).await?;
        Ok(Me::of(&answer))
    }

    async fn chat(&self, home: &HomeChannel) -> Result<address::Kind, PlatformError> {
        let to = Source::new(NAME, ChatType::Dm, &home.chat_id);
        let get =
            |to: Source| async move { self.api.call(GetChat::new(address::recipient(&to))).await };
        match self.following(&to, get).await {
            Ok(chat) => match chat.get("id").and_then(Value::as_i64) {
                // Messages from there carry that id, so they would not be recognised as messages from the home.
                Some(id) if self.moves.current(&home.chat_id).parse() != Ok(id) => {
                    Err(PlatformError::Permanent(format!(
                        "the home channel {} has the id {id}: set platforms.telegram.home_channel to that",
                        home.chat_id
                    )))
                }
                _ => Ok(address::Kind::of(&chat)),
            },
            Err(PlatformError::Permanent(reason)) => Err(PlatformError::Permanent(format!(
                "the home channel {} cannot be used ({reason}): write to the bot there, or add it to the group",
                home.chat_id
            ))),
            Err(error) => Err(error),
        }
    }
}

impl Me {
    fn account(&self) -> Account {
        Account {
            id: self.id.to_string(),
            name: format!("@{}", self.name),
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
            send_dedup: Dedup::None,
            thread_dedup: Dedup::None,
            buttons: true,
            files: true,
        }
    }

    /// From the vendor's FAQ for bots: 20 messages a minute to a group, one a second to a person with short bursts, 30
    /// a second in total. Edits count as messages. The vendor does not say whether new topics count, so the first
    /// refusal shows it. No source says that reactions and chat actions count.
    fn rates(&self) -> Rates {
        let per_second = u32::try_from(self.rules.messages_per_second).unwrap_or(1);
        Rates {
            overall: Some(Limit::new(per_second, Duration::from_secs(1))),
            private_chat: Some(Limit::new(5, Duration::from_secs(5))),
            group: Some(Limit::new(20, Duration::from_secs(60))),
            counted: CountedCalls {
                open_thread: false,
                edit: true,
                acknowledge: false,
                typing: false,
            },
            hold: HoldScope::Chat,
        }
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        let me = sign_in(NAME, || self.get_me()).await?;
        for (from, to) in self.context.moved_chats().await? {
            self.moves.remember(&from, &to);
        }
        tracing::debug!(bot = me.name, topics = me.topics, "token accepted");
        let first = {
            let mut known = self.me.lock().unwrap_or_else(|e| e.into_inner());
            known.replace(me).is_none()
        };
        if first {
            self.menu().await;
        }
        Ok(())
    }

    async fn identify(&self) -> Result<Option<Account>, PlatformError> {
        Ok(Some(self.get_me().await?.account()))
    }

    async fn diagnose(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        self.look_around(home).await
    }

    async fn webhook(&self) -> Result<Option<String>, PlatformError> {
        self.webhook_host().await
    }

    async fn remove_webhook(&self) -> Result<(), PlatformError> {
        Ok(self.api.call(DeleteWebhook::new()).await.map(drop)?)
    }

    async fn listen(&self, context: &ListenContext) -> PlatformError {
        self.poll(context).await
    }

    async fn open_thread(
        &self,
        home: &HomeChannel,
        title: &str,
        _open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        let kind = self.chat(home).await?;
        let me = self.me();
        let instead = |mut reason: String| {
            if kind.chat_type == ChatType::Group && !me.hears_all {
                reason.push_str(
                    "; the bot's privacy mode is on: reply to its messages there, or make it an administrator",
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
        let to = Source::new(NAME, kind.chat_type, &home.chat_id);
        let create = |to: Source| {
            let topic = CreateForumTopic::new(address::recipient(&to), name.clone());
            async move { self.api.call(topic).await }
        };
        match self.following(&to, create).await {
            Ok(topic) => match topic.get("message_thread_id").and_then(Value::as_i64) {
                Some(id) => Ok(ThreadOutcome::Thread {
                    id: id.to_string(),
                    title: title.to_owned(),
                    repeated: false,
                    within: Some(kind.chat_type),
                }),
                None => instead("Telegram's answer names no topic".into()),
            },
            Err(PlatformError::Permanent(reason) | PlatformError::Gone(reason)) => {
                instead(format!("no topic could be opened: {reason}"))
            }
            Err(later) => Err(later),
        }
    }

    /// Works in private chats with topics, and in forums if the bot may delete messages.
    async fn delete_thread(&self, destination: &Source) -> Result<(), PlatformError> {
        let Some(topic) = address::topic(destination) else {
            return Err(PlatformError::Permanent(
                "the chat itself cannot be deleted".into(),
            ));
        };
        let delete = |to: Source| {
            let delete = DeleteForumTopic::new(address::recipient(&to), topic);
            async move { self.api.call(delete).await.map(drop) }
        };
        self.following(destination, delete).await
    }

    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source {
        let chat_id = self.moves.current(&home.chat_id);
        address::of_home(
            &HomeChannel {
                chat_id,
                ..home.clone()
            },
            opened,
        )
    }

    fn private_chat(&self, user_id: &str) -> Option<Source> {
        Some(address::private(user_id))
    }

    fn split(&self, markdown: &str) -> Vec<String> {
        format::pieces(markdown)
    }

    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        _send_key: &str,
    ) -> Result<String, PlatformError> {
        let send = |to: Source| async move {
            match what.file {
                Some(file) => self.send_file(&to, file, what.text).await,
                None => self.send_text(&to, what).await,
            }
        };
        self.following(to, send).await
    }

    fn edit_interval(&self, to: &Source) -> Option<Duration> {
        Some(match to.chat_type {
            ChatType::Dm => Duration::from_millis(1500),
            _ => Duration::from_secs(4),
        })
    }

    async fn edit(
        &self,
        to: &Source,
        message_id: &str,
        what: OutboundMessage<'_>,
    ) -> Result<(), PlatformError> {
        let edit = |to: Source| async move { self.edit_text(&to, message_id, what).await };
        self.following(to, edit).await
    }

    fn typing_interval(&self) -> Option<Duration> {
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

    async fn confirm(&self, handle: &ReplyHandle, text: &str) -> Result<(), PlatformError> {
        match handle.secret() {
            Some(query) => self.answer_query(query, text).await,
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
