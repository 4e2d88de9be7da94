//! The rules for the body of a message.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::BOT_ID;
use super::errors;
use super::form::{Form, path, present};
use super::post::Draft;
use super::routes::Call;
use super::world::World;
use crate::support::fake::Refusal;

/// The longest content of a message.
const LONGEST: usize = 2000;

/// The most characters in all embeds of a message together.
const LONGEST_EMBEDS: usize = 6000;

/// Flags that a bot may set: no embeds, ephemeral, no notification.
const SETTABLE_FLAGS: i64 = 1 << 2 | 1 << 6 | 1 << 12;

/// Reads a new message of the bot. `fields` is the message itself, which may be a part of the body.
pub fn message(world: &World, call: &Call, fields: &Map<String, Value>) -> Result<Draft, Refusal> {
    let draft = read(world, call, fields)?;
    match draft.is_empty() {
        true => Err(errors::EMPTY_MESSAGE.into()),
        false => Ok(draft),
    }
}

/// Reads a message that may be empty.
pub fn read(world: &World, call: &Call, fields: &Map<String, Value>) -> Result<Draft, Refusal> {
    let mut form = Form::default();
    let content = form.text_of(fields, "", "content", (0, LONGEST));
    let embeds = form.list(fields, "", "embeds", 10);
    let mut length = 0;
    for (n, embed) in embeds.into_iter().flatten().enumerate() {
        let at = format!("embeds.{n}");
        if let Some(embed) = form.object(embed, &at) {
            length += self::embed(&mut form, embed, &at);
        }
    }
    if length > LONGEST_EMBEDS {
        let told = "Embed size exceeds maximum size of 6000";
        form.add("embeds", "MAX_EMBED_SIZE_EXCEEDED", told);
    }
    form.flag(fields, "", "tts");
    let flags = form.int(fields, "", "flags").unwrap_or_default();
    let rows = components(&mut form, fields);
    let nonce = nonce(&mut form, fields);
    let enforce_nonce = form.flag(fields, "", "enforce_nonce").unwrap_or_default();
    allowed_mentions(&mut form, fields);
    attachments(&mut form, call, fields);
    form.check()?;
    let too_large = |bytes: usize| bytes > world.upload_limit;
    if call
        .uploads
        .iter()
        .any(|upload| too_large(upload.bytes.len()))
    {
        return Err(errors::TOO_LARGE.into());
    }
    let files = call.uploads.iter();
    let files: Vec<_> = files.map(|u| (u.name.clone(), u.bytes.clone())).collect();
    let content = content.unwrap_or_default().trim().to_owned();
    let embeds = embeds.cloned().unwrap_or_default();
    Ok(Draft {
        author: BOT_ID,
        content,
        embeds,
        components: rows,
        flags: (flags & SETTABLE_FLAGS).unsigned_abs(),
        files,
        nonce,
        enforce_nonce,
        allowed_mentions: present(fields, "allowed_mentions").cloned(),
        ..Draft::default()
    })
}

/// Checks an embed, and counts its characters.
fn embed(form: &mut Form, embed: &Map<String, Value>, at: &str) -> usize {
    let mut length = 0;
    let mut text = |form: &mut Form, fields: &Map<String, Value>, at: &str, key: &str, most| {
        let text = form.text_of(fields, at, key, (0, most));
        length += text.unwrap_or_default().trim().chars().count();
    };
    text(form, embed, at, "title", 256);
    text(form, embed, at, "description", 4096);
    for (part, key, most) in [("footer", "text", 2048), ("author", "name", 256)] {
        let at = path(at, part);
        let part = present(embed, part).and_then(|part| form.object(part, &at));
        if let Some(part) = part {
            text(form, part, &at, key, most);
        }
    }
    let fields = form.list(embed, at, "fields", 25);
    for (n, field) in fields.into_iter().flatten().enumerate() {
        let at = format!("{at}.fields.{n}");
        if let Some(field) = form.object(field, &at) {
            text(form, field, &at, "name", 256);
            text(form, field, &at, "value", 1024);
        }
    }
    length
}

fn nonce(form: &mut Form, fields: &Map<String, Value>) -> Option<Value> {
    let nonce = present(fields, "nonce")?;
    match nonce {
        Value::String(text) if text.chars().count() > 25 => {
            let told = "Must be 25 or fewer in length.";
            form.add("nonce", "BASE_TYPE_MAX_LENGTH", told);
        }
        Value::String(_) => {}
        number if number.is_i64() || number.is_u64() => {}
        _ => {
            let told = "Could not interpret as string or integer.";
            form.add("nonce", "STRING_TYPE_CONVERT", told);
        }
    }
    Some(nonce.clone())
}

