//! The screen of `hermesctl chat`: notices above the prompt, questions with a prompt of their own, tools, and a daemon
//! that goes away and comes back.

use crate::cli::chat::{CTRL_C, STANDS_STILL, chat, rows, said, sessions};
use crate::support::pty::Terminal;
use crate::support::{Home, acp, until};

/// The rows of the screen down to the cursor, without the first ones that greet.
fn screen_rows(terminal: &Terminal) -> Vec<String> {
    let screen = terminal.screen();
    screen
        .lines()
        .map(|row| row.trim_end().to_owned())
        .collect()
}

#[test]
fn resume_without_a_name_takes_back_the_session_of_this_terminal() {
    let home = Home::new();
    let _daemon = home.start();
    let other = home.talk(&["--title", "Other"], "hello\n");
    let ran = home.hermesctl(&["handoff", "local", "--session", &other.session]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let terminal = Terminal::open(&home, &["chat", "--title", "Ours"], 100, 40);
    terminal.say("Said here");
    terminal.shows("You said: Said here");
    terminal.prompts();
    let ran = home.hermesctl(&["handoff", "local", "--session", "Ours"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    terminal.shows("This session is on local now.");
    terminal.say("/resume");
    terminal.shows("Brought back from local.");
    terminal.say("Home again");
    terminal.shows("You said: Home again");
    let at = "SELECT title || ' ' || source FROM sessions ORDER BY title";
    let at: Vec<String> = rows(&home, at, |row| row.get(0));
    assert_eq!(at, ["Other local", "Ours cli"]);
}

#[test]
fn a_notice_stands_above_the_prompt_and_what_is_typed_there() {
    let home = Home::new();
    let _daemon = home.start();
    let terminal = Terminal::open(&home, &["chat", "--title", "Ours"], 100, 40);
    terminal.say("Said here");
    terminal.shows("You said: Said here");
    terminal.prompts();
    terminal.press("half a");
    terminal.shows("> half a");
    let ran = home.hermesctl(&["handoff", "local", "--session", "Ours"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    terminal
        .shows("\nThis session is on local now. /resume brings it back, /quit leaves.\n> half a");
    // It is one line, and the cursor is behind it.
    terminal.press(" line\r");
    terminal.shows("\n> half a line\n");
    terminal.shows("this conversation is on local now");
    assert_eq!(terminal.screen().matches("half a").count(), 1);
}

#[test]
fn a_question_has_a_prompt_of_its_own_and_ctrl_c_there_cancels_the_turn() {
    let home = Home::new();
    let _daemon = acp::start(&home, "plain", &[]);
    let terminal = chat(&home);
    terminal.say("permission");
    terminal.shows("3. No");
    terminal.shows("\nallow? [1-3]");
    terminal.type_line("7");
    terminal.shows("this is no answer to the question");
    terminal.shows_times("allow? [1-3]", 2);
    terminal.type_line("1");
    terminal.shows("You chose the-allow_once");
    terminal.say("permission again");
    terminal.shows_times("\nallow? [1-3]", 3);
    terminal.press("12");
    terminal.shows("allow? [1-3] 12");
    terminal.press(CTRL_C);
    terminal.shows("(interrupted)");
    terminal.prompts();
    let shown = screen_rows(&terminal);
    let end = shown.len();
    assert_eq!(
        shown[end - 3..],
        ["allow? [1-3] 12^C", "(interrupted)", ">"],
        "{shown:?}"
    );
    terminal.say("And now?");
    terminal.shows("Blocks: 1. Prompts: 3.");
}

#[test]
fn a_tool_is_one_faint_row_with_its_time() {
    let home = Home::new();
    let _daemon = acp::start(&home, "plain", &[]);
    let terminal = chat(&home);
    terminal.say("think");
    terminal.shows("Prompts: 1.");
    terminal.prompts();
    let shown = screen_rows(&terminal);
    let tools: Vec<&String> = shown.iter().filter(|row| row.starts_with('·')).collect();
    assert_eq!(tools, ["· tool A tool (0.0 s)"], "{shown:?}");
    let row = shown.iter().position(|row| row.starts_with('·')).unwrap();
    let row = u16::try_from(row).unwrap();
    assert!(terminal.look(|screen| screen.cell(row, 2).unwrap().dim()));
}

#[test]
fn a_restarted_daemon_has_the_chat_again_and_what_is_typed_meanwhile() {
    let home = Home::new();
    let daemon = home.start();
    let mut terminal = chat(&home);
    terminal.say("one");
    terminal.shows("You said: one");
    terminal.prompts();
    terminal.press("tw");
    terminal.shows("> tw");
    daemon.kill();
    terminal.shows("The daemon went away.");
    terminal.shows("\n… tw");
    terminal.press("o");
    terminal.shows("\n… two");
    let daemon = home.start();
    terminal.shows("The daemon is back, and has the session.\n> two");
    terminal.press("\r");
    terminal.shows("You said: two");
    terminal.prompts();
    // And a line that was sent while there was nobody.
    assert!(daemon.stop().success());
    terminal.shows_times("The daemon went away.", 2);
    terminal.type_line("three");
    terminal.type_line("four");
    let _daemon = home.start();
    terminal.shows("You said: four");
    terminal.prompts();
    let said = said(&home);
    let users: Vec<&String> = said.iter().filter(|row| row.starts_with("user")).collect();
    assert_eq!(
        users,
        ["user: one", "user: two", "user: three", "user: four"]
    );
    assert_eq!(sessions(&home), [("cli".to_owned(), None)]);
    terminal.say("/quit");
    assert_eq!(terminal.end(), 0);
    assert!(terminal.is_as_found());
}

#[test]
fn a_daemon_that_dies_during_an_answer_is_waited_for_and_the_words_are_kept_once() {
    let home = Home::new();
    let daemon = home.start_with(&[STANDS_STILL]);
    let terminal = chat(&home);
    terminal.say("Hello there");
    terminal.shows("\nYou");
    daemon.kill();
    terminal.shows("The daemon went away.");
    let _daemon = home.start();
    terminal.shows("The answer was interrupted. The session has what was said.");
    terminal.say("And now?");
    terminal.shows("You said: And now?");
    let said = said(&home);
    let users: Vec<&String> = said.iter().filter(|row| row.starts_with("user")).collect();
    assert_eq!(users, ["user: Hello there", "user: And now?"]);
}

#[test]
fn ctrl_c_and_ctrl_d_leave_while_no_daemon_answers() {
    for key in [CTRL_C, "\x04"] {
        let home = Home::new();
        let daemon = home.start();
        let mut terminal = chat(&home);
        terminal.say("Hello there");
        terminal.shows("You said");
        terminal.prompts();
        daemon.kill();
        terminal.shows("The daemon went away.");
        terminal.press(key);
        assert_eq!(terminal.end(), 6);
        assert!(
            terminal
                .screen()
                .contains("the connection to the daemon was lost")
        );
        assert!(terminal.screen().contains("hermesctl chat --resume"));
        assert!(terminal.is_as_found());
    }
}

#[test]
fn a_pipe_waits_for_the_daemon_and_goes_on() {
    let home = Home::new();
    let daemon = home.start();
    let mut running = home.feed_hermesctl(&["chat"]);
    running.write("one\n");
    until("the first reply", || (said(&home).len() == 2).then_some(()));
    assert!(daemon.stop().success());
    running.write("two\n");
    let _daemon = home.start();
    let ran = running.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("You said: two"), "{ran:?}");
    assert!(ran.stderr.contains("The daemon went away."), "{ran:?}");
}

#[test]
fn the_header_names_session_agent_and_directory() {
    let home = Home::new();
    let _daemon = home.start();
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
    command.args(["chat", "--title", "Ours"]);
    command.current_dir(home.path());
    let terminal = Terminal::of(command, 120, 40);
    terminal.prompts();
    let here = home.path().canonicalize().expect("a directory");
    let header = format!("Ours  agent echo in {}", here.display());
    assert_eq!(screen_rows(&terminal)[0], header);
}

#[test]
fn the_notice_of_a_handoff_is_nobodys_words() {
    let home = Home::new();
    let _daemon = home.start();
    let talk = home.talk(&["--title", "Ours"], "Said here\n");
    let handoff = [
        "handoff",
        "local",
        "--session",
        &talk.session,
        "--note",
        "on the train",
    ];
    assert_eq!(home.hermesctl(&handoff).code, 0);
    let line = "— moved to local: on the train —";
    let transcript = home.hermesctl(&["sessions", "transcript", "Ours"]).stdout;
    let export = home.hermesctl(&["sessions", "export", "Ours"]).stdout;
    for (shown, you) in [(&transcript, "\nYou "), (&export, "\n## You, ")] {
        assert!(shown.contains(line), "{shown}");
        assert!(!shown.contains("[Handoff]"), "{shown}");
        let shown = format!("\n{shown}");
        assert_eq!(shown.matches(you).count(), 1, "{shown}");
        assert!(shown.contains("Agent"), "{shown}");
    }
    let rows = home
        .hermesctl(&["--json", "sessions", "transcript", "Ours"])
        .json();
    assert_eq!(rows["messages"][2]["display_kind"], "handoff", "{rows}");
    // The same names in a chat of the embedded platform, and in a resumed chat.
    let attached = home
        .pipe_into_hermesctl("Said there\n", &["attach", "local/1"])
        .end();
    assert!(attached.stdout.contains("You "), "{attached:?}");
    assert!(attached.stdout.contains("Agent "), "{attached:?}");
    let terminal = Terminal::open(&home, &["resume", "Ours"], 120, 40);
    terminal.shows(line);
    terminal.shows("\nYou\nSaid there\nAgent\n");
}
