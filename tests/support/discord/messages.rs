//! The routes of messages.

use serde_json::{Map, Value, json};

use super::checks;
use super::errors;
use super::form::{Form, present};
use super::interactions::EPHEMERAL;
use super::permissions::{
    ADD_REACTIONS, ATTACH_FILES, MANAGE_MESSAGES, MANAGE_THREADS, READ_MESSAGE_HISTORY,
    SEND_MESSAGES, SEND_MESSAGES_IN_THREADS,
};
use super::post::{Draft, is_written};
use super::routes::Call;
use super::sessions::{Event, message_intents};
use super::values::{self, message_event};
use super::world::{Channel, ChannelKind, Entry, Id, World};
use super::{APPLICATION_ID, BOT_ID};
use crate::support::fake::Refusal;

type Answer = Result<Value, Refusal>;

pub fn perform(world: &mut World, call: &Call) -> Answer {
    let channel = visible(world, call.id(0)?)?;
    match call.name {
        "POST /channels/{}/messages" => send(world, channel, call),
        "GET /channels/{}/messages" => list(world, channel, call),
        "GET /channels/{}/messages/{}" => {
            allow(world, channel, READ_MESSAGE_HISTORY)?;
            Ok(entry(world, channel, call.id(1)?)?.value.clone())
        }
        "PATCH /channels/{}/messages/{}" => edit(world, channel, call),
        "DELETE /channels/{}/messages/{}" => delete(world, channel, call.id(1)?),
        name => react(world, channel, call, name.starts_with("PUT")),
    }
}

/// The channel, if the bot can see it.
pub fn visible(world: &World, id: Id) -> Result<Id, Refusal> {
    let channel = world.channels.get(&id).ok_or(errors::UNKNOWN_CHANNEL)?;
    match world.permissions(BOT_ID, channel) {
        0 => Err(errors::MISSING_ACCESS.into()),
        _ => Ok(id),
    }
}

/// Whether the bot has these permissions in a channel.
pub fn allow(world: &World, channel: Id, wanted: u64) -> Result<(), Refusal> {
    match world.can(BOT_ID, world.channel(channel), wanted) {
        true => Ok(()),
        false => Err(errors::MISSING_PERMISSIONS.into()),
    }
}

fn entry(world: &World, channel: Id, message: Id) -> Result<&Entry, Refusal> {
    let messages = &world.channel(channel).messages;
    Ok(messages.get(&message).ok_or(errors::UNKNOWN_MESSAGE)?)
}

/// Whether the bot may write there now.
pub fn may_write(world: &World, id: Id) -> Result<(), Refusal> {
    let channel = world.channel(id);
    if channel.kind.has_posts() || channel.kind == ChannelKind::Category {
        return Err(errors::NOT_A_TEXT_CHANNEL.into());
    }
    if let Some(person) = channel.recipient {
        if !world.shares_guild(person) {
            return Err(errors::NO_MUTUAL_GUILD.into());
        }
        if world.closed_to_bot.contains(&person) {
            return Err(errors::CANNOT_SEND_TO_USER.into());
        }
    }
    let Some(thread) = &channel.thread else {
        return allow(world, id, SEND_MESSAGES);
    };
    allow(world, id, SEND_MESSAGES_IN_THREADS)?;
    let manages = world.can(BOT_ID, channel, MANAGE_THREADS);
    match (thread.locked && !manages, thread.archived) {
        (true, true) => Err(errors::ARCHIVED.into()),
        (true, false) => Err(errors::LOCKED.into()),
        (false, _) => Ok(()),
    }
}

fn send(world: &mut World, channel: Id, call: &Call) -> Answer {
    may_write(world, channel)?;
    let mut draft = checks::message(world, call, call.fields())?;
    if !draft.files.is_empty() {
        allow(world, channel, ATTACH_FILES)?;
    }
    if let Some(answered) = reference(world, channel, call.fields())? {
        draft.kind = 19;
        draft.reference = Some((channel, Some(answered)));
    }
    if draft.enforce_nonce
        && let Some(nonce) = &draft.nonce
        && let Some((channel, id)) = world.sent_with(nonce)
    {
        // A message that somebody has deleted meanwhile is not made again.
        let earlier = world.channels.get(&channel);
        let earlier = earlier.and_then(|channel| channel.messages.get(&id));
        let mut earlier = earlier.ok_or(errors::UNKNOWN_MESSAGE)?.value.clone();
        earlier["nonce"] = nonce.clone();
        return Ok(earlier);
    }
    // Only the answers to interactions can be for one person.
    draft.flags &= !EPHEMERAL;
    let nonce = draft.nonce.clone();
    let id = world.post(channel, draft);
    let mut value = world.channel(channel).messages[&id].value.clone();
    if let Some(nonce) = nonce {
        value["nonce"] = nonce;
    }
    Ok(value)
}

