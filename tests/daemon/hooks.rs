//! Programs that run when something happens, driven by a real daemon.

use std::path::Path;

use hermesd::protocol::{Call, ChatOpen, ChatSay};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::{Home, SESSION, TITLE, program, seed_session, told, until};

fn hand_off(home: &Home) {
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn lines(file: &Path, count: usize) -> Vec<Value> {
    until("the hooks have run", || {
        Some(told(file)).filter(|told| told.len() >= count)
    })
}

#[tokio::test]
async fn a_handoff_runs_its_hooks_with_what_happened() {
    let home = Home::new();
    seed_session(&home).await;
    let (note, notes) = program(&home, "note", "cat >> $OUT");
    let (env, seen) = program(
        &home,
        "env",
        "env > $OUT.new; mv $OUT.new $OUT; echo heard $HERMESD_ID",
    );
    let daemon = home.start_with(&[
        ("HERMESD_HOOKS_ON_HANDOFF_REQUESTED", &note),
        ("HERMESD_HOOKS_ON_HANDOFF_COMPLETED", &env),
        ("HERMESD_HOOKS_ON_HANDOFF_FAILED", &note),
        ("HERMESD_HOOKS_ON_TURN_END", &note),
        ("TELEGRAM_BOT_TOKEN", "12345:a-secret"),
        ("HERMESD_HANDOFF_PICKUP_TIMEOUT", "1s"),
    ]);
    hand_off(&home);
    let told = lines(&notes, 2);
    let of = |name: &str| told.iter().find(|t| t["event"] == name).unwrap();
    let requested = of("on_handoff_requested");
    assert_eq!(
        (&requested["id"], &requested["session_id"]),
        (&1.into(), &SESSION.into())
    );
    assert_eq!(requested["platform"], "local");
    assert!(requested["at"].as_f64().unwrap() > 0.0);
    assert_eq!(of("on_turn_end")["completed"], true);

    let environment = until("the completion is told", || {
        std::fs::read_to_string(&seen).ok()
    });
    for line in [
        "HERMESD_EVENT=on_handoff_completed",
        "HERMESD_ID=1",
        "HERMESD_PLATFORM=local",
    ] {
        assert!(environment.lines().any(|l| l == line), "{environment}");
    }
    assert!(!environment.contains("a-secret"), "{environment}");
    until("what it printed is in the log", || {
        daemon.log().contains("heard 1").then_some(())
    });

    // Another program's request that cannot be met.
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'discord'",
            [],
        )
        .unwrap();
    let failed = lines(&notes, 4)
        .into_iter()
        .find(|t| t["event"] == "on_handoff_failed")
        .unwrap();
    assert!(
        failed["error"]
            .as_str()
            .unwrap()
            .contains("Discord is not set up yet"),
        "{failed}"
    );
}

