//! Reports chats that have ended: locked and deleted threads, deleted channels, and servers that have removed the bot.

use std::collections::BTreeSet;

use serde_json::Value;
use serenity::http::Route;

use super::backlog::MOST_CHATS;
use super::channel::{Channel, channel_id, id_of};
use super::failure::Failure;
use super::threads::{home_itself, unusable};
use super::{Discord, NAME, address};
use crate::domain::{ChatType, EndReason, EndedPlace, HomeChannel, Source};
use crate::platform::{InboundEvent, ListenContext, PlatformError};

/// The code for a channel that does not exist.
const UNKNOWN_CHANNEL: u64 = 10003;

/// The end that an event tells of. An archived thread has not ended: the next message opens it again.
fn end_of(name: &str, data: &Value) -> Option<(EndedPlace, EndReason)> {
    let id = id_of(data, "id")?;
    match name {
        "THREAD_UPDATE" if is_locked(data) => Some((EndedPlace::Chat(id), EndReason::Locked)),
        "THREAD_DELETE" | "CHANNEL_DELETE" => Some((EndedPlace::Chat(id), EndReason::Deleted)),
        // An outage is over at some time.
        "GUILD_DELETE" if data.get("unavailable").and_then(Value::as_bool) != Some(true) => {
            Some((EndedPlace::Workspace(id), EndReason::Removed))
        }
        _ => None,
    }
}

fn is_locked(channel: &Value) -> bool {
    let locked = channel.pointer("/thread_metadata/locked");
    locked.and_then(Value::as_bool) == Some(true)
}

impl Discord {
    /// Reports the end that an event tells of. Call this before the channels of the event are forgotten.
    pub(super) async fn report_end(
        &self,
        context: &ListenContext,
        name: &str,
        data: &Value,
    ) -> Result<(), PlatformError> {
        let Some((place, reason)) = end_of(name, data) else {
            return Ok(());
        };
        if let EndedPlace::Workspace(guild) = &place {
            // Older entries do not name the server.
            for chat in self.context.bound_chats(MOST_CHATS).await? {
                let placed = self.placed(chat.clone());
                if chat.scope_id != placed.scope_id
                    && placed.scope_id.as_ref() == Some(guild)
                    && let Some(id) = chat.chat_id
                {
                    self.report(context, EndedPlace::Chat(id), reason).await?;
                }
            }
        }
        self.report(context, place, reason).await
    }

    async fn report(
        &self,
        context: &ListenContext,
        place: EndedPlace,
        reason: EndReason,
    ) -> Result<(), PlatformError> {
        let ended = InboundEvent::Ended {
            platform: NAME,
            place,
            reason,
        };
        let accepted = context.inbox.accept(ended).await;
        accepted.map_err(|error| PlatformError::Storage(error.to_string()))
    }

    /// Looks for chats that have ended while no one listened. `ready` names the servers that the bot is on.
    pub(super) async fn find_ended(
        &self,
        context: &ListenContext,
        ready: &Value,
    ) -> Result<(), PlatformError> {
        let guilds = ready.get("guilds").and_then(Value::as_array);
        let guilds: Option<BTreeSet<String>> =
            guilds.map(|guilds| guilds.iter().filter_map(|g| id_of(g, "id")).collect());
        for chat in self.context.bound_chats(MOST_CHATS).await? {
            let Some(id) = chat.chat_id.clone() else {
                continue;
            };
            if chat.chat_type == ChatType::Dm {
                continue;
            }
            if let (Some(guilds), Some(guild)) = (&guilds, named(chat.scope_id))
                && !guilds.contains(&guild)
            {
                let place = EndedPlace::Workspace(guild);
                self.report(context, place, EndReason::Removed).await?;
                continue;
            }
            match self.how_it_ended(&id).await {
                Ok(None) => {}
                Ok(Some(reason)) => self.report(context, EndedPlace::Chat(id), reason).await?,
                // Access can come back, and a failed call says nothing about the chat.
                Err(failure) => {
                    tracing::warn!(?failure, platform = NAME, chat = id, "chat cannot be seen");
                }
            }
        }
        Ok(())
    }

