//! `hermesctl chat` as a person meets it: the real program in a pseudo-terminal, with a real daemon behind it.

use std::os::unix::fs::PermissionsExt;

use rusqlite::Row;

use crate::support::pty::Terminal;
use crate::support::{Home, until};

/// The embedded agent says its first word and then nothing more.
pub const STANDS_STILL: (&str, &str) = ("HERMESD_AGENT_ECHO_PACE", "1h");
pub const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";

pub fn chat(home: &Home) -> Terminal {
    Terminal::open(home, &["chat"], 100, 40)
}

/// All that was ever said: role, words, and why a reply ended.
pub fn said(home: &Home) -> Vec<String> {
    let kept = "SELECT role, content, finish_reason FROM messages ORDER BY id";
    rows(home, kept, |row| {
        let (role, words): (String, String) = (row.get(0)?, row.get(1)?);
        let ended: Option<String> = row.get(2)?;
        let ended = ended.map(|ended| format!(" ({ended})")).unwrap_or_default();
        Ok(format!("{role}: {}{ended}", words.trim_end()))
    })
}

/// Where each session is and how it ended, the oldest first.
pub fn sessions(home: &Home) -> Vec<(String, Option<String>)> {
    let kept = "SELECT source, end_reason FROM sessions
                WHERE (ended_at IS NULL) = (end_reason IS NULL) ORDER BY started_at";
    rows(home, kept, |row| Ok((row.get(0)?, row.get(1)?)))
}

pub fn rows<T>(home: &Home, sql: &str, read: impl Fn(&Row) -> rusqlite::Result<T>) -> Vec<T> {
    let connection = home.sqlite();
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| read(row)).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

pub fn ended(source: &str, reason: &str) -> (String, Option<String>) {
    (source.to_owned(), Some(reason.to_owned()))
}

fn live(source: &str) -> (String, Option<String>) {
    (source.to_owned(), None)
}

/// What a hint tells people to type.
fn hinted(terminal: &Terminal, before: &str) -> String {
    let screen = terminal.screen();
    let (_, rest) = screen.split_once(before).expect("a hint");
    let id = rest.split_whitespace().next().expect("an id");
    id.to_owned()
}

#[test]
fn a_conversation_is_answered_kept_and_ended_and_can_be_taken_up_again() {
    let home = Home::new();
    let _daemon = home.start();
    let mut terminal = chat(&home);
    terminal.say("What is a parser?");
    terminal.shows("You said: What is a parser?");
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
    assert!(terminal.is_as_found());
    let id: String = rows(&home, "SELECT id FROM sessions", |row| row.get(0)).remove(0);
    assert_eq!(hinted(&terminal, "hermesctl chat --resume "), id);
    let kept = said(&home);
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(kept[0], "user: What is a parser?");
    assert!(kept[1].starts_with("assistant: You said: What is a parser?"));
    assert!(kept[1].ends_with(" (stop)"), "{kept:?}");
    assert_eq!(sessions(&home), [ended("cli", "cli_close")]);

    let mut again = Terminal::open(&home, &["chat", "--resume", &id], 100, 40);
    again.shows("What is a parser?");
    again.say("And a lexer?");
    again.shows("I remember 2 messages");
    again.prompts();
    assert_eq!(sessions(&home), [live("cli")]);
    again.press(CTRL_D);
    assert_eq!(again.end(), 0);
    assert_eq!(said(&home).len(), 4);
    assert_eq!(sessions(&home), [ended("cli", "cli_close")]);
}

#[test]
fn words_are_kept_before_they_are_answered() {
    let home = Home::new();
    let _daemon = home.start_with(&[STANDS_STILL]);
    let terminal = chat(&home);
    terminal.say("Hello there");
    terminal.shows("\nYou");
    assert_eq!(said(&home), ["user: Hello there"]);
    assert_eq!(sessions(&home), [live("cli")]);
}

#[test]
fn markdown_is_readable_and_no_word_is_broken() {
    let home = Home::new();
    // Word by word, so that a mark may come without its other half.
    let _daemon = home.start_with(&[("HERMESD_AGENT_ECHO_PACE", "1ms")]);
    let terminal = Terminal::open(&home, &["chat"], 40, 24);
    terminal.say("Explain **bold** and `code` in a line that is longer than the terminal is wide");
    terminal.shows("You said:");
    terminal.prompts();
    let rows: Vec<String> = terminal.look(|screen| screen.rows(0, 40).collect());
    let first = rows.iter().position(|row| row.starts_with("You said:"));
    let first = first.expect("the reply");
    let last = rows.iter().rposition(|row| row.trim_end() == ">");
    let reply = &rows[first..last.expect("the prompt")];
    assert_eq!(
        reply.join(" "),
        "You said: Explain bold and code in a line that is longer than the terminal is wide \
         (I remember 0 messages, 0 of yours, 0 of mine, 0 tool results.)"
    );
    let row = u16::try_from(first).expect("a row");
    assert!(terminal.is_bold(row, "bold"));
    assert!(!terminal.is_bold(row, "Explain"));
}

