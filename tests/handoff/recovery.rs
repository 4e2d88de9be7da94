//! `kill -9` of a real daemon at every stage boundary, on both sides of each commit: after a restart the handoff ends
//! completed exactly once, with one thread and one reply.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{Home, SESSION, TITLE, seed_session, until};

/// Hands off with a daemon that stops at `point`, kills it there, starts another and returns its home.
async fn killed_at(point: &str) -> Home {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start_with(&[("HERMESD_PAUSE_AT", point)]);
    let asked = home.hermesctl(&[
        "--json",
        "handoff",
        "local",
        "--session",
        TITLE,
        "--no-wait",
    ]);
    assert_eq!(asked.code, 0, "{asked:?}");
    until("the daemon pauses", || {
        home.path().join("paused").exists().then_some(())
    });
    daemon.kill();
    home
}

fn settled(home: &Home) -> Value {
    until("the handoff ends", || {
        let handoff = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
        matches!(handoff["state"].as_str(), Some("completed" | "failed")).then_some(handoff)
    })
}

fn count(home: &Home, sql: &str) -> i64 {
    home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The whole outcome of one handoff that went through once.
fn assert_completed_once(home: &Home, point: &str) {
    let handoff = settled(home);
    assert_eq!(handoff["state"], "completed", "{point}: {handoff}");
    assert_eq!(
        count(home, "SELECT count(*) FROM hermesd_local_threads"),
        1,
        "{point}: one thread"
    );
    assert_eq!(
        count(home, "SELECT count(*) FROM hermesd_local_messages"),
        1,
        "{point}: one reply in the chat"
    );
    assert_eq!(
        count(home, "SELECT count(*) FROM messages WHERE active = 1"),
        6,
        "{point}: a notice and a reply in the transcript"
    );
    assert_eq!(
        count(home, "SELECT message_count FROM sessions"),
        6,
        "{point}"
    );
    assert_eq!(
        count(home, "SELECT count(*) FROM gateway_routing"),
        1,
        "{point}: one binding"
    );
    assert_eq!(
        count(home, "SELECT count(*) FROM hermesd_handoffs"),
        1,
        "{point}: one journal row"
    );
    assert_eq!(
        count(
            home,
            "SELECT count(*) FROM hermesd_deliveries WHERE state = 'sent'"
        ),
        1,
        "{point}"
    );
    assert_eq!(handoff["stages"].as_array().unwrap().len(), 7, "{point}");
    let session = home
        .hermesctl(&["--json", "sessions", "show", SESSION])
        .json();
    assert_eq!(session["handoff_state"], "completed", "{point}");
    assert_eq!(
        session["session_key"], "agent:main:local:dm:home:1",
        "{point}"
    );
}

#[tokio::test]
async fn a_daemon_killed_at_any_stage_boundary_resumes_and_completes_once() {
    // `before` is between what was done and its commit, `after` right behind the commit. `claimed` and `homed` are one
    // commit, which has no work before it; so are `delivered` and `settled`.
    for point in [
        "after:homed",
        "before:threaded",
        "after:threaded",
        "before:bound",
        "after:bound",
        "before:answered",
        "after:answered",
        "before:delivered",
        "after:settled",
    ] {
        let home = killed_at(point).await;
        let _daemon = home.start();
        assert_completed_once(&home, point);
    }
}

#[tokio::test]
async fn a_request_written_before_the_kill_is_taken_up_after_it() {
    let home = Home::new();
    seed_session(&home).await;
    // Stopped, it cannot see the row before it dies.
    let daemon = home.start();
    let other = home.sqlite();
    other.busy_timeout(Duration::from_millis(200)).unwrap();
    let request = "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local'";
    until("the daemon holds no lock when it is stopped", || {
        daemon.signal(Signal::SIGSTOP);
        let written = other.execute(request, []).ok();
        if written.is_none() {
            daemon.signal(Signal::SIGCONT);
        }
        written
    });
    daemon.kill();
    let _daemon = home.start();
    assert_completed_once(&home, "pending");
}

#[tokio::test]
async fn a_message_that_was_not_answered_before_the_kill_is_answered_after_it() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    let said = {
        let store = home.store();
        let source = hermesd::platform::local::source("home", None);
        // As the daemon keeps it, with nobody to go on from there.
        store
            .say_local("agent:main:local:dm:home", &source, "are you there?")
            .await
            .unwrap()
            .0
    };
    daemon.kill();
    let _daemon = home.start();
    let reply = until("an answer", || {
        let ran = home.hermesctl(&["--json", "attach", "local"]);
        ran.stdout
            .lines()
            .nth(1)
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
    });
    assert_eq!(reply["author"], "agent");
    assert!(reply["text"].as_str().unwrap().contains(&said.text));
    assert_eq!(
        count(&home, "SELECT count(*) FROM hermesd_local_messages"),
        2
    );
}

/// A pause never ends by itself: a stop cuts it off.
const SOON: (&str, &str) = ("HERMESD_DAEMON_DRAIN_TIMEOUT", "1s");

#[tokio::test]
async fn a_clean_stop_in_the_middle_leaves_the_handoff_for_the_next_start() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered"), SOON]);
    home.hermesctl(&["handoff", "local", "--session", TITLE, "--no-wait"]);
    until("the daemon pauses", || {
        home.path().join("paused").exists().then_some(())
    });
    assert!(daemon.stop().success());
    assert_eq!(
        count(
            &home,
            "SELECT count(*) FROM hermesd_handoffs WHERE state = 'running' AND owner IS NULL"
        ),
        1
    );
    let _daemon = home.start();
    assert_completed_once(&home, "stopped");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_the_lock_of_another_program_and_loses_nothing() {
    let home = Home::new();
    seed_session(&home).await;
    let mut daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    home.hermesctl(&["handoff", "local", "--session", TITLE, "--no-wait"]);
    home.until_paused();
    // Held until the daemon is gone.
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    daemon.signal(Signal::SIGTERM);
    until("it stops", || {
        daemon.log().contains("stopping").then_some(())
    });
    // A pause never ends by itself: the second signal cuts it off.
    daemon.signal(Signal::SIGINT);
    assert!(daemon.wait().success());
    assert!(daemon.log().contains("claim not released"));
    other.execute_batch("COMMIT").unwrap();
    let _daemon = home.start();
    assert_completed_once(&home, "locked");
}
