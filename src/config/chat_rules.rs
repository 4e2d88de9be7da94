//! The configured rules of one platform for which messages the bot answers. All platforms have the same keys.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

/// These rules do not apply to private chats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatRules {
    /// The only groups that the bot listens to. Empty: all.
    pub only_chats: BTreeSet<String>,
    /// Chats that the bot ignores, even if `only_chats` names them.
    pub ignored_chats: BTreeSet<String>,
    /// In groups, the bot answers only messages that are meant for it.
    pub require_mention: bool,
    /// Groups in which the bot needs no mention.
    pub free_chats: BTreeSet<String>,
    /// A thread with a session needs a mention too.
    pub thread_require_mention: bool,
    /// The bot ignores messages that mention only others, except in free chats.
    pub ignore_mentions_of_others: bool,
    /// Words that count as a mention of the bot.
    pub mention_patterns: MentionPatterns,
    pub bots: BotMessages,
    /// A mention in a group opens a thread for the conversation.
    pub auto_thread: bool,
    /// Groups in which a mention opens no thread.
    pub no_thread_chats: BTreeSet<String>,
}

/// Regular expressions that ignore case.
#[derive(Debug, Clone, Default)]
pub struct MentionPatterns(Vec<Regex>);

impl MentionPatterns {
    /// Leaves out patterns that are not valid, as Hermes does.
    pub fn read(patterns: &BTreeSet<String>) -> MentionPatterns {
        let read = patterns.iter().filter_map(|pattern| {
            let read = RegexBuilder::new(pattern).case_insensitive(true).build();
            if read.is_err() {
                tracing::warn!(pattern, "mention_patterns has a pattern that is not valid");
            }
            read.ok()
        });
        MentionPatterns(read.collect())
    }

    pub fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(text))
    }
}

impl PartialEq for MentionPatterns {
    fn eq(&self, other: &MentionPatterns) -> bool {
        let texts = |patterns: &MentionPatterns| -> Vec<String> {
            patterns.0.iter().map(|p| p.as_str().to_owned()).collect()
        };
        texts(self) == texts(other)
    }
}

impl Eq for MentionPatterns {}

/// Which messages of other bots the bot answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BotMessages {
    /// The default: bots that answer one another never stop.
    #[default]
    Never,
    /// Those that mention this bot.
    Mentions,
    All,
}

impl BotMessages {
    /// An unknown word means [`BotMessages::Never`].
    pub(super) fn parse(word: &str) -> BotMessages {
        match word {
            "mentions" => BotMessages::Mentions,
            "all" => BotMessages::All,
            _ => BotMessages::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_ignores_case_and_an_invalid_one_is_left_out() {
        let listed = ["^hey hermes\\b", "(unclosed"].map(str::to_owned);
        let patterns = MentionPatterns::read(&BTreeSet::from(listed));
        assert!(patterns.matches("Hey Hermes, why?"));
        assert!(!patterns.matches("I said hey hermes") && !patterns.matches("(unclosed"));
    }
}
