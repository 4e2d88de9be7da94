//! hermesctl (and `hermesd demo`) at the edges: odd pipes, long transcripts, wrong words, no terminal.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use hermesd::domain::transcript::Role;
use hermesd::store::NewMessage;
use nix::sys::signal::Signal;

use crate::support::pty::Terminal;
use crate::support::{Home, SESSION, TITLE, seed_session};

#[tokio::test]
async fn output_that_nobody_reads_any_more_is_no_failure() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    for arguments in [
        &["sessions"][..],
        &["--json", "status"],
        &["handoff", "local"],
        &["events"],
        &["sessions", "transcript", SESSION],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
        let output = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        assert_eq!(output.stderr, b"", "{arguments:?}");
    }
}

#[tokio::test]
async fn a_transcript_longer_than_a_frame_comes_whole() {
    let home = Home::new();
    seed_session(&home).await;
    let long = "0123456789abcdef".repeat(64);
    let history = (0..3000).map(|n| NewMessage::text(Role::User, &format!("{n} {long}")));
    home.store()
        .append(SESSION, history.collect())
        .await
        .unwrap();
    let _daemon = home.start();
    let said = home
        .hermesctl(&["--json", "sessions", "transcript", SESSION])
        .json();
    let messages = said["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3004);
    assert_eq!(said["earlier"], false);
    for (n, message) in messages[4..].iter().enumerate() {
        assert_eq!(message["content"], format!("{n} {long}"));
    }
    let last = home.hermesctl(&[
        "--json",
        "sessions",
        "transcript",
        SESSION,
        "--last",
        "1500",
    ]);
    assert_eq!(last.json()["messages"].as_array().unwrap().len(), 1500);
    assert_eq!(last.json()["messages"][0]["id"], messages[1504]["id"]);
}

#[test]
fn a_wrong_command_line_is_explained_and_ends_with_two() {
    let home = Home::new();
    for arguments in [
        &[][..],
        &["dance"],
        &["handoff", "local", "--timeout", "soon"],
        &["handoffs", "show", "x"],
        &["--nonsense", "status"],
    ] {
        let ran = home.hermesctl(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.stderr.contains("--help") || ran.stderr.contains("Usage"),
            "{ran:?}"
        );
    }
    let help = home.hermesctl(&["--help"]);
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("Exit codes"), "{help:?}");
}

#[test]
fn the_demo_runs_to_its_end_without_a_terminal_and_leaves_nothing_behind() {
    let home = Home::new();
    let temporary = home.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
    let ran = home.run(command.arg("demo").env("TMPDIR", &temporary));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!ran.stdout.contains('\x1b'), "{ran:?}");
    for word in ["settled", TITLE, "I am here with"] {
        assert!(ran.stdout.contains(word), "{word}: {ran:?}");
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
    assert!(
        !home.path().join("state.db").exists(),
        "the demo has a home of its own"
    );
    let pid = ran.stdout.split("process ").nth(1).unwrap();
    let pid = pid.split(',').next().unwrap();
    assert!(!std::path::Path::new("/proc").join(pid).exists(), "{pid}");
}

#[test]
fn the_demo_leaves_nothing_behind_however_it_ends() {
    for end in ["Ctrl-C", "SIGTERM", "a closed window"] {
        let home = Home::new();
        let temporary = home.path().join("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
        command.arg("demo").env("TMPDIR", &temporary);
        let mut terminal = Terminal::of(command, 100, 40);
        terminal.shows("Ctrl-D ends the demo");
        terminal.shows("I am here with");
        let screen = terminal.screen();
        let pid = screen.split("process ").nth(1).unwrap();
        let pid = pid.split(',').next().unwrap();
        let code = match end {
            "Ctrl-C" => {
                terminal.press("\x03");
                130
            }
            "SIGTERM" => {
                terminal.signal(Signal::SIGTERM);
                143
            }
            _ => {
                terminal.hang_up();
                129
            }
        };
        // A closed window ends the input too, and either may come first.
        let ended = terminal.end();
        assert!(ended == code || code == 129 && ended == 0, "{end}: {ended}");
        assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{end}");
        assert!(!std::path::Path::new("/proc").join(pid).exists(), "{end}");
    }
}

#[test]
fn an_answer_that_makes_no_sense_ends_with_one() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket()).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = String::new();
        BufReader::new(stream.try_clone().unwrap())
            .read_line(&mut hello)
            .unwrap();
        let answer = r#"{"jsonrpc": "2.0", "id": 1, "result": "hello yourself"}"#;
        writeln!(stream, "{answer}").unwrap();
    });
    let socket = home.socket();
    let ran = home.hermesctl(&["--json", "--socket", socket.to_str().unwrap(), "status"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.json()["error"]["kind"], "error", "{ran:?}");
    server.join().unwrap();
}

#[test]
fn a_wrong_command_line_is_json_when_json_is_wanted() {
    let home = Home::new();
    for (arguments, message, hint) in [
        (
            &["--json", "handoff", "local", "--fource"][..],
            "unexpected argument '--fource' found",
            "a similar argument exists: '--force'",
        ),
        (
            &["sessions", "show", "--json"],
            "name a session",
            "see `hermesctl sessions`",
        ),
        (
            &["--json", "sessions", "list", "--limit", "many"],
            "invalid value 'many' for '--limit <N>': invalid digit found in string",
            "see `hermesctl --help`",
        ),
        (
            &["--json"],
            "a command is missing",
            "see `hermesctl --help`",
        ),
    ] {
        let ran = home.hermesctl(arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert_eq!(ran.stderr, "", "{ran:?}");
        let expected =
            serde_json::json!({"error": {"kind": "usage", "message": message, "hint": hint}});
        assert_eq!(ran.json(), expected);
    }
    let text = home.hermesctl(&["handoff", "local", "--fource"]);
    assert_eq!((text.code, text.stdout.as_str()), (2, ""), "{text:?}");
    assert!(text.stderr.contains("Usage: hermesctl handoff"), "{text:?}");
    let grouped = home.hermesctl(&["handoff", "--help"]).stdout;
    let (own, global) = grouped.split_once("Global options:").expect("a group");
    assert!(
        own.contains("--after-turn") && !own.contains("--json"),
        "{grouped}"
    );
    assert!(
        global.contains("--json") && !grouped.contains("--no-wait"),
        "{grouped}"
    );
    let help = home.hermesctl(&["--json", "--help"]);
    assert_eq!(help.code, 0, "{help:?}");
    assert!(help.stdout.contains("Usage: hermesctl"), "{help:?}");
}
