//! The configured access of one platform: who may talk to the agent, and who owns the bot.

use std::collections::BTreeSet;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    pub everyone: bool,
    pub users: BTreeSet<String>,
    /// People who may talk in groups only.
    pub group_users: BTreeSet<String>,
    /// Groups and channels in which everybody may talk.
    pub chats: BTreeSet<String>,
    /// People with one of these roles may talk where the role applies.
    pub roles: BTreeSet<String>,
    /// The only groups that the bot listens to. `None`: all.
    pub groups: Option<BTreeSet<String>>,
    /// The configured owner.
    pub owner: Option<String>,
    /// The person of the configured home channel, if that is a private chat.
    pub home_person: Option<String>,
    /// Allowed users have the owner's rights.
    pub trusts_users: bool,
    /// Whether an unknown person gets a pairing code.
    pub pairing: bool,
}

impl Access {
    /// The one owner: the configured one, else the person of a private home channel, else the only allowed user.
    pub fn owner(&self) -> Option<&str> {
        let named = self.owner.as_deref().or(self.home_person.as_deref());
        named.or_else(|| self.only_user())
    }

    fn only_user(&self) -> Option<&str> {
        let only = self.users.first().filter(|id| *id != "*")?;
        (self.users.len() == 1).then_some(only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(users: &[&str], owner: Option<&str>, home: Option<&str>) -> Access {
        Access {
            users: users.iter().map(|id| (*id).to_owned()).collect(),
            owner: owner.map(str::to_owned),
            home_person: home.map(str::to_owned),
            ..Access::default()
        }
    }

    #[test]
    fn there_is_one_owner_or_none() {
        for (users, named, home, owner) in [
            (&["1"][..], None, None, Some("1")),
            (&["1", "2"], None, None, None),
            (&["*"], None, None, None),
            (&[], None, None, None),
            (&["1"], Some("2"), Some("3"), Some("2")),
            (&["1", "2"], None, Some("2"), Some("2")),
            (&["1"], None, Some("2"), Some("2")),
        ] {
            let access = access(users, named, home);
            assert_eq!(access.owner(), owner, "{access:?}");
        }
    }
}
