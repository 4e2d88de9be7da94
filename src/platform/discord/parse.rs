//! Converts messages and button presses of Discord to events, with the facts about them.

use std::time::Duration;

use serde_json::Value;

use super::address::{self, Person};
use super::channel::{Place, id_of};
use crate::domain::{FileKind, RemoteFile};
use crate::platform::{
    ButtonPress, CommandFor, InboundMessage, MessageFacts, NativeCommand, ReplyHandle,
};

/// Discord's first millisecond, from which its ids count.
const EPOCH: u64 = 1_420_070_400_000;
/// How long Discord waits for the first answer to a press or a command.
const FIRST_ANSWER: Duration = Duration::from_secs(3);
/// A plain message, and a reply.
const WORDS: [u64; 2] = [0, 19];
/// The kind of a reference that forwards a message.
const FORWARD: u64 = 1;

/// When a thing with this id was made, in seconds since 1970.
pub(super) fn time_of(id: &str) -> Option<f64> {
    let id: u64 = id.parse().ok()?;
    Some(((id >> 22) + EPOCH) as f64 / 1000.0)
}

/// An id of that time.
pub(super) fn id_at(seconds: f64) -> u64 {
    let milliseconds = (seconds * 1000.0).max(0.0) as u64;
    milliseconds.saturating_sub(EPOCH) << 22
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool) == Some(true)
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The person of a message or a press. People see the name on the server first.
fn person(user: &Value, member: Option<&Value>) -> Person {
    let names = [
        member.and_then(|member| id_of(member, "nick")),
        id_of(user, "global_name"),
        id_of(user, "username"),
    ];
    Person {
        id: id_of(user, "id"),
        name: names.into_iter().flatten().next(),
    }
}

fn roles(member: Option<&Value>) -> impl Iterator<Item = String> {
    let roles = member.into_iter().flat_map(|member| list(member, "roles"));
    roles.filter_map(|role| role.as_str().map(str::to_owned))
}

/// Whether a person wrote this message, or another bot. System messages and our own are left out.
pub(super) fn is_for_us(message: &Value, me: &str) -> bool {
    let kind = message.get("type").and_then(Value::as_u64).unwrap_or(0);
    let author = message.get("author").map(|author| text(author, "id"));
    WORDS.contains(&kind) && author.is_some_and(|author| author != me)
}

/// A message, or the new content of one.
pub(super) fn message(message: &Value, place: &Place, me: &str) -> Option<InboundMessage> {
    let author = message.get("author")?;
    let id = id_of(message, "id")?;
    let member = message.get("member");
    let forwarded = message
        .get("message_reference")
        .is_some_and(|reference| reference.get("type").and_then(Value::as_u64) == Some(FORWARD));
    let snapshot = list(message, "message_snapshots").next();
    let snapshot = snapshot.and_then(|snapshot| snapshot.get("message"));
    let content = snapshot.filter(|_| forwarded).unwrap_or(message);
    let words = text(content, "content").trim();
    let mentioned: Vec<&str> = list(message, "mentions")
        .map(|user| text(user, "id"))
        .collect();
    let replied = message
        .get("referenced_message")
        .filter(|reply| reply.is_object());
    let replied_author = replied.and_then(|reply| reply.get("author"));
    // A reply notifies the person who is replied to. That does not say whom it is for.
    let is_pinged_by_reply = |id: &str| {
        let by_reply = replied_author.is_some_and(|author| text(author, "id") == id);
        by_reply && !mentions(id).iter().any(|mention| words.contains(mention))
    };
    let facts = MessageFacts {
        // Discord leaves out what looks like a mention in code.
        mentions_us: mentioned.contains(&me),
        mentions_others: mentioned
            .iter()
            .any(|id| *id != me && !is_pinged_by_reply(id)),
        leading_mention: leading_mention(words, me),
        replies_to_us: replied_author.is_some_and(|author| text(author, "id") == me),
        quoted: replied
            .map(|reply| text(reply, "content").to_owned())
            .filter(|words| !words.is_empty()),
        from_bot: flag(author, "bot") || message.get("webhook_id").is_some_and(Value::is_string),
        forwarded_from: forwarded.then(|| "another chat".to_owned()),
        roles: roles(member).collect(),
        chat_names: place.labels.clone(),
        ..MessageFacts::default()
    };
    let files: Vec<RemoteFile> = list(content, "attachments").filter_map(file).collect();
    let source = address::of_place(place, &person(author, member));
    Some(InboundMessage {
        text: match words.is_empty() && files.is_empty() {
            true => in_words(content),
            false => words.to_owned(),
        },
        at: time_of(&id).unwrap_or_default(),
        source: crate::domain::Source {
            message_id: Some(id.clone()),
            ..source
        },
        message_id: id,
        files,
        facts,
    })
}

