//! The permissions that hermesd uses on a server. The invitation asks for all of them, and doctor names the missing ones.

use serenity::model::Permissions;
use serenity::model::channel::ChannelType as Kind;

use super::channel::MEDIA;

/// A permission, by the name that Discord shows.
struct Wanted {
    permission: Permissions,
    name: &'static str,
    /// What is missing without it. `None`: a conversation is not possible without it.
    without: Option<&'static str>,
}

const fn required(permission: Permissions, name: &'static str) -> Wanted {
    Wanted {
        permission,
        name,
        without: None,
    }
}

const fn optional(permission: Permissions, name: &'static str, without: &'static str) -> Wanted {
    Wanted {
        permission,
        name,
        without: Some(without),
    }
}

const WANTED: [Wanted; 9] = [
    required(Permissions::VIEW_CHANNEL, "View Channel"),
    // In a forum, it permits posts.
    required(Permissions::SEND_MESSAGES, "Send Messages"),
    required(Permissions::CREATE_PUBLIC_THREADS, "Create Public Threads"),
    required(
        Permissions::SEND_MESSAGES_IN_THREADS,
        "Send Messages in Threads",
    ),
    // Messages of the time without a connection are read later.
    required(Permissions::READ_MESSAGE_HISTORY, "Read Message History"),
    // A reply with a file is refused as a whole.
    required(Permissions::ATTACH_FILES, "Attach Files"),
    optional(
        Permissions::ADD_REACTIONS,
        "Add Reactions",
        "a message gets no sign that it is received",
    ),
    optional(
        Permissions::CREATE_PRIVATE_THREADS,
        "Create Private Threads",
        "there is no other thread if Discord refuses a public one",
    ),
    optional(
        Permissions::MANAGE_THREADS,
        "Manage Threads",
        "the empty thread of a failed handoff stays, and a locked thread accepts no reply",
    ),
];

impl Wanted {
    /// Whether this kind of channel knows the permission.
    fn counts_in(&self, kind: Kind) -> bool {
        match self.permission {
            // A post in a forum needs Send Messages only.
            Permissions::CREATE_PUBLIC_THREADS => {
                !matches!(kind, Kind::Forum | Kind::Unknown(MEDIA))
            }
            Permissions::CREATE_PRIVATE_THREADS => kind == Kind::Text,
            _ => true,
        }
    }
}

/// All of them, for the invitation.
pub(super) fn all() -> Permissions {
    let each = WANTED.iter().map(|wanted| wanted.permission);
    each.fold(Permissions::empty(), |all, one| all | one)
}

/// The names of the permissions that a handoff to this kind of channel needs beyond those that are allowed.
pub(super) fn missing(allowed: Permissions, kind: Kind) -> Vec<&'static str> {
    let missing = lacking(allowed, kind).filter(|wanted| wanted.without.is_none());
    missing.map(|wanted| wanted.name).collect()
}

/// The names of the others that are not allowed, each with what is missing without it.
pub(super) fn missing_optional(
    allowed: Permissions,
    kind: Kind,
) -> Vec<(&'static str, &'static str)> {
    let missing = lacking(allowed, kind);
    missing
        .filter_map(|wanted| Some((wanted.name, wanted.without?)))
        .collect()
}

fn lacking(allowed: Permissions, kind: Kind) -> impl Iterator<Item = &'static Wanted> {
    WANTED
        .iter()
        .filter(move |wanted| wanted.counts_in(kind) && !allowed.contains(wanted.permission))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invitation_asks_for_what_is_used_and_no_more() {
        let bits = [6, 10, 11, 15, 16, 34, 35, 36, 38];
        let bits = bits.iter().fold(0_u64, |all, bit| all | 1 << bit);
        assert_eq!(all().bits(), bits);
    }

    #[test]
    fn what_is_missing_depends_on_the_kind_of_channel() {
        let allowed = all()
            - Permissions::CREATE_PUBLIC_THREADS
            - Permissions::CREATE_PRIVATE_THREADS
            - Permissions::MANAGE_THREADS;
        let optional = |kind| {
            let missing = missing_optional(allowed, kind).into_iter();
            missing.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(missing(allowed, Kind::Text), ["Create Public Threads"]);
        assert_eq!(
            optional(Kind::Text),
            ["Create Private Threads", "Manage Threads"]
        );
        assert_eq!(missing(allowed, Kind::News), ["Create Public Threads"]);
        assert_eq!(optional(Kind::News), ["Manage Threads"]);
        assert!(missing(allowed, Kind::Forum).is_empty());
        assert!(missing(allowed, Kind::Unknown(MEDIA)).is_empty());
        assert_eq!(missing(Permissions::empty(), Kind::Forum).len(), 5);
    }
}