#[test]
fn pasted_lines_are_one_message() {
    let home = Home::new();
    let _daemon = home.start();
    let terminal = chat(&home);
    terminal.prompts();
    // Without being asked for it a terminal does not tell pasted lines from typed ones.
    assert!(terminal.look(vt100::Screen::bracketed_paste));
    terminal.press("\x1b[200~first\nsecond\x1b[201~");
    terminal.shows("second");
    assert!(!terminal.screen().contains("You said"));
    terminal.press("\r");
    terminal.shows("You said: first");
    assert_eq!(said(&home)[0], "user: first\nsecond");
}

#[test]
fn the_arrow_key_brings_back_what_an_earlier_run_said_and_nobody_else_can_read_it() {
    let home = Home::new();
    let _daemon = home.start();
    let mut first = chat(&home);
    first.say("Something long ago");
    first.shows("You said");
    first.say("/quit");
    assert_eq!(first.end(), 0);
    let second = chat(&home);
    second.prompts();
    second.press(UP);
    second.shows("> /quit");
    second.press(UP);
    second.shows("> Something long ago");
    second.press("\r");
    second.shows("You said: Something long ago");

    let directory = home.path().join(".local/state/hermesd");
    for (path, mode) in [(directory.join("chat_history"), 0o600), (directory, 0o700)] {
        let permissions = path.metadata().expect("a history").permissions();
        assert_eq!(permissions.mode() & 0o777, mode, "{}", path.display());
    }
}

#[test]
fn tab_completes_commands_and_the_platforms_that_are_up() {
    let home = Home::new();
    let _daemon = home.start_with(&[
        ("TELEGRAM_BOT_TOKEN", "1:xyz"),
        ("TELEGRAM_HOME_CHANNEL", "77"),
    ]);
    until("local is up", || {
        let platforms = home.hermesctl(&["--json", "platforms"]).json();
        let mut platforms = platforms.as_array().expect("platforms").iter();
        platforms
            .any(|p| p["name"] == "local" && p["state"] == "up")
            .then_some(())
    });
    let terminal = chat(&home);
    terminal.prompts();
    terminal.press("/ha\tl\t");
    terminal.shows("> /handoff local");
    // What follows shows that nothing was completed.
    terminal.press("\x15/handoff t\tx");
    terminal.shows("> /handoff tx");
}

#[test]
fn a_handoff_leaves_the_terminal_and_not_the_session() {
    let home = Home::new();
    let _daemon = home.start();
    let mut terminal = chat(&home);
    terminal.say("Take this along");
    terminal.shows("You said");
    terminal.say("/handoff local");
    assert_eq!(terminal.end(), 0);
    assert!(terminal.is_as_found());
    let screen = terminal.screen();
    for stage in ["claimed", "bound", "answered", "delivered", "settled"] {
        assert!(screen.contains(&format!("✓ {stage}")), "no {stage}");
    }
    let id: String = rows(&home, "SELECT id FROM sessions", |row| row.get(0)).remove(0);
    assert_eq!(hinted(&terminal, "hermesctl resume "), id);
    assert_eq!(sessions(&home), [live("local")]);
    assert!(rows(&home, "SELECT 1 FROM hermesd_terminals", |_| Ok(())).is_empty());
}

#[test]
fn the_stages_of_a_handoff_are_shown_as_they_are_reached() {
    let home = Home::new();
    let daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    let mut terminal = chat(&home);
    terminal.say("/handoff local");
    terminal.shows("✓ bound");
    assert!(!terminal.screen().contains("answered"));
    terminal.press(CTRL_C);
    terminal.shows("hermesctl handoffs cancel 1");
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
    drop(daemon);
}

#[test]
fn a_handoff_that_is_refused_says_why_and_the_chat_goes_on() {
    let home = Home::new();
    let _daemon = home.start();
    let terminal = chat(&home);
    terminal.say("/handoff telegram");
    terminal.shows("Telegram is not set up yet.");
    terminal.say("/handoff");
    terminal.shows("Name a platform");
    terminal.say("Still there?");
    terminal.shows("You said: Still there?");
}

/// A session that was handed to the local chat and spoken in there.
fn away(home: &Home) {
    let mut terminal = chat(home);
    terminal.say("Said in the terminal");
    terminal.shows("You said");
    terminal.say("/handoff local");
    assert_eq!(terminal.end(), 0);
    let spoken = home.pipe_into_hermesctl("Said in the chat\n", &["attach", "local/1"]);
    assert_eq!(spoken.end().code, 0);
}

