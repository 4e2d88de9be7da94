//! The objects of the world as Discord shows them.

use serde_json::{Value, json};

use super::permissions::ALL;
use super::world::{Channel, ChannelKind, Entry, Guild, Id, Role, Whom, World, now};
use super::{APPLICATION_ID, BOT_ID, BOT_NAME};

const TEAM_ID: Id = 1_177_777_777_777_777_777;

pub fn bot() -> Value {
    json!({
        "id": BOT_ID.to_string(),
        "username": BOT_NAME,
        "discriminator": "4242",
        "global_name": null,
        "avatar": null,
        "bot": true,
        "public_flags": 0,
    })
}

impl World {
    /// The bot, or a person.
    pub fn user(&self, id: Id) -> Option<Value> {
        match id == BOT_ID {
            true => Some(bot()),
            false => self.people.get(&id).map(|person| person.value()),
        }
    }

    /// A member without the user, as messages show it.
    pub fn partial_member(&self, guild: Id, user: Id) -> Option<Value> {
        let roles = self.guilds[&guild].members.get(&user)?.iter();
        let roles: Vec<String> = roles.map(Id::to_string).collect();
        Some(json!({
            "roles": roles,
            "nick": null,
            "avatar": null,
            "premium_since": null,
            "joined_at": "2026-01-05T09:00:00.000000+00:00",
            "deaf": false,
            "mute": false,
            "pending": false,
            "flags": 0,
            "communication_disabled_until": null,
        }))
    }

    pub fn member(&self, guild: Id, user: Id) -> Option<Value> {
        let mut member = self.partial_member(guild, user)?;
        member["user"] = self.user(user)?;
        Some(member)
    }

    pub fn guild_value(&self, guild: &Guild) -> Value {
        let roles = guild.roles.values().map(Role::value);
        json!({
            "id": guild.id.to_string(),
            "name": guild.name,
            "icon": null,
            "splash": null,
            "discovery_splash": null,
            "description": null,
            "banner": null,
            "owner_id": guild.owner.to_string(),
            "afk_channel_id": null,
            "afk_timeout": 300,
            "widget_enabled": false,
            "widget_channel_id": null,
            "verification_level": 1,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "roles": roles.collect::<Vec<_>>(),
            "emojis": [],
            "features": ["COMMUNITY"],
            "mfa_level": 0,
            "application_id": null,
            "system_channel_id": null,
            "system_channel_flags": 0,
            "rules_channel_id": null,
            "public_updates_channel_id": null,
            "safety_alerts_channel_id": null,
            "max_presences": null,
            "max_members": 500_000,
            "vanity_url_code": null,
            "premium_tier": 0,
            "premium_subscription_count": 0,
            "preferred_locale": "en-US",
            "nsfw_level": 0,
            "stickers": [],
            "premium_progress_bar_enabled": false,
        })
    }

    /// A guild as the gateway sends it: with all that the bot can see there.
    pub fn guild_create(&self, guild: &Guild) -> Value {
        let sees = |c: &&Channel| self.permissions(BOT_ID, c) != 0;
        let all = self.channels.values();
        let of_guild = all.filter(|c| c.guild == Some(guild.id) && c.thread.is_none());
        // The guild is around them, so they do not name it.
        let shown = |c: &Channel| {
            let mut value = self.channel_value(c);
            value.as_object_mut().expect("an object").remove("guild_id");
            value
        };
        let channels = of_guild.map(shown);
        let threads = self.active_threads(guild.id).filter(sees);
        let threads = threads.map(shown);
        let mut value = self.guild_value(guild);
        let more = json!({
            "joined_at": "2026-01-05T09:00:00.000000+00:00",
            "large": false,
            "unavailable": false,
            "member_count": guild.members.len(),
            "voice_states": [],
            "members": [self.member(guild.id, BOT_ID)],
            "channels": channels.collect::<Vec<_>>(),
            "threads": threads.collect::<Vec<_>>(),
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        });
        extend(&mut value, more);
        value
    }

    pub fn channel_value(&self, channel: &Channel) -> Value {
        let last = channel.messages.keys().next_back();
        let mut value = json!({
            "id": channel.id.to_string(),
            "type": channel.kind as u8,
            "last_message_id": last.map(Id::to_string),
            "flags": 0,
        });
        if let Some(recipient) = channel.recipient {
            value["recipients"] = json!([self.user(recipient)]);
            return value;
        }
        value["guild_id"] = json!(channel.guild.map(|id| id.to_string()));
        value["name"] = json!(channel.name);
        value["parent_id"] = json!(channel.parent.map(|id| id.to_string()));
        value["rate_limit_per_user"] = json!(0);
        let more = match &channel.thread {
            Some(_) => self.thread_fields(channel),
            None => place_fields(channel),
        };
        extend(&mut value, more);
        value
    }

