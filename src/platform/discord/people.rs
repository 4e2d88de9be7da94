//! Finds the ids of people whom the settings name by their user names. A user name belongs to one person. Anyone can
//! choose any display name, so a display name gives no access.

use std::collections::HashMap;
use std::sync::MutexGuard;

use serde_json::Value;
use serenity::http::Route;
use serenity::model::id::GuildId;

use super::channel::id_of;
use super::{Discord, NAME};
use crate::domain::HomeChannel;
use crate::platform::{InboundEvent, ListenContext, PlatformError};

/// Whether this is the user name of a person, and not an id or `*`.
pub(super) fn is_name(listed: &str) -> bool {
    listed != "*" && listed.parse::<u64>().is_err()
}

/// A name as Discord writes it: without a leading `@`, in lower case.
fn plain(name: &str) -> String {
    name.trim_start_matches('@').to_lowercase()
}

impl Discord {
    fn found(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.people.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// The id of a person whom the settings name.
    pub(super) fn person_id(&self, listed: &str) -> String {
        let found = self.found().get(listed).cloned();
        found.unwrap_or_else(|| listed.to_owned())
    }

    /// The home, with the id of its owner.
    pub(super) fn with_owner_id(&self, home: &HomeChannel) -> HomeChannel {
        HomeChannel {
            owner: home.owner.as_deref().map(|owner| self.person_id(owner)),
            ..home.clone()
        }
    }

    /// Looks the names up among the members of the bot's servers.
    pub(super) async fn find_people(&self) -> Result<(), PlatformError> {
        let known = self.found().len();
        if self.rules.names.is_empty() || known == self.rules.names.len() {
            return Ok(());
        }
        let guilds = self.guilds().await?.into_iter();
        let guilds = guilds.filter_map(|guild| guild.id.parse::<u64>().ok());
        let guilds = guilds.filter(|id| *id != 0).map(GuildId::new);
        let guilds: Vec<GuildId> = guilds.collect();
        for name in &self.rules.names {
            match self.find_person(name, &guilds).await? {
                Ok(id) => {
                    self.found().insert(name.clone(), id);
                }
                Err(similar) => tracing::warn!(
                    platform = NAME,
                    name,
                    "the settings name a person who is not on the bot's servers by that user name{}: use the person's id",
                    similar
                ),
            }
        }
        Ok(())
    }

    /// The id of the member with this user name. `Err`: there is none, with a note about members who only look alike.
    async fn find_person(
        &self,
        name: &str,
        guilds: &[GuildId],
    ) -> Result<Result<String, String>, PlatformError> {
        let wanted = plain(name);
        let mut similar = Vec::new();
        for guild_id in guilds {
            let route = Route::GuildMembersSearch {
                guild_id: *guild_id,
            };
            let params = vec![("query", wanted.clone()), ("limit", "100".to_owned())];
            let members = self.api.get_with(route, params).await?;
            for member in members.as_array().into_iter().flatten() {
                let user = &member["user"];
                let Some(id) = id_of(user, "id") else {
                    continue;
                };
                if id_of(user, "username").is_some_and(|username| plain(&username) == wanted) {
                    return Ok(Ok(id));
                }
                let shown = [user.get("global_name"), member.get("nick")];
                let shown = shown.into_iter().flatten().filter_map(Value::as_str);
                if shown.map(plain).any(|shown| shown == wanted) {
                    similar.push(id);
                }
            }
        }
        Ok(Err(match similar.as_slice() {
            [] => String::new(),
            ids => format!(" (shown by that name: {})", ids.join(", ")),
        }))
    }

    /// Tells the inbox who is meant by the names.
    pub(super) async fn report_people(&self, context: &ListenContext) -> Result<(), PlatformError> {
        let people: Vec<(String, String)> = self.found().clone().into_iter().collect();
        if people.is_empty() {
            return Ok(());
        }
        let event = InboundEvent::PeopleFound {
            platform: NAME,
            people,
        };
        let accepted = context.inbox.accept(event).await;
        accepted.map_err(|error| PlatformError::Storage(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_the_star_are_no_names() {
        for (listed, expected) in [("42", false), ("*", false), ("ada_l", true), ("@ada", true)] {
            assert_eq!(is_name(listed), expected, "{listed}");
        }
        assert_eq!(plain("@Ada_L"), "ada_l");
    }
}
