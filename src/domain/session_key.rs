//! Makes the session key of a chat, for handoffs and inbound messages. A handoff has to bind the key that the person's
//! next message has, else that message begins another conversation.

use crate::domain::{ChatType, Source, WhatsAppIds};

/// The namespace of the default profile, and of all profiles unless they are multiplexed.
const MAIN: &str = "main";

const SLACK: &str = "slack";

/// The user id of Hermes' own handoffs.
const HANDOFF_USER: &str = "system:handoff";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRules {
    pub group_per_user: bool,
    pub thread_per_user: bool,
    pub multiplex_profiles: bool,
    /// The profile of sources that name none. `None` is the default profile.
    pub profile: Option<String>,
    /// Whether Slack's keys contain the workspace, as in Hermes since 0.19.1.
    pub slack_workspace: bool,
    /// Resolves the several WhatsApp ids of one person.
    pub whatsapp: WhatsAppIds,
}

impl Default for KeyRules {
    fn default() -> Self {
        KeyRules {
            group_per_user: true,
            thread_per_user: false,
            multiplex_profiles: false,
            profile: None,
            slack_workspace: false,
            whatsapp: WhatsAppIds::default(),
        }
    }
}

impl KeyRules {
    /// Whether each person of the chat has a session of their own. Only then does a key name a person.
    pub fn is_per_person(&self, source: &Source) -> bool {
        let in_thread = present(&source.thread_id).is_some() || thread_to_come(source).is_some();
        source.chat_type != ChatType::Dm
            && self.group_per_user
            && (self.thread_per_user || !in_thread)
    }

    /// The person that the key names, if it names one.
    fn person_in_key(&self, source: &Source) -> Option<String> {
        self.person(source).filter(|_| self.is_per_person(source))
    }

    /// The id of the person, as keys have it.
    fn person(&self, source: &Source) -> Option<String> {
        let user = present(&source.user_id_alt).or_else(|| present(&source.user_id));
        user.map(|id| self.canonical(source, id))
    }

    /// The one id of a person who has several.
    fn canonical(&self, source: &Source, id: String) -> String {
        match source.platform.as_str() {
            "whatsapp" => self.whatsapp.canonical(&id),
            _ => id,
        }
    }

    /// Whether two sources have the same person, by any of their ids.
    pub fn are_same_person(&self, one: &Source, other: &Source) -> bool {
        let ids = |source: &Source| {
            let ids = [present(&source.user_id), present(&source.user_id_alt)];
            ids.map(|id| id.map(|id| self.canonical(source, id)))
        };
        let others = ids(other);
        ids(one)
            .iter()
            .flatten()
            .any(|id| others.iter().flatten().any(|other| other == id))
    }

    /// Whether the key of the person's next message names a person that this source does not know. Posts in a
    /// channel have no author.
    pub fn lacks_person(&self, source: &Source) -> bool {
        source.chat_type != ChatType::Channel
            && self.is_per_person(source)
            && self.person(source).is_none()
    }

    /// The part of a key that separates profiles.
    fn namespace<'a>(&'a self, source: &'a Source) -> &'a str {
        let own = source.profile.as_deref().filter(|name| !name.is_empty());
        match own.or(self.profile.as_deref()) {
            Some("default") | None => MAIN,
            Some(name) if self.multiplex_profiles => name,
            Some(_) => MAIN,
        }
    }

    /// Whether several people may share the session of this source.
    pub fn is_shared(&self, source: &Source) -> bool {
        source.chat_type != ChatType::Dm && self.person_in_key(source).is_none()
    }
}

fn present(part: &Option<String>) -> Option<String> {
    part.clone().filter(|part| !part.is_empty())
}

