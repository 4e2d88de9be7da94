//! What leaves the programs: text that cannot steer a terminal, settings without secrets, agents without our tokens.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hermesd::domain::transcript::Role;
use hermesd::store::NewMessage;
use nix::unistd::geteuid;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, Person, TOKEN};
use crate::support::{Home, Ran, SESSION, program, seed_session, skipped, until};

/// Erases its line, and turns the text behind it around.
const HOSTILE: &str = "\u{1b}[2K\u{9b}1A\u{202e}owner\r\u{7}\u{8}";
const STRANGER: Person = Person {
    id: 66_000_001,
    name: "\u{1b}[2K\u{9b}1A\u{202e}owner\r\u{7}\u{8}",
    username: None,
};

fn is_harmless(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        let steers = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{202e}';
        assert!(!text.contains(steers), "{text:?}");
    }
}

#[tokio::test]
async fn nothing_that_strangers_and_agents_say_steers_the_terminal() {
    let (bot, _) = Bot::of_ada("");
    seed_session(&bot.home).await;
    let said = vec![
        NewMessage::text(Role::User, &format!("question {HOSTILE}")),
        NewMessage::reply(&format!("answer {HOSTILE}")),
    ];
    bot.home.store().append(SESSION, said).await.unwrap();
    let title = format!("title {HOSTILE}");
    let titled = "UPDATE sessions SET title = ?1 WHERE id = ?2";
    bot.home
        .sqlite()
        .execute(titled, [title.as_str(), SESSION])
        .unwrap();
    let _daemon = bot.start_with(&[("HERMESD_CHATS_STRANGERS", "pair")]);
    let chat = bot.api.private(&STRANGER);
    bot.api.says(chat, None, &STRANGER, "hello?");
    bot.api
        .until_message(chat, None, |m| m.text.contains("pair approve"));
    for (arguments, shown) in [
        (&["pair"][..], "owner"),
        (&["sessions", "list"], "title"),
        (&["sessions", "show", SESSION], "title"),
        (&["sessions", "transcript", SESSION], "answer"),
        (&["sessions", "search", "answer"], "answer"),
        (&["sessions", "export", SESSION], "answer"),
        (
            &["sessions", "export", "--format", "json", SESSION],
            "answer",
        ),
        (&["--json", "sessions", "transcript", SESSION], "answer"),
        (&["--json", "pair"], "owner"),
        (&["sessions", "show", HOSTILE], "owner"),
    ] {
        let ran = bot.home.hermesctl(arguments);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(all.contains(shown), "{arguments:?}: {ran:?}");
        is_harmless(&ran);
    }
    // What programs read is what was said.
    let people = bot.home.hermesctl(&["--json", "pair"]).json();
    assert_eq!(people[0]["name"], STRANGER.name);
    let lines = bot.home.hermesctl(&["pair"]).stdout;
    assert!(lines.contains("␛[2K<U+009B>1A<U+202E>owner"), "{lines}");
}

#[test]
fn the_configuration_is_shown_without_secrets_inside_of_values() {
    let home = Home::new();
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
    command
        .arg("--check-config")
        .env(
            "HERMESD_AGENTS_OPENAI_BASE_URL",
            "https://me:hunter2@llm.example/v1",
        )
        .env(
            "HERMESD_PLATFORMS_TELEGRAM_BASE_URL",
            "http://h:81/x?token=hunter2",
        )
        .env(
            "HERMESD_AGENTS_COMMAND_COMMAND",
            "env API_KEY=hunter2 run --token hunter2",
        )
        .env("HERMESD_HOOKS_ON_TURN_END", "/bin/hook --password=hunter2");
    for json in [false, true] {
        if json {
            command.arg("--json");
        }
        let ran = home.run(&mut command);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
        for shown in [
            "********@llm.example/v1",
            "API_KEY=********",
            "--token ********",
        ] {
            assert!(ran.stdout.contains(shown), "{shown}: {}", ran.stdout);
        }
    }
    let open = "run \\\"TOKEN=hunter2".replace('\\', "");
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
    command
        .arg("--check-config")
        .env("HERMESD_AGENTS_COMMAND_COMMAND", open);
    let ran = home.run(&mut command);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
}

/// A bot whose agent is this script, with more in the daemon's environment.
fn agent(script: &str, more: &[(&str, &str)]) -> (Bot, i64, crate::support::Daemon) {
    let (bot, chat) = Bot::of_ada("");
    let (command, _) = program(&bot.home, "agent", script);
    let settings = [
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", command.as_str()),
    ];
    let daemon = bot.start_with(&[&settings[..], more].concat());
    (bot, chat, daemon)
}

#[test]
fn an_agents_environment_has_none_of_our_secrets() {
    let more = [
        ("NOTIFY_SOCKET", "/nonexistent/notify"),
        ("WATCHDOG_USEC", "30000000"),
        ("WATCHDOG_PID", "1"),
        ("LISTEN_PID", "1"),
        ("LISTEN_FDS", "1"),
        ("SLACK_APP_TOKEN", "xapp-secret"),
        ("SLACK_SIGNING_SECRET", "secret"),
        ("MATRIX_PASSWORD", "secret"),
        ("DISCORD_BOT_TOKEN", "secret"),
        ("HERMESD_PLATFORMS_DISCORD_ENABLED", "false"),
        ("OF_THE_PERSON", "kept"),
    ];
    let (bot, chat, _daemon) = agent("env > \"$OUT\"; echo done", &more);
    bot.api.says(chat, None, &ADA, "go");
    bot.api.until_message(chat, None, |m| m.text == "done");
    let text = std::fs::read_to_string(bot.home.path().join("agent.out")).unwrap();
    assert!(text.contains("OF_THE_PERSON=kept"), "{text}");
    for (name, _) in &more[..9] {
        assert!(!text.contains(&format!("{name}=")), "{name} in {text}");
    }
}

