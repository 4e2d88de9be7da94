//! The list of slash commands, with the places that offer each of them. The room that offers a command implements it.

/// Where a command is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Terminal,
    Chat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Handoff,
    Resume,
    Sessions,
    Title,
    New,
    Stop,
    Retry,
    Status,
    Sethome,
    Help,
    Quit,
}

struct Offer {
    command: Command,
    word: &'static str,
    takes: &'static str,
    terminal: Option<&'static str>,
    chat: Option<&'static str>,
}

const OFFERS: [Offer; 11] = [
    Offer {
        command: Command::Handoff,
        word: "handoff",
        takes: "PLATFORM [NOTE]",
        terminal: Some("move this conversation to a chat, and leave"),
        chat: None,
    },
    Offer {
        command: Command::Resume,
        word: "resume",
        takes: "[NAME]",
        terminal: Some("continue another session, and bring it back if it is on a chat"),
        chat: Some(
            "bring a session here: the one that left this chat, or the one of this id or title",
        ),
    },
    Offer {
        command: Command::Sessions,
        word: "sessions",
        takes: "",
        terminal: Some("list the newest sessions"),
        chat: Some("list the newest sessions"),
    },
    Offer {
        command: Command::Title,
        word: "title",
        takes: "[TEXT]",
        terminal: Some("give this session a title, or show it"),
        chat: Some("give this session a title, or show it"),
    },
    Offer {
        command: Command::New,
        word: "new",
        takes: "",
        terminal: Some("end this session and begin another"),
        chat: Some("end this session and begin another"),
    },
    Offer {
        command: Command::Stop,
        word: "stop",
        takes: "",
        terminal: Some("interrupt the answer that is coming"),
        chat: Some("interrupt the answer that is coming"),
    },
    Offer {
        command: Command::Retry,
        word: "retry",
        takes: "",
        terminal: None,
        chat: Some("discard the last answer and ask again"),
    },
    Offer {
        command: Command::Status,
        word: "status",
        takes: "",
        terminal: None,
        chat: Some("show this conversation and its agent"),
    },
    Offer {
        command: Command::Sethome,
        word: "sethome",
        takes: "",
        terminal: None,
        chat: Some("make this chat the destination of handoffs"),
    },
    Offer {
        command: Command::Help,
        word: "help",
        takes: "",
        terminal: Some("this list"),
        chat: Some("this list"),
    },
    Offer {
        command: Command::Quit,
        word: "quit",
        takes: "",
        terminal: Some("leave; Ctrl-D does the same"),
        chat: None,
    },
];

impl Offer {
    fn at(&self, place: Place) -> Option<&'static str> {
        match place {
            Place::Terminal => self.terminal,
            Place::Chat => self.chat,
        }
    }
}

/// The result of [`read`].
#[derive(Debug, PartialEq)]
pub enum ParsedInput<'a> {
    /// A message for the agent.
    Words,
    Command(Command, &'a str),
    /// A command that is unknown or not offered here, with the reason.
    NotHere(String),
}

/// A command is a slash and one word of letters, digits and underscores. A path is not a command.
pub fn read(text: &str, place: Place) -> ParsedInput<'_> {
    let Some(typed) = text.trim().strip_prefix('/') else {
        return ParsedInput::Words;
    };
    let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    // In groups, a command may name its bot: /new@bot.
    let word = word.split_once('@').map_or(word, |(word, _)| word);
    if word.is_empty() || !word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return ParsedInput::Words;
    }
    let word = word.to_ascii_lowercase();
    match OFFERS.iter().find(|offer| offer.word == word) {
        Some(offer) if offer.at(place).is_some() => {
            ParsedInput::Command(offer.command, rest.trim())
        }
        Some(_) => ParsedInput::NotHere(match place {
            Place::Chat => format!(
                "/{word} is for the terminal (`hermesctl chat`). /help lists what there is here."
            ),
            Place::Terminal => format!("/{word} is for chats. /help lists what there is here."),
        }),
        None => ParsedInput::NotHere(format!(
            "There is no command /{word}. /help lists what there is."
        )),
    }
}

/// The commands of a place, with their descriptions.
pub fn help(place: Place) -> String {
    let offered = OFFERS.iter().filter_map(|offer| {
        let usage = format!("/{} {}", offer.word, offer.takes);
        Some((usage.trim_end().to_owned(), offer.at(place)?))
    });
    let lines = offered.map(|(usage, what)| match place {
        Place::Terminal => format!("{usage:<24} {what}"),
        // Chats have no columns.
        Place::Chat => format!("{usage} — {what}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A command in a platform's menu.
#[derive(Debug, Clone, Copy)]
pub struct MenuEntry {
    pub word: &'static str,
    /// The name of its argument, in brackets if it is optional. Empty: it takes none.
    pub takes: &'static str,
    /// What it does.
    pub what: &'static str,
}

/// The commands of a place, for a platform's menu.
pub fn menu(place: Place) -> impl Iterator<Item = MenuEntry> {
    OFFERS.iter().filter_map(move |offer| {
        Some(MenuEntry {
            word: offer.word,
            takes: offer.takes,
            what: offer.at(place)?,
        })
    })
}

/// The commands of a place for completion: with their slash, and a trailing space if they take an argument.
pub fn words(place: Place) -> Vec<String> {
    let offered = OFFERS.iter().filter(|offer| offer.at(place).is_some());
    let word = |offer: &Offer| match offer.takes {
        "" => format!("/{}", offer.word),
        _ => format!("/{} ", offer.word),
    };
    offered.map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_words() {
        let chat = |text| read(text, Place::Chat);
        assert_eq!(chat("hello /new"), ParsedInput::Words);
        assert_eq!(chat("/etc/passwd is odd"), ParsedInput::Words);
        assert_eq!(chat("/ alone"), ParsedInput::Words);
        assert_eq!(chat("//"), ParsedInput::Words);
        assert_eq!(chat(" /New "), ParsedInput::Command(Command::New, ""));
        assert_eq!(
            chat("/title@bot  Fix it "),
            ParsedInput::Command(Command::Title, "Fix it")
        );
        assert!(
            matches!(chat("/dance"), ParsedInput::NotHere(why) if why.contains("no command /dance"))
        );
    }

    #[test]
    fn a_handoff_is_for_the_terminal_and_both_can_resume() {
        let handoff = |place| read("/handoff local", place);
        assert_eq!(
            handoff(Place::Terminal),
            ParsedInput::Command(Command::Handoff, "local")
        );
        assert!(
            matches!(handoff(Place::Chat), ParsedInput::NotHere(why) if why.contains("terminal"))
        );
        for place in [Place::Terminal, Place::Chat] {
            assert!(help(place).contains("/resume [NAME]"), "{}", help(place));
        }
        assert!(!help(Place::Chat).contains("/handoff"));
        assert!(words(Place::Terminal).contains(&"/handoff ".to_owned()));
    }
}