/// A kind that is parsed cannot have a list of its own too.
fn allowed_mentions(form: &mut Form, fields: &Map<String, Value>) {
    let Some(allowed) = present(fields, "allowed_mentions") else {
        return;
    };
    let at = "allowed_mentions";
    let Some(allowed) = form.object(allowed, at) else {
        return;
    };
    form.flag(allowed, at, "replied_user");
    let parse = form.list(allowed, at, "parse", 3);
    let parse: Vec<&Value> = parse.into_iter().flatten().collect();
    for (n, kind) in parse.iter().enumerate() {
        if !["users", "roles", "everyone"].iter().any(|k| **kind == *k) {
            let at = format!("{at}.parse.{n}");
            let told = "Value must be one of ('users', 'roles', 'everyone').";
            form.add(&at, "BASE_TYPE_CHOICES", told);
        }
    }
    for kind in ["users", "roles"] {
        let list = form.list(allowed, at, kind, 100);
        for (n, id) in list.into_iter().flatten().enumerate() {
            form.id_of(id, &format!("{at}.{kind}.{n}"));
        }
        let is_empty = list.is_none_or(Vec::is_empty);
        if !is_empty && parse.iter().any(|parsed| **parsed == kind) {
            let told = format!("parse:[\"{kind}\"] and {kind}: [ids...] are mutually exclusive.");
            form.add(at, "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", told);
        }
    }
}

/// Each object of `attachments` describes one of the files.
fn attachments(form: &mut Form, call: &Call, fields: &Map<String, Value>) {
    if call.uploads.len() > 10 {
        let told = "Must be 10 or fewer in length.";
        form.add("attachments", "BASE_TYPE_MAX_LENGTH", told);
    }
    let listed = form.list(fields, "", "attachments", 10);
    for (n, attachment) in listed.into_iter().flatten().enumerate() {
        let at = format!("attachments.{n}");
        let Some(attachment) = form.object(attachment, &at) else {
            continue;
        };
        let id = form.id(attachment, &at, "id");
        form.text_of(attachment, &at, "description", (0, 1024));
        let part = id.map(|id| format!("files[{id}]"));
        if !call.uploads.iter().any(|u| Some(&u.part) == part.as_ref()) {
            let told = "There is no file with this id.";
            form.add(&path(&at, "id"), "ATTACHMENT_NOT_FOUND", told);
        }
    }
}

/// The rows of buttons. Other components are not needed here, so they are refused.
fn components(form: &mut Form, fields: &Map<String, Value>) -> Vec<Value> {
    let rows = form.list(fields, "", "components", 5);
    let mut keys = BTreeSet::new();
    for (n, row) in rows.into_iter().flatten().enumerate() {
        let at = format!("components.{n}");
        let Some(row) = form.object(row, &at) else {
            continue;
        };
        if form.choice(row, &at, "type", &[1]).is_none() {
            form.required(&path(&at, "type"));
        }
        let buttons = form.list(row, &at, "components", 5);
        if buttons.is_none_or(Vec::is_empty) {
            let told = "Must be between 1 and 5 in length.";
            form.add(&path(&at, "components"), "BASE_TYPE_BAD_LENGTH", told);
        }
        for (n, button) in buttons.into_iter().flatten().enumerate() {
            let at = format!("{at}.components.{n}");
            if let Some(fields) = form.object(button, &at) {
                self::button(form, fields, &at, &mut keys);
            }
        }
    }
    rows.cloned().unwrap_or_default()
}

fn button(form: &mut Form, button: &Map<String, Value>, at: &str, keys: &mut BTreeSet<String>) {
    if form.choice(button, at, "type", &[2]).is_none() {
        form.required(&path(at, "type"));
    }
    let style = form.choice(button, at, "style", &[1, 2, 3, 4, 5]);
    let label = form.text_of(button, at, "label", (0, 80));
    form.flag(button, at, "disabled");
    if label.is_none() && present(button, "emoji").is_none() {
        form.required(&path(at, "label"));
    }
    let key = form.text_of(button, at, "custom_id", (1, 100));
    let url = form.text_of(button, at, "url", (1, 512));
    let (needed, other) = match style {
        Some(5) => (("url", url.is_some()), key.is_some()),
        Some(_) => (("custom_id", key.is_some()), url.is_some()),
        None => return form.required(&path(at, "style")),
    };
    if !needed.1 {
        form.required(&path(at, needed.0));
    }
    if other {
        let told = "A button has either a custom_id or a url.";
        form.add(at, "BUTTON_COMPONENT_CUSTOM_ID_URL", told);
    }
    if key.is_some_and(|key| !keys.insert(key.to_owned())) {
        let told = "Component custom id cannot be duplicated";
        let at = path(at, "custom_id");
        form.add(&at, "COMPONENT_CUSTOM_ID_DUPLICATED", told);
    }
}
