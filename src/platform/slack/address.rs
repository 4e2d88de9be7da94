//! Converts Slack's channels, threads and people to sources. A handoff and the person's next message must get the same
//! key.

use super::NAME;
use crate::domain::{ChatType, HomeChannel, Source, ThreadOutcome};

/// What a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Public or private.
    Channel,
    /// Of one person with the bot.
    Private,
    /// Of several people with the bot. Its keys are those of a private chat.
    PrivateGroup,
}

impl Kind {
    pub(super) fn chat_type(self) -> ChatType {
        match self {
            Kind::Channel => ChatType::Group,
            Kind::Private | Kind::PrivateGroup => ChatType::Dm,
        }
    }

    /// The kind that an event names.
    pub(super) fn of_event(channel_type: &str) -> Option<Kind> {
        match channel_type {
            "channel" | "group" => Some(Kind::Channel),
            "im" | "app_home" => Some(Kind::Private),
            "mpim" => Some(Kind::PrivateGroup),
            _ => None,
        }
    }

    /// The kind that an id shows. Other ids may be of a channel or of a group of people.
    pub(super) fn of_id(id: &str) -> Option<Kind> {
        id.starts_with('D').then_some(Kind::Private)
    }
}

/// A channel in the bot's workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// The name of a channel, without `#`.
    pub(super) name: Option<String>,
    pub(super) workspace: String,
}

/// A person as an event names them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
}

/// Which messages at the top level begin a thread, and with it a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ThreadRules {
    pub(super) in_channels: bool,
    pub(super) in_private_chats: bool,
}

impl ThreadRules {
    /// The thread of a message. The first message of a thread names itself.
    pub(super) fn thread(self, kind: Kind, ts: &str, thread_ts: Option<&str>) -> Option<String> {
        let begins = match kind {
            Kind::Channel => self.in_channels,
            Kind::Private | Kind::PrivateGroup => self.in_private_chats,
        };
        let replies_to = thread_ts.filter(|thread| !thread.is_empty() && *thread != ts);
        replies_to
            .or_else(|| begins.then_some(ts))
            .map(str::to_owned)
    }
}

/// The source of this person in a channel, or in a thread of it.
pub(super) fn of_place(place: &Place, person: &Person, thread: Option<String>) -> Source {
    Source {
        thread_id: thread,
        chat_name: match place.kind {
            Kind::Private => person.name.clone(),
            Kind::Channel | Kind::PrivateGroup => {
                place.name.as_ref().map(|name| format!("#{name}"))
            }
        },
        scope_id: Some(place.workspace.clone()).filter(|id| !id.is_empty()),
        user_id: person.id.clone(),
        user_name: person.name.clone(),
        ..Source::new(NAME, place.kind.chat_type(), &place.id)
    }
}

/// The source of the owner's next message after a handoff to this channel.
pub(super) fn of_home(
    home: &HomeChannel,
    channel: &str,
    workspace: &str,
    opened: &ThreadOutcome,
) -> Source {
    let by_id = Kind::of_id(channel).map_or(ChatType::Group, Kind::chat_type);
    let thread = match opened {
        ThreadOutcome::Thread { id, .. } => Some(id.clone()),
        ThreadOutcome::Chat { thread_id, .. } => thread_id.clone(),
    };
    Source {
        thread_id: thread,
        chat_name: home.name.clone(),
        scope_id: Some(workspace.to_owned()).filter(|id| !id.is_empty()),
        user_id: home.owner.clone(),
        ..Source::new(NAME, opened.within().unwrap_or(by_id), channel)
    }
}

