//! An agent that speaks the Agent Client Protocol, with the built binaries: who is asked for permission, and what becomes of
//! a turn when the agent crashes, hangs or refuses.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::inbound::chats::spoken;
use crate::support::acp::*;
use crate::support::{Home, SESSION, eventually, request, seed_session, until};
use crate::terminal::sessions::{kind, open, say};

#[tokio::test]
async fn a_permission_is_asked_in_the_terminal_until_there_is_an_answer() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, None).await.unwrap();
    for (words, chosen) in [
        ("1", "allow_once"),
        ("always", "allow_always"),
        (" NO ", "reject_once"),
    ] {
        let answering = async {
            let (text, choices) = until_asked(&listener).await;
            assert!(text.contains("rm -rf /tmp/nothing"), "{text}");
            assert_eq!(choices, ["Yes", "Always", "No"]);
            for nonsense in ["4", "0", "perhaps", ""] {
                assert_eq!(
                    kind(answer(&client, nonsense).await),
                    "no_answer",
                    "{nonsense:?}"
                );
            }
            answer(&client, words).await.unwrap();
        };
        let (turn, ()) = tokio::join!(say(&client, "permission"), answering);
        assert_eq!(turn.unwrap().reply, format!("You chose the-{chosen}"));
    }
    assert_eq!(kind(answer(&client, "1").await), "no_question");
    assert_eq!(outcomes(&home).len(), 3, "the agent hears no nonsense");
}

#[tokio::test]
async fn a_permission_is_asked_in_the_chat_and_other_words_wait() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    write(&client, None, "permission").await;
    let said = heard(&client, None, 1).await;
    let question = "May I do this?\n\nTool:\n```\nrm -rf /tmp/nothing\n```\n\n1. Yes\n2. Always\n3. No\n\nAnswer with a number.";
    assert_eq!(said, [question]);
    write(&client, None, "what?").await;
    let said = heard(&client, None, 2).await;
    assert!(said[1].contains("is still open"), "{said:?}");
    // The words of an answer are no message: attach sees the agent go on.
    let attached = home.pipe_into_hermesctl("1\n", &["attach", "local"]).end();
    assert!(
        attached.stdout.contains("You chose the-allow_once"),
        "{attached:?}"
    );
    assert!(heard(&client, None, 4).await[3].contains("Prompts: 2."));
    let id: String = home
        .sqlite()
        .query_row("SELECT session_id FROM messages LIMIT 1", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(
        spoken(&home, &id),
        [
            "user: permission",
            "assistant: You chose the-allow_once",
            "user: what?",
            "assistant: Blocks: 1. Prompts: 2."
        ]
    );
}

#[tokio::test]
async fn a_handoff_may_ask_in_the_chat_that_it_goes_to() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    let handoff = home.spawn_hermesctl(&["handoff", "local", "--note", "permission"], &[]);
    let said = heard(&client, Some(1), 1).await;
    assert!(said[0].contains("3. No"), "{said:?}");
    write(&client, Some(1), "3").await;
    let ended = handoff.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(
        heard(&client, Some(1), 2).await[1],
        "You chose the-reject_once"
    );
    assert_eq!(live(&home).len(), 6);
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_answered_with_no() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[("HERMESD_AGENT_QUESTION_TIMEOUT", "1s")]);
    let client = daemon.client().await;
    open(&client, None).await.unwrap();
    let turn = say(&client, "permission").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("You chose the-reject_once", None)
    );
    assert_eq!(kind(answer(&client, "1").await), "no_question");
}

#[tokio::test]
async fn a_stop_withdraws_the_question_and_tells_the_agent() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, None).await.unwrap();
    let turn = cut_off(&client, "permission", async || {
        until_asked(&listener).await;
    })
    .await;
    assert!(turn.interrupted, "{turn:?}");
    assert_eq!(outcomes(&home), [json!({"outcome": "cancelled"})]);
    assert_eq!(kind(answer(&client, "1").await), "no_question");
    let turn = say(&client, "again").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("Blocks: 1. Prompts: 2.", None)
    );
}

#[tokio::test]
async fn a_crash_fails_the_turn_and_the_next_turn_starts_it_anew() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    reply(&chat(&home, "one", &["--resume", SESSION]));
    let turn = chat(&home, "crash", &["--resume", SESSION]);
    let error = turn["error"].as_str().expect("an error");
    assert!(
        !error.contains("boom") && error.contains("exit status: 3"),
        "{error}"
    );
    // Its last words are for the log.
    assert!(daemon.log().contains("boom"), "{}", daemon.log());
    let turn = chat(&home, "two", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 2. Prompts: 1.");
    assert_eq!(agents(&home).len(), 2);
    let crashes = daemon
        .log()
        .matches("agent exited, will start again")
        .count();
    assert_eq!(crashes, 1, "{}", daemon.log());
    let rest = [
        "user: crash",
        "user: two",
        "assistant: Blocks: 2. Prompts: 1.",
    ];
    assert_eq!(live(&home)[6..], rest);
}

