//! Decides who may talk to the agent. By default no one may.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use crate::config::{Access, Config};
use crate::domain::{ChatType, Source, WhatsAppIds};
use crate::inbound::hermes_pairing;
use crate::platform::local;
use crate::store::{Store, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Allowed,
    /// Unknown. The person gets a pairing code.
    Stranger,
    Denied,
}

/// The rules of all platforms.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    pub(super) platforms: HashMap<String, PlatformAccess>,
    home: PathBuf,
}

#[derive(Debug, Clone)]
pub(super) struct PlatformAccess {
    pub(super) access: Access,
    /// The configured home. If it is a private chat, its person may talk.
    pub(super) home_chat: Option<String>,
    /// Compares ids on platforms where people have several.
    pub(super) whatsapp: Option<WhatsAppIds>,
    /// The ids of people whom the lists name by their user names.
    pub(super) people: HashMap<String, String>,
}

impl AccessPolicy {
    pub fn new(config: &Config) -> AccessPolicy {
        let platform_access = |p: &crate::config::PlatformConfig| PlatformAccess {
            access: p.access.clone(),
            home_chat: p.home_channel.as_ref().map(|home| home.chat_id.clone()),
            whatsapp: p
                .descriptor
                .access
                .people_have_aliases
                .then(|| config.keys.whatsapp.clone()),
            people: HashMap::new(),
        };
        let platforms = config
            .platforms
            .iter()
            .map(|p| (p.name.clone(), platform_access(p)));
        AccessPolicy {
            platforms: platforms.collect(),
            home: config.home.clone(),
        }
    }

    /// Adds the ids of people whom the lists of a platform name.
    pub(super) fn add_people(&mut self, platform: &str, people: &[(String, String)]) {
        if let Some(access) = self.platforms.get_mut(platform) {
            access.people.extend(people.iter().cloned());
        }
    }

    /// Decides about the sender. `roles` are the sender's roles that count for this chat.
    pub(super) fn decide(
        &self,
        store: &Store,
        source: &Source,
        roles: &BTreeSet<String>,
    ) -> Result<Decision, StoreError> {
        let platform_access = self.platforms.get(&source.platform);
        let by_role = platform_access.is_some_and(|access| access.allows_role(source, roles));
        // The control socket has checked the client.
        if source.platform == local::NAME || by_role || self.is_allowed(store, source)? {
            return Ok(Decision::Allowed);
        }
        let pairs = platform_access.is_some_and(|platform_access| platform_access.access.pairing);
        let known = source.user_id.is_some() && source.chat_type == ChatType::Dm;
        Ok(if pairs && known {
            Decision::Stranger
        } else {
            Decision::Denied
        })
    }

    /// Whether a list, a pairing or the home allows this person.
    pub(super) fn is_allowed(&self, store: &Store, source: &Source) -> Result<bool, StoreError> {
        let Some(platform_access) = self.platforms.get(&source.platform) else {
            return Ok(false);
        };
        if platform_access.allows(source) {
            return Ok(true);
        }
        let Some(user) = &source.user_id else {
            return Ok(false);
        };
        if platform_access.whatsapp.is_some() {
            let paired = store.paired(&source.platform)?;
            if paired.iter().any(|id| platform_access.are_same(id, user)) {
                return Ok(true);
            }
        }
        let of_hermes = || hermes_pairing::ids(&self.home, &source.platform);
        Ok(store.is_paired(&source.platform, user)?
            || of_hermes()
                .iter()
                .any(|id| platform_access.are_same(id, user)))
    }
}

impl PlatformAccess {
    fn allows(&self, source: &Source) -> bool {
        let access = &self.access;
        let private = source.chat_type == ChatType::Dm;
        if !private && !self.serves_group(source) {
            return false;
        }
        if access.everyone || self.is_private_home(source) {
            return true;
        }
        let all = |ids: &BTreeSet<String>| ids.contains("*");
        if !private && (all(&access.chats) || lists_chat(&access.chats, source)) {
            return true;
        }
        // Posts of a channel have no author. Only its admins can post there, and the channel's owner chooses them.
        if source.chat_type == ChatType::Channel {
            return self.is_home_chat(source);
        }
        if all(&access.users) || (!private && all(&access.group_users)) {
            return true;
        }
        self.ids_of(source).any(|id| {
            let is = |other: &str| self.are_same(other, id);
            access.owner.as_deref().is_some_and(is)
                || access.users.iter().any(|user| is(user))
                || (!private && access.group_users.iter().any(|user| is(user)))
        })
    }

