//! Converts messages, button presses and commands of Slack to events, with the facts about them.

use std::time::Duration;

use serde_json::Value;

use super::address::{self, Kind, Person, Place, ThreadRules, time_of};
use super::send::ACTION;
use super::words;
use crate::clock;
use crate::domain::{FileKind, RemoteFile, Source};
use crate::platform::{
    ButtonPress, CommandFor, InboundMessage, MessageFacts, NativeCommand, ReplyHandle,
};

/// Messages of people and bots. All others are notes of Slack: somebody has joined, the topic has changed.
const WORDS: [&str; 5] = [
    "",
    "file_share",
    "thread_broadcast",
    "bot_message",
    "me_message",
];
/// Slack accepts answers to a command or a press for half an hour.
pub(super) const ANSWERABLE: Duration = Duration::from_secs(29 * 60);

/// Begins the id of a native command as a message. No message of Slack has such an id.
pub(super) const COMMAND: &str = "command:";

/// The bot in its workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Me {
    pub(super) user: String,
    pub(super) bot: String,
    pub(super) name: String,
    pub(super) workspace: String,
}

impl Me {
    /// Whether the bot wrote a message.
    pub(super) fn wrote(&self, message: &Value) -> bool {
        let is = |field: &str, own: &str| !own.is_empty() && text(message, field) == own;
        is("user", &self.user) || is("bot_id", &self.bot)
    }
}

pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn owned(value: &Value, field: &str) -> Option<String> {
    Some(text(value, field).to_owned()).filter(|text| !text.is_empty())
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(field)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Whether a person wrote this message, or another bot. Notes of Slack and our own messages are left out.
pub(super) fn is_for_us(message: &Value, me: &Me) -> bool {
    WORDS.contains(&text(message, "subtype")) && !me.wrote(message)
}

/// Who wrote a message. Some bots have no user.
pub(super) fn author(message: &Value) -> Option<&str> {
    let ids = [text(message, "user"), text(message, "bot_id")];
    ids.into_iter().find(|id| !id.is_empty())
}

/// A message, or the new content of one.
pub(super) fn message(
    message: &Value,
    place: &Place,
    person: &Person,
    me: &Me,
    threads: ThreadRules,
) -> Option<InboundMessage> {
    let ts = owned(message, "ts")?;
    let at = time_of(&ts)?;
    let thread_ts = owned(message, "thread_ts");
    let words = words::read(text(message, "text"), &me.user);
    let shared = list(message, "attachments").find(|shared| shared["is_share"] == true);
    let shared_words = shared.map(|shared| words::read(text(shared, "text"), &me.user).text);
    let is_reply = thread_ts.as_ref().is_some_and(|thread| *thread != ts);
    let files: Vec<RemoteFile> = list(message, "files").filter_map(file).collect();
    let forwarded = shared.filter(|_| words.text.is_empty() && files.is_empty());
    let labels = place.name.iter();
    let facts = MessageFacts {
        mentions_us: words.mentions_us,
        mentions_others: words.mentions_others,
        leading_mention: words.leading_mention,
        thread_of_ours: is_reply && text(message, "parent_user_id") == me.user,
        several_people: place.kind == Kind::PrivateGroup,
        quoted: shared_words.clone().filter(|_| forwarded.is_none()),
        from_bot: text(message, "subtype") == "bot_message" || owned(message, "bot_id").is_some(),
        forwarded_from: forwarded.map(|shared| {
            let author = owned(shared, "author_name");
            author.unwrap_or_else(|| "another chat".to_owned())
        }),
        chat_names: labels
            .flat_map(|name| [name.clone(), format!("#{name}")])
            .collect(),
        ..MessageFacts::default()
    };
    let said = match forwarded {
        Some(_) => shared_words.unwrap_or_default(),
        None => words.text,
    };
    let thread = threads.thread(place.kind, &ts, thread_ts.as_deref());
    Some(InboundMessage {
        text: match said.is_empty() && files.is_empty() {
            true => "[a message without text]".to_owned(),
            false => said,
        },
        source: Source {
            message_id: Some(ts.clone()),
            ..address::of_place(place, person, thread)
        },
        message_id: ts,
        files,
        at,
        facts,
    })
}

fn file(file: &Value) -> Option<RemoteFile> {
    // A deleted file, and one that is on the server of another company.
    if matches!(text(file, "mode"), "tombstone" | "hidden_by_limit") || file["is_external"] == true
    {
        return None;
    }
    let mime = owned(file, "mimetype");
    let kind = mime.as_deref().unwrap_or_default();
    let is_voice = text(file, "subtype") == "slack_audio";
    // Files of other workspaces have no address in the message.
    let url = owned(file, "url_private_download").or_else(|| owned(file, "url_private"));
    Some(RemoteFile {
        kind: match kind.split('/').next() {
            Some("audio") if is_voice => FileKind::Voice,
            Some("image") => FileKind::Image,
            Some("audio") => FileKind::Audio,
            Some("video") => FileKind::Video,
            _ => FileKind::File,
        },
        id: url.or_else(|| owned(file, "id"))?,
        name: owned(file, "name").or_else(|| owned(file, "title")),
        mime,
        size: file.get("size").and_then(Value::as_u64),
    })
}

/// The press of a button. `None`: it is not a button of ours.
pub(super) fn press(payload: &Value, place: &Place, name: Option<String>) -> Option<ButtonPress> {
    let action = list(payload, "actions").next()?;
    if !text(action, "action_id").starts_with(ACTION) {
        return None;
    }
    let (container, message) = (&payload["container"], &payload["message"]);
    let ts = owned(container, "message_ts").or_else(|| owned(message, "ts"))?;
    let thread = owned(container, "thread_ts").or_else(|| owned(message, "thread_ts"));
    let person = Person {
        id: owned(&payload["user"], "id"),
        name: name.or_else(|| owned(&payload["user"], "name")),
    };
    let kind = match container["is_ephemeral"] == true {
        true => "ephemeral",
        false => "message",
    };
    let url = text(payload, "response_url");
    Some(ButtonPress {
        source: address::of_place(place, &person, thread.filter(|thread| *thread != ts)),
        roles: Default::default(),
        id: owned(action, "action_ts").or_else(|| owned(payload, "trigger_id"))?,
        handle: ReplyHandle::new(format!("press {kind} {ts} {url}"), Some(ANSWERABLE)),
        data: owned(action, "value")?,
        text: super::format::unescaped(text(message, "text")),
        message_id: ts,
    })
}

/// A native command, in the words of the same command as a text.
pub(super) fn command(
    payload: &Value,
    place: &Place,
    name: Option<String>,
) -> Option<NativeCommand> {
    let person = Person {
        id: owned(payload, "user_id"),
        name: name.or_else(|| owned(payload, "user_name")),
    };
    let message_id = format!("{COMMAND}{}", owned(payload, "trigger_id")?);
    let words = words::of_command(text(payload, "command"), text(payload, "text"));
    let is_command = words.starts_with('/');
    let kind = match (is_command, place.kind) {
        (false, _) => "words",
        (true, Kind::Private) => "private",
        (true, _) => "shared",
    };
    let url = text(payload, "response_url");
    Some(NativeCommand {
        handle: ReplyHandle::new(
            format!("command {kind} {message_id} {url}"),
            Some(ANSWERABLE),
        ),
        message: InboundMessage {
            source: Source {
                message_id: Some(message_id.clone()),
                ..address::of_place(place, &person, None)
            },
            message_id,
            text: words,
            files: Vec::new(),
            at: clock::now(),
            facts: MessageFacts {
                command_for: Some(CommandFor::Us),
                several_people: place.kind == Kind::PrivateGroup,
                ..MessageFacts::default()
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn me() -> Me {
        Me {
            user: "UBOT".into(),
            bot: "BBOT".into(),
            ..Me::default()
        }
    }

    fn place(kind: Kind) -> Place {
        Place {
            id: "C1".into(),
            kind,
            name: Some("work".into()),
            workspace: "T1".into(),
        }
    }

    fn read(value: &Value) -> InboundMessage {
        let threads = ThreadRules {
            in_channels: true,
            in_private_chats: true,
        };
        let person = Person {
            id: Some("U1".into()),
            name: Some("Ann".into()),
        };
        message(value, &place(Kind::Channel), &person, &me(), threads).expect("a message")
    }

    #[test]
    fn facts_of_a_message() {
        let said = read(&json!({
            "ts": "1700000001.000200", "thread_ts": "1700000000.000100", "parent_user_id": "UBOT", "user": "U1",
            "text": "<@UBOT> why &lt;this&gt; <@U2>?",
            "files": [
                {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 3, "url_private_download": "https://files.slack.com/a"},
                {"id": "F2", "mode": "tombstone"},
                {"id": "F3", "file_access": "check_file_info"},
            ],
        }));
        assert!(said.facts.mentions_us && said.facts.mentions_others && said.facts.thread_of_ours);
        assert!(!said.facts.from_bot && !said.facts.several_people);
        assert_eq!(said.own_words(), Some("why <this> <@U2>?"));
        assert_eq!(said.source.thread_id.as_deref(), Some("1700000000.000100"));
        assert_eq!(said.facts.chat_names, ["work", "#work"]);
        assert_eq!(said.at.floor(), 1_700_000_001.0);
        let files: Vec<&str> = said.files.iter().map(|file| file.id.as_str()).collect();
        assert_eq!(files, ["https://files.slack.com/a", "F3"]);
    }

    #[test]
    fn shared_messages_are_quoted_or_forwarded() {
        let shared = |text: &str| {
            read(
                &json!({"ts": "1700000001.000200", "text": text, "attachments": [
                    {"is_share": true, "author_name": "Mallory", "text": "!new"},
                ]}),
            )
        };
        assert_eq!(shared("look").facts.quoted.as_deref(), Some("/new"));
        let forwarded = shared("");
        assert_eq!(forwarded.facts.forwarded_from.as_deref(), Some("Mallory"));
        assert_eq!(forwarded.own_words(), None);
    }

    #[test]
    fn notes_and_our_own_messages_are_left_out_and_bots_are_marked() {
        for (value, expected) in [
            (json!({"user": "U1"}), true),
            (json!({"user": "U1", "subtype": "file_share"}), true),
            (json!({"user": "U1", "subtype": "channel_join"}), false),
            (json!({"user": "U1", "subtype": "message_changed"}), false),
            (json!({"user": "UBOT"}), false),
            (json!({"bot_id": "BBOT", "subtype": "bot_message"}), false),
            (json!({"bot_id": "B2", "subtype": "bot_message"}), true),
        ] {
            assert_eq!(is_for_us(&value, &me()), expected, "{value}");
        }
        let bot =
            read(&json!({"ts": "1700000001.000200", "text": "x", "user": "U5", "bot_id": "B5"}));
        assert!(bot.facts.from_bot);
    }

    #[test]
    fn a_press_names_its_person_its_message_and_its_thread() {
        let payload = json!({
            "user": {"id": "U1", "name": "ann"}, "trigger_id": "t", "response_url": "https://hooks.slack.com/1",
            "container": {"message_ts": "1700000002.000100", "thread_ts": "1700000000.000100", "is_ephemeral": false},
            "message": {"text": "a &amp; b"},
            "actions": [{"action_id": "hermesd:0", "value": "choice:1", "action_ts": "1700000003.000100"}],
        });
        let pressed = press(&payload, &place(Kind::Channel), None).expect("a press");
        assert_eq!(
            pressed.source.thread_id.as_deref(),
            Some("1700000000.000100")
        );
        assert_eq!(
            (pressed.data.as_str(), pressed.text.as_str()),
            ("choice:1", "a & b")
        );
        let secret = "press message 1700000002.000100 https://hooks.slack.com/1";
        assert_eq!(pressed.handle.secret(), Some(secret));
        let mut other = payload;
        other["actions"][0]["action_id"] = json!("feedback");
        assert!(press(&other, &place(Kind::Channel), None).is_none());
    }
}
