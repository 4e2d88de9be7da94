//! The routes that look things up, and those that change whole channels.

use serde_json::{Map, Value, json};

use super::BOT_ID;
use super::errors;
use super::form::{Form, present};
use super::messages::{allow, may_write, visible};
use super::permissions::{MANAGE_CHANNELS, MANAGE_THREADS};
use super::routes::Call;
use super::sessions::STARTS;
use super::threads::AUTO_ARCHIVE;
use super::values;
use super::world::{Channel, ChannelKind, Guild, Id, Role, World};
use crate::support::fake::Refusal;

/// The most guilds in one answer.
const MOST_GUILDS: u64 = 200;

type Answer = Result<Value, Refusal>;

pub fn perform(world: &mut World, call: &Call) -> Answer {
    match call.name {
        "GET /gateway" => Ok(json!({"url": world.gateway_url()})),
        "GET /gateway/bot" => Ok(gateway(world)),
        "GET /users/@me" => Ok(values::bot()),
        "GET /users/{}" => {
            let user = world.user(call.id(0)?);
            Ok(user.ok_or(errors::UNKNOWN_USER)?)
        }
        "GET /users/@me/guilds" => guilds(world, call),
        "POST /users/@me/channels" => direct(world, call.fields()),
        "GET /channels/{}" => {
            let id = visible(world, call.id(0)?)?;
            Ok(world.channel_value(world.channel(id)))
        }
        "PATCH /channels/{}" => {
            let id = visible(world, call.id(0)?)?;
            change(world, id, call.fields())
        }
        "DELETE /channels/{}" => {
            let id = visible(world, call.id(0)?)?;
            delete(world, id)
        }
        "POST /channels/{}/typing" => {
            let id = visible(world, call.id(0)?)?;
            may_write(world, id)?;
            world.channel_mut(id).typed += 1;
            Ok(Value::Null)
        }
        _ => of_guild(world, call),
    }
}

fn gateway(world: &World) -> Value {
    json!({
        "url": world.gateway_url(),
        "shards": 1,
        "session_start_limit": {
            "total": STARTS,
            "remaining": world.gateway.starts_left,
            "reset_after": 14_400_000,
            "max_concurrency": 1,
        },
    })
}

/// A page of the guilds that the bot is in, by their ids.
fn guilds(world: &World, call: &Call) -> Answer {
    let mut form = Form::default();
    let mut number = |name: &str, most: u64| {
        let text = call.query.get(name)?;
        let number = text.parse::<u64>().ok().filter(|n| (1..=most).contains(n));
        if number.is_none() {
            let told = format!("int value should be between 1 and {most}.");
            form.add(name, "NUMBER_TYPE_MAX", told);
        }
        number
    };
    let limit = number("limit", MOST_GUILDS).unwrap_or(MOST_GUILDS);
    let (after, before) = (number("after", u64::MAX), number("before", u64::MAX));
    form.check()?;
    let joined = world.guilds.values().filter(|guild| {
        guild.members.contains_key(&BOT_ID)
            && after.is_none_or(|after| guild.id > after)
            && before.is_none_or(|before| guild.id < before)
    });
    let limit = usize::try_from(limit).expect("a small number");
    let guilds = joined.take(limit).map(|guild| {
        json!({
            "id": guild.id.to_string(),
            "name": guild.name,
            "icon": null,
            "owner": guild.owner == BOT_ID,
            "permissions": guild.base_permissions(BOT_ID).to_string(),
            "features": [],
        })
    });
    Ok(json!(guilds.collect::<Vec<_>>()))
}

fn direct(world: &mut World, fields: &Map<String, Value>) -> Answer {
    let mut form = Form::default();
    let person = form.id(fields, "", "recipient_id");
    if present(fields, "recipient_id").is_none() {
        form.required("recipient_id");
    }
    form.check()?;
    let person = person.expect("checked above");
    if !world.people.contains_key(&person) {
        return Err(errors::INVALID_RECIPIENT.into());
    }
    let id = world.direct(person);
    Ok(world.channel_value(world.channel(id)))
}

