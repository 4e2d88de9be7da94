//! Chats that end: a thread is locked or deleted, a channel is deleted, a server removes the bot.

use crate::domain::Source;

/// The place of a session whose chat has ended.
pub const NOWHERE: &str = "nowhere";

/// The most sessions that a note names.
const NAMED: usize = 10;

/// What ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndedPlace {
    /// A chat with this id, and the threads in it.
    Chat(String),
    /// Everything in the workspace, guild or server with this id.
    Workspace(String),
}

impl EndedPlace {
    /// Whether the chat is a part of what ended.
    pub fn contains(&self, source: &Source) -> bool {
        match self {
            EndedPlace::Chat(id) => {
                [&source.chat_id, &source.parent_chat_id].contains(&&Some(id.clone()))
            }
            EndedPlace::Workspace(id) => source.scope_id.as_ref() == Some(id),
        }
    }
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// People can read it, but no longer write there.
    Locked,
    Deleted,
    /// The bot was removed from the server.
    Removed,
}

impl EndReason {
    pub fn as_str(self) -> &'static str {
        match self {
            EndReason::Locked => "locked",
            EndReason::Deleted => "deleted",
            EndReason::Removed => "removed",
        }
    }
}

/// The note about sessions whose chats have ended. `word` is the platform's word for a thread.
pub fn ended_note(reason: EndReason, word: &str, names: &[String]) -> String {
    let quoted = names.iter().take(NAMED).map(|name| format!("\"{name}\""));
    let mut listed: Vec<String> = quoted.collect();
    if names.len() > NAMED {
        listed.push(format!("{} more", names.len() - NAMED));
    }
    let last = listed.pop().unwrap_or_default();
    let listed = match listed.is_empty() {
        true => last,
        false => format!("{} and {last}", listed.join(", ")),
    };
    let (word, were) = match names {
        [_] => (word.to_owned(), "was"),
        _ => (format!("{word}s"), "were"),
    };
    let what = match reason {
        EndReason::Locked => format!("The {word} of {listed} {were} locked."),
        EndReason::Deleted => format!("The {word} of {listed} {were} deleted."),
        EndReason::Removed => format!("The bot was removed from the server of {listed}."),
    };
    let resume = match names {
        [name] => format!("`/resume {name}`"),
        _ => "`/resume` with a title".to_owned(),
    };
    format!(
        "{what} Send {resume} here or in any chat to continue, or run `hermesctl resume` in the terminal."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ChatType;

    #[test]
    fn a_note_names_the_sessions_and_the_way_back() {
        let names = |count: usize| (1..=count).map(|n| format!("S{n}")).collect::<Vec<_>>();
        assert_eq!(
            ended_note(EndReason::Deleted, "thread", &names(1)),
            "The thread of \"S1\" was deleted. Send `/resume S1` here or in any chat to continue, \
             or run `hermesctl resume` in the terminal."
        );
        let two = ended_note(EndReason::Locked, "thread", &names(2));
        assert!(
            two.starts_with("The threads of \"S1\" and \"S2\" were locked."),
            "{two}"
        );
        let many = ended_note(EndReason::Removed, "thread", &names(12));
        assert!(many.contains("\"S10\" and 2 more."), "{many}");
    }

    #[test]
    fn a_place_contains_its_threads_and_its_chats() {
        let thread = Source {
            parent_chat_id: Some("100".into()),
            scope_id: Some("9".into()),
            ..Source::new("discord", ChatType::Thread, "301")
        };
        let chat = |id: &str| EndedPlace::Chat(id.into()).contains(&thread);
        assert_eq!((chat("301"), chat("100"), chat("9")), (true, true, false));
        let workspace = |id: &str| EndedPlace::Workspace(id.into()).contains(&thread);
        assert_eq!((workspace("9"), workspace("100")), (true, false));
    }
}