/// The forms of a mention of a person or a bot.
fn mentions(id: &str) -> [String; 2] {
    [format!("<@{id}>"), format!("<@!{id}>")]
}

fn leading_mention(words: &str, me: &str) -> usize {
    let forms = mentions(me);
    let found = forms.iter().find(|form| words.starts_with(form.as_str()));
    found.map_or(0, String::len)
}

fn in_words(content: &Value) -> String {
    match (
        list(content, "sticker_items").next(),
        list(content, "embeds").next(),
    ) {
        (Some(sticker), _) => format!("[a sticker: {}]", text(sticker, "name")),
        (None, Some(_)) => "[an embed]".into(),
        (None, None) => "[a message without text]".into(),
    }
}

fn file(attachment: &Value) -> Option<RemoteFile> {
    let mime = id_of(attachment, "content_type");
    let kind = mime.as_deref().unwrap_or_default();
    // Only voice messages have a waveform.
    let is_voice = attachment.get("waveform").is_some_and(Value::is_string);
    Some(RemoteFile {
        kind: match kind.split('/').next() {
            Some("audio") if is_voice => FileKind::Voice,
            Some("image") => FileKind::Image,
            Some("audio") => FileKind::Audio,
            Some("video") => FileKind::Video,
            _ => FileKind::File,
        },
        id: id_of(attachment, "url")?,
        name: id_of(attachment, "filename"),
        mime: mime.map(|mime| mime.split(';').next().unwrap_or_default().to_owned()),
        size: attachment.get("size").and_then(Value::as_u64),
    })
}

/// The member and the user of an interaction.
fn actor(interaction: &Value) -> Option<(Option<&Value>, &Value)> {
    let member = interaction.get("member");
    let user = member.and_then(|member| member.get("user"));
    Some((member, user.or_else(|| interaction.get("user"))?))
}

/// The press of a button.
pub(super) fn press(interaction: &Value, place: &Place) -> Option<ButtonPress> {
    let (member, user) = actor(interaction)?;
    let message = interaction.get("message")?;
    let id = id_of(interaction, "id")?;
    let token = id_of(interaction, "token")?;
    Some(ButtonPress {
        source: address::of_place(place, &person(user, member)),
        roles: roles(member).collect(),
        handle: ReplyHandle::new(format!("button/{id}/{token}"), Some(FIRST_ANSWER)),
        id,
        data: id_of(interaction.get("data")?, "custom_id")?,
        message_id: id_of(message, "id")?,
        text: text(message, "content").to_owned(),
    })
}

/// The id of a native command as a message. No message of Discord has such an id.
pub(super) fn command_id(interaction: &str) -> String {
    format!("command:{interaction}")
}