/// The message that a new one answers.
fn reference(
    world: &World,
    channel: Id,
    fields: &Map<String, Value>,
) -> Result<Option<Id>, Refusal> {
    let Some(reference) = present(fields, "message_reference") else {
        return Ok(None);
    };
    let at = "message_reference";
    let mut form = Form::default();
    let Some(reference) = form.object(reference, at) else {
        return form.check().map(|()| None);
    };
    let message = form.id(reference, at, "message_id");
    let elsewhere = form.id(reference, at, "channel_id");
    let required = form.flag(reference, at, "fail_if_not_exists");
    let Some(message) = message else {
        form.required("message_reference.message_id");
        return form.check().map(|()| None);
    };
    if !world.can(BOT_ID, world.channel(channel), READ_MESSAGE_HISTORY) {
        return Err(errors::NO_HISTORY_TO_REPLY.into());
    }
    let known = world.channel(channel).messages.get(&message);
    let known = known.filter(|_| elsewhere.is_none_or(|id| id == channel));
    match known {
        Some(entry) if is_written(&entry.value) => {}
        Some(_) => {
            let told = "Cannot reply to a system message";
            form.add(at, "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", told);
        }
        None if required == Some(false) => return form.check().map(|()| None),
        None => form.add(at, "REPLIES_UNKNOWN_MESSAGE", "Unknown message"),
    }
    form.check().map(|()| Some(message))
}

/// The messages of a channel, the newest first. After an id come those that follow it at once, and not the newest of all.
fn list(world: &World, channel: Id, call: &Call) -> Answer {
    let mut form = Form::default();
    let mut number = |key: &str| -> Option<u64> {
        let text = call.query.get(key)?;
        let number = text.parse().ok();
        if number.is_none() {
            let told = format!("Value \"{text}\" is not snowflake.");
            form.add(key, "NUMBER_TYPE_COERCE", told);
        }
        number
    };
    let (after, before) = (number("after"), number("before"));
    let (around, limit) = (number("around"), number("limit").unwrap_or(50));
    if !(1..=100).contains(&limit) {
        let told = "int value should be between 1 and 100.";
        form.add("limit", "NUMBER_TYPE_MAX", told);
    }
    if [after, before, around].iter().flatten().count() > 1 {
        let told = "Only one of before, after and around may be passed.";
        form.add("", "QUERY_MUTUALLY_EXCLUSIVE", told);
    }
    form.check()?;
    let limit = usize::try_from(limit).expect("small");
    let messages = &world.channel(channel).messages;
    if !world.can(BOT_ID, world.channel(channel), READ_MESSAGE_HISTORY) {
        return Ok(json!([]));
    }
    let newest_before = |id: Id, count: usize| messages.range(..id).rev().take(count);
    let mut found: Vec<(&Id, &Entry)> = match (after, before, around) {
        (_, _, Some(around)) => {
            let older = newest_before(around, limit / 2);
            let newer = messages.range(around..).take(limit - limit / 2);
            older.chain(newer).collect()
        }
        (_, Some(before), _) => newest_before(before, limit).collect(),
        (Some(after), ..) => messages.range(after + 1..).take(limit).collect(),
        _ => newest_before(Id::MAX, limit).collect(),
    };
    found.sort_by_key(|(id, _)| std::cmp::Reverse(**id));
    let values: Vec<&Value> = found.iter().map(|(_, entry)| &entry.value).collect();
    Ok(json!(values))
}

fn edit(world: &mut World, channel: Id, call: &Call) -> Answer {
    let id = call.id(1)?;
    let known = entry(world, channel, id)?;
    // The answer to an interaction has the application as its webhook, and is the bot's own.
    let webhook = known.value.get("webhook_id").and_then(Value::as_str);
    let is_own = webhook.is_none_or(|id| id == APPLICATION_ID.to_string());
    if known.author != BOT_ID || !is_own {
        return Err(errors::NOT_THE_AUTHOR.into());
    }
    if !is_written(&known.value) {
        return Err(errors::SYSTEM_MESSAGE.into());
    }
    refuse_archived(world.channel(channel))?;
    if let Some(thread) = &world.channel(channel).thread
        && thread.locked
        && !world.can(BOT_ID, world.channel(channel), MANAGE_THREADS)
    {
        return Err(errors::LOCKED.into());
    }
    change_message(world, channel, id, call)
}

