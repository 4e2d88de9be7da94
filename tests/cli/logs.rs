//! `hermesctl logs`, with a journalctl that only says how it was called.

use std::os::unix::fs::PermissionsExt;

use crate::support::{Home, Ran, SESSION, TITLE, seed_session};

/// A journalctl on the path that prints its arguments, one a line.
fn with_journalctl(home: &Home, arguments: &[&str]) -> Ran {
    let program = home.path().join("bin/journalctl");
    home.write("bin/journalctl", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, runs).expect("a program");
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
    let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
    home.run(command.args(arguments).env("PATH", path))
}

fn called(home: &Home, arguments: &[&str]) -> Vec<String> {
    let ran = with_journalctl(home, arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.starts_with("journalctl --"), "{ran:?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn journalctl_is_asked_for_what_is_meant() {
    let home = Home::new();
    // Neither a daemon nor a database is needed for the plain log.
    assert_eq!(
        called(&home, &["logs", "--user"]),
        ["--user-unit=hermesd.service"]
    );
    assert_eq!(
        called(&home, &["logs", "--system", "--follow", "--since", "2h"]),
        ["--unit=hermesd.service", "--follow", "--since=-7200s"]
    );
    let all = [
        "--json",
        "logs",
        "--user",
        "--unit",
        "other.service",
        "--handoff",
        "7",
        "--platform",
        "telegram",
        "--since",
        "2026-01-01 10:00",
    ];
    assert_eq!(
        called(&home, &all),
        [
            "--user-unit=other.service",
            "--since=2026-01-01 10:00",
            "--output=json",
            "HERMES_HANDOFF=7",
            "HERMES_PLATFORM=telegram",
        ]
    );

    // A title becomes the id that lines have, with a daemon and without.
    seed_session(&home).await;
    let expected = [
        "--user-unit=hermesd.service".to_owned(),
        format!("HERMES_SESSION={SESSION}"),
    ];
    let by_title = ["logs", "--user", "--session", TITLE];
    assert_eq!(called(&home, &by_title), expected);
    let _daemon = home.start();
    assert_eq!(called(&home, &by_title), expected);
}

#[tokio::test]
async fn what_cannot_be_done_is_said() {
    let home = Home::new();
    seed_session(&home).await;
    let printed = with_journalctl(
        &home,
        &["logs", "--user", "--since", "a b", "--print-command"],
    );
    assert_eq!(
        printed.stdout,
        "journalctl --user-unit=hermesd.service '--since=a b'\n"
    );
    assert_eq!(printed.stderr, "");

    let unknown = with_journalctl(&home, &["logs", "--session", "nonsense"]);
    assert_eq!(unknown.code, 3, "{unknown:?}");
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
    let none = home.run(command.args(["logs", "--user"]).env("PATH", "/nonexistent"));
    assert_eq!(none.code, 3, "{none:?}");
    assert!(
        none.stderr.contains("journalctl is not on PATH") && none.stderr.contains("hint:"),
        "{none:?}"
    );
    let both = with_journalctl(&home, &["logs", "--user", "--system"]);
    assert_eq!(both.code, 2, "{both:?}");
}
