//! Messages of the bot: sending and editing.

use axum::body::Bytes;
use serde_json::{Map, Value, json};

use super::html::{self, Formatted};
use super::methods::{chat_of, open_chat};
use super::request::Params;
use super::rules::bad;
use super::world::{SentFile, World, bot, now};
use crate::support::fake::Refusal;

type Answer = Result<Value, Refusal>;

/// The topic of a call. A call without one goes to the general topic of a forum, which has no id.
pub fn thread_of(world: &World, chat: i64, params: &Params) -> Result<Option<i64>, Refusal> {
    let Some(thread) = params.int("message_thread_id") else {
        return Ok(None);
    };
    let chat = &world.chats[&chat];
    let topic = chat.topics.get(&thread);
    match topic.filter(|_| world.has_topics(chat.id)) {
        None => Err(bad("message thread not found")),
        Some(topic) if topic.closed && !topic.by_bot && !chat.rights.can_manage_topics() => {
            Err(bad("TOPIC_CLOSED"))
        }
        Some(_) => Ok(Some(thread)),
    }
}

/// The message that is answered.
fn replied(world: &World, chat: i64, params: &Params) -> Result<Option<i64>, Refusal> {
    let Some(reply) = params.object("reply_parameters") else {
        return Ok(None);
    };
    let id = reply["message_id"].as_i64().expect("checked");
    if world.chats[&chat].messages.contains_key(&id) {
        return Ok(Some(id));
    }
    match reply.get("allow_sending_without_reply") {
        Some(Value::Bool(true)) => Ok(None),
        _ => Err(bad("message to be replied not found")),
    }
}

fn formatted(params: &Params, text: &str, entities: &str) -> Result<Formatted, Refusal> {
    match params.text("parse_mode") {
        None => {
            let mut formatted = html::plain(text);
            formatted.entities = params.list(entities).cloned().unwrap_or_default();
            Ok(formatted)
        }
        Some(mode) if mode.eq_ignore_ascii_case("html") => {
            html::parse(text).map_err(|why| bad(format!("can't parse entities: {why}")))
        }
        Some(_) => Err(bad("unsupported parse_mode")),
    }
}

/// Where a message goes, and its head.
struct Place {
    chat: i64,
    id: i64,
    thread: Option<i64>,
    head: Map<String, Value>,
}

fn place(world: &mut World, params: &Params) -> Result<Place, Refusal> {
    let chat = open_chat(world, params)?;
    let thread = thread_of(world, chat, params)?;
    let reply_to = replied(world, chat, params)?;
    // A reply goes to the topic of its message.
    let thread = thread.or_else(|| world.chats[&chat].messages[&reply_to?].thread);
    world.count_message(chat)?;
    let (id, head) = world.head(chat, bot(), thread, reply_to, now());
    Ok(Place {
        chat,
        id,
        thread,
        head,
    })
}

pub fn message(world: &mut World, params: &Params) -> Answer {
    chat_of(world, params)?;
    let source = params.text("text").expect("checked");
    let Formatted { text, entities } = formatted(params, source, "entities")?;
    match html::units(&text) {
        0 => return Err(bad("message text is empty")),
        1..=4096 => {}
        _ => return Err(bad("message is too long")),
    }
    let mut place = place(world, params)?;
    place.head.insert("text".to_owned(), json!(text));
    if !entities.is_empty() {
        place.head.insert("entities".to_owned(), json!(entities));
    }
    Ok(put(world, params, place, source, None))
}

/// Puts a message into its chat.
fn put(
    world: &mut World,
    params: &Params,
    mut place: Place,
    source: &str,
    file: Option<SentFile>,
) -> Value {
    if let Some(markup) = keyboard(params) {
        place.head.insert("reply_markup".to_owned(), markup);
    }
    let value = Value::Object(place.head);
    let entry = world.insert_message(place.chat, place.id, place.thread, true, value.clone());
    entry.source = source.to_owned();
    entry.silent = params.flag("disable_notification");
    entry.file = file;
    value
}

/// The buttons of a message. A keyboard without buttons counts as none.
fn keyboard(params: &Params) -> Option<Value> {
    let markup = params.object("reply_markup")?;
    let rows = markup.get("inline_keyboard")?.as_array()?;
    let rows: Vec<&Value> = rows
        .iter()
        .filter(|row| row.as_array().is_some_and(|row| !row.is_empty()))
        .collect();
    (!rows.is_empty()).then(|| json!({"inline_keyboard": rows}))
}

