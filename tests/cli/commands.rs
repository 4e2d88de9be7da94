//! hermesctl as a person and as a script use it, with a daemon at the other end.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use crate::support::{Home, Ran, SESSION, TITLE, add_session, seed_session, until};

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap_or_else(|| panic!("not an object: {value}"))
        .keys()
        .map(String::as_str)
        .collect()
}

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stderr, "", "{ran:?}");
    assert!(
        !ran.stdout.contains('\x1b'),
        "colours without a terminal: {ran:?}"
    );
    ran
}

fn json_lines(ran: &Ran) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    ran.stdout.lines().map(parse).collect()
}

const SESSION_KEYS: [&str; 15] = [
    "id",
    "title",
    "source",
    "model",
    "cwd",
    "started_at",
    "ended_at",
    "end_reason",
    "message_count",
    "session_key",
    "chat_id",
    "thread_id",
    "handoff_state",
    "handoff_platform",
    "handoff_error",
];
const HANDOFF_KEYS: [&str; 18] = [
    "id",
    "session",
    "platform",
    "note",
    "via",
    "state",
    "stage",
    "error",
    "after_turn",
    "requested_at",
    "ended_at",
    "home_channel",
    "thread",
    "thread_title",
    "no_thread",
    "session_key",
    "reply",
    "stages",
];

#[tokio::test]
async fn every_verb_answers_in_json_with_the_keys_that_scripts_rely_on() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    let json = |arguments: &[&str]| ok(home.hermesctl(&[&["--json"], arguments].concat())).json();

    let asked = json(&["handoff", "local", "--no-wait", "--note", "n"]);
    // Only where no session is named.
    assert_eq!(keys(&asked), [&HANDOFF_KEYS[..], &["chosen_by"]].concat());
    assert_eq!(asked["chosen_by"], "only");
    assert_eq!(asked["note"], "n");
    until("the handoff ends", || {
        (json(&["handoffs", "show", "1"])["state"] == "completed").then_some(())
    });
    let waited = json(&["handoff", "local", "--session", SESSION]);
    assert_eq!(keys(&waited), HANDOFF_KEYS);
    assert_eq!(waited["state"], "completed");
    assert_eq!(waited["via"], "socket");
    assert_eq!(keys(&waited["stages"][0]), ["stage", "at"]);

    let status = json(&["status"]);
    let expected = [
        "version",
        "pid",
        "home",
        "profile",
        "started_at",
        "agent",
        "sessions",
        "handoffs_running",
        "turns_running",
        "connections",
        "platforms",
    ];
    assert_eq!(keys(&status), expected);
    assert_eq!(status["pid"], daemon.pid());
    let platforms = json(&["platforms"]);
    assert_eq!(
        keys(&platforms[0]),
        [
            "name",
            "state",
            "detail",
            "home_channel",
            "owner",
            "configured",
            "since"
        ]
    );
    assert_eq!(platforms[0]["name"], "local");
    assert_eq!(platforms[0]["state"], "up");
    assert_eq!(platforms.as_array().unwrap().len(), 8);

    assert_eq!(keys(&json(&["sessions"])[0]), SESSION_KEYS);
    assert_eq!(
        keys(&json(&["sessions", "list", "--live"])[0]),
        SESSION_KEYS
    );
    assert_eq!(
        json(&["sessions", "list", "--source", "acp"]),
        Value::Array(vec![])
    );
    assert_eq!(keys(&json(&["sessions", "show", SESSION])), SESSION_KEYS);
    let said = json(&["sessions", "transcript", SESSION, "--last", "2"]);
    assert_eq!(keys(&said), ["session", "messages", "earlier"]);
    assert_eq!(said["messages"].as_array().unwrap().len(), 2);
    assert_eq!(said["earlier"], true);

    assert_eq!(keys(&json(&["handoffs"])[0]), HANDOFF_KEYS);
    assert_eq!(
        json(&["handoffs", "list", "--limit", "1"])
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        json(&["handoffs", "list", "--in-flight"]),
        Value::Array(vec![])
    );
    let threads = json(&["attach", "local", "--list"]);
    assert_eq!(keys(&threads[0]), ["id", "chat", "title", "created_at"]);

    let events = json_lines(&ok(home.hermesctl(&["--json", "events", "--limit", "1"])));
    let names: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(names.first(), Some(&"handoff.requested"));
    assert_eq!(names.last(), Some(&"handoff.ended"));
    assert_eq!(names.len(), 9);
    assert_eq!(
        keys(&events[1]),
        ["seq", "at", "type", "id", "session", "platform", "stage"]
    );
}

