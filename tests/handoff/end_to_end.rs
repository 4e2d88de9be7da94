//! The main road with the built binaries: request, stages, thread, reply, and on from there.

use serde_json::json;

use crate::support::{Home, SESSION, TITLE, seed_session};

#[tokio::test]
async fn a_handoff_goes_through_and_the_conversation_goes_on_in_its_thread() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();

    let ran = home.hermesctl(&[
        "handoff",
        "local",
        "--session",
        TITLE,
        "--note",
        "on the train",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for stage in [
        "claimed",
        "homed",
        "threaded",
        "bound",
        "answered",
        "delivered",
        "settled",
    ] {
        assert!(
            ran.stdout.contains(stage),
            "{stage} is missing in {}",
            ran.stdout
        );
    }
    assert!(
        ran.stdout.contains("hermesctl attach local/1") && ran.stdout.contains(SESSION),
        "{}",
        ran.stdout
    );

    let session = home
        .hermesctl(&["--json", "sessions", "show", TITLE])
        .json();
    assert_eq!(session["handoff_state"], "completed");
    assert_eq!(session["source"], "local");
    assert_eq!(session["session_key"], "agent:main:local:dm:home:1");
    assert_eq!(session["message_count"], 6);

    let said = home.hermesctl(&["--json", "attach", "local/1"]);
    assert_eq!(said.stdout.lines().count(), 1, "{said:?}");
    assert!(
        said.json()["text"]
            .as_str()
            .unwrap()
            .contains("4 messages, 1 of yours, 2 of mine, 1 tool results")
    );

    // A reply typed in the thread reaches the agent with the whole transcript and lands in the same session, also after
    // a restart.
    assert!(daemon.stop().success());
    let _daemon = home.start();
    let mut attach = home.command(env!("CARGO_BIN_EXE_hermesctl"));
    attach
        .args(["--json", "attach", "local/1"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut attach = attach.spawn().unwrap();
    std::io::Write::write_all(&mut attach.stdin.take().unwrap(), b"and the test?\n").unwrap();
    let output = attach.wait_with_output().unwrap();
    let lines: Vec<serde_json::Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines
            .iter()
            .map(|l| l["author"].clone())
            .collect::<Vec<_>>(),
        [json!("agent"), json!("user"), json!("agent")]
    );
    let reply = lines[2]["text"].as_str().unwrap();
    assert!(
        reply.contains("and the test?") && reply.contains("6 messages"),
        "{reply}"
    );

    let transcript = home
        .hermesctl(&["--json", "sessions", "transcript", SESSION])
        .json();
    let roles: Vec<_> = transcript["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
            "user",
            "assistant"
        ]
    );
    assert!(
        transcript["messages"][4]["content"]
            .as_str()
            .unwrap()
            .contains("on the train")
    );
}
