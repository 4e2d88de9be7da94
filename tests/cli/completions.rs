//! Tab in real shells. Bash is everywhere; zsh and fish are tried where they are installed.

use std::path::Path;
use std::process::Command;

use crate::support::pty::Terminal;
use crate::support::{Home, SESSION, TITLE, add_session, seed_session, skipped, until};

/// The programs under test come first on the path.
fn shell(home: &Home, program: &str) -> Command {
    let mut command = home.command(program);
    let built = Path::new(env!("CARGO_BIN_EXE_hermesctl"))
        .parent()
        .expect("a directory");
    let path = format!(
        "{}:{}",
        built.display(),
        std::env::var("PATH").expect("a path")
    );
    command
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        .current_dir(home.path());
    command
}

fn is_installed(program: &str) -> bool {
    let installed = Command::new(program).arg("--version").output().is_ok();
    if !installed {
        skipped(&format!("{program} is not installed"));
    }
    installed
}

/// A titled session with blanks in its name, and one with all that a shell minds.
async fn sessions(home: &Home) {
    seed_session(home).await;
    add_session(
        home,
        "20260102_090000_bbbbbb",
        "Ask \"why\" & $HOME: it's *",
    );
}

const ODD: &str = "Ask \"why\" & $HOME: it's *";

/// Tab and Enter behind what is typed; the words that come of it are shown. A machine that is too busy for an answer in
/// time is asked again.
fn tab(terminal: &Terminal, typed: &str, whole: &str) {
    let shown = || terminal.screen().matches("\n<").count();
    for _ in 0..5 {
        let before = shown();
        terminal.press(format!("{typed}\t"));
        // The shell reads its keys in order.
        terminal.press("\r");
        until("the words", || (shown() > before).then_some(()));
        if terminal.screen().contains(whole) {
            return;
        }
    }
    panic!("{typed:?} does not become {whole:?}");
}

