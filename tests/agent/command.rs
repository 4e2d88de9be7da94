//! Any program as the agent, with a real daemon: what it is told, what is taken of it, and that it never outlives its turn.

use std::path::PathBuf;

use hermesd::protocol::{Call, Nothing};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::agent::openai::{heard, listen};
use crate::inbound::chats::spoken;
use crate::support::{Daemon, Home, SESSION, TITLE, seed_session, until};
use crate::terminal::sessions::{open, say};

/// Starts a daemon whose agent is this script; `$OUT` in it is a file that it may write to.
fn start(home: &Home, script: &str, more: &[(&str, &str)]) -> (Daemon, PathBuf) {
    let out = home.path().join("agent.out");
    home.write("agent", &format!("OUT='{}'\n{script}\n", out.display()));
    let command = format!("sh '{}'", home.path().join("agent").display());
    (start_command(home, &command, more), out)
}

fn start_command(home: &Home, command: &str, more: &[(&str, &str)]) -> Daemon {
    let mut settings = vec![
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", command),
    ];
    settings.extend(more);
    home.start_with(&settings)
}

/// What a script says in a turn, or why it says nothing.
async fn outcome(script: &str) -> Result<String, String> {
    let home = Home::new();
    let (daemon, _) = start(&home, script, &[]);
    let client = daemon.client().await;
    open(&client, None).await.unwrap();
    let turn = say(&client, "hello").await.unwrap();
    turn.error.map_or(Ok(turn.reply), Err)
}

fn read(file: &PathBuf) -> String {
    until("the program has written", || {
        std::fs::read_to_string(file).ok()
    })
}

/// Waits until a process, whose id a script left behind, is no more.
fn until_gone(file: &PathBuf) {
    let pid = read(file).trim().parse().expect("a process id");
    until("the process is gone", || {
        kill(Pid::from_raw(pid), None).is_err().then_some(())
    });
}

#[tokio::test]
async fn plain_text_is_the_reply() {
    let home = Home::new();
    let _daemon = start(
        &home,
        "cat > /dev/null; echo Hello; printf '\\n  there  \\n\\n'",
        &[],
    );
    let talk = home.talk(&[], "hello\n");
    assert_eq!(talk.replies(), ["Hello\n\n  there"]);
    let said = spoken(&home, &talk.session);
    assert_eq!(said[1], "assistant: Hello\n\n  there");
    assert_eq!(home.type_into("local", "hello\n"), ["Hello\n\n  there"]);
}

#[tokio::test]
async fn a_program_may_speak_in_json_lines() {
    let delta = |text: &str| format!("echo '{}'\n", json!({"type": "delta", "text": text}));
    let reply = "echo '{\"type\": \"reply\", \"text\": \"On reflection, no.\"}'";
    let status = "echo '{\"type\": \"status\", \"text\": \"reading\"}'\n";
    assert_eq!(
        outcome(&format!(
            "{status}{}echo\n{}",
            delta("Yes, "),
            delta("but.")
        ))
        .await,
        Ok("Yes, but.".into())
    );
    assert_eq!(
        outcome(&format!("{}{reply}", delta("Yes, "))).await,
        Ok("On reflection, no.".into())
    );
    let error = "echo '{\"type\": \"error\", \"message\": \"out of ideas\"}'\n";
    assert_eq!(
        outcome(&format!("{}{error}", delta("Well"))).await,
        Err("the agent failed: out of ideas".into())
    );
    let slip = outcome(&format!("{}echo oops", delta("Well")))
        .await
        .unwrap_err();
    assert!(slip.contains("oops") && slip.contains("JSON"), "{slip}");
}

#[tokio::test]
async fn pieces_arrive_as_the_program_says_them() {
    let delta = |text: &str| format!("echo '{}'", json!({"type": "delta", "text": text}));
    for (one, two) in [
        (delta("One "), delta("two")),
        ("printf 'One '".into(), "printf two".into()),
    ] {
        let home = Home::new();
        let script = format!("{one}; until [ -e $OUT ]; do sleep 0.02; done; {two}");
        let (daemon, go) = start(&home, &script, &[]);
        let client = listen(&daemon).await;
        open(&client, None).await.unwrap();
        let hearing = async {
            assert_eq!(heard(&client, 1).await, ["One "]);
            std::fs::write(&go, "").unwrap();
            assert_eq!(heard(&client, 1).await, ["two"]);
        };
        let (turn, ()) = tokio::join!(say(&client, "count"), hearing);
        assert_eq!(turn.unwrap().reply, "One two");
    }
}

