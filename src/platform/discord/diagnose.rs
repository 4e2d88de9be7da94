//! Checks whether the token, the home channel and the bot's permissions are sufficient for a handoff.

use serde_json::Value;
use serenity::http::Route;
use serenity::model::Permissions;
use serenity::model::channel::ChannelType as Kind;

use super::Discord;
use super::channel::Channel;
use crate::domain::{ChatType, HomeChannel};
use crate::platform::{Finding, PlatformError};

const TOKEN: &str = "discord token";
const INTENT: &str = "discord intents";
const HOME: &str = "discord home channel";
const RIGHTS: &str = "discord permissions";
/// Media channels, which the SDK does not name.
const MEDIA: u8 = 16;
/// The flags of an application that may read the text of messages: on many servers, and on a few.
const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;

/// What a handoff needs in its home channel, by the names that Discord shows.
const NEEDED: [(Permissions, &str); 6] = [
    (Permissions::VIEW_CHANNEL, "View Channel"),
    (Permissions::SEND_MESSAGES, "Send Messages"),
    (Permissions::CREATE_PUBLIC_THREADS, "Create Public Threads"),
    (
        Permissions::SEND_MESSAGES_IN_THREADS,
        "Send Messages in Threads",
    ),
    (Permissions::READ_MESSAGE_HISTORY, "Read Message History"),
    (Permissions::ATTACH_FILES, "Attach Files"),
];

impl Discord {
    pub(super) async fn look_around(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        let me = match self.account().await {
            Ok(me) => me,
            Err(PlatformError::Unauthorized(reason)) => {
                let remedy =
                    "reset the token in the developer portal (Bot) and set platforms.discord.token";
                return vec![Finding::bad(TOKEN, reason, remedy)];
            }
            Err(error) => {
                let remedy = "check the network, a proxy, and platforms.discord.base_url";
                return vec![Finding::bad(TOKEN, error.to_string(), remedy)];
            }
        };
        let mut found = vec![Finding::good(TOKEN, format!("valid for {}", me.name))];
        found.extend(self.intent().await);
        let Some(home) = home else {
            let remedy =
                "say /sethome in the chat for handoffs, or set platforms.discord.home_channel";
            found.push(Finding::doubtful(HOME, "not set", remedy));
            return found;
        };
        match self.ask_for_channel(&home.chat_id).await {
            Ok(channel) => found.extend(self.home(home, &channel, &me.id).await),
            // A person's id opens the private chat with them.
            Err(failure) if failure.code() == Some(10003) => found.push(Finding::doubtful(
                HOME,
                format!("{} is no channel that the bot can see", home.chat_id),
                "check the id, invite the bot to the server, or use the id of a person for private messages",
            )),
            Err(failure) => found.push(Finding::bad(
                HOME,
                PlatformError::from(failure).to_string(),
                "invite the bot to the server and let it see the channel; /sethome chooses another home",
            )),
        }
        found
    }

    /// Without this intent, the gateway refuses the connection.
    async fn intent(&self) -> Option<Finding> {
        let application = self.api.get(Route::Oauth2ApplicationCurrent).await.ok()?;
        let flags = application.get("flags").and_then(Value::as_u64)?;
        Some(match flags & MESSAGE_CONTENT {
            0 => Finding::bad(
                INTENT,
                "the Message Content Intent is off",
                "switch it on in the developer portal (Bot, Privileged Gateway Intents)",
            ),
            _ => Finding::good(INTENT, "the bot may read messages"),
        })
    }

    async fn home(&self, home: &HomeChannel, channel: &Channel, me: &str) -> Vec<Finding> {
        let name = home
            .name
            .as_ref()
            .or(channel.name.as_ref())
            .unwrap_or(&home.chat_id);
        let what = match (channel.kind, channel.chat_type()) {
            (_, ChatType::Dm) => "a private chat, without threads",
            (_, ChatType::Thread) => "a thread: handoffs go to the thread itself",
            (Kind::Text | Kind::News, _) => "a channel with threads",
            (Kind::Forum, _) => "a forum",
            (Kind::Unknown(MEDIA), _) => "a media channel",
            _ => "a channel without threads: handoffs go to the channel itself",
        };
        let mut found = vec![Finding::good(HOME, format!("{name}, {what}"))];
        let Some(guild) = &channel.guild else {
            return found;
        };
        match self.permissions_of(guild, &channel.id, me).await {
            Ok(Some(allowed)) => {
                let missing = NEEDED
                    .iter()
                    .filter(|(needed, _)| !allowed.contains(*needed));
                let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
                found.push(match missing.is_empty() {
                    true => Finding::good(RIGHTS, "the bot may open threads and write there"),
                    false => Finding::bad(
                        RIGHTS,
                        format!("missing in {name}: {}", missing.join(", ")),
                        "grant them to the bot's role, in the channel or on the server",
                    ),
                });
            }
            Ok(None) => {}
            Err(failure) => found.push(Finding::doubtful(
                RIGHTS,
                format!("not known: {}", PlatformError::from(failure)),
                "try again",
            )),
        }
        if let Some(owner) = &home.owner
            && let Ok(allowed) = self.permissions_of(guild, &channel.id, owner).await
            && !allowed.is_some_and(|allowed| allowed.contains(Permissions::VIEW_CHANNEL))
        {
            found.push(Finding::bad(
                HOME,
                format!("the owner ({owner}) cannot see it"),
                "give the owner the permission View Channel there, or correct platforms.discord.owner",
            ));
        }
        found
    }
}
