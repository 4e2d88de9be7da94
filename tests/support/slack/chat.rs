//! The methods `chat.*`, but for streams.

use serde_json::{Value, json};

use super::blocks;
use super::errors::{Answered, ApiError};
use super::mentions::{Parsing, normalized};
use super::post::{Draft, LONGEST};
use super::request::Call;
use super::world::{ChannelKind, Ephemeral, Message, World};

/// The longest text that an edit takes.
const LONGEST_EDIT: usize = 4000;

/// The largest metadata, as JSON.
const LARGEST_METADATA: usize = 16 << 10;

/// `1700000000.123456`.
pub fn is_ts(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    text.split_once('.')
        .is_some_and(|(seconds, rest)| digits(seconds) && seconds.len() >= 10 && digits(rest))
}

impl World {
    /// The channel with this id in the workspace of the call, if the bot can see it.
    pub fn visible(&self, call: &Call, id: &str) -> Result<String, ApiError> {
        let bot = &self.teams[&call.team].bot_user;
        let channel = self.channels.get(id).filter(|c| c.team == call.team);
        let channel = channel.ok_or("channel_not_found")?;
        let seen = channel.kind == ChannelKind::Public || channel.members.contains(bot);
        match seen {
            true => Ok(channel.id.clone()),
            false => Err("channel_not_found".into()),
        }
    }

    /// Where a call wants to post: a channel by id or name, or a person.
    fn destination(&mut self, call: &Call) -> Result<String, ApiError> {
        let wanted = call.need("channel")?;
        if wanted.starts_with('U') || wanted.starts_with('W') {
            let user = self.users.get(&wanted).filter(|u| u.team == call.team);
            let user = user.ok_or("channel_not_found")?;
            if user.bot_id.is_some() {
                return Err("cannot_dm_bot".into());
            }
            return Ok(self.direct(&call.team, &[wanted]).0);
        }
        let name = wanted.strip_prefix('#').unwrap_or(&wanted);
        let mut channels = self.channels.values();
        let named = channels.find(|c| c.team == call.team && c.name == name && !name.is_empty());
        let id = named.map_or(wanted.clone(), |channel| channel.id.clone());
        self.visible(call, &id)
    }

    /// Whether the bot may post in a channel.
    pub fn may_post(&self, call: &Call, channel: &str) -> Result<(), ApiError> {
        let holder = self.channel(channel);
        let team = &self.teams[&call.team];
        if holder.archived {
            return Err("is_archived".into());
        }
        let public = team.scopes.contains("chat:write.public");
        let public = public && holder.kind == ChannelKind::Public;
        if !holder.members.contains(&team.bot_user) && !public {
            return Err("not_in_channel".into());
        }
        if holder.restricted {
            return Err("restricted_action".into());
        }
        if holder.kind == ChannelKind::Direct && !self.app.messages_tab {
            return Err("messages_tab_disabled".into());
        }
        Ok(())
    }

    /// The message that a call names, if the bot wrote it.
    pub fn own(&self, channel: &str, ts: &str, other: &str) -> Result<&Message, ApiError> {
        let message = self.message(channel, ts);
        let message = message.filter(|message| !message.is_tombstone);
        let message = message.ok_or("message_not_found")?;
        match message.by_bot {
            true => Ok(message),
            false => Err(other.into()),
        }
    }
}

/// The metadata of a message. An empty object removes it.
pub fn metadata(call: &Call) -> Result<Option<Value>, ApiError> {
    let Ok(metadata) = call.json("metadata") else {
        return Err("invalid_metadata_format".into());
    };
    let Some(metadata) = metadata else {
        return Ok(None);
    };
    if metadata == json!({}) {
        return Ok(Some(metadata));
    }
    if !metadata["event_type"].is_string() || !metadata["event_payload"].is_object() {
        return Err("invalid_metadata_format".into());
    }
    match metadata.to_string().len() > LARGEST_METADATA {
        true => Err("metadata_too_large".into()),
        false => Ok(Some(metadata)),
    }
}

/// The thread that a call names. Text that is no time is refused.
fn thread(call: &Call) -> Result<Option<String>, ApiError> {
    match call.filled("thread_ts") {
        Some(ts) if !is_ts(&ts) => {
            let told = format!("{ts} is not a valid thread_ts");
            Err(ApiError::with_messages("invalid_thread_ts", &[told]))
        }
        thread => Ok(thread),
    }
}

