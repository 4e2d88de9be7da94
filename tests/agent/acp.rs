//! An agent that speaks the Agent Client Protocol, with the built binaries: who gets what of a conversation, and what
//! becomes of an answer that is stopped.

use hermesd::protocol::EventKind;
use serde_json::{Value, json};

use crate::inbound::chats::spoken;
use crate::support::acp::*;
use crate::support::{Home, SESSION, eventually, seed_session, somebody_hands_off};
use crate::terminal::sessions::{open, say};

#[tokio::test]
async fn an_answer_streams_into_the_terminal_and_stands_in_the_transcript_once() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    let id = open(&client, None).await.unwrap().session.id;
    let turn = say(&client, "hello").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("Blocks: 1. Prompts: 1.", None)
    );
    let mut pieces = Vec::new();
    loop {
        match next(&listener).await {
            EventKind::TurnDelta { text, .. } => pieces.push(text),
            EventKind::TurnEnded { .. } => break,
            _ => {}
        }
    }
    assert_eq!(pieces, ["Blocks: 1. ", "Prompts: 1."]);
    let rows = ["user: hello", "assistant: Blocks: 1. Prompts: 1."];
    assert_eq!(spoken(&home, &id), rows);
}

#[test]
fn thoughts_tools_and_plans_are_no_part_of_the_answer() {
    let home = Home::new();
    let _daemon = start(&home, "plain", &[]);
    let turn = chat(&home, "think", &[]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 1.");
}

#[tokio::test]
async fn a_history_from_elsewhere_is_given_once_before_the_first_words_and_never_again() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let client = daemon.client().await;
    open(&client, Some(SESSION)).await.unwrap();
    let one = say(&client, "one").await.unwrap().reply;
    let two = say(&client, "two").await.unwrap().reply;
    assert_eq!(
        (one.as_str(), two.as_str()),
        ("Blocks: 2. Prompts: 1.", "Blocks: 1. Prompts: 2.")
    );
    let [first, second] = &prompts(&home)[..] else {
        panic!("{:?}", methods(&home));
    };
    assert!(tells_the_history(&first[0]), "{first:?}");
    assert_eq!(
        (&first[1..], &second[..]),
        (&["one".to_owned()][..], &["two".to_owned()][..])
    );
}

#[tokio::test]
async fn a_conversation_goes_to_a_chat_and_comes_back_with_each_message_once() {
    let home = Home::new();
    seed_session(&home).await;
    // A session without one would move to the directory in which it is resumed.
    let set = "UPDATE sessions SET cwd = '/'";
    home.sqlite().execute(set, []).unwrap();
    let daemon = start(&home, "plain", &[]);
    somebody_hands_off(&home);
    let client = daemon.client().await;
    write(&client, Some(1), "and here?").await;
    let said = heard(&client, Some(1), 2).await;
    assert_eq!(said, ["Blocks: 2. Prompts: 1.", "Blocks: 1. Prompts: 2."]);
    let back = home.hermesctl(&["resume", SESSION, "--no-chat"]);
    assert_eq!(back.code, 0, "{back:?}");
    let turn = chat(&home, "home again", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 3.");
    assert!(tells_the_history(&prompts(&home)[0][0]));
    let rows = live(&home);
    assert!(rows[4].starts_with("user: [Handoff]"), "{rows:?}");
    let rest = [
        "assistant: Blocks: 2. Prompts: 1.",
        "user: and here?",
        "assistant: Blocks: 1. Prompts: 2.",
        "user: home again",
        "assistant: Blocks: 1. Prompts: 3.",
    ];
    assert_eq!(rows[5..], rest);
}

#[tokio::test]
async fn what_another_agent_said_meanwhile_is_given_and_only_that() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = start(&home, "plain", &[]);
    chat(&home, "one", &["--resume", SESSION]);
    chat(&home, "aside", &["--resume", SESSION, "--agent", "echo"]);
    let turn = chat(&home, "two", &["--resume", SESSION, "--agent", "acp"]);
    assert_eq!(reply(&turn), "Blocks: 2. Prompts: 2.");
    let context = &prompts(&home)[1][0];
    assert!(
        context.contains("user: aside") && context.contains("assistant: "),
        "{context}"
    );
    assert!(
        !context.contains("parser fail") && !context.contains("Prompts: 1"),
        "{context}"
    );
    chat(&home, "three", &["--resume", SESSION]);
    assert_eq!(prompts(&home)[2], ["three"]);
}

/// Speaks in the seeded session before and after a restart of the daemon. What the agent was asked since.
async fn after_a_restart(home: &Home, mode: &str) -> (Vec<String>, Vec<String>) {
    seed_session(home).await;
    let daemon = start(home, mode, &[]);
    reply(&chat(home, "one", &["--resume", SESSION]));
    daemon.stop();
    let before = methods(home).len();
    let _daemon = start(home, mode, &[]);
    reply(&chat(home, "two", &["--resume", SESSION]));
    let asked = methods(home).split_off(before);
    let rows = live(home);
    assert_eq!((rows.len(), rows[6].as_str()), (8, "user: two"), "{rows:?}");
    (asked, prompts(home).pop().unwrap())
}