#[tokio::test]
async fn the_program_is_told_the_session_the_transcript_and_the_words() {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite()
        .execute("UPDATE sessions SET system_prompt = 'Be kind.'", [])
        .unwrap();
    let (_daemon, out) = start(&home, "cat > $OUT; echo here", &[]);
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: Value = serde_json::from_str(&read(&out)).unwrap();
    assert_eq!(
        told["session"],
        json!({"id": SESSION, "title": TITLE, "source": "local", "model": "m", "cwd": null, "system_prompt": "Be kind."})
    );
    assert_eq!(
        told["transcript"],
        json!([
            {"role": "user", "content": "Why does the parser fail?"},
            {"role": "assistant", "content": "Let me see.", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "run_tests", "arguments": "{}"}}]},
            {"role": "tool", "content": "1 failed", "tool_call_id": "call_1", "tool_name": "run_tests"},
            {"role": "assistant", "content": "An off-by-one."},
        ])
    );
    let notice = told["message"].as_str().unwrap();
    assert!(
        notice.starts_with("[Handoff]") && told["handoff"] == true,
        "{told}"
    );

    assert_eq!(home.type_into("local/1", "go on\n"), ["here", "here"]);
    let told: Value = serde_json::from_str(&read(&out)).unwrap();
    assert_eq!(
        (&told["message"], &told["handoff"]),
        (&json!("go on"), &json!(false))
    );
    assert_eq!(told["transcript"].as_array().unwrap().len(), 6);
}

#[tokio::test]
async fn its_complaints_are_logged_and_are_not_the_reason_that_is_told() {
    let home = Home::new();
    let script = "echo careful >&2; [ -e $OUT ] && exit 0; touch $OUT
                  echo half; for i in $(seq 30); do echo complaint $i >&2; done; exit 1";
    let (daemon, _) = start(&home, script, &[("HERMESD_LOG_LEVEL", "debug")]);
    let talk = home.talk(&[], "hello\n");
    let error = talk.error(0);
    assert!(
        error.contains("exit status: 1 (see the daemon's log)"),
        "{error}"
    );
    assert!(!error.contains("complaint"), "{error}");
    let log = daemon.log();
    let failed = log.lines().find(|line| line.contains("agent failed"));
    let failed = failed.unwrap_or_else(|| panic!("{log}"));
    for words in ["complaint 11", "complaint 30"] {
        assert!(failed.contains(words), "{words}: {failed}");
    }
    assert!(!failed.contains("careful"), "only the tail: {failed}");
    assert_eq!(spoken(&home, &talk.session)[1], "assistant: half\n");
    until("what it complains of is logged", || {
        daemon.log().contains("careful").then_some(())
    });
    // Nothing was said, though all went well.
    let error = home.talk(&[], "hello\n").turns[0]["error"].clone();
    assert_eq!(error, "the agent's answer was empty");
}

#[tokio::test]
async fn a_complaint_that_never_ends_is_not_waited_for() {
    let home = Home::new();
    let script = "tr '\\0' x < /dev/zero | head -c 200000 >&2
                  until [ -e $OUT ]; do sleep 0.02; done; echo done";
    let (daemon, go) = start(&home, script, &[("HERMESD_LOG_LEVEL", "debug")]);
    let talking = home.pipe_into_hermesctl("hello\n", &["chat"]);
    until("what there is of it is logged", || {
        daemon.log().contains("xxxx").then_some(())
    });
    std::fs::write(&go, "").unwrap();
    assert!(talking.end().stdout.contains("done"));
}