#[test]
fn what_an_agent_complains_of_is_for_the_log_and_not_for_the_chat() {
    let script = "echo 'no such file: /home/me/.netrc, key sk-123' >&2; exit 3";
    let (bot, chat, daemon) = agent(script, &[]);
    bot.api.says(chat, None, &ADA, "go");
    let answer = bot
        .api
        .until_message(chat, None, |m| m.text.contains("I could not answer"));
    assert!(answer.text.contains("exit status: 3"), "{answer:?}");
    assert!(
        !answer.text.contains("netrc") && !answer.text.contains("sk-123"),
        "{answer:?}"
    );
    until("it is logged", || {
        daemon.log().contains("netrc").then_some(())
    });
    let said: i64 = bot.look("SELECT count(*) FROM messages WHERE content LIKE '%netrc%'");
    assert_eq!(said, 0);
}

#[test]
fn an_agent_cannot_read_the_token_in_the_daemons_environment() {
    if !geteuid().is_root() {
        return skipped("only root can start the daemon as a user without rights");
    }
    let (bot, chat) = Bot::of_ada("");
    let (command, out) = program(
        &bot.home,
        "agent",
        "cat /proc/$PPID/environ > \"$OUT\" 2> \"$OUT.error\"; cat /proc/$PPID/comm > \"$OUT.comm\"; echo done",
    );
    let of = |path: &Path| std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    of(bot.home.path());
    for entry in std::fs::read_dir(bot.home.path()).unwrap() {
        of(&entry.unwrap().path());
    }
    let mut daemon = bot
        .home
        .command("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_hermesd"))
        .env("HERMESD_AGENT_DEFAULT", "command")
        .env("HERMESD_AGENTS_COMMAND_COMMAND", &command)
        .env("TELEGRAM_BOT_TOKEN", TOKEN)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    bot.api.until_polled();
    bot.api.says(chat, None, &ADA, "go");
    bot.api.until_message(chat, None, |m| m.text == "done");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let read = |name: &str| std::fs::read_to_string(out.with_extension(name)).unwrap_or_default();
    assert_eq!(
        read("out.comm").trim(),
        "hermesd",
        "the parent is the daemon"
    );
    assert!(!read("out").contains(TOKEN), "the token was read");
    assert!(
        read("out.error").contains("Permission denied"),
        "{}",
        read("out.error")
    );
}

#[test]
fn metrics_are_given_to_our_own_hosts_alone() {
    let home = Home::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    drop(port);
    let _daemon = home.start_with(&[
        ("HERMESD_METRICS_LISTEN", &address),
        ("HERMESD_METRICS_HOSTS", "metrics.example"),
    ]);
    let ask = |host: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for host in [address.as_str(), "localhost", "[::1]:1", "metrics.example"] {
        assert!(ask(host).contains("hermesd_build_info"), "{host}");
    }
    for host in ["attacker.example", "attacker.example:80", "8.8.8.8"] {
        let answer = ask(host);
        assert!(answer.starts_with("HTTP/1.1 421 "), "{host}: {answer}");
        assert!(!answer.contains("hermesd_"), "{host}: {answer}");
    }
}

#[test]
fn a_variable_that_is_no_text_is_left_out_or_named() {
    let home = Home::new();
    let odd = OsStr::from_bytes(b"\xff\xfe");
    for (program, arguments) in [
        (env!("CARGO_BIN_EXE_hermesd"), &["--check-config"][..]),
        (env!("CARGO_BIN_EXE_hermesctl"), &["sessions", "list"]),
        (env!("CARGO_BIN_EXE_hermesctl"), &["doctor"]),
        (env!("CARGO_BIN_EXE_hermesctl"), &["setup", "--no-input"]),
    ] {
        drop(home.store());
        let run = |name: &OsStr| {
            let mut command = home.command(program);
            home.run(command.args(arguments).env(name, odd))
        };
        for name in [
            "SOMEBODY_ELSES",
            "TERM",
            "LANG",
            "NOTIFY_SOCKET",
            "HTTPS_PROXY",
            "RUST_LOG",
        ] {
            let ran = run(OsStr::new(name));
            assert!(!ran.stderr.contains("panicked"), "{name}: {ran:?}");
            assert!(!ran.stderr.contains("UTF-8"), "{name}: {ran:?}");
        }
        run(OsStr::from_bytes(b"NAME_\xff"));
        for name in ["HERMES_HOME", "HERMESD_LOG_LEVEL", "TELEGRAM_BOT_TOKEN"] {
            let ran = run(OsStr::new(name));
            let said = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!said.contains("panicked"), "{name}: {ran:?}");
            assert_ne!(ran.code, 0, "{program} {name}: {ran:?}");
            let words = format!("environment {name}: the value is not UTF-8");
            assert!(said.contains(&words), "{program} {name}: {ran:?}");
        }
    }
}

#[test]
fn a_daemon_serves_beside_variables_that_are_no_text() {
    let home = Home::new();
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
    for name in [
        "SOMEBODY_ELSES",
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "LISTEN_FDS",
        "LISTEN_PID",
        "JOURNAL_STREAM",
        "HTTPS_PROXY",
        "RUST_LOG",
        "TZ",
    ] {
        command.env(name, odd);
    }
    let mut daemon = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let answered = until("it answers or ends", || {
        let ended = daemon.try_wait().unwrap().is_some();
        let answers = home.socket().exists() && home.hermesctl(&["status"]).code == 0;
        (ended || answers).then_some(answers)
    });
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(answered, "it has ended");
}
