//! Checks whether the token, the home channel and the bot's rights are sufficient for a handoff.

use serde_json::Value;
use teloxide_core::payloads::{GetChatMember, GetWebhookInfo};
use teloxide_core::types::UserId;

use crate::domain::HomeChannel;
use crate::domain::{ChatType, Source};
use crate::platform::telegram::parse::Me;
use crate::platform::telegram::{NAME, Telegram, address};
use crate::platform::{Finding, PlatformError};

const TOKEN: &str = "telegram token";
const HOME: &str = "telegram home channel";
const WEBHOOK: &str = "telegram webhook";
/// The remedy for a webhook. hermesd does not remove it unasked, because that may break the program that set it.
pub(super) const REMOVE_WEBHOOK: &str = "stop the program that set it, or give that program its own bot; `hermesctl setup telegram --remove-webhook` removes it";
const TOPICS: &str = "telegram topics";

impl Telegram {
    pub(super) async fn look_around(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        let me = match self.get_me().await {
            Ok(me) => me,
            Err(PlatformError::Unauthorized(reason)) => {
                let remedy = "ask @BotFather for the token and set platforms.telegram.token";
                return vec![Finding::bad(TOKEN, reason, remedy)];
            }
            Err(error) => {
                let remedy = "check the network, a proxy, and platforms.telegram.base_url";
                return vec![Finding::bad(TOKEN, error.to_string(), remedy)];
            }
        };
        let mut found = vec![Finding::good(
            TOKEN,
            format!("valid for {}", me.account().name),
        )];
        found.extend(self.webhook_in_the_way().await);
        let Some(home) = home else {
            let remedy =
                "say /sethome in the chat for handoffs, or set platforms.telegram.home_channel";
            found.push(Finding::doubtful(HOME, "not set", remedy));
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
                    let detail = "each person has a session of their own in this group, and the owner is not known";
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

    /// A webhook receives all messages, so none reaches the long poll.
    async fn webhook_in_the_way(&self) -> Option<Finding> {
        let host = self.webhook_host().await.ok()??;
        let detail = format!("a webhook at {host} takes this bot's messages");
        Some(Finding::bad(WEBHOOK, detail, REMOVE_WEBHOOK))
    }

    /// The host of this bot's webhook. The whole address may be a secret.
    pub(super) async fn webhook_host(&self) -> Result<Option<String>, PlatformError> {
        let info = self.api.call(GetWebhookInfo::new()).await?;
        let url = info.get("url").and_then(Value::as_str).unwrap_or_default();
        let host = reqwest::Url::parse(url).ok();
        let host = host.and_then(|url| url.host_str().map(str::to_owned));
        Ok((!url.is_empty()).then(|| host.unwrap_or_else(|| "an invalid address".into())))
    }

    async fn topics(&self, home: &HomeChannel, kind: address::Kind, me: &Me) -> Finding {
        let instead = "handoffs go to the chat itself";
        match kind.chat_type {
            ChatType::Dm if me.topics => Finding::good(TOPICS, "the bot can open them here"),
            ChatType::Dm => Finding::doubtful(
                TOPICS,
                format!("private chats with this bot have none: {instead}"),
                "switch them on at @BotFather (Threads Settings), if you want topics",
            ),
            ChatType::Channel => Finding::doubtful(
                TOPICS,
                format!("a channel has none: {instead}"),
                "choose a group with topics as the home, if you want topics",
            ),
            _ if !kind.forum => Finding::doubtful(
                TOPICS,
                format!("this group has none: {instead}"),
                "switch them on in the group's settings, if you want topics",
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
                    format!("the bot's right to open topics is not known: {error}"),
                    "try again",
                ),
            },
        }
    }

    async fn may_open_topics(&self, home: &HomeChannel, me: &Me) -> Result<bool, PlatformError> {
        let chat = Source::new(NAME, ChatType::Group, &home.chat_id);
        let ask = |to: Source| {
            let asked = GetChatMember::new(address::recipient(&to), UserId(me.id));
            async move { self.api.call(asked).await }
        };
        let member = self.following(&chat, ask).await?;
        let flag = |name: &str| member.get(name).and_then(Value::as_bool) == Some(true);
        let status = member.get("status").and_then(Value::as_str);
        Ok(status == Some("creator")
            || (status == Some("administrator") && flag("can_manage_topics")))
    }
}
