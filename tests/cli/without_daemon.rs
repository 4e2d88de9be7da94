//! hermesctl without a daemon: what state.db tells, and what can be left in it for whoever comes.

use serde_json::Value;

use crate::support::{Home, SESSION, seed_session, until};

#[tokio::test]
async fn the_database_tells_without_a_daemon_what_it_tells_with_one() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    assert_eq!(home.hermesctl(&["handoff", "local"]).code, 0);
    let readers: [&[&str]; 10] = [
        &["sessions"],
        &["sessions", "list", "--live", "--source", "local"],
        &["sessions", "show", SESSION],
        &["sessions", "transcript", SESSION],
        &["sessions", "transcript", SESSION, "--last", "2"],
        &["handoffs"],
        &["handoffs", "list", "--session", SESSION, "--in-flight"],
        &["handoffs", "show", "1"],
        &["events"],
        &["attach", "local", "--list"],
    ];
    let read = || readers.map(|arguments| home.hermesctl(&[&["--json"], arguments].concat()));
    let with = read();
    assert!(daemon.stop().success());
    for ((with, without), arguments) in with.iter().zip(read()).zip(readers) {
        assert_eq!(with.code, 0, "{arguments:?} {with:?}");
        assert_eq!(without.code, 0, "{arguments:?} {without:?}");
        assert_eq!(with.stdout, without.stdout, "{arguments:?}");
    }
    let platforms = home.hermesctl(&["--json", "platforms"]);
    assert_eq!(platforms.code, 0, "{platforms:?}");
    assert_eq!(platforms.json()[0]["detail"], "no daemon to ask");

    // What can be told only in part, or not at all, says so.
    let said = home.hermesctl(&["attach", "local/1"]);
    assert_eq!(said.code, 6, "{said:?}");
    assert!(said.stdout.contains("I am here with"), "{said:?}");
    let status = home.hermesctl(&["status"]);
    assert_eq!(status.code, 6, "{status:?}");
    assert!(status.stdout.contains("No hermesd serves"), "{status:?}");
    for arguments in [&["events", "--follow"][..], &["handoffs", "retry", "1"]] {
        let ran = home.hermesctl(arguments);
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(
            ran.stderr.contains("error: hermesd is not running for ~"),
            "{ran:?}"
        );
    }
    let named = home.hermesctl(&["--socket", "/nowhere/control.sock", "sessions"]);
    assert_eq!(named.code, 6, "{named:?}");
    assert!(named.stderr.contains("/nowhere/control.sock"), "{named:?}");
}

fn row(home: &Home) -> (Option<String>, Option<String>) {
    home.sqlite()
        .query_row(
            "SELECT handoff_state, handoff_error FROM sessions WHERE id = ?1",
            [SESSION],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap()
}

fn pending(home: &Home) {
    until("the request is written", || {
        (row(home).0.as_deref() == Some("pending")).then_some(())
    });
}

#[tokio::test]
async fn a_request_that_nobody_picks_up_is_withdrawn_with_its_reason() {
    let home = Home::new();
    seed_session(&home).await;
    for limit in ["--timeout", "--pickup-timeout"] {
        withdrawn_after(&home, limit);
    }
    // It is over: a daemon that comes later does not take it up.
    let _daemon = home.start();
    let again = home.hermesctl(&["--json", "handoffs"]).json();
    assert_eq!(again[0]["state"], "failed", "{again}");
}

fn withdrawn_after(home: &Home, limit: &str) {
    let waiting = home.spawn_hermesctl(&["handoff", "local", limit, "1s"], &[]);
    pending(home);
    let ran = waiting.end();
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.stdout.contains("no daemon answers"), "{ran:?}");
    assert!(ran.stderr.contains("withdrawn"), "{ran:?}");
    assert!(!ran.stderr.contains("background"), "{ran:?}");
    let (state, error) = row(home);
    assert_eq!(state.as_deref(), Some("failed"));
    assert_eq!(
        error.as_deref(),
        Some("no daemon claimed the handoff within 1 s")
    );
    let journal = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
    assert_eq!(journal["state"], "failed");
    assert_eq!(journal["via"], "direct");
    assert_eq!(journal["stage"], Value::Null);
}