#[tokio::test]
async fn every_verb_speaks_to_people_in_plain_text() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    let text = |arguments: &[&str]| ok(home.hermesctl(arguments)).stdout;
    assert!(text(&["handoffs"]).contains("No handoffs."));
    assert!(text(&["attach", "local", "--list"]).contains("No threads yet"));
    assert!(text(&["sessions", "list", "--source", "acp"]).contains("No sessions."));
    text(&["handoff", "local"]);
    let pid = format!("process {}", daemon.pid());
    let cases: [(&[&str], &[&str]); 9] = [
        (&["status"], &["hermesd 0.1.0", &pid, "Agent echo", "up"]),
        (
            &["platforms"],
            &["PLATFORM", "local", "not configured: telegram"],
        ),
        (&["sessions"], &["ID", TITLE, SESSION, "live"]),
        (
            &["sessions", "show", TITLE],
            &[SESSION, "messages  6", "handoff   completed"],
        ),
        (
            &["sessions", "transcript", SESSION],
            &[
                "  Why does the parser fail?",
                "  → run_tests {}",
                "tool run_tests",
                "  1 failed",
            ],
        ),
        (&["handoffs"], &["STATE", "completed", SESSION, "settled"]),
        (
            &["handoffs", "show", "1"],
            &[
                "Handoff 1 to local: completed",
                "by socket",
                "threaded",
                "reply\n",
            ],
        ),
        (
            &["events", "--topic", "handoff.ended"],
            &["handoff 1 completed"],
        ),
        (&["attach", "local", "--list"], &["THREAD", TITLE]),
    ];
    for (arguments, words) in cases {
        let said = text(arguments);
        for word in words {
            assert!(
                said.contains(word),
                "{word:?} is missing in {arguments:?}:\n{said}"
            );
        }
    }
    assert!(!text(&["events", "--topic", "handoff.ended"]).contains("bound"));
}

#[tokio::test]
async fn a_cancelled_handoff_fails_with_all_put_back_and_a_retry_completes() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    let waiting = home.spawn_hermesctl(&["handoff", "local", "--note", "soon back"], &[]);
    home.until_paused();
    let cancelled = ok(home.hermesctl(&["handoffs", "cancel", "1"]));
    assert!(
        cancelled
            .stdout
            .contains("Handoff 1 is cancelled. The session stays where it was."),
        "{cancelled:?}"
    );
    let ran = waiting.end();
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("failed: cancelled"), "{ran:?}");
    assert!(ran.stderr.contains("hermesctl handoffs retry 1"), "{ran:?}");
    let session = home
        .hermesctl(&["--json", "sessions", "show", SESSION])
        .json();
    assert_eq!(session["handoff_state"], "failed");
    assert_eq!(session["handoff_error"], "cancelled");
    assert_eq!(session["source"], "cli");
    assert_eq!(session["message_count"], 4);
    assert_eq!(session["session_key"], Value::Null);

    assert!(daemon.stop().success());
    let _daemon = home.start();
    let retried = ok(home.hermesctl(&["handoffs", "retry", "1"]));
    assert!(retried.stdout.contains("settled"), "{retried:?}");
    let second = home.hermesctl(&["--json", "handoffs", "show", "2"]).json();
    assert_eq!(second["state"], "completed");
    assert_eq!(second["note"], "soon back");
    for (arguments, kind) in [
        (["handoffs", "retry", "2"], "not_failed"),
        (["handoffs", "cancel", "2"], "too_late"),
        (["handoffs", "show", "99"], "not_found"),
        (["handoffs", "cancel", "99"], "not_found"),
    ] {
        let ran = home.hermesctl(&[&["--json"], &arguments[..]].concat());
        assert_eq!(ran.code, 3, "{ran:?}");
        assert_eq!(ran.json()["error"]["kind"], kind, "{ran:?}");
        assert!(ran.json()["error"]["hint"].is_string(), "{ran:?}");
    }
}

#[tokio::test]
async fn a_script_learns_from_json_what_failed() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    let waiting = home.spawn_hermesctl(&["--json", "handoff", "local"], &[]);
    home.until_paused();
    home.hermesctl(&["handoffs", "cancel", "1"]);
    let ran = waiting.end();
    assert_eq!((ran.code, ran.stderr.as_str()), (4, ""), "{ran:?}");
    let handoff = ran.json();
    assert_eq!(handoff["state"], "failed");
    assert_eq!(handoff["error"], "cancelled");
}