    /// Why a chat is no longer there. `None`: it is.
    async fn how_it_ended(&self, id: &str) -> Result<Option<EndReason>, Failure> {
        let route = Route::Channel {
            channel_id: channel_id(id)?,
        };
        match self.api.get(route).await {
            Ok(channel) if is_locked(&channel) => Ok(Some(EndReason::Locked)),
            Ok(channel) => {
                if let Some(channel) = Channel::read(&channel) {
                    self.channels.remember(channel);
                }
                Ok(None)
            }
            Err(failure) if failure.code() == Some(UNKNOWN_CHANNEL) => Ok(Some(EndReason::Deleted)),
            Err(failure) => Err(failure),
        }
    }

    /// Adds the server and the channel around a thread to a source, as far as they are known.
    pub(super) fn placed(&self, source: Source) -> Source {
        let known = |id: &Option<String>| self.channels.get(id.as_deref()?);
        let own = known(&source.chat_id);
        let around = known(&source.parent_chat_id);
        let guild = |channel: &Option<Channel>| channel.as_ref()?.guild.clone();
        let parent = own.as_ref().and_then(|own| own.parent.clone());
        let parent = parent.filter(|_| source.thread_id.is_some());
        Source {
            scope_id: named(source.scope_id)
                .or_else(|| guild(&own))
                .or_else(|| guild(&around)),
            parent_chat_id: source.parent_chat_id.or(parent),
            ..source
        }
    }

    /// Whether a channel has messages of its own. A forum has only threads.
    pub(super) fn may_have_messages(&self, chat: &Source) -> bool {
        let known = chat.chat_id.as_deref().and_then(|id| self.channels.get(id));
        known.is_none_or(|channel| !channel.is_forum())
    }

    pub(super) async fn home_for_notes(&self, home: &HomeChannel) -> Result<Source, PlatformError> {
        let opened = match self.ask_for_channel(&home.chat_id).await {
            Err(failure) if failure.code() == Some(UNKNOWN_CHANNEL) => {
                self.private_home(home, failure).await?
            }
            Ok(channel) if channel.is_forum() => {
                let reason = "the home channel is a forum, which takes no messages";
                return Err(PlatformError::Permanent(reason.into()));
            }
            channel => {
                let channel = channel.map_err(|failure| unusable(home, failure))?;
                home_itself(&channel, home, "for a note")
            }
        };
        Ok(self.placed(address::of_home(&self.with_owner_id(home), &opened)))
    }
}

/// A message of a channel's history may have an empty id for its server.
fn named(id: Option<String>) -> Option<String> {
    id.filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_lock_a_deletion_or_a_removal_is_an_end() {
        let thread = |archived: bool, locked: bool| json!({"id": "7", "thread_metadata": {"archived": archived, "locked": locked}});
        let chat = |reason| Some((EndedPlace::Chat("7".into()), reason));
        let removed = Some((EndedPlace::Workspace("7".into()), EndReason::Removed));
        for (name, data, end) in [
            ("THREAD_UPDATE", thread(true, true), chat(EndReason::Locked)),
            (
                "THREAD_UPDATE",
                thread(false, true),
                chat(EndReason::Locked),
            ),
            ("THREAD_UPDATE", thread(true, false), None),
            ("THREAD_CREATE", thread(false, true), None),
            (
                "THREAD_DELETE",
                json!({"id": "7"}),
                chat(EndReason::Deleted),
            ),
            (
                "CHANNEL_DELETE",
                json!({"id": "7"}),
                chat(EndReason::Deleted),
            ),
            ("CHANNEL_UPDATE", json!({"id": "7"}), None),
            ("GUILD_DELETE", json!({"id": "7"}), removed),
            (
                "GUILD_DELETE",
                json!({"id": "7", "unavailable": true}),
                None,
            ),
        ] {
            assert_eq!(end_of(name, &data), end, "{name} {data}");
        }
    }
}