/// What a call says, before it is known where.
fn content(world: &World, call: &Call) -> Result<Draft, ApiError> {
    let blocks = blocks::check(call.json("blocks"))?;
    let attachments = call.json("attachments");
    let attachments = attachments.map_err(|()| ApiError::from("invalid_attachments"))?;
    let list = attachments
        .as_ref()
        .map(|list| list.as_array().map(Vec::len));
    match list {
        Some(None) => return Err("invalid_attachments".into()),
        Some(Some(count)) if count > 100 => return Err("too_many_attachments".into()),
        _ => {}
    }
    let markdown = call.filled("markdown_text");
    let text = call.filled("text");
    if markdown.is_some() && (text.is_some() || blocks.is_some()) {
        return Err("markdown_text_conflict".into());
    }
    if markdown
        .as_ref()
        .is_some_and(|text| text.chars().count() > 12_000)
    {
        return Err("msg_too_long".into());
    }
    let is_empty = |list: &Option<usize>| list.is_none_or(|count| count == 0);
    let count = blocks.as_ref().map(Vec::len);
    let attached = list.flatten();
    let text = match (text.or(markdown), &blocks) {
        (Some(text), _) => text,
        (None, _) if is_empty(&count) && is_empty(&attached) => return Err("no_text".into()),
        (None, Some(blocks)) => {
            let mut texts = Vec::new();
            blocks::fallback(&Value::Array(blocks.clone()), &mut texts);
            texts.join(" ")
        }
        (None, None) => String::new(),
    };
    let username = call.filled("username");
    if username.is_some() {
        world.need_scope(call, "chat:write.customize")?;
    }
    let parsing = Parsing {
        full: call.text("parse").as_deref() == Some("full"),
        link_names: call.flag("link_names"),
    };
    Ok(Draft {
        author: world.teams[&call.team].bot_user.clone(),
        by_bot: true,
        text,
        blocks,
        attachments,
        thread_ts: thread(call)?,
        broadcast: call.flag("reply_broadcast"),
        username,
        parsing,
        ..Draft::default()
    })
}

pub fn post_message(world: &mut World, call: &Call) -> Answered {
    let channel = world.destination(call)?;
    world.may_post(call, &channel)?;
    let draft = content(world, call)?;
    let metadata = metadata(call)?.filter(|metadata| *metadata != json!({}));
    let ts = world.post(&channel, Draft { metadata, ..draft });
    let message = &world.channel(&channel).messages[&ts];
    let mut shown = message.value.clone();
    if let Some(metadata) = &message.metadata {
        shown["metadata"] = metadata.clone();
    }
    Ok(json!({"channel": channel, "ts": ts, "message": shown}))
}

pub fn update(world: &mut World, call: &Call) -> Answered {
    let channel = world.visible(call, &call.need("channel")?)?;
    let ts = call.need("ts")?;
    let message = world.own(&channel, &ts, "cant_update_message")?;
    if world.channel(&channel).archived {
        return Err("is_inactive".into());
    }
    if message.streaming {
        return Err("streaming_state_conflict".into());
    }
    let window = world.edit_window;
    if window.is_some_and(|window| message.posted.elapsed() > window) {
        return Err("edit_window_closed".into());
    }
    let draft = content(world, call)?;
    if draft.text.chars().count() > LONGEST_EDIT {
        return Err("msg_too_long".into());
    }
    let gives_text = call.filled("text").is_some() || call.filled("markdown_text").is_some();
    let mut fields = json!({"text": normalized(&draft.text)});
    match (&draft.blocks, gives_text) {
        (Some(blocks), _) => fields["blocks"] = Value::Array(blocks.clone()),
        (None, true) => fields["blocks"] = Value::Null,
        (None, false) => {}
    }
    if let Some(attachments) = &draft.attachments {
        fields["attachments"] = attachments.clone();
    }
    let metadata = metadata(call)?;
    if let Some(metadata) = metadata {
        let holder = world.channel_mut(&channel);
        let message = holder.messages.get_mut(&ts).expect("found above");
        message.metadata = Some(metadata).filter(|metadata| *metadata != json!({}));
    }
    // Blocks change without a mark that people see.
    let mark = draft.blocks.is_none();
    world.edit(&channel, &ts, &draft.author, fields, mark);
    let message = world.channel(&channel).messages[&ts].value.clone();
    Ok(json!({"channel": channel, "ts": ts, "text": message["text"], "message": message}))
}

pub fn delete(world: &mut World, call: &Call) -> Answered {
    let channel = world.visible(call, &call.need("channel")?)?;
    let ts = call.need("ts")?;
    world.own(&channel, &ts, "cant_delete_message")?;
    world.delete(&channel, &ts);
    Ok(json!({"channel": channel, "ts": ts}))
}

pub fn post_ephemeral(world: &mut World, call: &Call) -> Answered {
    let channel = world.visible(call, &call.need("channel")?)?;
    world.may_post(call, &channel)?;
    let to = call.need("user")?;
    if !world.channel(&channel).members.contains(&to) {
        return Err("user_not_in_channel".into());
    }
    let draft = content(world, call)?;
    if draft.text.chars().count() > LONGEST {
        return Err("msg_too_long".into());
    }
    let ts = world.new_ts();
    let ephemeral = Ephemeral {
        ts: ts.clone(),
        to,
        text: normalized(&draft.text),
        blocks: draft.blocks.map_or(Value::Null, Value::Array),
        thread_ts: draft.thread_ts,
    };
    world.channel_mut(&channel).ephemerals.push(ephemeral);
    Ok(json!({"message_ts": ts}))
}

pub fn get_permalink(world: &World, call: &Call) -> Answered {
    let channel = world.visible(call, &call.need("channel")?)?;
    let ts = call.need("message_ts")?;
    let message = world.message(&channel, &ts).ok_or("message_not_found")?;
    let domain = &world.teams[&call.team].domain;
    let digits = ts.replace('.', "");
    let mut link = format!("https://{domain}.slack.com/archives/{channel}/p{digits}");
    if let Some(root) = message.value["thread_ts"]
        .as_str()
        .filter(|root| *root != ts)
    {
        link.push_str(&format!("?thread_ts={root}&cid={channel}"));
    }
    Ok(json!({"channel": channel, "permalink": link}))
}