#[tokio::test]
async fn no_shell_reads_the_command() {
    let home = Home::new();
    let command = "printf '%s|' '$(touch made)' \"two words\" $HOME ; `touch made` *";
    let _daemon = start_command(&home, command, &[]);
    let talk = home.talk(&[], "hello\n");
    assert_eq!(
        talk.replies(),
        ["$(touch made)|two words|$HOME|;|`touch|made`|*|"]
    );
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let home = Home::new();
    home.write("text", "not a program");
    let text = home.path().join("text").display().to_string();
    for (command, why) in [
        ("/nowhere/at/all --flag", "does not exist"),
        ("no-such-program", "is not on the path"),
        (&text, "is not executable"),
    ] {
        let daemon = start_command(&home, command, &[]);
        let talk = home.talk(&[], "hello\n");
        let program = command.split(' ').next().unwrap();
        let words = format!("{program} {why}");
        assert!(talk.error(0).contains(&words), "{talk:?}");
        assert!(daemon.stop().success());
    }
}

#[tokio::test]
async fn a_program_need_not_read_what_it_is_told() {
    let home = Home::new();
    seed_session(&home).await;
    // More than any pipe holds.
    home.sqlite()
        .execute(
            "UPDATE messages SET content = ?1 WHERE role = 'user'",
            ["x".repeat(2 << 20)],
        )
        .unwrap();
    let _daemon = start(&home, "echo I know", &[]);
    let talk = home.talk(&["--resume", TITLE], "hello\n");
    assert_eq!(talk.replies(), ["I know"]);
}

#[tokio::test]
async fn bytes_that_are_no_text_cost_only_themselves() {
    assert_eq!(
        outcome("printf 'a\\377b\\nc\\303'; printf '\\274\\360'").await,
        Ok("a\u{fffd}b\ncü\u{fffd}".into())
    );
}

#[tokio::test]
async fn a_reply_that_never_ends_is_cut_off() {
    for script in [
        "yes",
        "tr '\\0' x < /dev/zero",
        "while echo '{\"type\": \"delta\", \"text\": \"'$(head -c 100000 /dev/zero | tr '\\0' x)'\"}'; do :; done",
    ] {
        let error = outcome(script).await.unwrap_err();
        assert!(error.contains("longer than 4 MiB"), "{script}: {error}");
    }
}

#[tokio::test]
async fn a_program_ends_with_its_turn_and_with_it_all_that_it_started() {
    let home = Home::new();
    let script = "sleep 1000 & echo $! > $OUT.new; mv $OUT.new $OUT; echo begun; wait";
    let (daemon, child) = start(&home, script, &[]);
    let client = listen(&daemon).await;
    open(&client, None).await.unwrap();
    let stopping = async {
        assert_eq!(heard(&client, 1).await, ["begun\n"]);
        let _: Value = client.call(Call::ChatStop(Nothing {})).await.unwrap();
    };
    let (turn, ()) = tokio::join!(say(&client, "hello"), stopping);
    let turn = turn.unwrap();
    assert_eq!((turn.reply.as_str(), turn.interrupted), ("begun\n", true));
    until_gone(&child);
    drop(client);
    assert!(daemon.stop().success());
    std::fs::remove_file(&child).unwrap();

    let (daemon, child) = start(&home, script, &[("HERMESD_AGENT_TIMEOUT", "2s")]);
    let talk = home.talk(&[], "hello\n");
    assert!(talk.error(0).ends_with("see agent.timeout"), "{talk:?}");
    until_gone(&child);
    assert!(daemon.stop().success());
    std::fs::remove_file(&child).unwrap();

    // A daemon that is cut off ends the turn, too.
    let (daemon, child) = start(&home, script, &[]);
    let _talking = home.pipe_into_hermesctl("hello\n", &["chat"]);
    read(&child);
    assert!(daemon.cut_off().success());
    until_gone(&child);
}

#[tokio::test]
async fn what_an_answer_leaves_running_ends_with_the_answer() {
    let home = Home::new();
    // It has the program's output too, which so never ends by itself.
    let script = "sleep 1000 & echo $! > $OUT; echo done";
    let (_daemon, child) = start(&home, script, &[]);
    assert_eq!(home.talk(&[], "hello\n").replies(), ["done"]);
    until_gone(&child);
}

