//! Checks whether the token, the home channel and the bot's permissions are sufficient for a handoff.

use serenity::model::Permissions;
use serenity::model::channel::ChannelType as Kind;

use super::channel::{Channel, MEDIA};
use super::setup::Application;
use super::{Discord, wanted};
use crate::domain::{ChatType, HomeChannel};
use crate::platform::{Finding, Grade, PlatformError};

const TOKEN: &str = "discord token";
const INTENT: &str = "discord intents";
const HOME: &str = "discord home channel";
const RIGHTS: &str = "discord permissions";
impl Discord {
    pub(super) async fn look_around(&self, home: Option<&HomeChannel>) -> Vec<Finding> {
        let me = match self.account().await {
            Ok(me) => me,
            Err(PlatformError::Unauthorized(_)) => {
                let remedy =
                    "reset the token in the developer portal (Bot) and set platforms.discord.token";
                return vec![Finding::bad(TOKEN, "Discord does not know it", remedy)];
            }
            Err(error) => {
                let remedy = "check the network, a proxy, and platforms.discord.base_url";
                return vec![Finding::bad(TOKEN, error.to_string(), remedy)];
            }
        };
        let mut found = vec![Finding::good(TOKEN, format!("valid for {}", me.name))];
        let application = self.application().await.ok();
        let link = application.as_ref().and_then(Application::invitation);
        // The link works for a server with the bot too: it grants what is missing.
        let link = link.map_or_else(String::new, |link| format!(" with {link}"));
        found.extend(application.as_ref().and_then(intent));
        let Some(home) = home else {
            let remedy =
                "say /sethome in the chat for handoffs, or set platforms.discord.home_channel";
            found.push(Finding::doubtful(HOME, "not set", remedy));
            return found;
        };
        match self.ask_for_channel(&home.chat_id).await {
            Ok(channel) => found.extend(self.home(home, &channel, &me.id, &link).await),
            // A person's id opens the private chat with them.
            Err(failure) if failure.code() == Some(10003) => found.push(Finding::doubtful(
                HOME,
                format!("{} is no channel that the bot can see", home.chat_id),
                format!("check the id, invite the bot to the server{link}, or use the id of a person for private messages"),
            )),
            Err(failure) => found.push(Finding::bad(
                HOME,
                PlatformError::from(failure).to_string(),
                format!("invite the bot to the server{link} and let it see the channel; /sethome chooses another home"),
            )),
        }
        found
    }

    /// The finding about the intent, if it is off.
    pub(super) async fn missing_intent(&self) -> Option<Finding> {
        let application = self.application().await.ok()?;
        intent(&application).filter(|finding| finding.grade == Grade::Bad)
    }

    async fn home(
        &self,
        home: &HomeChannel,
        channel: &Channel,
        me: &str,
        link: &str,
    ) -> Vec<Finding> {
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
            Ok(Some(mut allowed)) => {
                if !self.rules.reactions {
                    allowed |= Permissions::ADD_REACTIONS;
                }
                found.extend(rights(name, allowed, channel.kind, link));
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

/// Without this intent, the gateway refuses the connection.
fn intent(application: &Application) -> Option<Finding> {
    Some(match application.reads_messages()? {
        false => Finding::bad(
            INTENT,
            "the Message Content Intent is off",
            "switch it on in the developer portal (discord.com/developers, your application, Bot, Privileged Gateway Intents)",
        ),
        true => Finding::good(INTENT, "the bot may read messages"),
    })
}

/// What the bot lacks in the home channel: first what a handoff needs.
fn rights(name: &str, allowed: Permissions, kind: Kind, link: &str) -> Vec<Finding> {
    let remedy = format!(
        "grant them to the bot's role, in the channel or on the server, or invite the bot again{link}"
    );
    let missing = wanted::missing(allowed, kind);
    let mut found = vec![match missing.is_empty() {
        true => Finding::good(RIGHTS, "the bot may open threads and write there"),
        false => Finding::bad(
            RIGHTS,
            format!("missing in {name}: {}", missing.join(", ")),
            &remedy,
        ),
    }];
    let optional = wanted::missing_optional(allowed, kind).into_iter();
    let optional: Vec<String> = optional
        .map(|(name, without)| format!("{name} (without it, {without})"))
        .collect();
    if !optional.is_empty() {
        let detail = format!("not granted in {name}: {}", optional.join(", "));
        found.push(Finding::doubtful(RIGHTS, detail, remedy));
    }
    found
}