#[test]
fn an_agent_that_crashes_again_and_again_is_left_alone_for_a_while() {
    let home = Home::new();
    let _daemon = start(&home, "plain", &[]);
    let error = until("it is left alone", || {
        let turn = chat(&home, "crash", &[]);
        let error = turn["error"].as_str().expect("an error").to_owned();
        (!error.contains("exit status: 3")).then_some(error)
    });
    assert!(
        error.contains("times in a row; the next start is possible in"),
        "{error}"
    );
    // And then it is asked again.
    until("it is tried again", || {
        (chat(&home, "hello", &[])["error"] == Value::Null).then_some(())
    });
}

#[tokio::test]
async fn an_agent_that_nobody_needs_ends_and_is_started_when_it_is_needed() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = start(&home, "remembers", &[("HERMESD_AGENTS_IDLE_TIMEOUT", "1s")]);
    reply(&chat(&home, "one", &["--resume", SESSION]));
    until_all_have_ended(&home);
    let turn = chat(&home, "two", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 2.");
    assert_eq!(agents(&home).len(), 2);
}

#[test]
fn an_agent_ends_with_the_daemon_however_that_ends() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let home = Home::new();
        let daemon = start(&home, "plain", &[]);
        // At work, deaf to requests, and not one to go when its input ends.
        let _talking = home.pipe_into_hermesctl("stubborn\n", &["chat"]);
        until("the agent is at it", || prompts(&home).pop());
        if signal == Signal::SIGKILL && home.command("setpriv").arg("--version").output().is_err() {
            return;
        }
        match signal {
            Signal::SIGKILL => daemon.kill(),
            _ => assert!(daemon.cut_off().success()),
        }
        until_all_have_ended(&home);
    }
}

#[tokio::test]
async fn an_agent_that_never_says_hello_does_not_outlive_the_turn() {
    let home = Home::new();
    let daemon = start(&home, "mute", &[]);
    let client = daemon.client().await;
    open(&client, None).await.unwrap();
    let turn = cut_off(&client, "hello", async || {
        eventually("it is greeted", || async { record(&home).pop() }).await;
    })
    .await;
    assert!(turn.interrupted, "{turn:?}");
    until_all_have_ended(&home);
}

#[tokio::test]
async fn an_empty_answer_or_a_refusal_fails_a_handoff_and_leaves_nothing_of_it() {
    for (note, reason) in [("empty", "empty"), ("refuse", "refused")] {
        let home = Home::new();
        seed_session(&home).await;
        let _daemon = start(&home, "plain", &[]);
        let before = live(&home);
        let ran = home.hermesctl(&["handoff", "local", "--session", SESSION, "--note", note]);
        assert_ne!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains(reason), "{ran:?}");
        let source = "SELECT source FROM sessions WHERE id = ?1";
        let source: String = home
            .sqlite()
            .query_row(source, [SESSION], |row| row.get(0))
            .unwrap();
        assert_eq!((live(&home), source.as_str()), (before, "cli"));
        // What never stood in the transcript counts for nothing: others' words are not taken for it.
        chat(&home, "aside", &["--resume", SESSION, "--agent", "echo"]);
        reply(&chat(
            &home,
            "two",
            &["--resume", SESSION, "--agent", "acp"],
        ));
        let prompt = prompts(&home).pop().unwrap();
        assert!(prompt[0].contains("user: aside"), "{prompt:?}");
    }
}

#[tokio::test]
async fn words_that_come_behind_the_end_belong_to_no_later_answer() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    let id = open(&client, None).await.unwrap().session.id;
    let late = say(&client, "late").await.unwrap();
    assert!(late.reply.starts_with("Blocks: 1. Prompts: 1."), "{late:?}");
    let turn = say(&client, "next").await.unwrap();
    assert_eq!(turn.reply, "Blocks: 1. Prompts: 2.");
    assert_eq!(spoken(&home, &id).len(), 4);
}

#[test]
fn the_witness_of_these_tests_is_strict() {
    let home = Home::new();
    let hello = json!({"protocolVersion": 1});
    let here = json!({"cwd": "/", "mcpServers": []});
    let said = [
        ("session/new", here.clone(), -32600),
        ("initialize", json!({"protocolVersion": 2}), -32602),
        ("initialize", hello.clone(), 0),
        ("initialize", hello, -32600),
        ("session/new", json!({"cwd": "here"}), -32602),
        ("session/new", here.clone(), 0),
        ("session/load", here, -32601),
        ("session/prompt", json!({"sessionId": "nobody"}), -32602),
        ("session/nonsense", json!({}), -32601),
    ];
    let lines: String = said
        .iter()
        .enumerate()
        .map(|(id, (method, params, _))| request(json!(id), method, params.clone()))
        .collect();
    home.write("said", &lines);
    let mut agent = home.command(&acp_agent());
    agent.stdin(std::fs::File::open(home.path().join("said")).unwrap());
    let answers = String::from_utf8(agent.output().unwrap().stdout).unwrap();
    let codes: Vec<i64> = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|answer| answer["error"]["code"].as_i64().unwrap_or_default())
        .collect();
    assert_eq!(codes, said.map(|(_, _, code)| code));
}
