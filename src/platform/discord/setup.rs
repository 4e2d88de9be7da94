//! What `hermesctl setup` asks for: the application, its servers, their channels, and the trial of a home.

use serde_json::{Value, json};
use serenity::http::Route;
use serenity::model::channel::ChannelType as Kind;
use serenity::model::id::{GuildId, UserId};

use super::channel::{Channel, MEDIA, channel_id, id_of};
use super::failure::Failure;
use super::permissions::of_member;
use super::threads::unusable;
use super::{Discord, wanted};
use crate::clock;
use crate::domain::{HomeChannel, ThreadOutcome};
use crate::platform::{Account, HomeTrial, PlatformError, PossibleHome, Server};

/// The flags of an application that may read the text of messages: on many servers, and on a few.
const MESSAGE_CONTENT: u64 = 1 << 18 | 1 << 19;
/// The most servers in one answer.
const PAGE: usize = 200;
/// The name of the thread that the trial opens.
const TRIAL: &str = "hermesd setup";

/// The application of the bot. Its id need not be the id of the bot.
pub(super) struct Application(Value);

impl Application {
    /// The link that brings the bot to a server, with all permissions that hermesd uses.
    pub(super) fn invitation(&self) -> Option<String> {
        Some(format!(
            "https://discord.com/oauth2/authorize?client_id={}&scope=bot+applications.commands&permissions={}",
            id_of(&self.0, "id")?,
            wanted::all().bits()
        ))
    }

    /// Whether the bot may read the text of messages. `None`: Discord does not say.
    pub(super) fn reads_messages(&self) -> Option<bool> {
        let flags = self.0.get("flags").and_then(Value::as_u64)?;
        Some(flags & MESSAGE_CONTENT != 0)
    }

    /// The person who owns it, or who owns its team. The owner of a team's application is a user that stands for the
    /// team.
    pub(super) fn owner(&self) -> Option<Account> {
        let Some(team) = self.0.get("team").filter(|team| !team.is_null()) else {
            return person(self.0.get("owner")?);
        };
        let id = id_of(team, "owner_user_id")?;
        let members = team.get("members").and_then(Value::as_array);
        let mut users = members
            .into_iter()
            .flatten()
            .filter_map(|member| member.get("user"));
        let owner = users.find(|user| id_of(user, "id").as_ref() == Some(&id));
        owner.and_then(person).or(Some(Account {
            name: id.clone(),
            id,
        }))
    }
}

/// A person, by the name that Discord shows.
fn person(user: &Value) -> Option<Account> {
    let id = id_of(user, "id")?;
    let name = id_of(user, "global_name").or_else(|| id_of(user, "username"));
    Some(Account {
        name: name.unwrap_or_else(|| id.clone()),
        id,
    })
}

/// The kinds of channels that can be a home, with the words for them.
fn kind_in_words(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Text => Some("text channel"),
        Kind::News => Some("announcements"),
        Kind::Forum => Some("forum"),
        Kind::Unknown(MEDIA) => Some("media channel"),
        _ => None,
    }
}

/// The place of a channel in the list that Discord shows: channels without a category come first.
fn place(channel: &Value, all: &[Value]) -> (i64, u64, i64, u64) {
    let position = |of: &Value| of.get("position").and_then(Value::as_i64).unwrap_or(0);
    let number = |of: &Value| {
        let id = id_of(of, "id").and_then(|id| id.parse::<u64>().ok());
        id.unwrap_or(u64::MAX)
    };
    let parent = id_of(channel, "parent_id");
    let category = parent.and_then(|parent| {
        all.iter()
            .find(|other| id_of(other, "id").as_ref() == Some(&parent))
    });
    (
        category.map_or(-1, position),
        category.map_or(0, number),
        position(channel),
        number(channel),
    )
}

impl Discord {
    pub(super) async fn application(&self) -> Result<Application, Failure> {
        let application = self.api.get(Route::Oauth2ApplicationCurrent).await?;
        Ok(Application(application))
    }