/// Changes a channel or a thread.
fn change(world: &mut World, id: Id, fields: &Map<String, Value>) -> Answer {
    let mut form = Form::default();
    let name = form
        .text_of(fields, "", "name", (1, 100))
        .map(str::to_owned);
    let archived = form.flag(fields, "", "archived");
    let locked = form.flag(fields, "", "locked");
    let minutes = form.choice(fields, "", "auto_archive_duration", &AUTO_ARCHIVE);
    form.check()?;
    let channel = world.channel(id);
    let Some(thread) = &channel.thread else {
        if channel.kind == ChannelKind::Direct {
            return Err(errors::WRONG_CHANNEL_TYPE.into());
        }
        allow(world, id, MANAGE_CHANNELS)?;
        if let Some(name) = name {
            world.channel_mut(id).name = name;
        }
        world.tell_of_channel("CHANNEL_UPDATE", id);
        return Ok(world.channel_value(world.channel(id)));
    };
    let manages = world.can(BOT_ID, channel, MANAGE_THREADS);
    let wakes = archived == Some(false);
    if thread.archived && !wakes {
        return Err(errors::ARCHIVED.into());
    }
    // A member can wake a thread that is not locked. The opener can do all but lock it.
    let only_wakes = wakes && name.is_none() && minutes.is_none();
    let may = manages
        || (!thread.locked && locked.is_none())
            && (thread.owner == BOT_ID || only_wakes && thread.members.contains_key(&BOT_ID));
    if !may {
        return Err(errors::MISSING_PERMISSIONS.into());
    }
    let channel = world.channel_mut(id);
    channel.name = name.unwrap_or(channel.name.clone());
    let thread = channel.thread.as_mut().expect("a thread");
    thread.archived = archived.unwrap_or(thread.archived);
    thread.locked = locked.unwrap_or(thread.locked);
    thread.auto_archive = minutes.unwrap_or(thread.auto_archive);
    world.tell_of_channel("THREAD_UPDATE", id);
    Ok(world.channel_value(world.channel(id)))
}

fn delete(world: &mut World, id: Id) -> Answer {
    let channel = world.channel(id);
    let value = world.channel_value(channel);
    match (&channel.thread, channel.kind) {
        // A direct channel is only closed.
        (_, ChannelKind::Direct) => return Ok(value),
        (Some(_), _) => allow(world, id, MANAGE_THREADS)?,
        (None, _) => allow(world, id, MANAGE_CHANNELS)?,
    }
    world.delete_channel(id);
    Ok(value)
}

fn of_guild(world: &World, call: &Call) -> Answer {
    let id = call.id(0)?;
    let guild = world.guilds.get(&id).ok_or(errors::UNKNOWN_GUILD)?;
    if !guild.members.contains_key(&BOT_ID) {
        return Err(errors::MISSING_ACCESS.into());
    }
    match call.name {
        "GET /guilds/{}" => Ok(world.guild_value(guild)),
        "GET /guilds/{}/channels" => {
            let all = world.channels.values();
            let channels = all.filter(|c| c.guild == Some(id) && c.thread.is_none());
            Ok(json!(
                channels.map(|c| world.channel_value(c)).collect::<Vec<_>>()
            ))
        }
        "GET /guilds/{}/roles" => {
            let roles = guild.roles.values().map(Role::value);
            Ok(json!(roles.collect::<Vec<_>>()))
        }
        "GET /guilds/{}/threads/active" => Ok(active_threads(world, id)),
        "GET /guilds/{}/members/search" => search(world, guild, call),
        _ => {
            let member = world.member(id, call.id(1)?);
            Ok(member.ok_or(errors::UNKNOWN_MEMBER)?)
        }
    }
}

/// The threads that the bot can see, and where it is a member.
fn active_threads(world: &World, guild: Id) -> Value {
    let active = world.active_threads(guild);
    let seen = active.filter(|c| world.permissions(BOT_ID, c) != 0);
    let seen: Vec<&Channel> = seen.collect();
    let joined = seen.iter().filter(|channel| {
        let thread = channel.thread.as_ref().expect("a thread");
        thread.members.contains_key(&BOT_ID)
    });
    let members: Vec<Value> = joined.map(|c| values::thread_member(c, BOT_ID)).collect();
    let threads: Vec<Value> = seen.iter().map(|c| world.channel_value(c)).collect();
    json!({"threads": threads, "members": members})
}

/// The members whose name begins with a text.
fn search(world: &World, guild: &Guild, call: &Call) -> Answer {
    let mut form = Form::default();
    let limit = call.query.get("limit").map(|limit| limit.parse::<usize>());
    if !matches!(limit, None | Some(Ok(1..=1000))) {
        let told = "int value should be between 1 and 1000.";
        form.add("limit", "NUMBER_TYPE_MAX", told);
    }
    let Some(query) = call.query.get("query").filter(|query| !query.is_empty()) else {
        form.required("query");
        return form.check().map(|()| Value::Null);
    };
    form.check()?;
    let query = query.to_lowercase();
    let members = guild
        .members
        .keys()
        .filter_map(|id| world.member(guild.id, *id));
    let found = members.filter(|member| {
        let user = &member["user"];
        [&user["username"], &user["global_name"]]
            .iter()
            .any(|name| {
                let name = name.as_str().unwrap_or_default().to_lowercase();
                name.starts_with(&query)
            })
    });
    let limit = limit.and_then(Result::ok).unwrap_or(1);
    Ok(json!(found.take(limit).collect::<Vec<_>>()))
}
