//! Decides which messages are answered, and composes the words that the agent reads. Adapters only report facts.

use std::collections::BTreeSet;

use crate::config::{BotMessages, ChatRules};
use crate::domain::{ChatType, Source};
use crate::platform::{CommandFor, InboundMessage, MessageFacts};

/// The longest quote of a message that is replied to, in characters.
const LONGEST_QUOTE: usize = 500;
/// The longest name of an author, in characters.
const LONGEST_NAME: usize = 64;

/// The result of the rules for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The message is answered.
    Addressed,
    /// The message is answered only if its thread is on a session.
    Overheard,
    Ignored,
}

/// Whether the rules name any chat. If not, the former ids of a chat do not matter.
pub(super) fn names_chats(rules: &ChatRules) -> bool {
    let lists = [
        &rules.only_chats,
        &rules.ignored_chats,
        &rules.free_chats,
        &rules.no_thread_chats,
    ];
    lists.into_iter().any(|list| !list.is_empty())
}

/// Judges a message by the rules of its platform. `before` is its source with the id that the chat had before it moved.
pub(super) fn judge(
    rules: &ChatRules,
    message: &InboundMessage,
    before: Option<&Source>,
) -> Verdict {
    let facts = &message.facts;
    let source = &message.source;
    // Another person wrote forwarded words, so their mentions and commands do not count.
    let own = facts.forwarded_from.is_none();
    let mentioned = own && (facts.mentions_us || rules.mention_patterns.matches(&message.text));
    let command = facts.command_for.filter(|_| own);
    if command == Some(CommandFor::AnotherBot) {
        return Verdict::Ignored;
    }
    if facts.from_bot && !answers_bot(rules, facts) {
        return Verdict::Ignored;
    }
    if source.chat_type == ChatType::Dm && !facts.several_people {
        return Verdict::Addressed;
    }
    let is_named = |list: &BTreeSet<String>| names(list, message, before);
    if is_named(&rules.ignored_chats) {
        return Verdict::Ignored;
    }
    // The posts of a channel address all readers, and the bot is one of them.
    if source.chat_type == ChatType::Channel {
        return Verdict::Addressed;
    }
    if !rules.only_chats.is_empty() && !is_named(&rules.only_chats) {
        return Verdict::Ignored;
    }
    if is_named(&rules.free_chats) {
        return Verdict::Addressed;
    }
    let called = mentioned || command == Some(CommandFor::Us) || facts.replies_to_us;
    if rules.ignore_mentions_of_others && own && facts.mentions_others && !called {
        return Verdict::Ignored;
    }
    match () {
        () if called || !rules.require_mention => Verdict::Addressed,
        () if rules.thread_require_mention => Verdict::Ignored,
        () if own && facts.thread_of_ours => Verdict::Addressed,
        () => Verdict::Overheard,
    }
}

/// Whether a message that is answered opens a thread for its conversation: a mention in a group that is no reply and no
/// command.
pub(super) fn opens_thread(
    rules: &ChatRules,
    message: &InboundMessage,
    before: Option<&Source>,
) -> bool {
    let facts = &message.facts;
    let is_command = facts.command_for.is_some()
        || message
            .own_words()
            .is_some_and(|words| words.starts_with('/'));
    let is_reply = facts.replies_to_us || facts.quoted.is_some();
    rules.auto_thread
        && message.source.chat_type == ChatType::Group
        && message.source.thread_id.is_none()
        && facts.mentions_us
        && facts.forwarded_from.is_none()
        && !is_command
        && !is_reply
        && !names(&rules.free_chats, message, before)
        && !names(&rules.no_thread_chats, message, before)
}

/// Whether a message of a bot is answered. Such a bot needs no other permission.
pub(super) fn answers_bot(rules: &ChatRules, facts: &MessageFacts) -> bool {
    let mentioned = facts.mentions_us && facts.forwarded_from.is_none();
    match rules.bots {
        BotMessages::Never => false,
        BotMessages::Mentions => mentioned,
        BotMessages::All => true,
    }
}

