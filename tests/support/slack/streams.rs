//! Messages whose text arrives in pieces: `chat.startStream`, `chat.appendStream`, `chat.stopStream`.

use serde_json::{Value, json};

use super::blocks;
use super::chat::{self, is_ts};
use super::errors::{Answered, ApiError};
use super::mentions::normalized;
use super::post::Draft;
use super::request::Call;
use super::world::{ChannelKind, World};

/// The longest piece of text.
const LONGEST_PIECE: usize = 12_000;

/// The text of a call: of `markdown_text` and of the chunks.
fn piece(call: &Call) -> Result<String, ApiError> {
    let mut text = call.text("markdown_text").unwrap_or_default();
    let chunks = call.json("chunks");
    let chunks = chunks.map_err(|()| ApiError::from("invalid_chunks"))?;
    for chunk in chunks.iter().flat_map(|list| list.as_array()).flatten() {
        match (chunk["type"].as_str(), chunk["text"].as_str()) {
            (Some("markdown_text"), Some(more)) => text.push_str(more),
            (Some("task_update" | "plan_update" | "blocks"), _) => {}
            _ => return Err("invalid_chunks".into()),
        }
    }
    match text.chars().count() > LONGEST_PIECE {
        true => Err("msg_too_long".into()),
        false => Ok(text),
    }
}

pub fn start(world: &mut World, call: &Call) -> Answered {
    let channel = world.visible(call, &call.need("channel")?)?;
    world.may_post(call, &channel)?;
    let thread = call.need("thread_ts")?;
    if !is_ts(&thread) || world.root_of(&channel, &thread).is_none() {
        return Err("invalid_thread_ts".into());
    }
    if world.channel(&channel).kind != ChannelKind::Direct {
        let team = call.filled("recipient_team_id");
        if team.ok_or("missing_recipient_team_id")? != call.team {
            return Err("team_not_found".into());
        }
        let user = call.filled("recipient_user_id");
        let user = user.ok_or("missing_recipient_user_id")?;
        if !world.users.contains_key(&user) {
            return Err("user_not_found".into());
        }
    }
    let draft = Draft {
        author: world.teams[&call.team].bot_user.clone(),
        by_bot: true,
        text: piece(call)?,
        thread_ts: Some(thread),
        streaming: true,
        ..Draft::default()
    };
    let ts = world.post(&channel, draft);
    Ok(json!({"channel": channel, "ts": ts}))
}

/// The message of a call, which has to be streaming.
fn stream(world: &World, call: &Call) -> Result<(String, String), ApiError> {
    let channel = world.visible(call, &call.need("channel")?)?;
    let ts = call.need("ts")?;
    let message = world.own(&channel, &ts, "message_not_owned_by_app")?;
    match message.streaming {
        true => Ok((channel, ts)),
        false => Err("message_not_in_streaming_state".into()),
    }
}

fn add(world: &mut World, channel: &str, ts: &str, piece: &str, more: Value) {
    let message = &world.channel(channel).messages[ts];
    let (author, text) = (message.author.clone(), &message.value["text"]);
    let text = format!("{}{}", text.as_str().unwrap_or_default(), normalized(piece));
    let mut fields = json!({"text": text});
    let more = more.as_object().expect("fields").clone();
    fields.as_object_mut().expect("fields").extend(more);
    world.edit(channel, ts, &author, fields, false);
}

pub fn append(world: &mut World, call: &Call) -> Answered {
    let (channel, ts) = stream(world, call)?;
    let piece = piece(call)?;
    if piece.is_empty() && call.json("chunks") == Ok(None) {
        return Err("no_text".into());
    }
    add(world, &channel, &ts, &piece, json!({}));
    Ok(json!({"channel": channel, "ts": ts}))
}

pub fn stop(world: &mut World, call: &Call) -> Answered {
    let (channel, ts) = stream(world, call)?;
    let piece = piece(call)?;
    let blocks = blocks::check(call.json("blocks"))?;
    let metadata = chat::metadata(call)?;
    let holder = world.channel_mut(&channel);
    let message = holder.messages.get_mut(&ts).expect("found above");
    message.streaming = false;
    message.metadata = metadata.or(message.metadata.take());
    let more = blocks.map_or(json!({}), |blocks| json!({"blocks": blocks}));
    add(world, &channel, &ts, &piece, more);
    let message = world.channel(&channel).messages[&ts].value.clone();
    Ok(json!({"channel": channel, "ts": ts, "message": message}))
}
