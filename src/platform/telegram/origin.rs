//! Reads from raw messages who wrote forwarded words, and which group has moved.

use serde_json::Value;

use super::NAME;
use crate::platform::InboundEvent;

/// The service message of a group that has become a supergroup. Both chats get one.
pub(super) fn moved(message: &Value) -> Option<InboundEvent> {
    let here = message.get("chat")?.get("id")?.as_i64()?;
    let id = |field: &str| message.get(field).and_then(Value::as_i64);
    let (from, to) = match (id("migrate_to_chat_id"), id("migrate_from_chat_id")) {
        (Some(to), _) => (here, to),
        (None, Some(from)) => (from, here),
        (None, None) => return None,
    };
    Some(InboundEvent::Moved {
        platform: NAME,
        from: from.to_string(),
        to: to.to_string(),
    })
}

/// The author of a forwarded message. Read from the update itself, because the SDK drops a message with unknown fields,
/// and forwarded words must never pass for commands of the sender.
pub(super) fn forwarded_from(message: &Value) -> Option<String> {
    const SIGNS: [&str; 5] = [
        "forward_origin",
        "forward_from",
        "forward_from_chat",
        "forward_sender_name",
        "forward_date",
    ];
    if !SIGNS.iter().any(|sign| message.get(sign).is_some()) {
        return None;
    }
    let origin = message.get("forward_origin").unwrap_or(message);
    let text = |value: &Value, field: &str| value.get(field)?.as_str().map(str::to_owned);
    let person = ["sender_user", "forward_from"];
    let person = person.iter().find_map(|field| origin.get(field));
    let chat = ["sender_chat", "chat", "forward_from_chat"];
    let chat = chat.iter().find_map(|field| origin.get(field));
    let name = person
        .and_then(|person| {
            let names = [text(person, "first_name"), text(person, "last_name")];
            let names: Vec<String> = names.into_iter().flatten().collect();
            Some(names.join(" ")).filter(|name| !name.is_empty())
        })
        .or_else(|| text(origin, "sender_user_name"))
        .or_else(|| text(origin, "forward_sender_name"))
        .or_else(|| chat.and_then(|chat| text(chat, "title")));
    Some(name.unwrap_or_else(|| "an unknown author".into()))
}