#[tokio::test]
async fn a_timeout_leaves_the_handoff_to_go_on_in_the_background() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    let ran = home.hermesctl(&["handoff", "local", "--timeout", "1s"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.stdout.contains("bound"), "{ran:?}");
    assert!(
        ran.stderr.contains("continues in the background"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("hermesctl handoffs show 1"), "{ran:?}");
    let running = home
        .hermesctl(&["--json", "handoffs", "list", "--in-flight"])
        .json();
    assert_eq!(running[0]["state"], "running", "{running}");
    assert!(daemon.stop().success());
    let _daemon = home.start();
    until("the next daemon completes it", || {
        let now = home.hermesctl(&["--json", "handoffs", "show", "1"]).json();
        (now["state"] == "completed").then_some(())
    });
}

#[tokio::test]
async fn hermesctl_sees_a_handoff_through_even_when_its_daemon_is_killed() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    let waiting = home.spawn_hermesctl(&["handoff", "local"], &[]);
    home.until_paused();
    daemon.kill();
    let _daemon = home.start();
    let ran = ok(waiting.end());
    assert!(
        ran.stdout.contains("connection to the daemon was lost"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("hermesctl attach local/1"), "{ran:?}");
    for stage in ["✓ bound", "✓ answered", "✓ settled"] {
        assert_eq!(ran.stdout.matches(stage).count(), 1, "{stage}: {ran:?}");
    }
    let session = home
        .hermesctl(&["--json", "sessions", "show", SESSION])
        .json();
    assert_eq!(session["message_count"], 6);
}

#[tokio::test]
async fn events_are_followed_until_the_daemon_goes_away() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    ok(home.hermesctl(&["handoff", "local"]));
    let arguments = ["--json", "events", "--follow", "--topic", "handoff"];
    let mut following = home.spawn_hermesctl(&arguments, &[]);
    let mut lines = BufReader::new(following.stdout()).lines();
    let mut until_ended = |id: i64| loop {
        let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if event["type"] == "handoff.ended" && event["id"] == id {
            return event["state"].clone();
        }
    };
    // The past first, then what happens now.
    assert_eq!(until_ended(1), "completed");
    ok(home.hermesctl(&["handoff", "local", "--session", SESSION]));
    assert_eq!(until_ended(2), "completed");
    daemon.kill();
    assert_eq!(following.code(), Some(6));
}

#[tokio::test]
async fn every_line_that_is_piped_into_a_thread_gets_its_reply() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    ok(home.hermesctl(&["handoff", "local"]));
    let words: Vec<String> = (0..30).map(|n| format!("word {n}.")).collect();
    let ran = ok(home
        .pipe_into_hermesctl(&words.join("\n\n"), &["attach", "local/1"])
        .end());
    for word in words {
        let reply = format!("You said: {word}");
        assert_eq!(ran.stdout.matches(&reply).count(), 1, "{word}: {ran:?}");
    }
    for (place, kind) in [
        ("local/99", "not_found"),
        ("local/x", "bad_place"),
        ("telegram", "bad_place"),
    ] {
        let ran = home.hermesctl(&["--json", "attach", place]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert_eq!(ran.json()["error"]["kind"], kind, "{ran:?}");
    }
}

#[tokio::test]
async fn the_session_of_the_environment_is_meant_unless_another_is_named() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, "20260102_090000_bbbbbb", "Other");
    let _daemon = home.start();
    let inside = [("HERMES_SESSION_ID", SESSION)];
    let ran = home
        .spawn_hermesctl(&["--json", "handoff", "local"], &inside)
        .end();
    assert_eq!(ran.json()["session"], SESSION, "{ran:?}");
    let named = ["--json", "handoff", "local", "--session", "Other"];
    let ran = home.spawn_hermesctl(&named, &inside).end();
    assert_eq!(ran.json()["session"], "20260102_090000_bbbbbb", "{ran:?}");
    let gone = [("HERMES_SESSION_ID", "gone")];
    let ran = home
        .spawn_hermesctl(&["--json", "handoff", "local"], &gone)
        .end();
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(ran.json()["error"]["kind"], "unknown_session", "{ran:?}");
}

#[test]
fn platforms_that_are_not_configured_share_one_line() {
    let home = Home::new();
    home.write(
        ".config/hermesd/hermesd.toml",
        "[platforms.discord]\nenabled = true\n",
    );
    let _daemon = home.start();
    for verb in ["platforms", "status"] {
        let shown = home.hermesctl(&[verb]).stdout;
        let lines: Vec<&str> = shown.lines().collect();
        let last = lines.last().expect("a line");
        assert!(
            last.starts_with("not configured: telegram, slack, "),
            "{shown}"
        );
        assert!(
            last.ends_with(" (run `hermesctl setup telegram`)"),
            "{shown}"
        );
        assert!(
            !last.contains("discord") && !last.contains("local"),
            "{shown}"
        );
        for name in ["local", "discord"] {
            assert!(lines.iter().any(|line| line.starts_with(name)), "{shown}");
        }
    }
    let all = home.hermesctl(&["--json", "platforms"]).json();
    assert_eq!(all.as_array().map(Vec::len), Some(8), "{all}");
}