#[tokio::test]
async fn after_a_restart_an_agent_that_remembers_is_told_nothing_again() {
    let home = Home::new();
    let (asked, prompt) = after_a_restart(&home, "remembers").await;
    assert_eq!(asked, ["initialize", "session/load", "session/prompt"]);
    assert_eq!(prompt, ["two"]);
}

#[tokio::test]
async fn after_a_restart_an_agent_that_loads_nothing_is_told_everything() {
    let home = Home::new();
    let (asked, prompt) = after_a_restart(&home, "plain").await;
    assert_eq!(asked, ["initialize", "session/new", "session/prompt"]);
    assert!(
        tells_the_history(&prompt[0]) && prompt[0].contains("user: one"),
        "{prompt:?}"
    );
}

#[tokio::test]
async fn an_agent_that_only_pretends_to_remember_is_told_everything() {
    let home = Home::new();
    let (asked, prompt) = after_a_restart(&home, "forgetful").await;
    assert_eq!(
        asked,
        [
            "initialize",
            "session/load",
            "session/new",
            "session/prompt"
        ]
    );
    assert!(
        tells_the_history(&prompt[0]) && prompt[0].contains("user: one"),
        "{prompt:?}"
    );
}

#[tokio::test]
async fn an_agent_may_replay_more_than_anybody_waits_for() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "remembers", &[]);
    chat(&home, "one", &["--resume", SESSION]);
    daemon.stop();
    let path = home.path().join("agent.json");
    let mut state: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for session in state.as_object_mut().unwrap().values_mut() {
        session["history"] = Value::from(vec![json!(["agent", "words"]); 10_000]);
    }
    std::fs::write(&path, state.to_string()).unwrap();
    let _daemon = start(&home, "remembers", &[]);
    let turn = chat(&home, "two", &["--resume", SESSION]);
    assert_eq!(reply(&turn), "Blocks: 1. Prompts: 1.");
}

#[tokio::test]
async fn a_stopped_answer_is_cancelled_at_the_agent_kept_as_far_as_it_came_and_followed_by_others()
{
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, Some(SESSION)).await.unwrap();
    let turn = cut_off(&client, "slowly", async || {
        until_it_streams(&listener).await
    })
    .await;
    assert_eq!(
        (turn.reply.as_str(), turn.interrupted, turn.error),
        ("Half of", true, None)
    );
    assert!(methods(&home).contains(&"session/cancel".to_owned()));
    let finish = "SELECT finish_reason FROM messages ORDER BY id DESC LIMIT 1";
    let finish: String = home
        .sqlite()
        .query_row(finish, [], |row| row.get(0))
        .unwrap();
    assert_eq!(finish, "interrupted");
    // The same session of the agent's, which knows what it said itself.
    let turn = say(&client, "again").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.error),
        ("Blocks: 1. Prompts: 2.", None)
    );
    let rest = [
        "user: slowly",
        "assistant: Half of",
        "user: again",
        "assistant: Blocks: 1. Prompts: 2.",
    ];
    assert_eq!(live(&home)[4..], rest);
}

#[tokio::test]
async fn an_agent_that_does_not_stop_holds_up_neither_the_stop_nor_the_next_turn() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    open(&client, Some(SESSION)).await.unwrap();
    assert_eq!(say(&client, "one").await.unwrap().error, None);
    until_it_streams(&listener).await;
    while !matches!(next(&listener).await, EventKind::TurnEnded { .. }) {}
    let turn = cut_off(&client, "stubborn", async || {
        until_it_streams(&listener).await
    })
    .await;
    assert_eq!(
        (turn.reply.as_str(), turn.interrupted, turn.error),
        ("Half of", true, None)
    );
    let turn = say(&client, "again").await.unwrap();
    assert_eq!(turn.error, None);
    // Its own session is still busy: another one learns everything anew.
    let context = &prompts(&home)[2][0];
    assert!(
        tells_the_history(context) && context.contains("Half of"),
        "{context}"
    );
}

#[tokio::test]
async fn a_stop_in_a_chat_cancels_at_the_agent_too() {
    let home = Home::new();
    let daemon = start(&home, "plain", &[]);
    let (client, listener) = (daemon.client().await, listen(&home, "turn").await);
    write(&client, None, "slowly").await;
    until_it_streams(&listener).await;
    write(&client, None, "/stop").await;
    eventually("the agent is told", || async {
        methods(&home)
            .contains(&"session/cancel".to_owned())
            .then_some(())
    })
    .await;
    write(&client, None, "again").await;
    eventually("the next answer", || async {
        let said = heard(&client, None, 1).await;
        said.contains(&"Blocks: 1. Prompts: 2.".to_owned())
            .then_some(())
    })
    .await;
}
