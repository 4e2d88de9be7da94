//! Checks who may do what in the chats of a platform.

use crate::config::{Access, PlatformConfig};
use crate::platform::Finding;

const OWNERS_RIGHTS: &str = "list and resume other sessions, choose the home channel, answer an agent's questions, and end a session that several people share";

/// The access that the configuration gives.
pub(super) fn configured(platform: &PlatformConfig) -> Finding {
    let access = &platform.access;
    let known = finding(&platform.name, access.owner(), access.trusts_users);
    Finding {
        detail: format!("{}. {}", known.detail, others(access)),
        ..known
    }
}

/// The access in a daemon that has another configuration.
pub(super) fn of_daemon(platform: &str, owner: Option<&str>) -> Finding {
    finding(platform, owner, false)
}

fn finding(platform: &str, owner: Option<&str>, trusts_users: bool) -> Finding {
    let what = format!("{platform} access");
    let who = match owner {
        Some(owner) => format!("the owner is {owner}"),
        None => "no owner is known".to_owned(),
    };
    let remedy = format!(
        "set platforms.{platform}.owner to your id there: in a chat, /sethome answers with it"
    );
    match (owner, trusts_users) {
        (Some(_), false) => Finding::good(what, format!("{who}, who alone may {OWNERS_RIGHTS}")),
        (_, true) => Finding::good(
            what,
            format!("{who}, and allowed users may {OWNERS_RIGHTS}"),
        ),
        (None, false) => Finding::doubtful(
            what,
            format!("{who}, so nobody in a chat may {OWNERS_RIGHTS}"),
            remedy,
        ),
    }
}

/// The people besides the owner who may talk to the agent.
fn others(access: &Access) -> String {
    let owner = access.owner();
    let named = access.users.iter().filter(|id| *id != "*");
    let users = named.filter(|id| Some(id.as_str()) != owner).count();
    let mut guests = Vec::new();
    if access.everyone || access.users.contains("*") {
        guests.push("everybody".to_owned());
    }
    if !access.chats.is_empty() {
        guests.push(format!("everybody in {} chats", access.chats.len()));
    }
    if !access.group_users.is_empty() {
        guests.push(format!("{} people in groups", access.group_users.len()));
    }
    guests.push("paired people".to_owned());
    let strangers = match access.pairing {
        true => "get a pairing code",
        false => "get no answer",
    };
    format!(
        "Other allowed users: {users}. Guests, who may talk, /stop their own turn and see /status: {}. Strangers {strangers}",
        guests.join(", ")
    )
}
