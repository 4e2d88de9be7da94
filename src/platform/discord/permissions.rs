//! Computes what a member may do in a channel, as Discord documents it.

use serde_json::Value;
use serenity::http::Route;
use serenity::model::Permissions;
use serenity::model::id::{GuildId, UserId};

use super::Discord;
use super::channel::{channel_id, id_of};
use super::failure::Failure;

fn number(value: &Value, field: &str) -> Permissions {
    let text = value.get(field).and_then(Value::as_str);
    let bits = text.and_then(|text| text.parse().ok()).unwrap_or(0);
    Permissions::from_bits_truncate(bits)
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The permissions of a member: `guild` has the roles, `channel` the overwrites.
pub(super) fn of_member(guild: &Value, member: &Value, user: &str, channel: &Value) -> Permissions {
    let guild_id = id_of(guild, "id").unwrap_or_default();
    if id_of(guild, "owner_id").as_deref() == Some(user) {
        return Permissions::all();
    }
    let own: Vec<&str> = items(member, "roles").filter_map(Value::as_str).collect();
    let has = |id: &str| id == guild_id || own.contains(&id);
    let mut allowed = Permissions::empty();
    for role in items(guild, "roles").filter(|role| id_of(role, "id").is_some_and(|id| has(&id))) {
        allowed |= number(role, "permissions");
    }
    if allowed.contains(Permissions::ADMINISTRATOR) {
        return Permissions::all();
    }
    let overwrites = || items(channel, "permission_overwrites");
    let named = |id: &str| overwrites().find(move |o| id_of(o, "id").as_deref() == Some(id));
    let mut apply = |overwrites: Vec<&Value>| {
        let union = |field: &str| {
            let each = overwrites.iter().map(|overwrite| number(overwrite, field));
            each.fold(Permissions::empty(), |all, one| all | one)
        };
        allowed = (allowed - union("deny")) | union("allow");
    };
    apply(named(&guild_id).into_iter().collect());
    let of_roles =
        overwrites().filter(|o| id_of(o, "id").is_some_and(|id| own.contains(&id.as_str())));
    apply(of_roles.collect());
    apply(named(user).into_iter().collect());
    match allowed.contains(Permissions::VIEW_CHANNEL) {
        true => allowed,
        false => Permissions::empty(),
    }
}

impl Discord {
    /// A member of a server. `None`: there is no such member.
    pub(super) async fn member(&self, guild: &str, user: &str) -> Result<Option<Value>, Failure> {
        let id = |text: &str| text.parse::<u64>().ok().filter(|id| *id != 0);
        let (Some(guild_id), Some(user_id)) = (id(guild), id(user)) else {
            return Ok(None);
        };
        let route = Route::GuildMember {
            guild_id: GuildId::new(guild_id),
            user_id: UserId::new(user_id),
        };
        match self.api.get(route).await {
            Err(Failure::Refused { status: 404, .. }) => Ok(None),
            member => member.map(Some),
        }
    }

    /// The permissions of a person in a channel of a server. `None`: they are no member.
    pub(super) async fn permissions_of(
        &self,
        guild: &str,
        channel: &str,
        user: &str,
    ) -> Result<Option<Permissions>, Failure> {
        let Some(member) = self.member(guild, user).await? else {
            return Ok(None);
        };
        let guild_id = guild.parse::<u64>().unwrap_or_default().max(1);
        let route = Route::Guild {
            guild_id: GuildId::new(guild_id),
        };
        let guild = self.api.get(route).await?;
        let channel = self
            .api
            .get(Route::Channel {
                channel_id: channel_id(channel)?,
            })
            .await?;
        Ok(Some(of_member(&guild, &member, user, &channel)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overwrites_apply_in_their_order() {
        let view = Permissions::VIEW_CHANNEL.bits().to_string();
        let guild = json!({"id": "1", "owner_id": "9", "roles": [
            {"id": "1", "permissions": view}, {"id": "5", "permissions": "0"}, {"id": "6", "permissions": "8"},
        ]});
        let hidden = json!({"permission_overwrites": [{"id": "1", "allow": "0", "deny": view}]});
        let for_role = json!({"permission_overwrites": [
            {"id": "1", "allow": "0", "deny": view}, {"id": "5", "allow": view, "deny": "0"},
        ]});
        let sees = |user: &str, roles: &[&str], channel: &Value| {
            let member = json!({"roles": roles});
            of_member(&guild, &member, user, channel).contains(Permissions::VIEW_CHANNEL)
        };
        assert!(sees("42", &[], &json!({})));
        assert!(!sees("42", &[], &hidden));
        assert!(sees("9", &[], &hidden));
        assert!(sees("42", &["6"], &hidden));
        assert!(sees("42", &["5"], &for_role));
        assert!(!sees("42", &[], &for_role));
    }
}