    /// Whether one of these roles lets a person talk.
    fn allows_role(&self, source: &Source, roles: &BTreeSet<String>) -> bool {
        let served = source.chat_type == ChatType::Dm || self.serves_group(source);
        served && !self.access.roles.is_disjoint(roles)
    }

    /// Whether the bot answers in this group at all. The list of groups allows no person by itself.
    fn serves_group(&self, source: &Source) -> bool {
        let Some(groups) = &self.access.groups else {
            return true;
        };
        groups.contains("*")
            || lists_chat(groups, source)
            || lists_chat(&self.access.chats, source)
            || self.is_home_chat(source)
    }

    fn is_home_chat(&self, source: &Source) -> bool {
        source.chat_id.is_some() && source.chat_id == self.home_chat
    }

    /// Whether this is the private chat that is configured as the home, by its own id or by its person's id.
    pub(super) fn is_private_home(&self, source: &Source) -> bool {
        let Some(home) = self.home_chat.as_deref() else {
            return false;
        };
        let ids = source.chat_id.as_deref().into_iter();
        source.chat_type == ChatType::Dm
            && ids
                .chain(self.ids_of(source))
                .any(|id| self.are_same(home, id))
    }

    /// Whether both ids belong to the same person.
    pub(super) fn are_same(&self, one: &str, other: &str) -> bool {
        let id_of = |listed: &str| self.people.get(listed).map(String::as_str);
        one == other
            || id_of(one) == Some(other)
            || id_of(other) == Some(one)
            || (self.whatsapp.as_ref()).is_some_and(|ids| ids.are_same(one, other))
    }

    /// The ids of the sender.
    pub(super) fn ids_of<'a>(&self, source: &'a Source) -> impl Iterator<Item = &'a str> {
        let ids = [&source.user_id, &source.user_id_alt];
        ids.into_iter().flatten().map(String::as_str)
    }
}