/// Whether a list names the chat of a message, by an id or by a name.
fn names(list: &BTreeSet<String>, message: &InboundMessage, before: Option<&Source>) -> bool {
    let mut chat_names = message.facts.chat_names.iter();
    list.contains("*")
        || lists(list, &message.source)
        || before.is_some_and(|before| lists(list, before))
        || chat_names.any(|name| list.contains(name))
}

/// Whether a list names the chat, or the chat around a thread.
fn lists(list: &BTreeSet<String>, source: &Source) -> bool {
    let ids = [&source.chat_id, &source.chat_id_alt, &source.parent_chat_id];
    let mut ids = ids.into_iter().flatten().map(String::as_str);
    // A list may name groups of Signal without their prefix.
    ids.any(|id| list.contains(id) || list.contains(id.strip_prefix("group:").unwrap_or(id)))
}

/// The words that the agent reads. Forwarded words get their author. Other words lose the mention of the bot, and get
/// the words that they reply to.
pub(super) fn compose(message: &InboundMessage) -> String {
    let facts = &message.facts;
    // The prefix also ensures that a forwarded command is not run.
    if let Some(author) = &facts.forwarded_from {
        let text = format!("[Forwarded from {}]\n{}", name(author), message.text);
        return text.trim_end().to_owned();
    }
    let words = message.own_words().unwrap_or_default();
    let quoted = facts.quoted.as_deref().and_then(quote);
    match quoted {
        Some(quoted) if !words.starts_with('/') => format!("[In reply to: {quoted}]\n{words}")
            .trim_end()
            .to_owned(),
        // A message that is only a mention stays as it is.
        _ if words.is_empty() && message.files.is_empty() => message.text.clone(),
        _ => words.to_owned(),
    }
}

/// A name on one line.
fn name(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    let shown = words.join(" ");
    let shown = shown.chars().filter(|c| !c.is_control());
    shown.take(LONGEST_NAME).collect()
}

