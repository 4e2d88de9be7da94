//! Whether the token, the home channel and the bot's rights are as a handoff needs them.

use serde_json::Value;
use teloxide::payloads::{GetChatMember, GetMe};
use teloxide::types::UserId;

use super::call::{call, explain};
use super::hear::Me;
use super::{NAME, Telegram, place};
use crate::platform::{Finding, Home, PlatformError};
use crate::session::{ChatType, Source};

const TOKEN: &str = "telegram token";
const HOME: &str = "telegram home channel";
const TOPICS: &str = "telegram topics";

impl Telegram {
    pub(super) async fn look_around(&self, home: Option<&Home>) -> Vec<Finding> {
        let me = match call(&self.bot, GetMe::new()).await.map_err(explain) {
            Ok(answer) => Me::of(&answer),
            Err(PlatformError::Permanent(reason)) => {
                let remedy = "ask @BotFather for the token and set platforms.telegram.token";
                return vec![Finding::bad(TOKEN, reason, remedy)];
            }
            Err(error) => {
                let remedy = "check the network, a proxy, and platforms.telegram.base_url";
                return vec![Finding::bad(TOKEN, error.to_string(), remedy)];
            }
        };
        let mut found = vec![Finding::good(TOKEN, format!("it is @{}'s", me.name))];
        let Some(home) = home else {
            let remedy = "say /sethome in the chat that handoffs are to go to, or set platforms.telegram.home_channel";
            found.push(Finding::doubtful(HOME, "there is none", remedy));
            return found;
        };
        match self.chat(home).await {
            Ok(kind) => {
                let name = home.name.as_deref().unwrap_or(&home.chat_id);
                let what = match kind.chat_type {
                    ChatType::Dm => "a private chat",
                    ChatType::Channel => "a channel",
                    _ if kind.forum => "a group with topics",
                    _ => "a group without topics",
                };
                found.push(Finding::good(HOME, format!("{name}, {what}")));
                found.push(self.topics(home, kind, &me).await);
                if kind.chat_type == ChatType::Group && !kind.forum && home.owner.is_none() {
                    let detail = "each person has a session of their own in this group, and nobody knows whose home it is";
                    let remedy = "set platforms.telegram.owner to the id of the person";
                    found.push(Finding::bad(HOME, detail, remedy));
                }
            }
            Err(error) => {
                let remedy =
                    "write to the bot there, or add it to the group; /sethome chooses another home";
                found.push(Finding::bad(HOME, error.to_string(), remedy));
            }
        }
        found
    }

    async fn topics(&self, home: &Home, kind: place::Kind, me: &Me) -> Finding {
        let instead = "handoffs go to the chat itself";
        match kind.chat_type {
            ChatType::Dm if me.topics => Finding::good(TOPICS, "the bot can open them here"),
            ChatType::Dm => Finding::doubtful(
                TOPICS,
                format!("private chats with this bot have none: {instead}"),
                "switch them on at @BotFather (Threads Settings), or leave it so",
            ),
            ChatType::Channel => Finding::doubtful(
                TOPICS,
                format!("a channel has none: {instead}"),
                "choose a group with topics as the home, or leave it so",
            ),
            _ if !kind.forum => Finding::doubtful(
                TOPICS,
                format!("this group has none: {instead}"),
                "switch them on in the group's settings, or leave it so",
            ),
            _ => match self.may_open_topics(home, me).await {
                Ok(true) => Finding::good(TOPICS, "the bot may open them"),
                Ok(false) => Finding::doubtful(
                    TOPICS,
                    "the bot may not open any: handoffs go to General",
                    "make the bot an administrator who may manage topics",
                ),
                Err(error) => Finding::doubtful(
                    TOPICS,
                    format!("whether the bot may open any is not known: {error}"),
                    "try again",
                ),
            },
        }
    }

    async fn may_open_topics(&self, home: &Home, me: &Me) -> Result<bool, PlatformError> {
        let chat = place::recipient(&Source::new(NAME, ChatType::Group, &home.chat_id));
        let asked = GetChatMember::new(chat, UserId(me.id));
        let member = call(&self.bot, asked).await.map_err(explain)?;
        let flag = |name: &str| member.get(name).and_then(Value::as_bool) == Some(true);
        let status = member.get("status").and_then(Value::as_str);
        Ok(status == Some("creator")
            || (status == Some("administrator") && flag("can_manage_topics")))
    }
}