#[tokio::test]
async fn a_request_that_waits_is_completed_by_the_daemon_that_comes() {
    let home = Home::new();
    seed_session(&home).await;
    let waiting = home.spawn_hermesctl(&["handoff", "local", "--pickup-timeout", "60s"], &[]);
    pending(&home);
    let _daemon = home.start();
    let ran = waiting.end();
    assert_eq!(ran.code, 0, "{ran:?}");
    for word in ["claimed", "settled", "hermesctl attach local/1"] {
        assert_eq!(ran.stdout.matches(word).count(), 1, "{word}: {ran:?}");
    }
    let journal = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
    assert_eq!(journal["via"], "direct");
}

#[tokio::test]
async fn a_request_left_in_the_database_can_be_taken_back() {
    let home = Home::new();
    seed_session(&home).await;
    let asked = home.hermesctl(&["--json", "handoff", "local", "--no-wait"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    assert_eq!(asked.json()["state"], "pending");
    let twice = home.hermesctl(&["--json", "handoff", "local"]);
    assert_eq!(twice.code, 3, "{twice:?}");
    assert_eq!(twice.json()["error"]["kind"], "in_flight", "{twice:?}");
    let cancelled = home.hermesctl(&["handoffs", "cancel", "1"]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    assert_eq!(row(&home).0.as_deref(), Some("failed"));
    let again = home.hermesctl(&["--json", "handoffs", "cancel", "1"]);
    assert_eq!(again.code, 3, "{again:?}");
    assert_eq!(again.json()["error"]["kind"], "too_late", "{again:?}");
}

#[tokio::test]
async fn cancelling_an_ended_handoff_does_not_touch_a_later_one() {
    let home = Home::new();
    seed_session(&home).await;
    let ask = ["handoff", "local", "--no-wait"];
    assert_eq!(home.hermesctl(&ask).code, 0);
    assert_eq!(home.hermesctl(&["handoffs", "cancel", "1"]).code, 0);
    assert_eq!(home.hermesctl(&ask).code, 0);
    let ran = home.hermesctl(&["--json", "handoffs", "cancel", "1"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(ran.json()["error"]["kind"], "too_late", "{ran:?}");
    assert_eq!(row(&home).0.as_deref(), Some("pending"));
}

#[test]
fn without_a_database_nothing_is_made_up_and_nothing_is_created() {
    let home = Home::new();
    let nowhere = home.path().join("not/there").display().to_string();
    let verbs: [&[&str]; 8] = [
        &["sessions"],
        &["sessions", "show", "x"],
        &["handoffs"],
        &["handoff", "local"],
        &["platforms"],
        &["events"],
        &["status"],
        &["attach", "local"],
    ];
    for arguments in verbs {
        for place in [&nowhere, &home.path().display().to_string()] {
            let ran = home.hermesctl(&[&["--json", "--home", place], arguments].concat());
            assert_eq!(ran.code, 6, "{ran:?}");
            assert_eq!(ran.json()["error"]["kind"], "no_daemon", "{ran:?}");
            assert!(
                ran.stdout.contains("hermesd is not running, and ~"),
                "{ran:?}"
            );
        }
    }
    let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_named_socket_does_not_mix_two_homes_when_its_daemon_dies() {
    let (served, mine) = (Home::new(), Home::new());
    seed_session(&served).await;
    seed_session(&mine).await;
    // The same number is another handoff in the other home.
    assert_eq!(mine.hermesctl(&["handoff", "local", "--no-wait"]).code, 0);
    assert_eq!(mine.hermesctl(&["handoffs", "cancel", "1"]).code, 0);
    let daemon = served.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    let socket = served.socket().display().to_string();
    let waiting = mine.spawn_hermesctl(&["--socket", &socket, "handoff", "local"], &[]);
    served.until_paused();
    daemon.kill();
    let _daemon = served.start();
    let ran = waiting.end();
    assert_eq!(ran.code, 0, "{ran:?}");
}
