//! The one table of what hermesd does on Slack, and the scopes that each of it needs.

/// A part of hermesd's work, and what the bot's token needs for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) what: &'static str,
    pub(super) scopes: &'static [&'static str],
    /// Without it, a handoff or the conversation after it does not work.
    pub(super) needed: bool,
}

const fn needed(what: &'static str, scopes: &'static [&'static str]) -> Feature {
    Feature {
        what,
        scopes,
        needed: true,
    }
}

const fn wanted(what: &'static str, scopes: &'static [&'static str]) -> Feature {
    Feature {
        what,
        scopes,
        needed: false,
    }
}

pub(super) const REACTIONS: &str = "reactions:write";
pub(super) const ASSISTANT: &str = "assistant:write";

pub(super) const FEATURES: &[Feature] = &[
    needed("messages and threads", &["chat:write"]),
    needed(
        "conversations in public channels",
        &["channels:history", "channels:read"],
    ),
    needed("conversations in private chats", &["im:history", "im:read"]),
    wanted("a person as the home channel", &["im:write"]),
    wanted(
        "conversations in private channels",
        &["groups:history", "groups:read"],
    ),
    wanted(
        "conversations in group messages",
        &["mpim:history", "mpim:read"],
    ),
    wanted("mentions in channels", &["app_mentions:read"]),
    wanted("names of people", &["users:read"]),
    wanted("files of people", &["files:read"]),
    wanted("files of the agent", &["files:write"]),
    wanted("the command /hermes", &["commands"]),
    wanted("a reaction to a message that waits", &[REACTIONS]),
    wanted("titles of assistant threads", &[ASSISTANT]),
];

/// The features that these scopes do not suffice for, each with the scopes that it lacks.
pub(super) fn lacking(granted: &[String]) -> Vec<(Feature, Vec<&'static str>)> {
    let has = |scope: &&str| granted.iter().any(|granted| granted == scope);
    let lacks = FEATURES.iter().map(|feature| {
        let scopes = feature.scopes.iter().copied();
        let missing: Vec<&str> = scopes.filter(|scope| !has(scope)).collect();
        (*feature, missing)
    });
    lacks.filter(|(_, missing)| !missing.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_lacks_what_is_not_granted() {
        let all: Vec<String> = FEATURES
            .iter()
            .flat_map(|feature| feature.scopes)
            .map(|scope| (*scope).to_owned())
            .collect();
        assert_eq!(lacking(&all), []);
        let few: Vec<String> = all.into_iter().filter(|s| s != "files:read").collect();
        let missing = lacking(&few);
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].1, ["files:read"]);
        assert!(!missing[0].0.needed);
    }
}