#[tokio::test]
async fn a_killed_daemon_takes_its_agent_along() {
    let has_leash = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .any(|place| place.join("setpriv").exists());
    if !has_leash {
        return;
    }
    let home = Home::new();
    let script = "echo $$ > $OUT.new; mv $OUT.new $OUT; exec sleep 1000";
    let (daemon, program) = start(&home, script, &[]);
    let _talking = home.pipe_into_hermesctl("hello\n", &["chat"]);
    read(&program);
    daemon.kill();
    until_gone(&program);
}

#[tokio::test]
async fn tokens_are_none_of_the_programs_business() {
    let home = Home::new();
    let (_daemon, out) = start(
        &home,
        "env > $OUT; echo done",
        &[
            ("TELEGRAM_BOT_TOKEN", "1:a-secret"),
            ("HERMESD_PLATFORMS_DISCORD_TOKEN", "a-secret"),
            ("MATRIX_ACCESS_TOKEN", "a-secret"),
            ("HERMESD_AGENTS_OPENAI_API_KEY", "a-secret"),
            ("EDITOR", "ed"),
        ],
    );
    assert_eq!(home.talk(&[], "hello\n").replies(), ["done"]);
    let environment = read(&out);
    assert!(!environment.contains("a-secret"), "{environment}");
    assert!(environment.contains("EDITOR=ed"), "{environment}");
}

#[tokio::test]
async fn the_example_agent_passes_the_conversation_on() {
    const EXAMPLE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/contrib/agents/command-example"
    );
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start_command(&home, &format!("{EXAMPLE} cat"), &[]);
    let talk = home.talk(&["--resume", TITLE], "and now?\n");
    let asked = "You are a helpful assistant.\n\nuser: Why does the parser fail?\n\nassistant: Let me see.\n\n\
                 assistant: An off-by-one.\n\nuser: and now?\n\nassistant:";
    assert_eq!(talk.replies(), [asked]);
    assert!(daemon.stop().success());
    let daemon = start_command(&home, EXAMPLE, &[]);
    let talk = home.talk(&[], "hello\n");
    assert!(talk.replies()[0].contains("user: hello"), "{talk:?}");
    assert!(daemon.stop().success());
    let _daemon = start_command(&home, &format!("{EXAMPLE} sh -c 'exit 3'"), &[]);
    let talk = home.talk(&[], "hello\n");
    assert!(talk.error(0).contains("sh ended with 3"), "{talk:?}");
}

/// The agent makes the database unreadable before it answers.
const UNREADABLE: &str = "cat > /dev/null; echo asked >> \"$OUT\"; touch \"${OUT%/*}/unreadable\"; echo 'hard-won words'";

/// Waits until an answer that is there waits for the database, and makes it readable again.
fn until_it_waits(home: &Home, daemon: &Daemon) {
    until("the answer waits for the database", || {
        let log = daemon.log();
        log.contains("waiting for the database").then_some(())
    });
    std::fs::remove_file(home.path().join("unreadable")).unwrap();
}

#[test]
fn an_answer_in_a_chat_outlives_a_database_that_cannot_be_read() {
    let home = Home::new();
    let (daemon, out) = start(&home, UNREADABLE, &[("HERMESD_FAIL_READS", "1")]);
    let talk = home.pipe_into_hermesctl("hello\n", &["attach", "local"]);
    until_it_waits(&home, &daemon);
    let ran = talk.end();
    assert!(ran.stdout.contains("hard-won words"), "{ran:?}");
    assert_eq!(read(&out), "asked\n", "the agent is asked once");
}

#[tokio::test]
async fn an_answer_to_a_handoff_outlives_a_database_that_cannot_be_read() {
    let home = Home::new();
    seed_session(&home).await;
    let (daemon, out) = start(&home, UNREADABLE, &[("HERMESD_FAIL_READS", "1")]);
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local' WHERE id = ?1",
            [SESSION],
        )
        .unwrap();
    until_it_waits(&home, &daemon);
    until("the handoff completes", || {
        let sql = "SELECT handoff_state = 'completed' FROM sessions WHERE id = ?1";
        let row = home
            .sqlite()
            .query_row(sql, [SESSION], |row| row.get::<_, bool>(0));
        row.unwrap().then_some(())
    });
    let said = spoken(&home, SESSION);
    assert_eq!(said.last().unwrap(), "assistant: hard-won words");
    assert_eq!(read(&out), "asked\n", "the agent is asked once");
}