#[test]
fn a_session_is_brought_home_from_within_a_chat() {
    let home = Home::new();
    let _daemon = home.start();
    away(&home);
    let mut terminal = chat(&home);
    terminal.say("/resume");
    terminal.shows("Brought back from local.");
    terminal.shows("Said in the chat");
    terminal.say("Home again");
    terminal.shows("You said: Home again");
    assert_eq!(sessions(&home), [live("cli")]);
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
    assert_eq!(sessions(&home), [ended("cli", "cli_close")]);
}

#[test]
fn resume_brings_a_session_home_and_goes_on_with_it() {
    let home = Home::new();
    let _daemon = home.start();
    away(&home);
    let mut terminal = Terminal::open(&home, &["resume"], 100, 40);
    terminal.shows("Brought back from local.");
    terminal.shows("Said in the chat");
    terminal.say("Home again");
    terminal.shows("You said: Home again");
    terminal.prompts();
    terminal.press(CTRL_D);
    assert_eq!(terminal.end(), 0);
    assert_eq!(sessions(&home), [ended("cli", "cli_close")]);
}

#[test]
fn a_chat_whose_session_was_handed_off_elsewhere_takes_it_back() {
    for way in ["/resume", "/resume Fix the parser"] {
        let home = Home::new();
        let _daemon = home.start();
        let mut terminal = Terminal::open(&home, &["chat", "--title", "Fix the parser"], 100, 40);
        terminal.say("Hello there");
        terminal.shows("You said");
        terminal.prompts();
        let ran = home.hermesctl(&["handoff", "local", "--session", "Fix the parser"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        terminal.shows("This session is on local now.");
        terminal.type_line("Too late");
        terminal.shows("this conversation is on local now");
        terminal.say(way);
        terminal.shows("Brought back from local.");
        terminal.say("Home again");
        terminal.shows("You said: Home again");
        assert!(!terminal.screen().contains("is open in"));
        assert_eq!(sessions(&home), [live("cli")]);
        terminal.say("/quit");
        assert_eq!(terminal.end(), 0);
        assert_eq!(sessions(&home), [ended("cli", "cli_close")]);
    }
}

#[test]
fn the_other_commands_do_as_they_say() {
    let home = Home::new();
    let _daemon = home.start();
    let mut terminal = chat(&home);
    for (typed, shown) in [
        ("/help", "/handoff PLATFORM [NOTE] move this conversation"),
        ("/dance", "There is no command /dance."),
        ("/stop", "There is nothing to stop."),
        ("/title", "This session has no title"),
        ("/title Fix the parser", "This is \"Fix the parser\" now."),
        ("/title", "This is \"Fix the parser\"."),
        ("Why does it fail?", "You said: Why does it fail?"),
        ("/sessions", "Fix the parser  cli     2"),
        ("/new", "/help lists the commands, Ctrl-D leaves."),
        ("Something else", "I remember 0 messages"),
        ("/resume Fix the parser", "Why does it fail?"),
        ("Where were we?", "I remember 2 messages"),
    ] {
        terminal.prompts();
        let before = terminal.screen().matches(shown).count();
        terminal.say(typed);
        terminal.shows_times(shown, before + 1);
    }
    terminal.prompts();
    assert_eq!(
        sessions(&home),
        [live("cli"), ended("cli", "resumed_other")]
    );
    terminal.say("/new");
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
    assert_eq!(
        sessions(&home),
        [ended("cli", "new_session"), ended("cli", "resumed_other")]
    );
}

#[test]
fn lines_typed_while_an_answer_comes_are_sent_after_it_in_their_order() {
    let home = Home::new();
    let _daemon = home.start_with(&[("HERMESD_AGENT_ECHO_PACE", "30ms")]);
    let terminal = chat(&home);
    terminal.say("one");
    terminal.shows("\nYou");
    terminal.type_line("two");
    terminal.type_line("three");
    terminal.shows("You said: three");
    terminal.prompts();
    for unseen in ["\n> two\n", "\n> three\n"] {
        assert!(terminal.screen().contains(unseen));
    }
    let spoken = said(&home);
    let users: Vec<&str> = spoken
        .iter()
        .map(|said| &said[..said.len().min(26)])
        .collect();
    assert_eq!(
        users,
        [
            "user: one",
            "assistant: You said: one\n(",
            "user: two",
            "assistant: You said: two\n(",
            "user: three",
            "assistant: You said: three",
        ]
    );
}

#[test]
fn a_line_typed_right_behind_an_answer_does_not_bring_the_prompt_too_early() {
    let home = Home::new();
    let _daemon = home.start();
    let terminal = chat(&home);
    terminal.say("one");
    // For a moment the prompt is not there yet: that is where the next line falls.
    terminal.shows("tool results.)");
    terminal.type_line("two");
    terminal.shows("You said: two");
    terminal.prompts();
    assert!(terminal.screen().contains("\nYou said: two"));
    assert_eq!(said(&home)[2], "user: two");
}