#[tokio::test]
async fn bash_completes_platforms_and_titles_with_blanks() {
    let home = Home::new();
    sessions(&home).await;
    let daemon = home.start();
    let mut command = shell(&home, "bash");
    command
        .args(["--noprofile", "--norc", "-i"])
        .env("PS1", "ready> ");
    let terminal = Terminal::of(command, 120, 60);
    terminal.shows("ready>");
    terminal.type_line("source <(hermesctl completions bash)");
    // What is asked for is the program, what is run is a function that shows its words.
    terminal.type_line("hermesctl() { case $1 in __complete) command hermesctl \"$@\";; *) printf '<%s>' \"$@\"; echo;; esac; }");
    for (typed, whole) in [
        ("hermesctl handoff tel", "<handoff><telegram>"),
        ("hermesctl status --js", "<status><--json>"),
        (
            "hermesctl handoff local --session F",
            "<--session><Fix the parser>",
        ),
        (
            "hermesctl handoff discord --session \"Fix t",
            "<discord><--session><Fix the parser>",
        ),
        (
            "hermesctl handoff slack --session 'Fix the p",
            "<slack><--session><Fix the parser>",
        ),
        (
            "hermesctl handoff matrix --session=Fix\\ t",
            "<matrix><--session=Fix the parser>",
        ),
        (
            "hermesctl handoff signal --session=\"Fix t",
            "<signal><--session=Fix the parser>",
        ),
        (
            "hermesctl sessions show 20260101",
            "<sessions><show><20260101_090000_aaaaaa>",
        ),
        (
            "hermesctl sessions transcript As",
            "<transcript><Ask \"why\" & $HOME: it's *>",
        ),
        (
            "hermesctl sessions export \"As",
            "<export><Ask \"why\" & $HOME: it's *>",
        ),
        (
            "hermesctl sessions rename 'As",
            "<rename><Ask \"why\" & $HOME: it's *>",
        ),
    ] {
        tab(&terminal, typed, whole);
    }
    // Several: what they share is put in, and then all are shown.
    terminal.press("hermesctl hando\t\t\t");
    terminal.shows("handoffs");
    terminal.press("\x03");
    drop(terminal);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn nothing_is_said_when_nothing_can_be_asked() {
    let home = Home::new();
    let ask = |words: &[&str]| home.hermesctl(&[&["__complete", "zsh", "--"], words].concat());
    let empty = ask(&["handoff", "local", "--session", ""]);
    assert_eq!(
        (empty.code, empty.stdout.as_str(), empty.stderr.as_str()),
        (0, "words\n", "")
    );
    home.write("hermesd.toml", "nonsense");
    home.write("config.yaml", "[broken: yes");
    home.write("state.db", "no database");
    let config = home.path().join("hermesd.toml");
    let broken = ask(&["--config", config.to_str().unwrap(), "resume", ""]);
    assert_eq!(
        (broken.code, broken.stdout.as_str(), broken.stderr.as_str()),
        (0, "words\n", "")
    );
    let verbs = ask(&["hando"]).stdout;
    assert!(verbs.contains("handoffs\t"), "{verbs}");
}

#[tokio::test]
async fn at_most_fifty_are_offered_with_a_daemon_and_without() {
    let home = Home::new();
    sessions(&home).await;
    for n in 0..60 {
        add_session(
            &home,
            &format!("20260103_090000_{n:06}"),
            &format!("Many {n}"),
        );
    }
    let lines = || {
        let ran = home.hermesctl(&["__complete", "fish", "--", "sessions", "show", ""]);
        assert_eq!(ran.stderr, "");
        ran.stdout.lines().count()
    };
    // A machine may be too busy for an answer in time, and then there is none.
    until("fifty of them", || (lines() == 51).then_some(()));
    let daemon = home.start();
    until("fifty of them", || (lines() == 51).then_some(()));
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn fish_completes_platforms_and_titles_with_blanks() {
    if !is_installed("fish") {
        return;
    }
    let home = Home::new();
    sessions(&home).await;
    let offered = |line: &str| {
        let script = format!(
            "hermesctl completions fish | source; complete -C {}",
            quoted(line)
        );
        let ran = home.run(shell(&home, "fish").args(["--no-config", "-c", &script]));
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    fn quoted(line: &str) -> String {
        format!("'{}'", line.replace('\\', "\\\\").replace('\'', "\\'"))
    }
    let platforms = offered("hermesctl handoff ");
    assert!(
        platforms.contains("telegram") && platforms.contains("local"),
        "{platforms}"
    );
    for line in [
        "hermesctl handoff local --session ",
        "hermesctl handoff local --session Fix\\ t",
        "hermesctl handoff local --session \"Fix t",
        "hermesctl handoff local --session=F",
    ] {
        until(line, || {
            let sessions = offered(line);
            let found = sessions.contains(TITLE) || sessions.contains("Fix\\ the\\ parser");
            found.then_some(())
        });
    }
    for (line, expected) in [("2026", SESSION), ("A", ODD)] {
        let line = format!("hermesctl sessions show {line}");
        until(&line, || offered(&line).contains(expected).then_some(()));
    }
}

#[tokio::test]
async fn zsh_completes_platforms_and_titles_with_blanks() {
    if !is_installed("zsh") {
        return;
    }
    let home = Home::new();
    sessions(&home).await;
    let mut command = shell(&home, "zsh");
    command.args(["-f", "-i"]).env("PS1", "ready> ");
    let terminal = Terminal::of(command, 120, 60);
    terminal.shows("ready>");
    terminal.type_line("autoload -U compinit; compinit -u -D; source <(hermesctl completions zsh)");
    terminal.type_line("hermesctl() { case $1 in __complete) command hermesctl \"$@\";; *) printf '<%s>' \"$@\"; echo;; esac; }");
    for (typed, whole) in [
        ("hermesctl handoff tel", "<handoff><telegram>"),
        (
            "hermesctl handoff local --session F",
            "<--session><Fix the parser>",
        ),
        (
            "hermesctl handoff discord --session \"Fix t",
            "<discord><--session><Fix the parser>",
        ),
        (
            "hermesctl handoff slack --session Fix\\ t",
            "<slack><--session><Fix the parser>",
        ),
        (
            "hermesctl handoff matrix --session=F",
            "<matrix><--session=Fix the parser>",
        ),
        (
            "hermesctl sessions show 20260101",
            "<sessions><show><20260101_090000_aaaaaa>",
        ),
        (
            "hermesctl sessions transcript As",
            "<transcript><Ask \"why\" & $HOME: it's *>",
        ),
    ] {
        tab(&terminal, typed, whole);
    }
}

#[test]
fn the_scripts_are_those_that_are_printed() {
    let home = Home::new();
    for (shell, file) in [
        (
            "bash",
            include_str!("../../contrib/completions/hermesctl.bash"),
        ),
        (
            "zsh",
            include_str!("../../contrib/completions/hermesctl.zsh"),
        ),
        (
            "fish",
            include_str!("../../contrib/completions/hermesctl.fish"),
        ),
    ] {
        let printed = home.hermesctl(&["completions", shell]);
        assert_eq!((printed.code, printed.stdout.as_str()), (0, file));
    }
}
