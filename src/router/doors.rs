//! Who may talk to the agent. Nobody, unless somebody has said so.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::{Access, Config};
use crate::platform::local;
use crate::session::{ChatType, Source};
use crate::store::{Store, StoreError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Welcome,
    /// Unknown, and offered a code to be let in with.
    Stranger,
    Denied,
}

/// The rules of all platforms.
#[derive(Debug, Clone, Default)]
pub struct Doors {
    pub(super) platforms: HashMap<String, Door>,
    home: PathBuf,
}

#[derive(Debug, Clone)]
pub(super) struct Door {
    pub(super) access: Access,
    /// Who configures a private chat as the home lets its person in.
    pub(super) home_chat: Option<String>,
}

impl Doors {
    pub fn new(config: &Config) -> Doors {
        let door = |p: &crate::config::PlatformConfig| Door {
            access: p.access.clone(),
            home_chat: p.home_channel.as_ref().map(|home| home.chat_id.clone()),
        };
        let platforms = config.platforms.iter().map(|p| (p.name.clone(), door(p)));
        Doors {
            platforms: platforms.collect(),
            home: config.home.clone(),
        }
    }

    pub(super) fn verdict(&self, store: &Store, source: &Source) -> Result<Verdict, StoreError> {
        // The socket has checked who writes there.
        if source.platform == local::NAME || self.is_allowed(store, source)? {
            return Ok(Verdict::Welcome);
        }
        let pairs = self
            .platforms
            .get(&source.platform)
            .is_some_and(|door| door.access.pairing);
        let known = source.user_id.is_some() && source.chat_type == ChatType::Dm;
        Ok(if pairs && known {
            Verdict::Stranger
        } else {
            Verdict::Denied
        })
    }

    /// Whether a list, a pairing or the home lets this person in.
    pub(super) fn is_allowed(&self, store: &Store, source: &Source) -> Result<bool, StoreError> {
        let Some(door) = self.platforms.get(&source.platform) else {
            return Ok(false);
        };
        if door.lets_in(source) {
            return Ok(true);
        }
        let Some(user) = &source.user_id else {
            return Ok(false);
        };
        Ok(store.is_paired(&source.platform, user)? || self.paired_by_hermes(source, user))
    }

    /// Hermes keeps those it has let in in a file of its own, in one of two places.
    fn paired_by_hermes(&self, source: &Source, user: &str) -> bool {
        let name = format!("{}-approved.json", source.platform);
        ["platforms/pairing", "pairing"]
            .iter()
            .any(|place| names(&self.home.join(place).join(&name), user))
    }
}

fn names(path: &Path, user: &str) -> bool {
    let text = std::fs::read_to_string(path).ok();
    let approved = text.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    approved.is_some_and(|approved| approved.get(user).is_some())
}

impl Door {
    fn lets_in(&self, source: &Source) -> bool {
        let access = &self.access;
        if access.everyone {
            return true;
        }
        let private = source.chat_type == ChatType::Dm;
        let chat = source.chat_id.as_deref();
        if self.is_private_home(source) {
            return true;
        }
        let all = |ids: &std::collections::BTreeSet<String>| ids.contains("*");
        if !private && (all(&access.chats) || chat.is_some_and(|id| access.chats.contains(id))) {
            return true;
        }
        // What is posted to a channel has no author: its members may only read there, and its admins are its owner's choice.
        if source.chat_type == ChatType::Channel {
            return chat.is_some() && chat == self.home_chat.as_deref();
        }
        if all(&access.users) || (!private && all(&access.group_users)) {
            return true;
        }
        self.ids_of(source).any(|id| {
            access.owner.as_deref() == Some(id)
                || access.users.contains(id)
                || (!private && access.group_users.contains(id))
        })
    }

    /// Whether this is the private chat that is configured as the home.
    pub(super) fn is_private_home(&self, source: &Source) -> bool {
        let chat = source.chat_id.as_deref();
        source.chat_type == ChatType::Dm && chat.is_some() && chat == self.home_chat.as_deref()
    }

    /// The ids that a person is known by.
    pub(super) fn ids_of<'a>(&self, source: &'a Source) -> impl Iterator<Item = &'a str> {
        let ids = [&source.user_id, &source.user_id_alt];
        ids.into_iter().flatten().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(access: Access) -> Door {
        Door {
            access,
            home_chat: Some("7".into()),
        }
    }

    fn said(chat_type: ChatType, chat: &str, user: Option<&str>) -> Source {
        Source {
            user_id: user.map(str::to_owned),
            ..Source::new("telegram", chat_type, chat)
        }
    }

    fn ids(ids: &[&str]) -> std::collections::BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn nobody_is_let_in_but_the_person_of_a_private_home() {
        let door = door(Access::default());
        assert!(door.lets_in(&said(ChatType::Dm, "7", Some("7"))));
        for source in [
            said(ChatType::Dm, "8", Some("8")),
            said(ChatType::Dm, "8", None),
            said(ChatType::Group, "-1", Some("7")),
            said(ChatType::Group, "-1", None),
            said(ChatType::Channel, "-2", None),
        ] {
            assert!(!door.lets_in(&source), "{source:?}");
        }
    }

    #[test]
    fn who_is_named_is_let_in_where_they_are_named_for() {
        let door = door(Access {
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
            // A private chat with the id of a group is nobody's.
            (ChatType::Dm, "-5", Some("-5"), false),
        ] {
            let source = said(chat_type, chat, user);
            assert_eq!(door.lets_in(&source), expected, "{source:?}");
        }
    }
}
