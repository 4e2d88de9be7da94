//! The slash commands of a chat, typed into the embedded one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::inbound::chats::spoken;
use crate::support::{Home, SESSION, TITLE, seed_session, until};

#[tokio::test]
async fn a_chat_has_commands_of_its_own_which_reach_no_agent() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let said = home.type_into(
        "local",
        "/help\n/handoff local\n/dance\n/title\nhello\n/title Small talk\n/sessions\n",
    );
    assert!(
        said[0].contains("/resume") && !said[0].contains("/handoff"),
        "{said:?}"
    );
    assert!(said[1].contains("for the terminal"), "{said:?}");
    assert!(said[2].contains("no command /dance"), "{said:?}");
    assert!(said[3].contains("no conversation here yet"), "{said:?}");
    assert!(said[4].starts_with("You said: hello"), "{said:?}");
    assert!(said[5].contains("Small talk"), "{said:?}");
    assert!(
        said[6].contains("Small talk") && said[6].contains(TITLE),
        "{said:?}"
    );
    let id = home
        .hermesctl(&["--json", "sessions", "show", "Small talk"])
        .json();
    let rows = spoken(&home, id["id"].as_str().unwrap());
    assert_eq!(rows.len(), 2, "{rows:?}");
    let taken = home.type_into("local", &format!("/title {TITLE}\n"));
    assert!(taken.last().unwrap().contains("belongs to"), "{taken:?}");
}

#[tokio::test]
async fn new_begins_another_conversation_and_ends_the_one_before() {
    let home = Home::new();
    let _daemon = home.start();
    let said = home.type_into("local", "one\n/new\ntwo\n");
    assert!(said[2].contains("I remember 0 messages"), "{said:?}");
    let ends: BTreeSet<Option<String>> = home
        .sqlite()
        .prepare("SELECT end_reason FROM sessions")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(ends, BTreeSet::from([None, Some("session_reset".into())]));
}

#[tokio::test]
async fn a_terminal_session_is_brought_to_a_chat_by_name() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let said = home.type_into(
        "local",
        &format!("/resume\n/resume nobody\n/resume {TITLE}\n/resume {TITLE}\n"),
    );
    assert!(
        said[0].contains("Which one?") && said[0].contains(SESSION),
        "{said:?}"
    );
    assert!(said[1].contains("No session is called"), "{said:?}");
    assert!(
        said[2].contains("is here now, with its 4 messages"),
        "{said:?}"
    );
    assert!(said[3].contains("is already here"), "{said:?}");
    let said = home.type_into("local", "and now?\n");
    assert!(
        said.last().unwrap().contains("I remember 4 messages"),
        "{said:?}"
    );
    let session = home
        .hermesctl(&["--json", "sessions", "show", SESSION])
        .json();
    assert_eq!(
        (&session["source"], &session["ended_at"]),
        (&"local".into(), &Value::Null)
    );
}

#[tokio::test]
async fn stop_cuts_the_answer_off_and_keeps_what_there_is() {
    let home = Home::new();
    let _daemon = home.start_with(&[("HERMESD_AGENT_ECHO_PACE", "1h")]);
    let said = home.type_into("local", "/stop\n");
    assert_eq!(said, ["There is nothing to stop."]);
    let _talking = home.pipe_into_hermesctl("count to ten\n", &["attach", "local"]);
    until("the answer streams", || {
        let rows: i64 = home
            .sqlite()
            .query_row(
                "SELECT count(*) FROM hermesd_turns WHERE running",
                [],
                |row| row.get(0),
            )
            .ok()?;
        (rows == 1).then_some(())
    });
    let mut said = Vec::new();
    until("there is something to stop", || {
        said = home.type_into("local", "/stop\n");
        said.iter().any(|words| words == "Stopping.").then_some(())
    });
    until("what there is of the answer is in the chat", || {
        let said = home.type_into("local", "");
        said.iter()
            .any(|words| words == "You\n(stopped)")
            .then_some(())
    });
    let (reply, finish): (String, String) = home
        .sqlite()
        .query_row(
            "SELECT content, finish_reason FROM messages WHERE role = 'assistant'",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!((reply.trim(), finish.as_str()), ("You", "interrupted"));
}
