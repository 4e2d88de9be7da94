//! The configured rules of one platform for which messages the bot answers. All platforms have the same keys.

use std::collections::BTreeSet;

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
    pub bots: BotMessages,
    /// A mention in a group opens a thread for the conversation.
    pub auto_thread: bool,
    /// Groups in which a mention opens no thread.
    pub no_thread_chats: BTreeSet<String>,
}

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