#[tokio::test]
async fn hooks_that_fail_hang_or_are_missing_cost_nobody_anything() {
    let home = Home::new();
    seed_session(&home).await;
    let (failing, _) = program(&home, "failing", "exit 7");
    let (hanging, child) = program(&home, "hanging", "sleep 1000 & echo $! > $OUT; wait");
    let daemon = home.start_with(&[
        ("HERMESD_HOOKS_ON_HANDOFF_REQUESTED", &hanging),
        ("HERMESD_HOOKS_ON_HANDOFF_COMPLETED", &failing),
        ("HERMESD_HOOKS_ON_TURN_END", "/nowhere/at/all"),
        ("HERMESD_HOOKS_TIMEOUT", "1s"),
    ]);
    hand_off(&home);
    for words in ["exit status: 7", "it cannot be started", "it took too long"] {
        until(words, || daemon.log().contains(words).then_some(()));
    }
    let child: i32 = std::fs::read_to_string(child)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    until("what the hanging hook started is gone with it", || {
        kill(Pid::from_raw(child), None).is_err().then_some(())
    });
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn a_stop_waits_for_the_hooks_that_are_due() {
    let home = Home::new();
    seed_session(&home).await;
    // It ends only when the daemon is on its way out: the socket is gone then.
    let socket = home.socket();
    let script = format!(
        "touch $OUT.begun; while [ -e '{}' ]; do sleep 0.02; done; cat > $OUT",
        socket.display()
    );
    let (slow, out) = program(&home, "slow", &script);
    let daemon = home.start_with(&[("HERMESD_HOOKS_ON_HANDOFF_COMPLETED", &slow)]);
    hand_off(&home);
    let begun = out.with_extension("out.begun");
    until("the hook has begun", || begun.exists().then_some(()));
    assert!(daemon.stop().success());
    assert!(
        std::fs::read_to_string(out)
            .unwrap()
            .contains("on_handoff_completed")
    );
}

#[tokio::test]
async fn the_example_hook_says_what_happened() {
    let home = Home::new();
    seed_session(&home).await;
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/hooks/notify");
    // Without a desktop it prints, and that is logged.
    let daemon = home.start_with(&[
        ("HERMESD_HOOKS_ON_HANDOFF_COMPLETED", example),
        ("PATH", "/usr/bin:/bin"),
    ]);
    hand_off(&home);
    if std::path::Path::new("/usr/bin/notify-send").exists() {
        return;
    }
    let words = "The session is on local: Handoff 1 went through.";
    until(words, || daemon.log().contains(words).then_some(()));
}

/// What the hooks of sessions were told, as far as it is the same every time.
fn sessions_told(file: &Path, count: usize) -> Vec<String> {
    let told = lines(file, count).into_iter().map(|told| {
        let word = |name: &str| told[name].as_str().unwrap_or("-").to_owned();
        let how = match told["event"].as_str() {
            Some("on_session_start") => format!("resumed={}", told["resumed"]),
            _ => format!(
                "completed={} interrupted={}",
                told["completed"], told["interrupted"]
            ),
        };
        assert!(told["session_id"].is_string(), "{told}");
        format!("{} {} {how}", word("event"), word("platform"))
    });
    told.collect()
}

#[tokio::test]
async fn a_conversation_that_begins_or_ends_runs_its_hooks() {
    let home = Home::new();
    // Hooks may overtake each other, so each is waited for.
    let (began, begun) = program(&home, "began", "cat >> $OUT");
    let (ended, ends) = program(&home, "ended", "cat >> $OUT");
    let _daemon = home.start_with(&[
        ("HERMESD_HOOKS_ON_SESSION_START", &began),
        ("HERMESD_HOOKS_ON_SESSION_END", &ended),
    ]);
    let talk = home.talk(&[], "hello\n");
    sessions_told(&begun, 1);
    sessions_told(&ends, 1);
    home.talk(&["--resume", &talk.session], "hello again\n");
    sessions_told(&begun, 2);
    sessions_told(&ends, 2);
    home.type_into("local", "hi\n/new\n");
    let begun = sessions_told(&begun, 4);
    assert_eq!(
        begun,
        [
            "on_session_start cli resumed=false",
            "on_session_start cli resumed=true",
            "on_session_start local resumed=false",
            "on_session_start local resumed=false",
        ]
    );
    let over = "completed=true interrupted=false";
    assert_eq!(
        sessions_told(&ends, 3),
        ["cli", "cli", "local"].map(|platform| format!("on_session_end {platform} {over}"))
    );
}

#[tokio::test]
async fn no_hook_is_lost_to_agents_that_stream_fast() {
    let home = Home::new();
    let (note, notes) = program(&home, "note", "cat >> $OUT");
    let daemon = home.start_with(&[("HERMESD_HOOKS_ON_TURN_END", &note)]);
    // The embedded agent streams a line at a time, and takes no breath in between.
    let text = "a line\n".repeat(10_000);
    let mut turns = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let client = daemon.client().await;
        let open = Call::ChatOpen(ChatOpen::default());
        client.call::<Value>(open).await.expect("a terminal");
        let say = Call::ChatSay(ChatSay { text: text.clone() });
        turns.spawn(async move { client.call::<Value>(say).await });
    }
    while let Some(turn) = turns.join_next().await {
        let turn = turn.expect("an end").expect("a turn");
        assert_eq!(turn["error"], Value::Null, "{turn}");
    }
    assert!(daemon.stop().success());
    assert_eq!(told(&notes).len(), 12);
}
