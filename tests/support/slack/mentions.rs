//! The text of messages: how Slack keeps it, and whom it notifies.

use std::collections::BTreeSet;

use serde_json::Value;

use super::blocks;
use super::world::World;

/// Whether this between `<` and `>` is for Slack: a mention, a channel, a date or a link.
fn is_control(inside: &str) -> bool {
    let mut rest = inside.chars();
    match rest.next() {
        Some('@' | '#' | '!') => rest.next().is_some(),
        _ => ["http://", "https://", "mailto:", "tel:"]
            .iter()
            .any(|start| inside.starts_with(start)),
    }
}

/// Escapes what the sender has left bare, as Slack does.
pub fn normalized(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        match first {
            '&' => {
                let known = ["&amp;", "&lt;", "&gt;"].into_iter();
                let entity = known.clone().find(|entity| rest.starts_with(entity));
                kept.push_str(entity.unwrap_or("&amp;"));
                taken = entity.map_or(1, str::len);
            }
            '<' => match rest[1..].split_once('>') {
                Some((inside, _)) if is_control(inside) && !inside.contains('<') => {
                    taken = inside.len() + 2;
                    kept.push_str(&rest[..taken]);
                }
                _ => kept.push_str("&lt;"),
            },
            '>' => kept.push_str("&gt;"),
            other => kept.push(other),
        }
        rest = &rest[taken..];
    }
    kept
}

/// As people read it.
pub fn read(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// How a message asks for its text to be treated.
#[derive(Debug, Clone, Default)]
pub struct Parsing {
    /// `parse=full`: names and groups in plain text are mentions.
    pub full: bool,
    /// `link_names`: groups in plain text are mentions. People no longer are.
    pub link_names: bool,
}

/// The people and groups in `<@U…>` and `<!…>`.
fn in_brackets(text: &str, found: &mut BTreeSet<String>) {
    for (at, _) in text.match_indices('<') {
        let Some((inside, _)) = text[at + 1..].split_once('>') else {
            continue;
        };
        let name = inside.split('|').next().unwrap_or_default();
        match name.split_at_checked(1) {
            Some(("@", user)) => found.insert(format!("user {user}")),
            Some(("!", "channel")) => found.insert("channel".to_owned()),
            Some(("!", "here")) => found.insert("here".to_owned()),
            Some(("!", "everyone")) => found.insert("everyone".to_owned()),
            Some(("!", other)) => match other.strip_prefix("subteam^") {
                Some(group) => found.insert(format!("group {group}")),
                None => false,
            },
            _ => false,
        };
    }
}

/// The names after `@` in plain text.
fn in_plain_text(world: &World, text: &str, full: bool, found: &mut BTreeSet<String>) {
    for (at, _) in text.match_indices('@') {
        let after = &text[at + 1..];
        let end = after.find(|c: char| !c.is_alphanumeric() && !"._-".contains(c));
        let name = after[..end.unwrap_or(after.len())].trim_end_matches('.');
        if ["channel", "here", "everyone"].contains(&name) {
            found.insert(name.to_owned());
        }
        let mut users = world.users.iter().filter(|_| full);
        if let Some((id, _)) = users.find(|(_, user)| user.name == name) {
            found.insert(format!("user {id}"));
        }
    }
}

/// Whom a message notifies: `user U…`, `group S…`, `channel`, `here` and `everyone`. An id counts whether or not there is such a
/// user, and in code too: a test would rather know.
pub fn notified(world: &World, text: &str, blocks: &Value, parsing: &Parsing) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut texts = vec![text.to_owned()];
    blocks::formatted_texts(blocks, &mut texts);
    for text in &texts {
        in_brackets(text, &mut found);
    }
    if parsing.full || parsing.link_names {
        in_plain_text(world, text, parsing.full, &mut found);
    }
    found.into_iter().collect()
}
