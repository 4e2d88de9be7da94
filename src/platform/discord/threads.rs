//! Opens threads for handoffs and for mentions.

use std::time::Duration;

use serde_json::{Value, json};
use serenity::http::Route;
use serenity::model::Permissions;
use serenity::model::channel::ChannelType as Kind;
use serenity::model::id::{ChannelId, GuildId, MessageId, UserId};

use super::channel::{Channel, channel_id, id_of};
use super::failure::Failure;
use super::{Discord, NAME, parse, send, wanted};
use crate::clock;
use crate::domain::{ChatType, HomeChannel, Source, ThreadOutcome};
use crate::platform::{InboundMessage, PlatformError};

pub(super) const LONGEST_NAME: usize = 100;
/// The longest name of a thread on a mention, as Hermes has it.
const LONGEST_NAME_OF_MENTION: usize = 80;
/// An empty thread of the same name that is older belongs to another handoff.
pub(super) const REUSED_WITHIN: Duration = Duration::from_secs(3600);
/// The type of a private thread.
const PRIVATE: u64 = 12;
/// The most people who are added to a private thread beside its owner.
const MOST_ADDED: usize = 20;

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
        if matches!(channel.kind, Kind::Private | Kind::GroupDm) {
            return instead("a private chat on Discord has no threads");
        }
        self.owner_sees(home, &channel).await?;
        if channel.chat_type() == ChatType::Thread {
            return instead("the home channel is a thread itself");
        }
        if !channel.has_threads() {
            return instead("this kind of channel has no threads");
        }
        let name: String = title.chars().take(LONGEST_NAME).collect();
        let _opening = self.opening.lock().await;
        let opened = match self.abandoned_thread(&channel, &name).await? {
            Some(id) => Ok(id),
            None => self.create(&channel, home, &name, open_key).await,
        };
        match opened {
            Ok(id) => {
                self.check_opened(home, &channel, &id).await?;
                self.opened().insert(id.clone());
                Ok(ThreadOutcome::Thread {
                    id,
                    title: name,
                    repeated: false,
                    within: None,
                })
            }
            Err(failure) if failure.is_final() => {
                let reason = self.refusal_in(&channel, failure).await;
                // A forum has no messages of its own.
                if channel.is_forum() {
                    return Err(PlatformError::Permanent(format!(
                        "no post could be opened in the home channel {}: {reason}",
                        channel.id
                    )));
                }
                instead(&format!(
                    "no thread could be opened: {reason}; mention the bot there"
                ))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Opens a thread on a message that mentions the bot. Discord gives it the id of the message, so it can be opened
    /// only once.
    pub(super) async fn open_on(
        &self,
        message: &InboundMessage,
    ) -> Result<Option<Source>, PlatformError> {
        let source = &message.source;
        let channel = source.chat_id.as_deref().unwrap_or_default();
        let kind = self.channel(channel).await?.kind;
        if !matches!(kind, Kind::Text | Kind::News) {
            return Ok(None);
        }
        let number = message.message_id.parse::<u64>().ok().filter(|id| *id != 0);
        let Some(number) = number else {
            return Ok(None);
        };
        let name = name_of_mention(message.own_words().unwrap_or_default());
        let route = Route::ChannelMessageThreads {
            channel_id: channel_id(channel)?,
            message_id: MessageId::new(number),
        };
        let body = json!({"name": name, "auto_archive_duration": self.rules.auto_archive});
        match self.api.post(route, &body).await {
            Ok(thread) => {
                if let Some(thread) = Channel::read(&thread) {
                    self.channels.remember(thread);
                }
            }
            // The thread is there already.
            Err(failure) if failure.code() == Some(160004) => {}
            Err(failure) => return Err(failure.into()),
        }
        let mut thread = Source {
            chat_type: ChatType::Thread,
            chat_id: Some(message.message_id.clone()),
            thread_id: Some(message.message_id.clone()),
            parent_chat_id: source.chat_id.clone(),
            chat_name: source
                .chat_name
                .as_ref()
                .map(|around| format!("{around} / {name}")),
            ..source.clone()
        };
        // Hermes writes the same about its own threads.
        thread
            .others
            .insert("auto_thread_created".into(), json!(true));
        thread
            .others
            .insert("auto_thread_initial_name".into(), json!(name));
        Ok(Some(thread))
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

    /// Why Discord refuses a call in a channel. Names the permissions that the bot lacks there.
    async fn refusal_in(&self, channel: &Channel, failure: Failure) -> String {
        let is_permission = failure.code() == Some(50013);
        let reason = PlatformError::from(failure).to_string();
        let Some(guild) = channel.guild.as_ref().filter(|_| is_permission) else {
            return reason;
        };
        let allowed = self.permissions_of(guild, &channel.id, &self.me()).await;
        let Ok(Some(allowed)) = allowed else {
            return reason;
        };
        match wanted::missing(allowed, channel.kind).as_slice() {
            [] => reason,
            missing => format!("{reason} ({})", missing.join(", ")),
        }
    }

    /// The people for whom a handoff is: its owner, else those who may talk.
    fn people_of<'a>(&'a self, home: &'a HomeChannel) -> Vec<String> {
        match &home.owner {
            Some(owner) => vec![owner.clone()],
            None => self.allowed_people(),
        }
    }

    fn allowed_people(&self) -> Vec<String> {
        let allowed = self.rules.allowed_users.iter();
        let allowed = allowed.map(|listed| self.person_id(listed));
        allowed.take(MOST_ADDED).collect()
    }

    /// A handoff that nobody can see must not be completed.
    pub(super) async fn owner_sees(
        &self,
        home: &HomeChannel,
        channel: &Channel,
    ) -> Result<(), PlatformError> {
        let Some(guild) = &channel.guild else {
            return Ok(());
        };
        // A thread has the permissions of the channel around it.
        let is_thread = channel.chat_type() == ChatType::Thread;
        let around = channel.parent.as_ref().filter(|_| is_thread);
        let decides = around.unwrap_or(&channel.id);
        let mut refusal = None;
        for person in self.people_of(home) {
            let permissions = self.permissions_of(guild, decides, &person).await?;
            let reason = match permissions {
                None => "is not a member of its server: invite them",
                Some(allowed) if !allowed.contains(Permissions::VIEW_CHANNEL) => {
                    "cannot see it: give them the permission View Channel"
                }
                Some(allowed)
                    if channel.kind == Kind::PrivateThread
                        && !allowed.contains(Permissions::MANAGE_THREADS)
                        && !self.is_in_thread(&channel.id, &person).await? =>
                {
                    "is not in it: add them to the private thread"
                }
                Some(_) => return Ok(()),
            };
            refusal.get_or_insert((person, reason));
        }
        let Some((person, reason)) = refusal else {
            return Ok(());
        };
        let who = match home.owner {
            Some(_) => "the owner",
            None => "an allowed user",
        };
        Err(PlatformError::Permanent(format!(
            "{who} ({person}) of the home channel {} {reason}",
            channel.id
        )))
    }

    /// Checks that the thread is where it belongs, and that a private one has a person in it. Otherwise deletes it.
    async fn check_opened(
        &self,
        home: &HomeChannel,
        channel: &Channel,
        id: &str,
    ) -> Result<(), PlatformError> {
        let thread = self.ask_for_channel(id).await?;
        let is_there = thread.parent.as_deref() == Some(&channel.id);
        let mut is_seen = is_there && thread.kind != Kind::PrivateThread;
        if is_there && !is_seen {
            for person in self.people_of(home) {
                is_seen |= self.is_in_thread(id, &person).await?;
            }
        }
        if is_seen {
            return Ok(());
        }
        self.delete_channel(channel_id(id)?).await;
        Err(PlatformError::Permanent(format!(
            "Discord opened a thread in {} that its owner cannot see: give the bot the permission Create Public Threads",
            channel.id
        )))
    }

    async fn is_in_thread(&self, thread: &str, person: &str) -> Result<bool, Failure> {
        let Some(user_id) = person.parse::<u64>().ok().filter(|id| *id != 0) else {
            return Ok(false);
        };
        let route = Route::ChannelThreadMember {
            channel_id: channel_id(thread)?,
            user_id: UserId::new(user_id),
        };
        match self.api.get(route).await {
            Err(Failure::Refused { status: 404, .. }) => Ok(false),
            member => member.map(|_| true),
        }
    }

    async fn delete_channel(&self, channel_id: ChannelId) {
        if let Err(failure) = self.api.delete(Route::Channel { channel_id }).await {
            tracing::warn!(?failure, platform = NAME, "unused thread not deleted");
        }
    }

    /// Deletes the message that a deleted thread began with. It has the id of the thread. Most threads have none.
    pub(super) async fn delete_seed(&self, channel: &str, thread: &str) {
        let number = thread.parse::<u64>().ok().filter(|id| *id != 0);
        let (Ok(channel_id), Some(number)) = (channel_id(channel), number) else {
            return;
        };
        let message = Route::ChannelMessage {
            channel_id,
            message_id: MessageId::new(number),
        };
        if let Err(failure) = self.api.delete(message).await
            && failure.code() != Some(10008)
        {
            tracing::debug!(
                ?failure,
                platform = NAME,
                "first message of a thread not deleted"
            );
        }
    }

    /// The empty thread of an earlier attempt that got no answer.
    async fn abandoned_thread(
        &self,
        channel: &Channel,
        name: &str,
    ) -> Result<Option<String>, PlatformError> {
        let guild = channel.guild.as_ref().and_then(|id| id.parse::<u64>().ok());
        let Some(guild) = guild.filter(|id| *id != 0) else {
            return Ok(None);
        };
        let route = Route::GuildThreadsActive {
            guild_id: GuildId::new(guild),
        };
        let active = match self.api.get(route).await {
            Ok(active) => active,
            Err(failure) if failure.is_final() => {
                tracing::debug!(?failure, platform = NAME, "active threads cannot be listed");
                return Ok(None);
            }
            Err(failure) => return Err(failure.into()),
        };
        let me = self.me();
        let most_added = self.allowed_people().len() as u64 + 1;
        let is = |thread: &Value, field: &str, value: &str| {
            id_of(thread, field).as_deref() == Some(value)
        };
        let threads = active.get("threads").and_then(Value::as_array);
        for thread in threads.into_iter().flatten() {
            let id = id_of(thread, "id").unwrap_or_default();
            let age = parse::time_of(&id).map_or(f64::MAX, |at| clock::now() - at);
            if is(thread, "parent_id", &channel.id)
                && is(thread, "owner_id", &me)
                && is(thread, "name", name)
                && is_unused(thread, most_added)
                && age < REUSED_WITHIN.as_secs_f64()
                && !self.opened().contains(&id)
                && !self.context.is_thread_of_handoff(&id).await?
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    pub(super) async fn create(
        &self,
        channel: &Channel,
        home: &HomeChannel,
        name: &str,
        open_key: &str,
    ) -> Result<String, Failure> {
        let channel_id = channel_id(&channel.id)?;
        let route = || Route::ChannelThreads { channel_id };
        let mut body = json!({"name": name, "auto_archive_duration": self.rules.auto_archive});
        if channel.is_forum() {
            body["message"] = json!({"content": name, "allowed_mentions": {"parse": []}});
            if let Some(tag) = &channel.required_tag {
                body["applied_tags"] = json!([tag]);
            }
            return named(&self.api.post(route(), &body).await?);
        }
        body["type"] = json!(match channel.kind {
            Kind::News => 10,
            _ => 11,
        });
        let refused = match self.api.post(route(), &body).await {
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

    /// A private thread counts only if one of the people for whom it is can be added.
    async fn private_thread(
        &self,
        channel: &Channel,
        home: &HomeChannel,
        body: &mut Value,
    ) -> Result<String, Failure> {
        let people = self.people_of(home);
        if people.is_empty() {
            return Err(unnamed());
        }
        body["type"] = json!(PRIVATE);
        let route = Route::ChannelThreads {
            channel_id: channel_id(&channel.id)?,
        };
        let id = named(&self.api.post(route, body).await?)?;
        let thread = channel_id(&id)?;
        let mut failed = None;
        let mut added = 0;
        for person in &people {
            match self.add_to_thread(thread, person).await {
                Ok(()) => added += 1,
                Err(failure) => failed = Some(failure),
            }
        }
        if added == 0 {
            self.delete_channel(thread).await;
            return Err(failed.unwrap_or_else(unnamed));
        }
        for person in self.allowed_people() {
            if people.contains(&person) {
                continue;
            }
            if let Err(failure) = self.add_to_thread(thread, &person).await {
                tracing::info!(
                    ?failure,
                    person,
                    platform = NAME,
                    "allowed user not added to the private thread"
                );
            }
        }
        Ok(id)
    }

    async fn add_to_thread(&self, thread: ChannelId, person: &str) -> Result<(), Failure> {
        let Some(user_id) = person.parse::<u64>().ok().filter(|id| *id != 0) else {
            return Err(unnamed());
        };
        let member = Route::ChannelThreadMember {
            channel_id: thread,
            user_id: UserId::new(user_id),
        };
        self.api.put(member).await.map(drop)
    }
}

/// The name of a thread on a mention: the words of the message on one line, without mentions.
fn name_of_mention(words: &str) -> String {
    let is_mention = |word: &&str| word.starts_with('<') && word.ends_with('>');
    let plain: Vec<&str> = words
        .split_whitespace()
        .filter(|w| !is_mention(w))
        .collect();
    let name: String = plain
        .join(" ")
        .chars()
        .take(LONGEST_NAME_OF_MENTION)
        .collect();
    match name.trim() {
        "" => "Conversation".to_owned(),
        name => name.to_owned(),
    }
}

/// Whether no one has written in a thread. The first message of a post does not count, and a private thread may count
/// a message of Discord about each person who was added.
fn is_unused(thread: &Value, most_added: u64) -> bool {
    let is_private = thread.get("type").and_then(Value::as_u64) == Some(PRIVATE);
    let most = if is_private { most_added } else { 0 };
    let count = thread.get("message_count").and_then(Value::as_u64);
    count.is_some_and(|count| count <= most)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_on_a_mention_is_named_after_its_words() {
        assert_eq!(
            name_of_mention("why is <@!5> the\nbuild red?"),
            "why is the build red?"
        );
        assert_eq!(name_of_mention("<@5>"), "Conversation");
        assert_eq!(name_of_mention(&"ä".repeat(99)).chars().count(), 80);
    }
}