/// `agent:main:<platform>:<chat_type>[:<workspace>][:<chat_id>][:<thread_id>][:<user_id>]`
pub fn session_key(source: &Source, rules: &KeyRules) -> String {
    if let Some(thread) = thread_to_come(source) {
        return session_key(&thread, rules);
    }
    let thread = present(&source.thread_id);
    let chat = present(&source.chat_id);
    let has_workspace = source.platform == SLACK && rules.slack_workspace;

    let mut parts = vec![
        "agent".to_owned(),
        rules.namespace(source).to_owned(),
        source.platform.clone(),
        source.chat_type.as_str().to_owned(),
    ];
    parts.extend(present(&source.scope_id).filter(|_| has_workspace));
    if source.chat_type == ChatType::Dm {
        let chat = chat.map(|id| rules.canonical(source, id));
        parts.extend(chat.or_else(|| rules.person(source)));
        parts.extend(thread);
    } else {
        parts.extend(chat);
        parts.extend(thread);
        parts.extend(rules.person_in_key(source));
    }
    parts.join(":")
}

/// In a channel, a message whose answer will open a thread belongs to that thread already.
fn thread_to_come(source: &Source) -> Option<Source> {
    let id = source.others.get("prospective_thread_id")?.as_str()?;
    let in_thread = source.thread_id.as_ref().is_some_and(|id| !id.is_empty());
    if source.chat_type == ChatType::Dm || in_thread || id.is_empty() {
        return None;
    }
    Some(Source {
        chat_type: ChatType::Thread,
        thread_id: Some(id.to_owned()),
        ..source.clone()
    })
}

/// A key under which an older program may have stored the conversation of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerKey {
    pub key: String,
    pub made: FormerChat,
}

/// How a former key was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormerChat {
    /// Before Slack's keys named the workspace.
    WithoutWorkspace,
    /// By a handoff of Hermes, which takes some chats for another type of chat.
    Handoff,
}