    fn thread_fields(&self, channel: &Channel) -> Value {
        let thread = channel.thread.as_ref().expect("a thread");
        // Not the message that it begins with: that of a post, or the pointer to that in the channel.
        let is_first =
            |(id, entry): &(&Id, &Entry)| **id == channel.id || entry.value["type"] == 21;
        let count = channel.messages.iter().filter(|m| !is_first(m)).count();
        let mut fields = json!({
            "owner_id": thread.owner.to_string(),
            "message_count": count,
            "member_count": thread.members.len().min(50),
            "total_message_sent": count + channel.deleted,
            "thread_metadata": {
                "archived": thread.archived,
                "archive_timestamp": thread.created,
                "auto_archive_duration": thread.auto_archive,
                "locked": thread.locked,
                "create_timestamp": thread.created,
            },
        });
        if channel.kind == ChannelKind::PrivateThread {
            fields["thread_metadata"]["invitable"] = json!(true);
        }
        if !thread.tags.is_empty() {
            let tags: Vec<String> = thread.tags.iter().map(Id::to_string).collect();
            fields["applied_tags"] = json!(tags);
        }
        if thread.members.contains_key(&BOT_ID) {
            fields["member"] = thread_member(channel, BOT_ID);
        }
        fields
    }
}

/// What only channels have that are no threads.
fn place_fields(channel: &Channel) -> Value {
    let overwrites = channel.overwrites.iter().map(|overwrite| {
        let (id, kind) = match overwrite.whom {
            Whom::Role(id) => (id, 0),
            Whom::Member(id) => (id, 1),
        };
        json!({
            "id": id.to_string(),
            "type": kind,
            "allow": overwrite.allow.to_string(),
            "deny": overwrite.deny.to_string(),
        })
    });
    let mut fields = json!({
        "position": channel.position,
        "topic": null,
        "nsfw": false,
        "permission_overwrites": overwrites.collect::<Vec<_>>(),
    });
    if channel.kind.has_posts() {
        let tags = channel.tags.iter().map(|(id, name)| {
            json!({"id": id.to_string(), "name": name, "moderated": false, "emoji_id": null, "emoji_name": null})
        });
        fields["available_tags"] = json!(tags.collect::<Vec<_>>());
        fields["flags"] = json!(u64::from(channel.requires_tag) << 4);
        fields["default_reaction_emoji"] = json!(null);
        fields["default_sort_order"] = json!(null);
        fields["default_forum_layout"] = json!(0);
    }
    fields
}

pub fn thread_member(channel: &Channel, user: Id) -> Value {
    let thread = channel.thread.as_ref().expect("a thread");
    json!({
        "id": channel.id.to_string(),
        "user_id": user.to_string(),
        "join_timestamp": thread.members[&user],
        "flags": 0,
    })
}

impl Role {
    pub fn value(&self) -> Value {
        let mut value = json!({
            "id": self.id.to_string(),
            "name": self.name,
            "color": 0,
            "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null},
            "hoist": false,
            "icon": null,
            "unicode_emoji": null,
            "position": 0,
            "permissions": (self.permissions & ALL).to_string(),
            "managed": self.managed,
            "mentionable": self.mentionable,
            "flags": 0,
        });
        if self.managed {
            value["tags"] = json!({"bot_id": BOT_ID.to_string()});
        }
        value
    }
}

pub fn application(world: &World) -> Value {
    let mut value = json!({
        "id": APPLICATION_ID.to_string(),
        "name": "Hermes",
        "icon": null,
        "description": "",
        "bot_public": false,
        "bot_require_code_grant": false,
        "verify_key": "0".repeat(64),
        "flags": world.gateway.application_flags(),
        "bot": bot(),
        "owner": world.owner.value(),
        "team": null,
        "approximate_guild_count": world.guilds.len(),
    });
    if world.has_team {
        // A user with the id of the team stands for it.
        let name = format!("team{TEAM_ID}");
        value["owner"] = json!({
            "id": TEAM_ID.to_string(),
            "username": name,
            "discriminator": "0000",
            "avatar": null,
            "flags": 1024,
            "public_flags": 1024,
        });
        let user = world.owner.value();
        value["team"] = json!({
            "id": TEAM_ID.to_string(),
            "name": "The team",
            "icon": null,
            "owner_user_id": world.owner.id.to_string(),
            "members": [
                {"membership_state": 2, "role": "admin", "team_id": TEAM_ID.to_string(), "user": user},
            ],
        });
    }
    value
}

/// A message as the gateway sends it: with the guild, and with the author as its member.
pub fn message_event(world: &World, channel: &Channel, author: Id, message: &Value) -> Value {
    let mut event = message.clone();
    if let Some(guild) = channel.guild {
        event["guild_id"] = json!(guild.to_string());
        if let Some(member) = world.partial_member(guild, author) {
            event["member"] = member;
        }
    }
    event
}

/// Puts the fields of an object into another.
pub fn extend(value: &mut Value, more: Value) {
    let (Value::Object(fields), Value::Object(more)) = (value, more) else {
        panic!("both are objects");
    };
    fields.extend(more);
}

/// A file of a message.
pub fn attachment(id: Id, name: &str, size: usize, url: &str) -> Value {
    let (_, ending) = name.rsplit_once('.').unwrap_or_default();
    let kind = match ending {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "txt" | "md" => "text/plain; charset=utf-8",
        "ogg" => "audio/ogg",
        _ => "application/octet-stream",
    };
    json!({
        "id": id.to_string(),
        "filename": name,
        "size": size,
        "url": url,
        "proxy_url": url,
        "content_type": kind,
    })
}

/// The message as it is after a change now.
pub fn edited(mut value: Value, changes: Value) -> Value {
    extend(&mut value, changes);
    value["edited_timestamp"] = json!(now());
    value
}
