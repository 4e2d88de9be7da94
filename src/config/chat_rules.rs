//! Which messages of a platform's chats are answered. The same keys hold for every platform.

use std::collections::BTreeSet;

/// The rules of one platform. Private chats have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatRules {
    /// The only groups that are listened to; empty, all are.
    pub only_chats: BTreeSet<String>,
    /// Chats that are not listened to, even where `only_chats` names them.
    pub ignored_chats: BTreeSet<String>,
    /// In groups, only messages for the bot are answered.
    pub require_mention: bool,
    /// Groups in which no mention is needed.
    pub free_chats: BTreeSet<String>,
    /// A thread that is on a session needs a mention too.
    pub thread_require_mention: bool,
    /// Messages that mention others and not the bot are not answered, except in free chats.
    pub ignore_mentions_of_others: bool,
    pub bots: BotMessages,
}

/// Which messages of other bots are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BotMessages {
    /// None: bots that answer one another never stop.
    #[default]
    Never,
    /// Those that mention this bot.
    Mentions,
    All,
}

impl BotMessages {
    /// From the word of a setting. An unknown word answers no bot.
    pub(super) fn parse(word: &str) -> BotMessages {
        match word {
            "mentions" => BotMessages::Mentions,
            "all" => BotMessages::All,
            _ => BotMessages::Never,
        }
    }
}