/// Whether an id is that of a person.
pub(super) fn is_person(id: &str) -> bool {
    let mut letters = id.chars();
    matches!(letters.next(), Some('U' | 'W'))
        && id.len() > 2
        && letters.all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// Whether a text is the time by which Slack names a message: `1700000000.000100`.
pub(super) fn is_ts(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.')
        .is_some_and(|(seconds, rest)| digits(seconds) && digits(rest))
}

/// When a message was sent, in seconds since 1970.
pub(super) fn time_of(ts: &str) -> Option<f64> {
    is_ts(ts).then(|| ts.parse().ok()).flatten()
}

/// A time as Slack writes it.
pub(super) fn ts_at(seconds: f64) -> String {
    format!("{:.6}", seconds.max(0.0))
}

/// The microseconds of a message's time.
pub(super) fn micros(ts: &str) -> Option<u64> {
    let (seconds, rest) = ts.split_once('.')?;
    let rest = format!("{rest:0<6}");
    let seconds: u64 = seconds.parse().ok()?;
    Some(seconds * 1_000_000 + rest.get(..6)?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::domain::{KeyRules, session_key};

    fn place(id: &str, kind: Kind) -> Place {
        Place {
            id: id.into(),
            kind,
            name: Some("work".into()),
            workspace: "T1".into(),
        }
    }

    fn ann() -> Person {
        Person {
            id: Some("U1".into()),
            name: Some("Ann".into()),
        }
    }

    fn rules(in_channels: bool, in_private_chats: bool) -> ThreadRules {
        ThreadRules {
            in_channels,
            in_private_chats,
        }
    }

    /// The key of a message, with the workspace and without.
    fn keys(source: &Source) -> [String; 2] {
        [true, false].map(|slack_workspace| {
            let rules = KeyRules {
                slack_workspace,
                ..KeyRules::default()
            };
            session_key(source, &rules)
        })
    }

    #[test]
    fn a_message_has_the_key_that_hermes_gives_it() {
        let vectors = include_str!("../../../tests/fixtures/session-keys.json");
        let vectors: Vec<Value> = serde_json::from_str(vectors).unwrap();
        let known = |key: &str| vectors.iter().any(|v| v["key"] == key);
        let (own, thread) = ("1753000001.000100", "1752999999.000200");
        for (kind, id, rules, thread_ts, expected) in [
            (
                Kind::Private,
                "D0DM",
                rules(true, true),
                None,
                "dm:T1:D0DM:1753000001.000100",
            ),
            (
                Kind::Private,
                "D0DM",
                rules(true, true),
                Some(thread),
                "dm:T1:D0DM:1752999999.000200",
            ),
            (
                Kind::Private,
                "D0DM",
                rules(true, false),
                None,
                "dm:T1:D0DM",
            ),
            (
                Kind::Private,
                "D0DM",
                rules(true, false),
                Some(own),
                "dm:T1:D0DM",
            ),
            (
                Kind::Private,
                "D0DM",
                rules(true, false),
                Some(thread),
                "dm:T1:D0DM:1752999999.000200",
            ),
            (
                Kind::Channel,
                "C0CH",
                rules(false, true),
                None,
                "group:T1:C0CH:U1",
            ),
        ] {
            let thread = rules.thread(kind, own, thread_ts);
            let key = keys(&of_place(&place(id, kind), &ann(), thread))[0].clone();
            assert_eq!(key, format!("agent:main:slack:{expected}"));
            assert!(known(&key), "{key}");
        }
        for (kind, id, ts, thread_ts, expected) in [
            (
                Kind::PrivateGroup,
                "G0MP",
                "1753000004.000100",
                None,
                "dm:T1:G0MP:1753000004.000100",
            ),
            (
                Kind::Channel,
                "C0CH",
                "1753000007.000100",
                None,
                "group:T1:C0CH:1753000007.000100",
            ),
            (
                Kind::Channel,
                "C0CH",
                "1753000008.000100",
                Some("1752999999.000300"),
                "group:T1:C0CH:1752999999.000300",
            ),
        ] {
            let thread = rules(true, true).thread(kind, ts, thread_ts);
            let [key, older] = keys(&of_place(&place(id, kind), &ann(), thread));
            assert_eq!(key, format!("agent:main:slack:{expected}"));
            assert_eq!(older, key.replace(":T1:", ":"));
            assert!(known(&key), "{key}");
        }
    }

    #[test]
    fn a_handoff_and_the_next_message_have_one_key() {
        for (home, channel, kind) in [
            ("C0CH", "C0CH", Kind::Channel),
            ("G0PRIV", "G0PRIV", Kind::Channel),
            ("D0DM", "D0DM", Kind::Private),
            ("U1", "D0DM", Kind::Private),
            ("G0MP", "G0MP", Kind::PrivateGroup),
        ] {
            let home = HomeChannel {
                chat_id: home.into(),
                name: None,
                thread_id: None,
                owner: Some("U1".into()),
            };
            let opened = ThreadOutcome::Thread {
                id: "1753000001.000100".into(),
                title: "t".into(),
                repeated: false,
                within: Some(kind.chat_type()),
            };
            let bound = of_home(&home, channel, "T1", &opened);
            for rules in [rules(true, true), rules(false, false)] {
                let thread = rules.thread(kind, "1753000002.000100", Some("1753000001.000100"));
                let said = of_place(&place(channel, kind), &ann(), thread);
                assert_eq!(keys(&bound), keys(&said));
            }
        }
    }

    #[test]
    fn ids_and_times_are_recognised() {
        for (id, expected) in [
            ("U07ADA00042", true),
            ("W012A3CDE", true),
            ("C0CH", false),
            ("Unknown", false),
            ("U", false),
        ] {
            assert_eq!(is_person(id), expected, "{id}");
        }
        assert!(is_ts("1700000000.000100") && !is_ts("command:1.2") && !is_ts("17"));
        assert_eq!(micros("1700000000.0001"), Some(1_700_000_000_000_100));
        assert_eq!(ts_at(1_700_000_000.5), "1700000000.500000");
    }
}