/// Changes what the call names, and leaves the rest.
pub fn change_message(world: &mut World, channel: Id, id: Id, call: &Call) -> Answer {
    let old = entry(world, channel, id)?.value.clone();
    let mut fields = call.fields().clone();
    for kept in ["content", "embeds", "components"] {
        if !fields.contains_key(kept) {
            fields.insert(kept.to_owned(), old[kept].clone());
        }
    }
    let draft = checks::read(world, call, &fields)?;
    // A message that has files is not empty.
    if draft.is_empty() && old["attachments"] == json!([]) {
        return Err(errors::EMPTY_MESSAGE.into());
    }
    let mut changes = json!({
        "content": draft.content,
        "embeds": draft.embeds,
        "components": draft.components,
    });
    // Whom the new text mentions depends on this call alone.
    if call.fields().contains_key("content") {
        let messages = &mut world.channel_mut(channel).messages;
        let entry = messages.get_mut(&id).expect("found above");
        entry.allowed_mentions.clone_from(&draft.allowed_mentions);
        let (author, kind) = (entry.author, old["type"].as_u64());
        let draft = Draft {
            author,
            kind: kind
                .and_then(|kind| kind.try_into().ok())
                .unwrap_or_default(),
            ..draft
        };
        values::extend(&mut changes, world.mentions_value(channel, &draft, None));
    }
    Ok(world.edit_message(channel, id, changes))
}

impl World {
    /// Changes fields of a message and tells all sessions. Gives the message.
    pub fn edit_message(&mut self, channel: Id, id: Id, changes: Value) -> Value {
        let entry = self.channel_mut(channel).messages.get_mut(&id);
        let entry = entry.expect("a message");
        entry.value = values::edited(entry.value.clone(), changes);
        entry.edits += 1;
        let (value, author) = (entry.value.clone(), entry.author);
        let data = message_event(self, self.channel(channel), author, &value);
        let event = Event {
            name: "MESSAGE_UPDATE",
            data,
            intents: message_intents(self.channel(channel).guild),
        };
        match author == BOT_ID {
            true => self.dispatch(Some(channel), event),
            false => self.dispatch_of_people(Some(channel), event),
        }
        value
    }

    /// Deletes a message and tells all sessions.
    pub fn delete_message(&mut self, channel: Id, id: Id) {
        self.channel_mut(channel).messages.remove(&id);
        self.channel_mut(channel).deleted += 1;
        let guild = self.channel(channel).guild;
        let mut data = json!({"id": id.to_string(), "channel_id": channel.to_string()});
        if let Some(guild) = guild {
            data["guild_id"] = json!(guild.to_string());
        }
        let event = Event {
            name: "MESSAGE_DELETE",
            data,
            intents: message_intents(guild),
        };
        self.dispatch(Some(channel), event);
    }
}

fn delete(world: &mut World, channel: Id, id: Id) -> Answer {
    let known = entry(world, channel, id)?;
    if known.author != BOT_ID {
        if world.channel(channel).kind == ChannelKind::Direct {
            return Err(errors::MISSING_PERMISSIONS.into());
        }
        allow(world, channel, MANAGE_MESSAGES)?;
    }
    // Deleting is the one thing that can be done in an archived thread, unless it is locked.
    let manages = world.can(BOT_ID, world.channel(channel), MANAGE_THREADS);
    match &world.channel(channel).thread {
        Some(thread) if thread.archived && thread.locked && !manages => {
            return Err(errors::ARCHIVED.into());
        }
        _ => {}
    }
    world.delete_message(channel, id);
    Ok(Value::Null)
}

fn refuse_archived(channel: &Channel) -> Result<(), Refusal> {
    match &channel.thread {
        Some(thread) if thread.archived => Err(errors::ARCHIVED.into()),
        _ => Ok(()),
    }
}

fn react(world: &mut World, channel: Id, call: &Call, add: bool) -> Answer {
    let (message, emoji) = (call.id(1)?, call.parts[2].clone());
    let has = entry(world, channel, message)?.reactions.contains(&emoji);
    // A name with an id is an emoji of a guild, and there are none.
    if emoji.is_empty() || emoji.chars().any(|c| c.is_ascii_alphanumeric()) {
        return Err(errors::UNKNOWN_EMOJI.into());
    }
    refuse_archived(world.channel(channel))?;
    if add {
        allow(world, channel, READ_MESSAGE_HISTORY | ADD_REACTIONS)?;
    }
    let messages = &mut world.channel_mut(channel).messages;
    let reactions = &mut messages.get_mut(&message).expect("found above").reactions;
    match (add, has) {
        (true, false) => reactions.push(emoji),
        (false, _) => reactions.retain(|known| *known != emoji),
        (true, true) => {}
    }
    Ok(Value::Null)
}