/// The keys that older programs may have used for the chat of a message.
pub fn former_keys(source: &Source, rules: &KeyRules) -> Vec<FormerKey> {
    let mut found: Vec<FormerKey> = Vec::new();
    let own = session_key(source, rules);
    let mut add = |source: &Source, made| {
        let key = session_key(source, rules);
        if key != own && found.iter().all(|former| former.key != key) {
            found.push(FormerKey { key, made });
        }
    };
    let without_workspace = Source {
        scope_id: None,
        ..source.clone()
    };
    if source.platform == SLACK && source.scope_id.is_some() {
        add(&without_workspace, FormerChat::WithoutWorkspace);
    }
    let handed_off = Source {
        user_id: Some(HANDOFF_USER.to_owned()),
        user_id_alt: None,
        ..without_workspace
    };
    if source.thread_id.is_some() {
        let home = source.parent_chat_id.clone().or(source.chat_id.clone());
        let thread = Source {
            chat_type: ChatType::Thread,
            chat_id: home,
            ..handed_off.clone()
        };
        add(&thread, FormerChat::Handoff);
    }
    if source.chat_type != ChatType::Dm {
        let private = Source {
            chat_type: ChatType::Dm,
            ..handed_off
        };
        add(&private, FormerChat::Handoff);
        // In a Matrix room each message may begin a thread. Handoffs go to the room itself.
        if source.platform == "matrix" {
            let room = Source {
                thread_id: None,
                ..private
            };
            add(&room, FormerChat::Handoff);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(chat_type: ChatType, thread: Option<&str>, user: Option<&str>) -> Source {
        let mut source = Source::new("telegram", chat_type, "-100");
        source.thread_id = thread.map(str::to_owned);
        source.user_id = user.map(str::to_owned);
        source
    }

    #[test]
    fn keys_are_those_of_the_contract() {
        let rules = KeyRules::default();
        for (source, expected) in [
            (
                source(ChatType::Dm, None, Some("7")),
                "agent:main:telegram:dm:-100",
            ),
            (
                source(ChatType::Dm, Some("42"), Some("7")),
                "agent:main:telegram:dm:-100:42",
            ),
            (
                source(ChatType::Group, None, Some("7")),
                "agent:main:telegram:group:-100:7",
            ),
            (
                source(ChatType::Group, Some("1"), Some("7")),
                "agent:main:telegram:group:-100:1",
            ),
            (
                source(ChatType::Channel, None, None),
                "agent:main:telegram:channel:-100",
            ),
            (
                source(ChatType::Thread, Some("-100"), Some("7")),
                "agent:main:telegram:thread:-100:-100",
            ),
        ] {
            assert_eq!(session_key(&source, &rules), expected);
        }
    }

    #[test]
    fn a_private_chat_without_an_id_takes_the_sender_and_the_alternative_id_wins() {
        let mut dm = source(ChatType::Dm, None, Some("7"));
        dm.chat_id = None;
        dm.user_id_alt = Some("uuid".into());
        assert_eq!(
            session_key(&dm, &KeyRules::default()),
            "agent:main:telegram:dm:uuid"
        );
    }

    /// Keys that Hermes made, with their sources and rules.
    #[test]
    fn keys_are_those_that_hermes_makes() {
        let vectors = include_str!("../../tests/fixtures/session-keys.json");
        let vectors: Vec<serde_json::Value> = serde_json::from_str(vectors).unwrap();
        assert!(vectors.len() >= 80);
        for vector in vectors {
            let home = tempfile::tempdir().unwrap();
            let session = home.path().join("platforms/whatsapp/session");
            let files = vector["whatsapp_session_files"].as_object();
            for (name, content) in files.into_iter().flatten() {
                std::fs::create_dir_all(&session).unwrap();
                std::fs::write(session.join(name), content.to_string()).unwrap();
            }
            let flag = |name: &str| vector["rules"][name].as_bool().unwrap();
            let mut rules = KeyRules {
                group_per_user: flag("group_sessions_per_user"),
                thread_per_user: flag("thread_sessions_per_user"),
                multiplex_profiles: flag("multiplex_profiles"),
                profile: None,
                slack_workspace: true,
                whatsapp: WhatsAppIds::of_home(home.path()),
            };
            let source = Source::from_origin(&vector["source"]).unwrap();
            assert_eq!(session_key(&source, &rules), vector["key"], "{vector}");
            if let Some(older) = vector["key_0.19"].as_str() {
                let former = FormerKey {
                    key: older.to_owned(),
                    made: FormerChat::WithoutWorkspace,
                };
                assert_eq!(former_keys(&source, &rules)[0], former, "{vector}");
                rules.slack_workspace = false;
                assert_eq!(session_key(&source, &rules), older, "{vector}");
            }
        }
    }

    #[test]
    fn keys_of_hermes_own_handoffs_are_known() {
        let of = |platform, chat_type, chat, thread: Option<&str>, parent: Option<&str>| Source {
            thread_id: thread.map(str::to_owned),
            parent_chat_id: parent.map(str::to_owned),
            user_id: Some("42".into()),
            scope_id: Some("T1".into()),
            ..Source::new(platform, chat_type, chat)
        };
        let rules = KeyRules {
            slack_workspace: true,
            ..KeyRules::default()
        };
        for (source, wrong) in [
            (
                of("telegram", ChatType::Group, "-1001", Some("12"), None),
                "telegram:thread:-1001:12",
            ),
            (
                of("telegram", ChatType::Group, "-1001", None, None),
                "telegram:dm:-1001",
            ),
            (
                of("discord", ChatType::Thread, "301", Some("301"), Some("100")),
                "discord:thread:100:301",
            ),
            (
                of("slack", ChatType::Group, "C1", Some("17.1"), None),
                "slack:thread:C1:17.1",
            ),
            (
                of("slack", ChatType::Dm, "D1", Some("17.1"), None),
                "slack:thread:D1:17.1",
            ),
            (
                of("matrix", ChatType::Group, "!r:x", Some("$root"), None),
                "matrix:dm:!r:x",
            ),
            (
                of("matrix", ChatType::Group, "!r:x", None, None),
                "matrix:dm:!r:x",
            ),
        ] {
            let former = FormerKey {
                key: format!("agent:main:{wrong}"),
                made: FormerChat::Handoff,
            };
            let all = former_keys(&source, &rules);
            assert!(all.contains(&former), "{wrong}: {all:?}");
        }
        let private = of("telegram", ChatType::Dm, "4242", None, None);
        assert_eq!(former_keys(&private, &rules), []);
    }

    #[test]
    fn a_source_without_a_profile_takes_that_of_the_home() {
        let mut dm = source(ChatType::Dm, None, None);
        let rules = |multiplex_profiles| KeyRules {
            multiplex_profiles,
            profile: Some("work".into()),
            ..KeyRules::default()
        };
        assert_eq!(
            session_key(&dm, &rules(true)),
            "agent:work:telegram:dm:-100"
        );
        assert_eq!(
            session_key(&dm, &rules(false)),
            "agent:main:telegram:dm:-100"
        );
        dm.profile = Some("default".into());
        assert_eq!(
            session_key(&dm, &rules(true)),
            "agent:main:telegram:dm:-100"
        );
    }

    #[test]
    fn profiles_count_only_when_multiplexed() {
        let mut dm = source(ChatType::Dm, None, None);
        dm.profile = Some("work".into());
        assert_eq!(
            session_key(&dm, &KeyRules::default()),
            "agent:main:telegram:dm:-100"
        );
        let rules = KeyRules {
            multiplex_profiles: true,
            ..KeyRules::default()
        };
        assert_eq!(session_key(&dm, &rules), "agent:work:telegram:dm:-100");
    }

    proptest! {
        /// The `origin` of a routing entry is enough to make the same key again.
        #[test]
        fn a_key_survives_the_round_trip_through_an_origin(
            chat_type in prop::sample::select(ChatType::ALL.to_vec()),
            chat in prop::option::of("[a-z0-9@.-]{1,12}"),
            thread in prop::option::of("[0-9.]{1,8}"),
            user in prop::option::of("[0-9]{1,8}"),
            alt in prop::option::of("[0-9]{1,8}"),
            profile in prop::option::of("[a-z]{1,6}"),
            workspace in prop::option::of("T[0-9]{1,4}"),
            bits in prop::array::uniform4(any::<bool>()),
        ) {
            let mut source = Source::new("slack", chat_type, "x");
            source.chat_id = chat;
            source.thread_id = thread;
            source.user_id = user;
            source.user_id_alt = alt;
            source.profile = profile;
            source.scope_id = workspace;
            let [group_per_user, thread_per_user, multiplex_profiles, slack_workspace] = bits;
            let rules = KeyRules {
                group_per_user,
                thread_per_user,
                multiplex_profiles,
                slack_workspace,
                ..KeyRules::default()
            };
            let again = Source::from_origin(&source.to_origin()).expect("a full origin");
            let key = session_key(&source, &rules);
            prop_assert_eq!(session_key(&again, &rules), key.clone());
            prop_assert!(former_keys(&source, &rules).iter().all(|former| former.key != key));
        }

        /// People share a session exactly if their keys are equal.
        #[test]
        fn people_share_a_session_where_their_keys_are_the_same(
            chat_type in prop::sample::select(ChatType::ALL.to_vec()),
            thread in prop::option::of("[0-9]{0,3}"),
            to_come in prop::option::of("[0-9]{0,3}"),
            ids in prop::array::uniform2(prop::option::of("[0-9]{0,3}")),
            bits in prop::array::uniform2(any::<bool>()),
        ) {
            prop_assume!(chat_type != ChatType::Dm);
            let rules = KeyRules { group_per_user: bits[0], thread_per_user: bits[1], ..KeyRules::default() };
            let [user_id, user_id_alt] = ids;
            let mut one = Source { user_id, user_id_alt, ..source(chat_type, thread.as_deref(), None) };
            if let Some(id) = to_come {
                one.others.insert("prospective_thread_id".into(), id.into());
            }
            let other = Source { user_id: Some("another".into()), user_id_alt: None, ..one.clone() };
            let same = session_key(&one, &rules) == session_key(&other, &rules);
            let named = [&one.user_id, &one.user_id_alt].iter().any(|id| present(id).is_some());
            prop_assert_eq!(rules.is_shared(&one), same || !named);
            let channel = chat_type == ChatType::Channel;
            prop_assert_eq!(rules.lacks_person(&one), !same && !named && !channel);
        }

        /// Neither settings nor the sender change the key of a private chat.
        #[test]
        fn a_private_chat_has_one_key(user in prop::option::of("[0-9]{1,8}"), bits in prop::array::uniform2(any::<bool>())) {
            let rules = KeyRules { group_per_user: bits[0], thread_per_user: bits[1], ..KeyRules::default() };
            let dm = source(ChatType::Dm, Some("9"), user.as_deref());
            prop_assert_eq!(session_key(&dm, &rules), "agent:main:telegram:dm:-100:9");
        }
    }
}