/// Whether a list names the chat, or the chat around a thread. A list may name groups of Signal without their prefix.
fn lists_chat(chats: &BTreeSet<String>, source: &Source) -> bool {
    let ids = [&source.chat_id, &source.chat_id_alt, &source.parent_chat_id];
    let mut ids = ids.into_iter().flatten().map(String::as_str);
    ids.any(|id| chats.contains(id) || chats.contains(id.strip_prefix("group:").unwrap_or(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform_access(access: Access) -> PlatformAccess {
        PlatformAccess {
            access,
            home_chat: Some("7".into()),
            whatsapp: None,
            people: HashMap::new(),
        }
    }

    fn said(chat_type: ChatType, chat: &str, user: Option<&str>) -> Source {
        Source {
            user_id: user.map(str::to_owned),
            ..Source::new("telegram", chat_type, chat)
        }
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn nobody_is_let_in_but_the_person_of_a_private_home() {
        let platform_access = platform_access(Access::default());
        assert!(platform_access.allows(&said(ChatType::Dm, "7", Some("7"))));
        for source in [
            said(ChatType::Dm, "8", Some("8")),
            said(ChatType::Dm, "8", None),
            said(ChatType::Group, "-1", Some("7")),
            said(ChatType::Group, "-1", None),
            said(ChatType::Channel, "-2", None),
        ] {
            assert!(!platform_access.allows(&source), "{source:?}");
        }
    }

    #[test]
    fn who_is_named_is_let_in_where_they_are_named_for() {
        let platform_access = platform_access(Access {
            users: ids(&["1"]),
            group_users: ids(&["2"]),
            chats: ids(&["-5"]),
            owner: Some("3".into()),
            ..Access::default()
        });
        for (chat_type, chat, user, expected) in [
            (ChatType::Dm, "1", Some("1"), true),
            (ChatType::Group, "-1", Some("1"), true),
            (ChatType::Dm, "2", Some("2"), false),
            (ChatType::Group, "-1", Some("2"), true),
            (ChatType::Dm, "3", Some("3"), true),
            (ChatType::Group, "-5", Some("9"), true),
            (ChatType::Group, "-5", None, true),
            (ChatType::Channel, "-5", Some("-5"), true),
            (ChatType::Group, "-1", Some("9"), false),
            // The list of groups does not allow a private chat with the same id.
            (ChatType::Dm, "-5", Some("-5"), false),
        ] {
            let source = said(chat_type, chat, user);
            assert_eq!(platform_access.allows(&source), expected, "{source:?}");
        }
    }

    fn group(platform: &str, chat: &str, user: &str) -> Source {
        Source {
            user_id: Some(user.to_owned()),
            ..Source::new(platform, ChatType::Group, chat)
        }
    }

    #[test]
    fn a_list_of_groups_lets_nobody_in() {
        let signal = |groups: &[&str]| {
            platform_access(Access {
                users: ids(&["+1"]),
                groups: Some(ids(groups)),
                ..Access::default()
            })
        };
        let mine = group("signal", "group:abc=", "+1");
        let strangers = group("signal", "group:abc=", "+2");
        for (listed, heard) in [
            (&["*"][..], true),
            (&["abc="], true),
            (&["group:abc="], true),
            (&["other"], false),
            (&[], false),
        ] {
            assert_eq!(signal(listed).allows(&mine), heard, "{listed:?}");
            assert!(!signal(listed).allows(&strangers), "{listed:?}");
        }
        // The list does not apply to private chats.
        assert!(signal(&[]).allows(&said(ChatType::Dm, "+1", Some("+1"))));
        // The group that is the home is served.
        let mut at_home = signal(&[]);
        at_home.home_chat = Some("group:abc=".into());
        assert!(at_home.allows(&mine) && !at_home.allows(&strangers));
    }

    #[test]
    fn a_role_lets_a_person_talk_where_the_group_is_heard() {
        let mut discord = platform_access(Access {
            roles: ids(&["9", "10"]),
            ..Access::default()
        });
        let guild = group("discord", "100", "1");
        assert!(discord.allows_role(&guild, &ids(&["8", "9"])));
        assert!(!discord.allows_role(&guild, &ids(&["8"])));
        assert!(!discord.allows_role(&guild, &ids(&[])));
        assert!(!discord.allows(&guild), "the person is not named");
        discord.access.groups = Some(ids(&["200"]));
        assert!(!discord.allows_role(&guild, &ids(&["9"])));
    }

    #[test]
    fn a_person_of_whatsapp_is_known_by_every_id() {
        let home = tempfile::tempdir().unwrap();
        let session = home.path().join("platforms/whatsapp/session");
        std::fs::create_dir_all(&session).unwrap();
        let reverse = session.join("lid-mapping-999_reverse.json");
        std::fs::write(reverse, "\"15551234567\"").unwrap();
        let platform_access = |users: &[&str], home_chat: &str| PlatformAccess {
            access: Access {
                users: ids(users),
                ..Access::default()
            },
            home_chat: Some(home_chat.to_owned()),
            people: HashMap::new(),
            whatsapp: Some(WhatsAppIds::of_home(home.path())),
        };
        let dm = |id: &str| Source {
            user_id: Some(id.to_owned()),
            ..Source::new("whatsapp", ChatType::Dm, id)
        };
        let listed = platform_access(&["+1 555 123-4567"], "-");
        let at_home = platform_access(&[], "+15551234567");
        for id in [
            "15551234567@s.whatsapp.net",
            "15551234567:3@s.whatsapp.net",
            "999@lid",
        ] {
            assert!(listed.allows(&dm(id)), "{id}");
            assert!(at_home.allows(&dm(id)), "{id}");
        }
        for id in ["15551234568@s.whatsapp.net", "998@lid", "@lid"] {
            assert!(!listed.allows(&dm(id)), "{id}");
            assert!(!at_home.allows(&dm(id)), "{id}");
        }
    }

    #[test]
    fn a_user_name_counts_when_its_id_is_known() {
        let mut discord = platform_access(Access {
            users: ids(&["ada_l", "5"]),
            ..Access::default()
        });
        let ada = group("discord", "100", "42");
        assert!(!discord.allows(&ada));
        discord.people.insert("ada_l".into(), "42".into());
        assert!(discord.allows(&ada));
        assert!(!discord.allows(&group("discord", "100", "43")));
        assert!(!discord.allows(&group("discord", "100", "ada_l2")));
    }

    #[test]
    fn a_home_that_names_a_person_is_their_private_chat() {
        let mut slack = platform_access(Access::default());
        slack.home_chat = Some("U1".into());
        let dm = |user: &str| Source {
            user_id: Some(user.to_owned()),
            ..Source::new("slack", ChatType::Dm, "D0DM")
        };
        assert!(slack.allows(&dm("U1")));
        assert!(!slack.allows(&dm("U2")));
        assert!(!slack.allows(&group("slack", "C0", "U1")));
    }
}
