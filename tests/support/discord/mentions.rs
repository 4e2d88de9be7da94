//! Whom a message notifies: what it says, as far as it may.

use std::collections::BTreeSet;

use serde_json::Value;

use super::permissions::MENTION_EVERYONE;
use super::world::{Channel, Id, World};

/// The people and groups that a message notifies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notified {
    pub users: BTreeSet<Id>,
    pub roles: BTreeSet<Id>,
    /// By `@everyone` or `@here`.
    pub everyone: bool,
}

impl Notified {
    /// As a test reads it.
    pub fn names(&self) -> Vec<String> {
        let users = self.users.iter().map(|id| format!("user {id}"));
        let roles = self.roles.iter().map(|id| format!("role {id}"));
        let everyone = self.everyone.then(|| "everyone".to_owned());
        users.chain(roles).chain(everyone).collect()
    }
}

/// Removes code, in which nothing is a mention.
fn without_code(content: &str) -> String {
    let mut rest = content;
    let mut text = String::new();
    while let Some(start) = rest.find('`') {
        let fence = &rest[start..];
        let fence = &fence[..fence.find(|c| c != '`').unwrap_or(fence.len())];
        let inside = &rest[start + fence.len()..];
        text.push_str(&rest[..start]);
        match inside.find(fence) {
            Some(end) => rest = &inside[end + fence.len()..],
            // A fence that is never closed is text.
            None => {
                text.push_str(fence);
                rest = inside;
            }
        }
    }
    text + rest
}

/// The ids of all `<@id>` with this start.
fn ids(text: &str, start: &str) -> Vec<Id> {
    let starts = text.match_indices(start);
    let ids = starts.filter_map(|(at, _)| {
        let (id, _) = text[at + start.len()..].split_once('>')?;
        id.parse().ok()
    });
    ids.collect()
}

/// Computes it from the text and from `allowed_mentions`. An id counts whether or not there is such a user: a test would miss
/// what Discord finds in another world.
pub fn notified(
    world: &World,
    channel: &Channel,
    author: Id,
    content: &str,
    allowed: Option<&Value>,
    replied_to: Option<Id>,
) -> Notified {
    let text = without_code(content);
    let parses = |kind: &str| match allowed {
        None => true,
        Some(allowed) => {
            let parse = allowed["parse"].as_array();
            parse.is_some_and(|parse| parse.iter().any(|p| p == kind))
        }
    };
    let lists = |kind: &str, id: &Id| {
        let list = allowed.and_then(|allowed| allowed[kind].as_array());
        let is = |value: &Value| value == id.to_string().as_str() || value.as_u64() == Some(*id);
        list.is_some_and(|list| list.iter().any(is))
    };
    let of = |kind: &str, found: Vec<Id>| -> BTreeSet<Id> {
        let found = found.into_iter();
        found.filter(|id| parses(kind) || lists(kind, id)).collect()
    };
    let mut users = ids(&text, "<@");
    users.extend(ids(&text, "<@!"));
    let mut users = of("users", users);
    // The author of the message that is answered, unless the bot says otherwise.
    let replied = match allowed {
        None => true,
        Some(allowed) => allowed["replied_user"] == true,
    };
    users.extend(replied_to.filter(|_| replied));
    users.remove(&author);
    let may_all = world.can(author, channel, MENTION_EVERYONE);
    let mut roles = of("roles", ids(&text, "<@&"));
    roles.retain(|role| {
        let guild = channel.guild.and_then(|guild| world.guilds.get(&guild));
        let known = guild.and_then(|guild| guild.roles.get(role));
        may_all || known.is_none_or(|role| role.mentionable)
    });
    let all = text.contains("@everyone") || text.contains("@here");
    Notified {
        users,
        roles,
        everyone: all && may_all && channel.guild.is_some() && parses("everyone"),
    }
}