/// Quoted words on one line. `None`: there are none.
fn quote(text: &str) -> Option<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = text.chars().take(LONGEST_QUOTE).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    Some(format!("{short}{more}")).filter(|quoted| !quoted.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MentionPatterns;

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    fn message(chat_type: ChatType, facts: MessageFacts) -> InboundMessage {
        InboundMessage {
            source: Source::new("discord", chat_type, "100"),
            message_id: "1".into(),
            text: "@bot: why?".into(),
            files: Vec::new(),
            at: 0.0,
            facts,
        }
    }

    fn plain() -> MessageFacts {
        MessageFacts::default()
    }

    fn mentioned() -> MessageFacts {
        MessageFacts {
            mentions_us: true,
            leading_mention: 4,
            ..plain()
        }
    }

    fn forwarded(facts: MessageFacts) -> MessageFacts {
        MessageFacts {
            forwarded_from: Some("Mallory".into()),
            ..facts
        }
    }

    fn command(command_for: CommandFor) -> MessageFacts {
        MessageFacts {
            command_for: Some(command_for),
            ..plain()
        }
    }

    #[test]
    fn where_a_mention_is_required_only_messages_for_the_bot_are_addressed() {
        use Verdict::{Addressed, Ignored, Overheard};
        let rules = ChatRules {
            require_mention: true,
            ..ChatRules::default()
        };
        let reply = MessageFacts {
            replies_to_us: true,
            ..plain()
        };
        for (facts, expected) in [
            (plain(), Overheard),
            (mentioned(), Addressed),
            (reply, Addressed),
            (command(CommandFor::Us), Addressed),
            (command(CommandFor::AnotherBot), Ignored),
            (forwarded(mentioned()), Overheard),
            (forwarded(command(CommandFor::Us)), Overheard),
            (forwarded(command(CommandFor::AnotherBot)), Overheard),
        ] {
            for chat_type in [ChatType::Group, ChatType::Thread] {
                let message = message(chat_type, facts.clone());
                assert_eq!(judge(&rules, &message, None), expected, "{message:?}");
            }
        }
        for chat_type in [ChatType::Dm, ChatType::Channel] {
            assert_eq!(judge(&rules, &message(chat_type, plain()), None), Addressed);
        }
        let among_several = MessageFacts {
            several_people: true,
            ..plain()
        };
        let private = message(ChatType::Dm, among_several);
        assert_eq!(judge(&rules, &private, None), Overheard);
        let in_our_thread = MessageFacts {
            thread_of_ours: true,
            ..plain()
        };
        let in_our_thread = message(ChatType::Group, in_our_thread);
        assert_eq!(judge(&rules, &in_our_thread, None), Addressed);
        let everything = ChatRules::default();
        let overheard = message(ChatType::Group, plain());
        assert_eq!(judge(&everything, &overheard, None), Addressed);
        let strict = ChatRules {
            thread_require_mention: true,
            ..rules
        };
        assert_eq!(judge(&strict, &overheard, None), Ignored);
        assert_eq!(judge(&strict, &in_our_thread, None), Ignored);
    }

    #[test]
    fn a_pattern_counts_as_a_mention() {
        let rules = |patterns: &[&str]| ChatRules {
            require_mention: true,
            mention_patterns: MentionPatterns::read(&ids(patterns)),
            ..ChatRules::default()
        };
        let said = message(ChatType::Group, plain());
        assert_eq!(judge(&rules(&["WHY"]), &said, None), Verdict::Addressed);
        assert_eq!(judge(&rules(&["how"]), &said, None), Verdict::Overheard);
        let said = message(ChatType::Group, forwarded(plain()));
        assert_eq!(judge(&rules(&["WHY"]), &said, None), Verdict::Overheard);
    }

    #[test]
    fn lists_of_chats_name_the_chat_its_parent_and_its_former_id() {
        use Verdict::{Addressed, Ignored, Overheard};
        let of = |only: &[&str], ignored: &[&str], free: &[&str]| ChatRules {
            only_chats: ids(only),
            ignored_chats: ids(ignored),
            free_chats: ids(free),
            require_mention: true,
            ..ChatRules::default()
        };
        let mut thread = message(ChatType::Thread, plain());
        thread.source.parent_chat_id = Some("50".into());
        let before = Source::new("discord", ChatType::Thread, "-7");
        for (rules, expected) in [
            (of(&["100"], &[], &[]), Overheard),
            (of(&["50"], &[], &[]), Overheard),
            (of(&["-7"], &[], &[]), Overheard),
            (of(&["*"], &[], &[]), Overheard),
            (of(&["8"], &[], &[]), Ignored),
            (of(&["8"], &[], &["100"]), Ignored),
            (of(&["100"], &["50"], &["100"]), Ignored),
            (of(&[], &[], &["50"]), Addressed),
            (of(&[], &[], &["-7"]), Addressed),
            (of(&[], &[], &["8"]), Overheard),
        ] {
            assert_eq!(judge(&rules, &thread, Some(&before)), expected, "{rules:?}");
        }
        // A private chat is not a chat of these lists.
        let private = message(ChatType::Dm, plain());
        assert_eq!(judge(&of(&["8"], &["100"], &[]), &private, None), Addressed);
        let post = message(ChatType::Channel, plain());
        assert_eq!(judge(&of(&["8"], &[], &[]), &post, None), Addressed);
        assert_eq!(judge(&of(&[], &["100"], &[]), &post, None), Ignored);
    }

    #[test]
    fn a_list_of_chats_may_use_their_names() {
        let named = MessageFacts {
            chat_names: vec!["work".into(), "#work".into()],
            ..plain()
        };
        for (list, expected) in [
            ("#work", Verdict::Ignored),
            ("work", Verdict::Ignored),
            ("play", Verdict::Addressed),
        ] {
            let rules = ChatRules {
                ignored_chats: ids(&[list]),
                ..ChatRules::default()
            };
            let message = message(ChatType::Group, named.clone());
            assert_eq!(judge(&rules, &message, None), expected, "{list}");
        }
    }

    #[test]
    fn only_a_mention_in_a_plain_group_opens_a_thread() {
        let rules = |free: &[&str], without: &[&str]| ChatRules {
            auto_thread: true,
            free_chats: ids(free),
            no_thread_chats: ids(without),
            ..ChatRules::default()
        };
        let opens = |rules: &ChatRules, chat_type, facts| {
            opens_thread(rules, &message(chat_type, facts), None)
        };
        let all = rules(&[], &[]);
        assert!(opens(&all, ChatType::Group, mentioned()));
        assert!(!opens(&ChatRules::default(), ChatType::Group, mentioned()));
        assert!(!opens(&rules(&["100"], &[]), ChatType::Group, mentioned()));
        assert!(!opens(&rules(&[], &["100"]), ChatType::Group, mentioned()));
        let reply = MessageFacts {
            quoted: Some("one".into()),
            ..mentioned()
        };
        for (chat_type, facts) in [
            (ChatType::Dm, mentioned()),
            (ChatType::Thread, mentioned()),
            (ChatType::Group, plain()),
            (ChatType::Group, reply),
            (ChatType::Group, forwarded(mentioned())),
            (ChatType::Group, command(CommandFor::Us)),
        ] {
            assert!(!opens(&all, chat_type, facts.clone()), "{facts:?}");
        }
    }

    #[test]
    fn bots_are_heard_as_far_as_a_rule_says() {
        use BotMessages::{All, Mentions, Never};
        let bot = |facts| MessageFacts {
            from_bot: true,
            ..facts
        };
        for (bots, facts, heard) in [
            (Never, mentioned(), false),
            (Mentions, plain(), false),
            (Mentions, mentioned(), true),
            (Mentions, forwarded(mentioned()), false),
            (All, plain(), true),
        ] {
            let rules = ChatRules {
                bots,
                ..ChatRules::default()
            };
            for chat_type in [ChatType::Dm, ChatType::Group] {
                let message = message(chat_type, bot(facts.clone()));
                let verdict = judge(&rules, &message, None);
                assert_eq!(verdict == Verdict::Addressed, heard, "{bots:?} {message:?}");
            }
        }
    }

    #[test]
    fn a_message_for_others_is_ignored_where_a_rule_says_so() {
        let others = |facts| MessageFacts {
            mentions_others: true,
            ..facts
        };
        let rules = ChatRules {
            ignore_mentions_of_others: true,
            ..ChatRules::default()
        };
        let verdict = |rules: &ChatRules, facts| {
            judge(rules, &message(ChatType::Thread, others(facts)), None)
        };
        assert_eq!(verdict(&rules, plain()), Verdict::Ignored);
        assert_eq!(verdict(&rules, mentioned()), Verdict::Addressed);
        assert_eq!(verdict(&ChatRules::default(), plain()), Verdict::Addressed);
        let free = ChatRules {
            free_chats: ids(&["100"]),
            ..rules
        };
        assert_eq!(verdict(&free, plain()), Verdict::Addressed);
    }

    #[test]
    fn the_agent_reads_who_wrote_and_what_is_replied_to() {
        let text = |text: &str, facts: MessageFacts| {
            compose(&InboundMessage {
                text: text.into(),
                ..message(ChatType::Group, facts)
            })
        };
        let quoting = |quoted: &str, facts| MessageFacts {
            quoted: Some(quoted.into()),
            ..facts
        };
        assert_eq!(text("@bot: why?", mentioned()), "why?");
        assert_eq!(text("@bot: why?", plain()), "@bot: why?");
        assert_eq!(text("@bot", mentioned()), "@bot");
        assert_eq!(
            text("@bot why?", quoting("one\ntwo", mentioned())),
            "[In reply to: one two]\nwhy?"
        );
        assert_eq!(
            text("@bot", quoting("one", mentioned())),
            "[In reply to: one]"
        );
        assert_eq!(text("and?", quoting(" \n", plain())), "and?");
        assert_eq!(text("@bot /new", quoting("one", mentioned())), "/new");
        assert_eq!(
            text("@bot /new", forwarded(quoting("one", mentioned()))),
            "[Forwarded from Mallory]\n@bot /new"
        );
        let long = "x".repeat(600);
        let cut = format!("[In reply to: {}…]\nand?", "x".repeat(500));
        assert_eq!(text("and?", quoting(&long, plain())), cut);
        let named = MessageFacts {
            forwarded_from: Some(format!("A\n\u{7}B {}", "y".repeat(99))),
            ..plain()
        };
        let first = format!("[Forwarded from A B {}]", "y".repeat(60));
        assert_eq!(text("hi", named).lines().next(), Some(first.as_str()));
    }
}
