//! The methods `conversations.*`, but for messages.

use serde_json::{Value, json};

use super::errors::{Answered, ApiError};
use super::pages::page;
use super::request::Call;
use super::world::{Channel, ChannelKind, World};

/// A channel as Slack shows it.
fn value(world: &World, channel: &Channel, bot: &str) -> Value {
    let kind = channel.kind;
    if kind == ChannelKind::Direct {
        let user = channel.members.iter().find(|member| *member != bot);
        return json!({
            "id": channel.id,
            "created": channel.created,
            "is_archived": channel.archived,
            "is_im": true,
            "is_org_shared": false,
            "context_team_id": channel.team,
            "user": user,
            "is_user_deleted": user.is_some_and(|id| world.users[id].deleted),
            "priority": 0,
        });
    }
    json!({
        "id": channel.id,
        "name": channel.name,
        "name_normalized": channel.name,
        "is_channel": kind == ChannelKind::Public,
        "is_group": kind == ChannelKind::Private,
        "is_im": false,
        "is_mpim": kind == ChannelKind::GroupDirect,
        "is_private": kind != ChannelKind::Public,
        "is_archived": channel.archived,
        "is_general": channel.name == "general",
        "is_shared": false,
        "is_ext_shared": false,
        "is_org_shared": false,
        "is_pending_ext_shared": false,
        "pending_shared": [],
        "is_member": channel.members.contains(bot),
        "context_team_id": channel.team,
        "created": channel.created,
        "updated": channel.created * 1000,
        "creator": channel.members.first(),
        "unlinked": 0,
        "topic": {"value": "", "creator": "", "last_set": 0},
        "purpose": {"value": "", "creator": "", "last_set": 0},
        "previous_names": [],
    })
}

impl World {
    /// A channel that the bot sees and has the scope of this family for: `read` or `history`.
    pub fn readable(&self, call: &Call, scope: &str) -> Result<&Channel, ApiError> {
        let id = self.visible(call, &call.need("channel")?)?;
        let channel = self.channel(&id);
        self.need_scope(call, &format!("{}:{scope}", channel.kind.family()))?;
        Ok(channel)
    }
}

pub fn info(world: &World, call: &Call) -> Answered {
    let channel = world.readable(call, "read")?;
    let mut shown = value(world, channel, &world.teams[&call.team].bot_user);
    if call.flag("include_num_members") {
        shown["num_members"] = channel.members.len().into();
    }
    Ok(json!({"channel": shown}))
}

pub fn list(world: &World, call: &Call) -> Answered {
    let types = call.filled("types").unwrap_or("public_channel".to_owned());
    let types: Vec<&str> = types.split(',').map(str::trim).collect();
    let kinds = [
        ChannelKind::Public,
        ChannelKind::Private,
        ChannelKind::Direct,
        ChannelKind::GroupDirect,
    ];
    for wanted in &types {
        let mut kinds = kinds.iter();
        let kind = kinds.find(|kind| kind.listed_as() == *wanted);
        let kind = kind.ok_or("invalid_types")?;
        world.need_scope(call, &format!("{}:read", kind.family()))?;
    }
    let limit = call.limit(100, 999)?;
    let bot = &world.teams[&call.team].bot_user;
    let channels = world.channels.values().filter(|channel| {
        channel.team == call.team
            && types.contains(&channel.kind.listed_as())
            && (channel.kind == ChannelKind::Public || channel.members.contains(bot))
            && !(channel.archived && call.flag("exclude_archived"))
    });
    let mut channels = channels.map(|channel| {
        let mut shown = value(world, channel, bot);
        if channel.kind != ChannelKind::Direct {
            shown["num_members"] = channel.members.len().into();
        }
        (channel.id.clone(), shown)
    });
    let (shown, next) = page(&mut channels, call, "team", limit)?;
    Ok(json!({"channels": shown, "response_metadata": {"next_cursor": next}}))
}

pub fn members(world: &World, call: &Call) -> Answered {
    let channel = world.readable(call, "read")?;
    let limit = call.limit(100, 999)?;
    let mut members = channel.members.iter().map(|id| (id.clone(), json!(id)));
    let (shown, next) = page(&mut members, call, "user", limit)?;
    Ok(json!({"members": shown, "response_metadata": {"next_cursor": next}}))
}

pub fn open(world: &mut World, call: &Call) -> Answered {
    let bot = world.teams[&call.team].bot_user.clone();
    let (id, was_there) = match (call.filled("channel"), call.filled("users")) {
        (Some(channel), _) => {
            let id = world.visible(call, &channel)?;
            let kind = world.channel(&id).kind;
            if !matches!(kind, ChannelKind::Direct | ChannelKind::GroupDirect) {
                return Err("method_not_supported_for_channel_type".into());
            }
            world.need_scope(call, &format!("{}:write", kind.family()))?;
            (id, true)
        }
        (None, Some(users)) => {
            let users: Vec<String> = users.split(',').map(|id| id.trim().to_owned()).collect();
            let users: Vec<String> = users.into_iter().filter(|id| *id != bot).collect();
            let scope = match users.len() {
                0 => return Err("not_enough_users".into()),
                1 => "im:write",
                2..=8 => "mpim:write",
                _ => return Err("too_many_users".into()),
            };
            world.need_scope(call, scope)?;
            for user in &users {
                let user = world.users.get(user).filter(|u| u.team == call.team);
                let user = user.ok_or("user_not_found")?;
                if user.deleted {
                    return Err("user_disabled".into());
                }
                if user.bot_id.is_some() {
                    return Err("cannot_dm_bot".into());
                }
            }
            world.direct(&call.team, &users)
        }
        (None, None) => return Err("users_list_not_supplied".into()),
    };
    let mut answer = json!({"channel": {"id": id}});
    if call.flag("return_im") {
        answer["channel"] = value(world, world.channel(&id), &bot);
    }
    if was_there {
        answer["no_op"] = true.into();
        answer["already_open"] = true.into();
    }
    Ok(answer)
}

pub fn join(world: &mut World, call: &Call) -> Answered {
    let id = world.visible(call, &call.need("channel")?)?;
    let bot = world.teams[&call.team].bot_user.clone();
    let channel = world.channel(&id);
    if channel.kind != ChannelKind::Public {
        return Err("method_not_supported_for_channel_type".into());
    }
    if channel.archived {
        return Err("is_archived".into());
    }
    let was_member = channel.members.contains(&bot);
    world.join(&id, &bot, None);
    let mut answer = json!({"channel": value(world, world.channel(&id), &bot)});
    if was_member {
        answer["warning"] = "already_in_channel".into();
        answer["response_metadata"] = json!({"warnings": ["already_in_channel"]});
    }
    Ok(answer)
}
