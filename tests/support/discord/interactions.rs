//! The routes that answer buttons and slash commands. Their tokens stand in for the token of the bot.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::checks;
use super::errors;
use super::form::Form;
use super::messages::change_message;
use super::post::Draft;
use super::routes::Call;
use super::world::{Id, World};
use super::{APPLICATION_ID, BOT_ID};
use crate::support::fake::Refusal;

type Answer = Result<Value, Refusal>;

/// A message that only one person sees.
pub const EPHEMERAL: u64 = 1 << 6;
/// A message that says that the bot is thinking.
const LOADING: u64 = 1 << 7;

/// The first answer to an interaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Original {
    /// A message in the channel: that of the answer, or that with the button.
    Message(Id),
    /// A message that only the person sees.
    Ephemeral(Value),
    Deleted,
}

/// A button that was pressed, or a command that was run.
#[derive(Debug, Clone)]
pub struct Interaction {
    pub id: Id,
    pub token: String,
    pub at: Instant,
    pub channel: Id,
    /// The message with the button.
    pub message: Option<Id>,
    /// The type of the first answer: 4, 5, 6 or 7.
    pub answered: Option<i64>,
    pub original: Option<Original>,
    /// What only the person sees.
    pub whispers: Vec<Value>,
}

pub fn perform(world: &mut World, call: &Call) -> Answer {
    if call.name == "POST /interactions/{}/{}/callback" {
        return callback(world, call);
    }
    if call.id(0)? != APPLICATION_ID {
        return Err(errors::UNKNOWN_WEBHOOK.into());
    }
    let mut all = world.interactions.iter();
    let at = all.position(|i| i.token == call.parts[1] && i.at.elapsed() < world.token_life);
    let at = at.ok_or(errors::INVALID_WEBHOOK_TOKEN)?;
    let interaction = world.interactions[at].clone();
    if interaction.answered.is_none() {
        return Err(errors::UNKNOWN_WEBHOOK.into());
    }
    let channel = interaction.channel;
    // After "the bot is thinking", the first message takes its place.
    let is_thinking = interaction.answered == Some(5) && is_loading(world, &interaction);
    if call.name == "POST /webhooks/{}/{}" && !is_thinking {
        let draft = read(world, call, call.fields())?;
        let (original, value) = publish(world, at, draft);
        if let Original::Ephemeral(whisper) = original {
            world.interactions[at].whispers.push(whisper);
        }
        return Ok(value);
    }
    let method = match call.name.split_once(' ').expect("a method").0 {
        "POST" => "PATCH",
        method => method,
    };
    match (method, interaction.original) {
        (_, None | Some(Original::Deleted)) => Err(errors::UNKNOWN_MESSAGE.into()),
        ("GET", Some(Original::Ephemeral(value))) => Ok(value),
        ("GET", Some(Original::Message(id))) => Ok(message(world, channel, id)?.clone()),
        ("PATCH", Some(Original::Ephemeral(mut value))) => {
            let draft = checks::message(world, call, call.fields())?;
            value["content"] = json!(draft.content);
            value["components"] = json!(draft.components);
            value["flags"] = json!(EPHEMERAL);
            world.interactions[at].whispers.push(value.clone());
            world.interactions[at].original = Some(Original::Ephemeral(value.clone()));
            Ok(value)
        }
        ("PATCH", Some(Original::Message(id))) => {
            message(world, channel, id)?;
            let value = change_message(world, channel, id, call)?;
            stop_loading(world, channel, id);
            Ok(value)
        }
        (_, Some(original)) => {
            if let Original::Message(id) = original {
                message(world, channel, id)?;
                world.delete_message(channel, id);
            }
            world.interactions[at].original = Some(Original::Deleted);
            Ok(Value::Null)
        }
    }
}

/// Whether the first answer still says that the bot is thinking.
fn is_loading(world: &World, interaction: &Interaction) -> bool {
    let value = match &interaction.original {
        Some(Original::Ephemeral(value)) => Some(value),
        Some(Original::Message(id)) => message(world, interaction.channel, *id).ok(),
        _ => None,
    };
    value.is_some_and(|value| value["flags"].as_u64().unwrap_or_default() & LOADING != 0)
}

fn message(world: &World, channel: Id, id: Id) -> Result<&Value, Refusal> {
    let channel = world
        .channels
        .get(&channel)
        .ok_or(errors::UNKNOWN_CHANNEL)?;
    let entry = channel.messages.get(&id).ok_or(errors::UNKNOWN_MESSAGE)?;
    Ok(&entry.value)
}

