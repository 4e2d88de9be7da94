//! Fetches the messages of the time without a connection from the history of their chats.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use serenity::http::Route;

use super::channel::{channel_id, id_of};
use super::failure::Failure;
use super::listen::Position;
use super::{Discord, parse};
use crate::domain::ChatType;
use crate::platform::{InboundEvent, ListenContext, PlatformError};

/// Events of several channels may arrive in another order than their ids, so the backlog begins this much earlier.
const OVERLAP: f64 = 60.0;
/// The most messages of one channel that are fetched after an absence.
const MOST_MISSED: usize = 1000;
const PAGE: usize = 100;
/// The most chats whose history is read after an absence. Each costs a call.
pub(super) const MOST_CHATS: usize = 200;

impl Discord {
    /// Accepts what was said without us in the chats that are on a session, in the order in which it was said. The
    /// messages of a channel's history have no guild, so the chat's source says where they are.
    pub(super) async fn fetch_missed(
        &self,
        context: &ListenContext,
        position: &Position,
    ) -> Result<Option<String>, PlatformError> {
        let Some(last) = position.message.as_deref().and_then(parse::time_of) else {
            return Ok(None);
        };
        let after = parse::id_at(last - OVERLAP);
        let mut missed = Vec::new();
        let mut read = HashSet::new();
        for chat in self.context.bound_chats(MOST_CHATS).await? {
            let Some(id) = &chat.chat_id else { continue };
            // Each person may have a session of their own there.
            if !read.insert(id.clone()) {
                continue;
            }
            match self.history(id, after).await {
                Ok(messages) => missed.extend(messages.into_iter().map(|mut message| {
                    if chat.chat_type != ChatType::Dm {
                        message["guild_id"] = chat.scope_id.clone().unwrap_or_default().into();
                    }
                    message
                })),
                Err(failure) if failure.is_final() => {
                    tracing::debug!(?failure, chat = id, "history of a chat cannot be read");
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        missed.sort_by_key(number);
        if self.rules.uses_roles {
            self.add_members(&mut missed).await;
        }
        let mut newest = None;
        for message in &missed {
            let accepted = self.accept(context, message, InboundEvent::Message).await?;
            newest = accepted.or(newest);
        }
        Ok(newest)
    }

    /// Messages of a history do not say the roles of their authors.
    async fn add_members(&self, messages: &mut [Value]) {
        let mut members: HashMap<(String, String), Option<Value>> = HashMap::new();
        for message in messages {
            let author = message.get("author").and_then(|author| id_of(author, "id"));
            let (Some(guild), Some(author)) = (id_of(message, "guild_id"), author) else {
                continue;
            };
            let person = (guild, author);
            if !members.contains_key(&person) {
                let member = self.member(&person.0, &person.1).await.ok().flatten();
                members.insert(person.clone(), member);
            }
            if let Some(Some(member)) = members.get(&person) {
                message["member"] = member.clone();
            }
        }
    }

    /// The messages of a channel after an id.
    async fn history(&self, id: &str, after: u64) -> Result<Vec<Value>, Failure> {
        let (mut messages, mut after) = (Vec::new(), after);
        while messages.len() < MOST_MISSED {
            let route = Route::ChannelMessages {
                channel_id: channel_id(id)?,
            };
            let params = vec![("after", after.to_string()), ("limit", PAGE.to_string())];
            let Value::Array(page) = self.api.get_with(route, params).await? else {
                break;
            };
            let Some(newest) = page.iter().filter_map(number).max() else {
                break;
            };
            let is_last = page.len() < PAGE;
            messages.extend(page);
            if is_last {
                break;
            }
            after = newest;
        }
        Ok(messages)
    }
}

fn number(message: &Value) -> Option<u64> {
    id_of(message, "id")?.parse().ok()
}