    pub(super) async fn guilds(&self) -> Result<Vec<Server>, Failure> {
        let mut servers: Vec<Server> = Vec::new();
        loop {
            let mut params = vec![("limit", PAGE.to_string())];
            params.extend(servers.last().map(|last| ("after", last.id.clone())));
            let page = self.api.get_with(Route::UserMeGuilds, params).await?;
            let page = page.as_array().map(Vec::as_slice).unwrap_or_default();
            servers.extend(page.iter().filter_map(|guild| {
                let id = id_of(guild, "id")?;
                let name = id_of(guild, "name").unwrap_or_else(|| id.clone());
                Some(Server { id, name })
            }));
            if page.len() < PAGE {
                break;
            }
        }
        servers.sort_by_key(|server| server.name.to_lowercase());
        Ok(servers)
    }

    /// The channels of a server that the bot sees, and the private chat with the owner.
    pub(super) async fn homes_of(
        &self,
        server: &str,
        owner: Option<&Account>,
    ) -> Result<Vec<PossibleHome>, Failure> {
        let number = server.parse::<u64>().ok().filter(|id| *id != 0);
        let guild_id = number.map(GuildId::new).ok_or_else(|| Failure::Refused {
            status: 404,
            code: 10004,
            message: format!("{server:?} is not an id of Discord"),
        })?;
        let me = self.api.get(Route::UserMe).await?;
        let me = id_of(&me, "id").unwrap_or_default();
        let user_id = UserId::new(me.parse().unwrap_or(1));
        let member = Route::GuildMember { guild_id, user_id };
        let member = self.api.get(member).await?;
        let guild = self.api.get(Route::Guild { guild_id }).await?;
        let channels = self.api.get(Route::GuildChannels { guild_id }).await?;
        let channels = channels.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut shown: Vec<&Value> = channels.iter().collect();
        shown.sort_by_key(|channel| place(channel, channels));
        let homes = shown.into_iter().filter_map(|value| {
            let channel = Channel::read(value)?;
            let kind = kind_in_words(channel.kind)?;
            let allowed = of_member(&guild, &member, &me, value);
            let missing = wanted::missing(allowed, channel.kind).into_iter();
            (!allowed.is_empty()).then(|| PossibleHome {
                name: channel.name.unwrap_or_else(|| channel.id.clone()),
                chat: channel.id,
                kind: kind.to_owned(),
                missing: missing.map(str::to_owned).collect(),
            })
        });
        let private = owner.map(|owner| PossibleHome {
            chat: owner.id.clone(),
            name: owner.name.clone(),
            kind: "private messages with you".to_owned(),
            missing: Vec::new(),
        });
        Ok(homes.chain(private).collect())
    }

    pub(super) async fn user(&self, id: &str) -> Result<Account, PlatformError> {
        let unknown = || PlatformError::Permanent(format!("{id} is not the id of a person"));
        let number = id.parse::<u64>().ok().filter(|id| *id != 0);
        let user_id = number.map(UserId::new).ok_or_else(unknown)?;
        let user = match self.api.get(Route::User { user_id }).await {
            Err(Failure::Refused { status: 404, .. }) => return Err(unknown()),
            user => user?,
        };
        match user.get("bot").and_then(Value::as_bool) {
            Some(true) => Err(unknown()),
            _ => person(&user).ok_or_else(unknown),
        }
    }

