//! Decides what a person may do with the bot, besides talking to it.

use crate::domain::{ChatType, Source};
use crate::inbound::{AccessPolicy, Inner};
use crate::platform::local;
use crate::store::retry_while_busy;
use crate::store::{Store, StoreError};

/// How much a person is trusted. Later ranks may do more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Allowed by a chat, by a list for groups, by pairing, or because everyone is.
    Guest,
    /// Named in the list of allowed users.
    AllowedUser,
    Owner,
}

/// A right beyond the permission to talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// See and fetch sessions of other chats and of terminals.
    OtherSessions,
    /// Choose where handoffs go.
    Home,
    /// Answer an agent that asks before it acts.
    Approvals,
    /// End, rename or take back a conversation that several people share.
    SharedSession,
    /// Stop an answer to another person.
    OthersTurn,
}

impl AccessPolicy {
    /// The rank of the person who speaks or presses a button. `None`: they are not allowed at all.
    pub fn rank(&self, store: &Store, source: &Source) -> Result<Option<Rank>, StoreError> {
        // The control socket has checked the client.
        if source.platform == local::NAME {
            return Ok(Some(Rank::Owner));
        }
        if !self.is_allowed(store, source)? {
            return Ok(None);
        }
        let platform_access = self.platforms.get(&source.platform);
        Ok(platform_access.map(|platform_access| platform_access.rank(source)))
    }

    /// Whether a person of this rank has the right on this platform.
    pub fn may(&self, platform: &str, rank: Rank, right: Right) -> bool {
        let trusts_users = self
            .platforms
            .get(platform)
            .is_some_and(|platform_access| platform_access.access.trusts_users);
        let least = match right {
            Right::OthersTurn => Rank::AllowedUser,
            _ if trusts_users => Rank::AllowedUser,
            _ => Rank::Owner,
        };
        rank >= least
    }

    /// The id of the platform's owner, if it is known.
    pub fn owner(&self, platform: &str) -> Option<&str> {
        self.platforms.get(platform)?.access.owner()
    }
}

impl crate::inbound::access::PlatformAccess {
    /// The rank of a person who is allowed.
    pub(super) fn rank(&self, source: &Source) -> Rank {
        // Posts of a channel have no author.
        if source.chat_type == ChatType::Channel {
            return Rank::Guest;
        }
        let at_home = self.is_private_home(source);
        let is = |id: &str| self.ids_of(source).any(|own| self.are_same(own, id));
        match self.access.owner() {
            Some(owner) if is(owner) => Rank::Owner,
            // Some platforms give a private chat another id than its person's.
            _ if at_home && self.access.owner.is_none() => Rank::Owner,
            _ if at_home || self.access.users.iter().any(|id| is(id)) => Rank::AllowedUser,
            _ => Rank::Guest,
        }
    }
}

impl Inner {
    /// Whether the person who speaks or presses a button has this right.
    pub(super) async fn may(&self, source: &Source, right: Right) -> Result<bool, StoreError> {
        let rules = self.rules.get();
        let rank = || async { rules.access.rank(&self.store, source) };
        let rank = retry_while_busy(&self.stop, rank).await?;
        Ok(rank.is_some_and(|rank| rules.access.may(&source.platform, rank, right)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Access;
    use crate::inbound::access::PlatformAccess;

    const RIGHTS: [Right; 5] = [
        Right::OtherSessions,
        Right::Home,
        Right::Approvals,
        Right::SharedSession,
        Right::OthersTurn,
    ];

    fn platform_access(users: &[&str], owner: Option<&str>, home: Option<&str>) -> PlatformAccess {
        PlatformAccess {
            access: Access {
                users: users.iter().map(|id| (*id).to_owned()).collect(),
                owner: owner.map(str::to_owned),
                ..Access::default()
            },
            home_chat: home.map(str::to_owned),
            whatsapp: None,
            people: Default::default(),
        }
    }

    fn said(chat_type: ChatType, chat: &str, user: Option<&str>) -> Source {
        Source {
            user_id: user.map(str::to_owned),
            ..Source::new("discord", chat_type, chat)
        }
    }

    #[test]
    fn a_person_has_the_rank_that_they_are_named_for() {
        use ChatType::{Channel, Dm, Group};
        use Rank::{AllowedUser, Guest, Owner};
        let alone = platform_access(&["1"], None, None);
        let several = platform_access(&["1", "2"], None, Some("400"));
        let named = platform_access(&["1"], Some("3"), Some("400"));
        let all = platform_access(&["*"], None, None);
        for (platform_access, chat_type, chat, user, rank) in [
            (&alone, Group, "-5", Some("1"), Owner),
            (&alone, Group, "-5", Some("9"), Guest),
            (&alone, Group, "-5", None, Guest),
            (&several, Group, "-5", Some("1"), AllowedUser),
            // The person of the private home, whose chat has an id of its own.
            (&several, Dm, "400", Some("2"), Owner),
            (&several, Dm, "401", Some("1"), AllowedUser),
            (&named, Dm, "403", Some("3"), Owner),
            (&named, Dm, "400", Some("1"), AllowedUser),
            (&named, Dm, "400", Some("9"), AllowedUser),
            (&named, Group, "400", Some("9"), Guest),
            (&all, Dm, "9", Some("9"), Guest),
            // A post of a channel has no author, whatever the channel's id.
            (&alone, Channel, "1", Some("1"), Guest),
        ] {
            let source = said(chat_type, chat, user);
            assert_eq!(
                platform_access.rank(&source),
                rank,
                "{source:?} at {platform_access:?}"
            );
        }
    }

    #[test]
    fn rights_are_the_owners_unless_allowed_users_are_trusted() {
        let access = |trusts_users| {
            let mut platform_access = platform_access(&["1", "2"], None, None);
            platform_access.access.trusts_users = trusts_users;
            let mut access = AccessPolicy::default();
            access
                .platforms
                .insert("discord".to_owned(), platform_access);
            access
        };
        let may = |trusts_users, rank, right| access(trusts_users).may("discord", rank, right);
        for right in RIGHTS {
            assert!(may(false, Rank::Owner, right), "{right:?}");
            assert!(may(true, Rank::AllowedUser, right), "{right:?}");
            assert!(!may(true, Rank::Guest, right), "{right:?}");
            let stops = right == Right::OthersTurn;
            assert_eq!(may(false, Rank::AllowedUser, right), stops, "{right:?}");
        }
    }
}