/// A native command, in the words of the same command as a text.
pub(super) fn command(interaction: &Value, place: &Place) -> Option<NativeCommand> {
    let (member, user) = actor(interaction)?;
    let id = id_of(interaction, "id")?;
    let (application, token) = (
        id_of(interaction, "application_id")?,
        id_of(interaction, "token")?,
    );
    let data = interaction.get("data")?;
    let mut words = format!("/{}", text(data, "name"));
    for option in list(data, "options") {
        match option.get("value") {
            Some(Value::String(value)) => words = format!("{words} {}", value.trim()),
            Some(value) => words = format!("{words} {value}"),
            None => {}
        }
    }
    let message_id = command_id(&id);
    Some(NativeCommand {
        message: InboundMessage {
            source: crate::domain::Source {
                message_id: Some(message_id.clone()),
                ..address::of_place(place, &person(user, member))
            },
            message_id,
            text: words,
            files: Vec::new(),
            at: time_of(&id).unwrap_or_default(),
            facts: MessageFacts {
                command_for: Some(CommandFor::Us),
                from_bot: flag(user, "bot"),
                roles: roles(member).collect(),
                chat_names: place.labels.clone(),
                ..MessageFacts::default()
            },
        },
        handle: ReplyHandle::new(
            format!("command/{application}/{id}/{token}"),
            Some(FIRST_ANSWER),
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place() -> Place {
        Place::private("400".into())
    }

    fn read(value: &Value) -> InboundMessage {
        message(value, &place(), "7").expect("a message")
    }

    #[test]
    fn a_native_command_is_what_a_person_would_type() {
        let run = command(
            &json!({
                "id": "175928847299117063", "application_id": "5", "token": "t",
                "member": {"user": {"id": "42", "username": "ada"}, "roles": ["6"]},
                "data": {"name": "title", "options": [{"name": "text", "type": 3, "value": " Fix it "}]},
            }),
            &place(),
        );
        let run = run.expect("a command");
        assert_eq!(run.message.text, "/title Fix it");
        assert_eq!(run.message.facts.command_for, Some(CommandFor::Us));
        assert_eq!(run.message.source.user_id.as_deref(), Some("42"));
        assert_eq!(run.handle.secret(), Some("command/5/175928847299117063/t"));
        assert_eq!(run.message.message_id, command_id("175928847299117063"));
    }

    #[test]
    fn facts_of_a_message() {
        let said = read(&json!({
            "id": "175928847299117063", "type": 19, "content": "<@!7>, why?",
            "author": {"id": "42", "username": "ada", "global_name": "Ada"},
            "member": {"nick": "Countess", "roles": ["5"]},
            "mentions": [{"id": "7"}, {"id": "8"}],
            "referenced_message": {"author": {"id": "7"}, "content": "because"},
            "attachments": [{"url": "https://x/a.png", "filename": "a.png", "content_type": "image/png", "size": 3}],
        }));
        assert!(said.facts.mentions_us && said.facts.mentions_others && said.facts.replies_to_us);
        assert_eq!(said.own_words(), Some("why?"));
        assert_eq!(said.facts.quoted.as_deref(), Some("because"));
        assert_eq!(said.facts.roles.iter().collect::<Vec<_>>(), ["5"]);
        assert_eq!(said.source.user_name.as_deref(), Some("Countess"));
        assert_eq!(said.files[0].kind, FileKind::Image);
        assert_eq!(said.at.floor(), 1_462_015_105.0);
    }

    #[test]
    fn bots_webhooks_and_forwarded_words_are_marked() {
        let bot = read(&json!({"id": "1", "content": "x", "author": {"id": "8", "bot": true}}));
        assert!(bot.facts.from_bot);
        let hook =
            read(&json!({"id": "1", "content": "x", "author": {"id": "8"}, "webhook_id": "8"}));
        assert!(hook.facts.from_bot);
        let forwarded = read(&json!({
            "id": "1", "content": "", "author": {"id": "42"}, "message_reference": {"type": 1},
            "message_snapshots": [{"message": {"content": "/new"}}],
        }));
        assert_eq!(
            (forwarded.text.as_str(), forwarded.own_words()),
            ("/new", None)
        );
    }

    #[test]
    fn system_messages_and_our_own_are_left_out() {
        let of = |kind: u64, author: &str| json!({"type": kind, "author": {"id": author}});
        for (kind, author, expected) in [
            (0, "42", true),
            (19, "42", true),
            (18, "42", false),
            (0, "7", false),
        ] {
            assert_eq!(
                is_for_us(&of(kind, author), "7"),
                expected,
                "{kind} {author}"
            );
        }
    }

    #[test]
    fn an_id_and_its_time_are_the_same() {
        let id = id_at(1_700_000_000.0).to_string();
        assert_eq!(time_of(&id), Some(1_700_000_000.0));
    }
}