    /// Opens a thread as a handoff does, and deletes it. The chats that have no threads are used themselves.
    pub(super) async fn try_out(&self, home: &HomeChannel) -> Result<HomeTrial, PlatformError> {
        let key = format!("setup:{}", clock::now());
        let channel = match self.ask_for_channel(&home.chat_id).await {
            // It may be the id of a person.
            Err(failure) if failure.code() == Some(10003) => None,
            channel => Some(channel.map_err(|failure| unusable(home, failure))?),
        };
        let Some(channel) = channel.filter(Channel::has_threads) else {
            return match self.open(home, TRIAL, &key).await? {
                ThreadOutcome::Chat { reason, .. } => Ok(HomeTrial::Chat(reason)),
                ThreadOutcome::Thread { id, .. } => self.take_away(&home.chat_id, &id).await,
            };
        };
        if let Some(guild) = &channel.guild {
            let me = self.account().await?.id;
            let allowed = self.permissions_of(guild, &channel.id, &me).await?;
            let missing = wanted::missing(allowed.unwrap_or_default(), channel.kind);
            if !missing.is_empty() {
                return Err(PlatformError::Permanent(format!(
                    "the bot lacks permissions in {}: {}; grant them to its role, in the channel or on the server",
                    channel.name.as_ref().unwrap_or(&channel.id),
                    missing.join(", ")
                )));
            }
        }
        self.owner_sees(home, &channel).await?;
        let thread = self.create(&channel, home, TRIAL, &key).await?;
        self.take_away(&channel.id, &thread).await
    }

    /// Deletes the thread of the trial, or archives it if the bot may not delete it.
    async fn take_away(&self, channel: &str, thread: &str) -> Result<HomeTrial, PlatformError> {
        let route = || {
            Ok::<_, Failure>(Route::Channel {
                channel_id: channel_id(thread)?,
            })
        };
        let trial = match self.api.delete(route()?).await {
            Ok(_) => HomeTrial::ThreadDeleted,
            Err(failure) if failure.code() == Some(50013) => {
                let archived = self.api.patch(route()?, &json!({"archived": true})).await;
                HomeTrial::ThreadLeft(match archived {
                    Ok(_) => "without the permission Manage Threads, the bot can only archive it: delete the thread yourself".into(),
                    Err(failure) => PlatformError::from(failure).to_string(),
                })
            }
            Err(failure) => HomeTrial::ThreadLeft(PlatformError::from(failure).to_string()),
        };
        self.delete_seed(channel, thread).await;
        Ok(trial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_team_is_a_person_and_not_the_team() {
        let alone = json!({"id": "7", "team": null, "owner": {"id": "1", "username": "ada_l", "global_name": "Ada"}});
        let ada = Account {
            id: "1".into(),
            name: "Ada".into(),
        };
        assert_eq!(Application(alone).owner(), Some(ada));
        let of_team = json!({
            "id": "7",
            "owner": {"id": "9", "username": "team9"},
            "team": {"id": "9", "owner_user_id": "2", "members": [
                {"user": {"id": "1", "username": "ada_l"}}, {"user": {"id": "2", "username": "ben_b"}},
            ]},
        });
        let ben = Account {
            id: "2".into(),
            name: "ben_b".into(),
        };
        assert_eq!(Application(of_team).owner(), Some(ben));
    }

    #[test]
    fn channels_have_the_order_that_discord_shows() {
        let channels = json!([
            {"id": "10", "type": 0, "position": 5, "parent_id": "2"},
            {"id": "11", "type": 0, "position": 1, "parent_id": "2"},
            {"id": "12", "type": 0, "position": 9, "parent_id": "1"},
            {"id": "13", "type": 0, "position": 3, "parent_id": null},
            {"id": "15", "type": 0, "position": 1, "parent_id": null},
            {"id": "14", "type": 0, "position": 1, "parent_id": null},
            {"id": "1", "type": 4, "position": 0}, {"id": "2", "type": 4, "position": 4},
        ]);
        let all = channels.as_array().unwrap();
        let mut shown: Vec<&Value> = all.iter().filter(|c| c["type"] == 0).collect();
        shown.sort_by_key(|channel| place(channel, all));
        let ids: Vec<&str> = shown.iter().map(|c| c["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["14", "15", "13", "12", "11", "10"]);
    }
}
