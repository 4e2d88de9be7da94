//! Opens threads for handoffs, and deletes them.

use serde_json::{Value, json};
use serenity::http::Route;
use serenity::model::Permissions;
use serenity::model::channel::ChannelType as Kind;
use serenity::model::id::{GuildId, MessageId, UserId};

use super::channel::{Channel, channel_id, id_of};
use super::failure::Failure;
use super::{Discord, NAME, parse, send};
use crate::clock;
use crate::domain::{ChatType, HomeChannel, ThreadOutcome};
use crate::platform::PlatformError;

pub(super) const LONGEST_NAME: usize = 100;
/// An empty thread of the same name that is older belongs to another handoff.
const REUSED_WITHIN: f64 = 3600.0;
/// Media channels, which the SDK does not name.
pub(super) const MEDIA: u8 = 16;

impl Discord {
    pub(super) async fn open(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        let channel = match self.ask_for_channel(&home.chat_id).await {
            Err(failure) if failure.code() == Some(10003) => {
                return self.private_home(home, failure).await;
            }
            channel => channel.map_err(|failure| unusable(home, failure))?,
        };
        let instead = |reason: &str| Ok(home_itself(&channel, home, reason));
        match channel.kind {
            Kind::Private | Kind::GroupDm => {
                return instead("a private chat on Discord has no threads");
            }
            Kind::NewsThread | Kind::PublicThread | Kind::PrivateThread => {
                return instead("the home channel is a thread itself");
            }
            Kind::Text | Kind::News | Kind::Forum => {}
            Kind::Unknown(MEDIA) => {}
            _ => return instead("this kind of channel has no threads"),
        }
        self.owner_sees(home, &channel).await?;
        let name: String = title.chars().take(LONGEST_NAME).collect();
        let thread = match self.abandoned_thread(&channel, &name).await {
            Some(id) => Ok(id),
            None => self.create(&channel, home, &name, open_key).await,
        };
        match thread {
            Ok(id) => {
                self.opened().insert(id.clone());
                Ok(ThreadOutcome::Thread {
                    id,
                    title: name,
                    repeated: false,
                    within: None,
                })
            }
            Err(failure) if failure.is_final() => {
                let reason = PlatformError::from(failure).to_string();
                instead(&format!(
                    "no thread could be opened: {reason}; mention the bot there"
                ))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// A home that is the id of a person means the private chat with them.
    pub(super) async fn private_home(
        &self,
        home: &HomeChannel,
        unknown: Failure,
    ) -> Result<ThreadOutcome, PlatformError> {
        let body = json!({"recipient_id": home.chat_id});
        let opened = self.api.post(Route::UserMeDmChannels, &body).await;
        let id = match opened {
            Ok(channel) => id_of(&channel, "id"),
            Err(failure) if failure.is_final() => None,
            Err(failure) => return Err(failure.into()),
        };
        match id {
            Some(id) => Ok(ThreadOutcome::Chat {
                reason: "a private chat on Discord has no threads".into(),
                within: Some(ChatType::Dm),
                thread_id: Some(id),
            }),
            None => Err(unusable(home, unknown)),
        }
    }

    /// A handoff that its owner cannot see must not be completed.
    async fn owner_sees(&self, home: &HomeChannel, channel: &Channel) -> Result<(), PlatformError> {
        let (Some(owner), Some(guild)) = (&home.owner, &channel.guild) else {
            return Ok(());
        };
        let permissions = self.permissions_of(guild, &channel.id, owner).await?;
        let reason = match permissions {
            None => "is not a member of its server: invite them",
            Some(allowed) if !allowed.contains(Permissions::VIEW_CHANNEL) => {
                "cannot see it: give them the permission View Channel"
            }
            Some(_) => return Ok(()),
        };
        Err(PlatformError::Permanent(format!(
            "the owner ({owner}) of the home channel {} {reason}",
            channel.id
        )))
    }

    /// The empty thread of an earlier attempt that got no answer.
    async fn abandoned_thread(&self, channel: &Channel, name: &str) -> Option<String> {
        let guild = channel
            .guild
            .as_ref()?
            .parse::<u64>()
            .ok()
            .filter(|id| *id != 0)?;
        let route = Route::GuildThreadsActive {
            guild_id: GuildId::new(guild),
        };
        let active = self.api.get(route).await;
        let active = active.inspect_err(|failure| {
            tracing::debug!(?failure, platform = NAME, "active threads cannot be listed");
        });
        let (me, opened) = (self.me(), self.opened().clone());
        let threads = active.ok()?;
        let threads = threads.get("threads")?.as_array()?;
        let is = |thread: &Value, field: &str, value: &str| {
            id_of(thread, field).as_deref() == Some(value)
        };
        let found = threads.iter().find(|thread| {
            let id = id_of(thread, "id").unwrap_or_default();
            let age = parse::time_of(&id).map_or(f64::MAX, |at| clock::now() - at);
            is(thread, "parent_id", &channel.id)
                && is(thread, "owner_id", &me)
                && is(thread, "name", name)
                && thread.get("message_count").and_then(Value::as_u64) == Some(0)
                && age < REUSED_WITHIN
                && !opened.contains(&id)
        });
        id_of(found?, "id")
    }

    async fn create(
        &self,
        channel: &Channel,
        home: &HomeChannel,
        name: &str,
        open_key: &str,
    ) -> Result<String, Failure> {
        let route = || {
            Ok(Route::ChannelThreads {
                channel_id: channel_id(&channel.id)?,
            })
        };
        let mut body = json!({"name": name, "auto_archive_duration": self.rules.auto_archive});
        if matches!(channel.kind, Kind::Forum | Kind::Unknown(MEDIA)) {
            body["message"] = json!({"content": name, "allowed_mentions": {"parse": []}});
            if let Some(tag) = &channel.required_tag {
                body["applied_tags"] = json!([tag]);
            }
            return named(&self.api.post(route()?, &body).await?);
        }
        body["type"] = json!(match channel.kind {
            Kind::News => 10,
            _ => 11,
        });
        let refused = match self.api.post(route()?, &body).await {
            Err(failure) if failure.is_final() => failure,
            answer => return named(&answer?),
        };
        match self.thread_from_message(channel, name, open_key).await {
            Err(failure) if failure.is_final() => {
                tracing::debug!(?failure, platform = NAME, "no thread from a message");
            }
            opened => return opened,
        }
        let private = self.private_thread(channel, home, &mut body).await;
        match private {
            Err(failure) if failure.is_final() => Err(refused),
            opened => opened,
        }
    }

    /// A thread from a message of ours. Without the thread, the message is deleted.
    async fn thread_from_message(
        &self,
        channel: &Channel,
        name: &str,
        open_key: &str,
    ) -> Result<String, Failure> {
        let channel_id = channel_id(&channel.id)?;
        let seed = json!({
            "content": name,
            "allowed_mentions": {"parse": []},
            "nonce": send::nonce(&format!("seed:{open_key}")),
            "enforce_nonce": true,
        });
        let seed = self
            .api
            .post(Route::ChannelMessages { channel_id }, &seed)
            .await?;
        let number = id_of(&seed, "id").and_then(|id| id.parse::<u64>().ok());
        let number = number.filter(|id| *id != 0).ok_or_else(unnamed)?;
        let message_id = MessageId::new(number);
        let body = json!({"name": name, "auto_archive_duration": self.rules.auto_archive});
        let opened = self
            .api
            .post(
                Route::ChannelMessageThreads {
                    channel_id,
                    message_id,
                },
                &body,
            )
            .await;
        match opened {
            // An earlier attempt has opened it.
            Err(failure) if failure.code() == Some(160004) => Ok(number.to_string()),
            Err(failure) if failure.is_final() => {
                let _ = self
                    .api
                    .delete(Route::ChannelMessage {
                        channel_id,
                        message_id,
                    })
                    .await;
                Err(failure)
            }
            opened => named(&opened?),
        }
    }

    /// A private thread counts only if its owner is in it.
    async fn private_thread(
        &self,
        channel: &Channel,
        home: &HomeChannel,
        body: &mut Value,
    ) -> Result<String, Failure> {
        let owner = home
            .owner
            .as_ref()
            .and_then(|owner| owner.parse::<u64>().ok());
        let Some(owner) = owner.filter(|id| *id != 0) else {
            return Err(unnamed());
        };
        body["type"] = json!(12);
        let route = Route::ChannelThreads {
            channel_id: channel_id(&channel.id)?,
        };
        let id = named(&self.api.post(route, body).await?)?;
        let thread = channel_id(&id)?;
        let member = Route::ChannelThreadMember {
            channel_id: thread,
            user_id: UserId::new(owner),
        };
        if let Err(failure) = self.api.put(member).await {
            let _ = self.api.delete(Route::Channel { channel_id: thread }).await;
            return Err(failure);
        }
        Ok(id)
    }
}

fn named(thread: &Value) -> Result<String, Failure> {
    id_of(thread, "id").ok_or_else(unnamed)
}

fn unnamed() -> Failure {
    Failure::Refused {
        status: 400,
        code: 0,
        message: "no thread is possible there".into(),
    }
}

pub(super) fn unusable(home: &HomeChannel, failure: Failure) -> PlatformError {
    match PlatformError::from(failure) {
        PlatformError::Permanent(reason) | PlatformError::Gone(reason) => {
            PlatformError::Permanent(format!(
                "the home channel {} cannot be used ({reason})",
                home.chat_id
            ))
        }
        error => error,
    }
}

pub(super) fn home_itself(channel: &Channel, home: &HomeChannel, reason: &str) -> ThreadOutcome {
    let thread = home
        .thread_id
        .clone()
        .filter(|thread| *thread != home.chat_id);
    ThreadOutcome::Chat {
        reason: reason.to_owned(),
        within: Some(match thread {
            Some(_) => ChatType::Thread,
            None => channel.chat_type(),
        }),
        thread_id: thread,
    }
}