/// The answer is there, so the bot is no longer thinking.
fn stop_loading(world: &mut World, channel: Id, id: Id) {
    let messages = &mut world.channel_mut(channel).messages;
    let value = &mut messages.get_mut(&id).expect("a message").value;
    let flags = value["flags"].as_u64().unwrap_or_default();
    value["flags"] = json!(flags & !LOADING);
}

fn read(world: &World, call: &Call, fields: &Map<String, Value>) -> Result<Draft, Refusal> {
    let draft = checks::message(world, call, fields)?;
    Ok(Draft { kind: 20, ..draft })
}

/// Posts an answer, or shows it to the person alone.
fn publish(world: &mut World, at: usize, draft: Draft) -> (Original, Value) {
    let channel = world.interactions[at].channel;
    if draft.flags & EPHEMERAL == 0 {
        let id = world.post(channel, draft);
        let value = world.channel(channel).messages[&id].value.clone();
        return (Original::Message(id), value);
    }
    let value = json!({
        "id": world.next_id().to_string(),
        "channel_id": channel.to_string(),
        "type": draft.kind,
        "content": draft.content,
        "components": draft.components,
        "embeds": draft.embeds,
        "attachments": [],
        "author": world.user(BOT_ID),
        "flags": draft.flags,
    });
    (Original::Ephemeral(value.clone()), value)
}

fn callback(world: &mut World, call: &Call) -> Answer {
    let id = call.id(0)?;
    let mut all = world.interactions.iter();
    let at = all.position(|i| i.id == id && i.token == call.parts[1]);
    let at = at.ok_or(errors::UNKNOWN_INTERACTION)?;
    let interaction = world.interactions[at].clone();
    if interaction.answered.is_some() {
        return Err(errors::ACKNOWLEDGED.into());
    }
    if interaction.at.elapsed() > world.time_to_answer {
        return Err(errors::UNKNOWN_INTERACTION.into());
    }
    let mut form = Form::default();
    let kinds: &[i64] = match interaction.message {
        Some(_) => &[4, 5, 6, 7],
        None => &[4, 5],
    };
    let kind = form.choice(call.fields(), "", "type", kinds);
    let data = call.fields().get("data").filter(|data| !data.is_null());
    let none = Map::new();
    let data = match data {
        Some(data) => form.object(data, "data").unwrap_or(&none),
        None => &none,
    };
    if kind.is_none() {
        form.required("type");
    }
    form.check()?;
    let kind = kind.expect("checked above");
    let original = match kind {
        4 => {
            let draft = read(world, call, data)?;
            publish(world, at, draft).0
        }
        5 => {
            let wanted = data
                .get("flags")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            let draft = Draft {
                author: BOT_ID,
                kind: 20,
                flags: LOADING | wanted & EPHEMERAL,
                ..Draft::default()
            };
            publish(world, at, draft).0
        }
        6 => Original::Message(interaction.message.expect("a button")),
        _ => {
            let id = interaction.message.expect("a button");
            message(world, interaction.channel, id)?;
            let inner = Call {
                body: Value::Object(data.clone()),
                ..call.clone()
            };
            change_message(world, interaction.channel, id, &inner)?;
            Original::Message(id)
        }
    };
    let interaction = &mut world.interactions[at];
    interaction.answered = Some(kind);
    if let Original::Ephemeral(whisper) = &original
        && kind == 4
    {
        interaction.whispers.push(whisper.clone());
    }
    interaction.original = Some(original.clone());
    match call.query.get("with_response").map(String::as_str) {
        Some("true") => Ok(response(world, id, kind, &original)),
        _ => Ok(Value::Null),
    }
}

/// What a client gets that wants to know what became of its answer.
fn response(world: &World, id: Id, kind: i64, original: &Original) -> Value {
    let mut all = world.interactions.iter();
    let interaction = all.find(|i| i.id == id).expect("an interaction");
    let value = match original {
        Original::Ephemeral(value) => Some(value),
        Original::Message(id) => message(world, interaction.channel, *id).ok(),
        Original::Deleted => None,
    };
    let of_command = interaction.message.is_none();
    let mut response =
        json!({"interaction": {"id": id.to_string(), "type": if of_command { 2 } else { 3 }}});
    if let Some(value) = value.filter(|_| kind != 6) {
        let flags = value["flags"].as_u64().unwrap_or_default();
        response["interaction"]["response_message_id"] = value["id"].clone();
        response["interaction"]["response_message_loading"] = json!(flags & LOADING != 0);
        response["interaction"]["response_message_ephemeral"] = json!(flags & EPHEMERAL != 0);
        response["resource"] = json!({"type": kind});
        if matches!(kind, 4 | 7) {
            response["resource"]["message"] = value.clone();
        }
    }
    response
}