pub fn file(world: &mut World, kind: &'static str, params: &Params) -> Answer {
    chat_of(world, params)?;
    let source = params.text("caption").unwrap_or_default();
    let Formatted { text, entities } = formatted(params, source, "caption_entities")?;
    if html::units(&text) > 1024 {
        return Err(bad("message caption is too long"));
    }
    let (name, bytes) = content(world, kind, params)?;
    if bytes.is_empty() {
        return Err(bad("file must be non-empty"));
    }
    if kind == "photo" && !is_picture(&bytes) {
        return Err(bad("IMAGE_PROCESS_FAILED"));
    }
    let mut place = place(world, params)?;
    let media = world.media(kind, &name, &bytes, bytes.len() as u64);
    place.head.insert(kind.to_owned(), media);
    if !text.is_empty() {
        place.head.insert("caption".to_owned(), json!(text));
    }
    if !entities.is_empty() {
        let entities = json!(entities);
        place.head.insert("caption_entities".to_owned(), entities);
    }
    let file = SentFile { kind, name, bytes };
    Ok(put(world, params, place, source, Some(file)))
}

/// The file to send: an upload, or one that the vendor has.
fn content(world: &World, kind: &str, params: &Params) -> Result<(String, Bytes), Refusal> {
    if let Some(upload) = params.upload(kind) {
        return Ok((upload.name.clone(), upload.bytes.clone()));
    }
    let id = params.text(kind).expect("checked");
    if id.starts_with("http://") || id.starts_with("https://") {
        return Err(bad("failed to get HTTP URL content"));
    }
    let file = world.files.iter().find(|file| file.id == id);
    let file = file.ok_or_else(|| bad("wrong file identifier/HTTP URL specified"))?;
    Ok((file.path.clone(), file.bytes.clone()))
}

fn is_picture(bytes: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF"];
    starts.iter().any(|start| bytes.starts_with(start))
}

/// The message of the bot that is to be edited.
fn editable<'a>(world: &'a mut World, params: &Params) -> Result<(i64, &'a mut Value), Refusal> {
    let chat = open_chat(world, params)?;
    let id = params.int("message_id").expect("checked");
    let Some(entry) = world.chat(chat).messages.get_mut(&id) else {
        return Err(bad("message to edit not found"));
    };
    if !entry.by_bot || entry.value.get("forum_topic_created").is_some() {
        return Err(bad("message can't be edited"));
    }
    Ok((chat, &mut entry.value))
}

const NOT_MODIFIED: &str = "message is not modified: specified new message content and reply markup are exactly the same \
     as a current content and reply markup of the message";

/// Changes a message, if that changes anything.
fn change(
    world: &mut World,
    params: &Params,
    source: Option<&str>,
    changes: &[(&str, Option<Value>)],
) -> Answer {
    let (chat, value) = editable(world, params)?;
    if changes
        .iter()
        .all(|(key, new)| value.get(key) == new.as_ref())
    {
        return Err(bad(NOT_MODIFIED));
    }
    world.count_message(chat)?;
    let id = params.int("message_id").expect("checked");
    let entry = world.chat(chat).messages.get_mut(&id).expect("found above");
    let value = entry.value.as_object_mut().expect("a message");
    for (key, new) in changes {
        match new {
            Some(new) => value.insert((*key).to_owned(), new.clone()),
            None => value.shift_remove(*key),
        };
    }
    value.insert("edit_date".to_owned(), json!(now()));
    entry.edits += 1;
    if let Some(source) = source {
        entry.source = source.to_owned();
    }
    Ok(entry.value.clone())
}

pub fn edit_text(world: &mut World, params: &Params) -> Answer {
    chat_of(world, params)?;
    let source = params.text("text").expect("checked");
    let Formatted { text, entities } = formatted(params, source, "entities")?;
    match html::units(&text) {
        0 => return Err(bad("message text is empty")),
        1..=4096 => {}
        _ => return Err(bad("MESSAGE_TOO_LONG")),
    }
    if editable(world, params)?.1.get("text").is_none() {
        return Err(bad("there is no text in the message to edit"));
    }
    let entities = (!entities.is_empty()).then(|| json!(entities));
    let changes = [
        ("text", Some(json!(text))),
        ("entities", entities),
        // An edit without buttons removes them.
        ("reply_markup", keyboard(params)),
    ];
    change(world, params, Some(source), &changes)
}

pub fn edit_markup(world: &mut World, params: &Params) -> Answer {
    change(world, params, None, &[("reply_markup", keyboard(params))])
}
