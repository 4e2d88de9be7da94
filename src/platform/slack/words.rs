//! Reads the words of people from Slack's text, in which mentions, channels and links are in angle brackets.

use super::format::unescaped;
use crate::domain::slash_command::{self, ParsedInput, Place};

/// The words of a message, and what they mention.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) text: String,
    pub(super) mentions_us: bool,
    pub(super) mentions_others: bool,
    /// The length in bytes of the bot's mention at the beginning.
    pub(super) leading_mention: usize,
}

/// Reads a text as Slack keeps it. `me` is the id of the bot's user.
pub(super) fn read(raw: &str, me: &str) -> Words {
    let mut words = Words::default();
    let mut rest = raw.trim();
    let mut is_first = true;
    while let Some(at) = rest.find('<') {
        let Some((inside, behind)) = rest[at + 1..].split_once('>') else {
            break;
        };
        words.text += &unescaped(&rest[..at]);
        is_first &= at == 0;
        let before = words.text.len();
        words.control(inside, me);
        if is_first && inside.split('|').next() == Some(&format!("@{me}")) {
            words.leading_mention = words.text.len() - before;
        }
        is_first = false;
        rest = behind;
    }
    words.text += &unescaped(rest);
    words.as_command();
    words
}

impl Words {
    /// Adds what is between two angle brackets, as people read it.
    fn control(&mut self, inside: &str, me: &str) {
        let (target, label) = match inside.split_once('|') {
            Some((target, label)) => (target, Some(unescaped(label)).filter(|l| !l.is_empty())),
            None => (inside, None),
        };
        let shown = match target.split_at_checked(1) {
            Some(("@", user)) if user == me => {
                self.mentions_us = true;
                format!("<@{user}>")
            }
            Some(("@", user)) => {
                self.mentions_others = true;
                label.map_or(format!("<@{user}>"), |name| format!("@{name}"))
            }
            Some(("#", channel)) => format!("#{}", label.as_deref().unwrap_or(channel)),
            Some(("!", special)) => {
                let name = special.split('^').next().unwrap_or_default();
                label.unwrap_or_else(|| format!("@{name}"))
            }
            _ => {
                let target = unescaped(target);
                let bare = target.strip_prefix("mailto:").unwrap_or(&target);
                match label {
                    Some(label) if label != bare && !target.ends_with(&label) => {
                        format!("{label} ({target})")
                    }
                    _ => bare.to_owned(),
                }
            }
        };
        self.text += &shown;
    }

    /// Slack has no commands within threads. There, `!new` is the command `/new`.
    fn as_command(&mut self) {
        let words = self.text[self.leading_mention..].trim_start_matches([',', ':', ' ', '\n']);
        let Some(typed) = words.strip_prefix('!') else {
            return;
        };
        let command = format!("/{typed}");
        if let ParsedInput::Command(..) = slash_command::read(&command, Place::Chat) {
            let mention = &self.text[..self.leading_mention];
            self.text = match mention.is_empty() {
                true => command,
                false => format!("{mention} {command}"),
            };
        }
    }
}

/// The words of a native command as a person would type them: `/hermes title Fix it` is `/title Fix it`. Words that are
/// no command are for the agent.
pub(super) fn of_command(command: &str, text: &str) -> String {
    let text = unescaped(text.trim());
    let word = command.trim_start_matches('/');
    if word != super::COMMAND {
        return format!("/{word} {text}").trim_end().to_owned();
    }
    let typed = text.trim_start_matches(['/', '!']);
    match slash_command::read(&format!("/{typed}"), Place::Chat) {
        _ if typed.is_empty() => "/help".to_owned(),
        ParsedInput::Command(..) => format!("/{typed}"),
        ParsedInput::NotHere(_) | ParsedInput::Words => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_become_what_people_read() {
        for (raw, text) in [
            ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
            (
                "see <https://a.example/x?a&amp;b>",
                "see https://a.example/x?a&b",
            ),
            (
                "see <https://a.example|the page>",
                "see the page (https://a.example)",
            ),
            ("<http://a.example|a.example>", "http://a.example"),
            ("<mailto:a@b.example|a@b.example>", "a@b.example"),
            ("in <#C1|work> and <#C2>", "in #work and #C2"),
            (
                "<!here> <!subteam^S1|@team> <!date^1^{date}|today>",
                "@here @team today",
            ),
            ("<@U2> and <@U3|ann>", "<@U2> and @ann"),
            ("1 < 2", "1 < 2"),
        ] {
            assert_eq!(read(raw, "U1").text, text, "{raw}");
        }
    }

    #[test]
    fn mentions_are_facts() {
        let words = read(" <@U1>, why <@U2>?", "U1");
        assert!(words.mentions_us && words.mentions_others);
        assert_eq!(&words.text[words.leading_mention..], ", why <@U2>?");
        let words = read("why <@U1|hermes>?", "U1");
        assert!(words.mentions_us && !words.mentions_others);
        assert_eq!(words.leading_mention, 0);
        // Somebody has typed the brackets.
        assert!(!read("&lt;@U1&gt; x", "U1").mentions_us);
    }

    #[test]
    fn an_exclamation_mark_begins_a_known_command_only() {
        for (raw, text) in [
            ("!new", "/new"),
            ("!title Fix &amp; go", "/title Fix & go"),
            ("<@U1> !stop", "<@U1> /stop"),
            ("!important", "!important"),
            ("!handoff x", "!handoff x"),
            ("wow !new", "wow !new"),
        ] {
            assert_eq!(read(raw, "U1").text, text, "{raw}");
        }
    }

    #[test]
    fn a_native_command_is_what_a_person_would_type() {
        for (command, text, expected) in [
            ("/hermes", "", "/help"),
            ("/hermes", "title Fix it", "/title Fix it"),
            ("/hermes", "/new", "/new"),
            ("/hermes", "what is up?", "what is up?"),
            ("/resume", "fix", "/resume fix"),
            ("/new", "", "/new"),
        ] {
            assert_eq!(of_command(command, text), expected, "{command} {text}");
        }
    }
}
