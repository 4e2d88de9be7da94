//! Terminals at the control socket: they take a seat, speak, and leave, politely or not, once.

use hermesd::client::{Client, ClientError, News};
use hermesd::protocol::{
    Call, ChatOpen, ChatSay, ChatTurnView, ChatView, EventKind, EventsSubscribe, Nothing,
    SessionRename,
};
use serde_json::Value;

use crate::inbound::chats::{WAITS, fill, spoken};
use crate::support::scripted::{InProcess, Mood};
use crate::support::{Home, SESSION, TITLE, eventually, seed_session, until};

pub async fn open(client: &Client, session: Option<&str>) -> Result<ChatView, ClientError> {
    let wish = ChatOpen {
        session: session.map(str::to_owned),
        ..ChatOpen::default()
    };
    client.call(Call::ChatOpen(wish)).await
}

pub async fn say(client: &Client, text: &str) -> Result<ChatTurnView, ClientError> {
    client
        .call(Call::ChatSay(ChatSay { text: text.into() }))
        .await
}

async fn leave(client: &Client) {
    let _: Value = client
        .call(Call::ChatLeave(Nothing {}))
        .await
        .expect("an end");
}

pub fn kind<T: std::fmt::Debug>(refused: Result<T, ClientError>) -> String {
    match refused {
        Err(ClientError::Refused(error)) => error.data.expect("a kind").kind,
        other => panic!("not refused: {other:?}"),
    }
}

/// How a session's row stands: source and reason of its end.
fn row(home: &Home, id: &str) -> (String, Option<String>) {
    let sql = "SELECT source, end_reason FROM sessions WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    home.sqlite().query_row(sql, [id], read).expect("a session")
}

fn count(home: &Home, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    home.sqlite()
        .query_row(&sql, [], |row| row.get(0))
        .expect("a count")
}

/// Ends of sessions that are told until this handoff-free silence: those that were told before an event of our own.
async fn ends_told(listener: &Client, daemon: &InProcess) -> Vec<bool> {
    let marker = open(&daemon.client, None)
        .await
        .expect("a session")
        .session
        .id;
    let wish = SessionRename {
        session: marker.clone(),
        title: "marker".into(),
    };
    let _: Value = daemon
        .client
        .call(Call::SessionRename(wish))
        .await
        .expect("a title");
    let mut ends = Vec::new();
    while let Some(News::Event(event)) = listener.news().await {
        match event.event {
            EventKind::SessionEnded { interrupted, .. } => ends.push(interrupted),
            EventKind::SessionStarted { session, .. } if session == marker => break,
            _ => {}
        }
    }
    ends
}

#[tokio::test]
async fn words_and_replies_are_kept_and_a_second_leaving_does_nothing() {
    let home = Home::new();
    let daemon = InProcess::start(&home, &[]).await;
    let listener = Client::connect(&home.socket()).await.unwrap();
    let wish = EventsSubscribe {
        topics: vec!["session".into()],
        session: None,
    };
    let _: Value = listener.call(Call::EventsSubscribe(wish)).await.unwrap();

    let client = Client::connect(&home.socket()).await.unwrap();
    let id = open(&client, None).await.unwrap().session.id;
    assert_eq!(count(&home, "sessions"), 0, "nothing was said yet");
    let turn = say(&client, "hello").await.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.interrupted),
        ("I have 0 messages.", false)
    );
    assert_eq!(
        spoken(&home, &id),
        ["user: hello", "assistant: I have 0 messages."]
    );
    leave(&client).await;
    assert_eq!(row(&home, &id), ("cli".into(), Some("cli_close".into())));
    leave(&client).await;
    assert_eq!(kind(say(&client, "anybody?").await), "not_open");
    drop(client);
    assert_eq!(ends_told(&listener, &daemon).await, [false]);
    daemon.stop().await;
}

#[tokio::test]
async fn a_terminal_in_which_nothing_was_said_leaves_nothing() {
    let home = Home::new();
    let daemon = InProcess::start(&home, &[]).await;
    open(&daemon.client, None).await.unwrap();
    leave(&daemon.client).await;
    assert_eq!(
        (count(&home, "sessions"), count(&home, "hermesd_terminals")),
        (0, 0)
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_session_has_one_terminal_and_taking_it_up_opens_it_again() {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite()
        .execute(
            "UPDATE sessions SET ended_at = 1.0, end_reason = 'cli_close'",
            [],
        )
        .unwrap();
    let daemon = InProcess::start(&home, &[]).await;
    let opened = open(&daemon.client, Some(TITLE)).await.unwrap();
    assert!(
        opened.resumed && opened.session.ended_at.is_none(),
        "{opened:?}"
    );
    let other = Client::connect(&home.socket()).await.unwrap();
    assert_eq!(kind(open(&other, Some(SESSION)).await), "open_elsewhere");
    assert_eq!(kind(open(&other, Some("nobody")).await), "unknown_session");
    leave(&daemon.client).await;
    open(&other, Some("last")).await.unwrap();
    assert_eq!(row(&home, SESSION), ("cli".into(), None));
    // Another one instead: the first ends for that reason.
    open(&other, None).await.unwrap();
    assert_eq!(row(&home, SESSION).1.as_deref(), Some("new_session"));
    daemon.stop().await;
}

#[tokio::test]
async fn a_client_that_vanishes_in_the_middle_of_an_answer_loses_nothing() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    daemon.set_mood(SESSION, Mood::Begin("Half of"));
    let client = Client::connect(&home.socket()).await.unwrap();
    open(&client, Some(SESSION)).await.unwrap();
    tokio::select! {
        turn = say(&client, "tell me") => panic!("{turn:?}"),
        () = eventually("what is streamed is kept", || async {
            let kept: Option<String> = home
                .sqlite()
                .query_row("SELECT partial FROM hermesd_turns", [], |row| row.get(0))
                .ok()?;
            (kept.as_deref() == Some("Half of")).then_some(())
        }) => {}
    }
    drop(client);
    eventually("the session ends", || async {
        row(&home, SESSION).1.filter(|reason| reason == "cli_close")
    })
    .await;
    assert_eq!(
        spoken(&home, SESSION)[4..],
        ["user: tell me", "assistant: Half of"]
    );
    let finish: String = home
        .sqlite()
        .query_row(
            "SELECT finish_reason FROM messages ORDER BY id DESC LIMIT 1",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(finish, "interrupted");
    assert_eq!(count(&home, "hermesd_terminals"), 0);
    daemon.stop().await;
}

#[tokio::test]
async fn an_answer_is_interrupted_once_and_the_next_one_comes() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let client = &daemon.client;
    daemon.set_mood(SESSION, Mood::Begin("Half of"));
    open(client, Some(SESSION)).await.unwrap();
    let stop = || async {
        let answer: Value = client.call(Call::ChatStop(Nothing {})).await.unwrap();
        answer["stopped"] == true
    };
    assert!(!stop().await);
    let stopping = eventually("there is something to stop", || async {
        let begun = !daemon.agent.asked.lock().unwrap().is_empty();
        (begun && stop().await).then_some(())
    });
    let (turn, ()) = tokio::join!(say(client, "tell me"), stopping);
    let turn = turn.unwrap();
    assert_eq!(
        (turn.reply.as_str(), turn.interrupted, turn.error),
        ("Half of", true, None)
    );
    daemon.set_mood(SESSION, Mood::Say("whole"));
    assert_eq!(say(client, "again").await.unwrap().reply, "whole");
    daemon.stop().await;
}

#[tokio::test]
async fn a_chat_that_takes_the_session_keeps_it_when_the_terminal_leaves() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let client = Client::connect(&home.socket()).await.unwrap();
    open(&client, Some(SESSION)).await.unwrap();
    let ended = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(ended.state, "completed");
    let rows = spoken(&home, SESSION);
    assert_eq!(kind(say(&client, "still here?").await), "moved");
    assert_eq!(spoken(&home, SESSION), rows);
    leave(&client).await;
    assert_eq!(row(&home, SESSION), ("telegram".into(), None));
    assert_eq!(count(&home, "hermesd_terminals"), 0);
    daemon.stop().await;
}

#[tokio::test]
async fn a_full_disk_holds_up_the_end_and_loses_no_part_of_it() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    daemon.set_mood(SESSION, Mood::Begin("Half of"));
    let client = Client::connect(&home.socket()).await.unwrap();
    open(&client, Some(SESSION)).await.unwrap();
    tokio::select! {
        turn = say(&client, "tell me") => panic!("{turn:?}"),
        () = eventually("the agent is at it", || async {
            (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
        }) => {}
    }
    fill(&home, "messages", true);
    drop(client);
    daemon.log.says(WAITS, 1).await;
    assert_eq!(row(&home, SESSION).1, None);
    fill(&home, "messages", false);
    eventually("the session ends", || async { row(&home, SESSION).1 }).await;
    assert_eq!(
        spoken(&home, SESSION)[4..],
        ["user: tell me", "assistant: Half of"]
    );
    daemon.stop().await;
}

#[tokio::test]
async fn what_is_said_is_refused_when_it_is_nothing_or_too_much_or_too_early() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let client = &daemon.client;
    assert_eq!(kind(say(client, "hello").await), "not_open");
    open(client, Some(SESSION)).await.unwrap();
    assert_eq!(kind(say(client, " \n").await), "empty");
    assert_eq!(kind(say(client, &"x".repeat(100_001)).await), "too_long");
    daemon.set_mood(SESSION, Mood::Hang);
    let both = async {
        eventually("the agent is at it", || async {
            (!daemon.agent.asked.lock().unwrap().is_empty()).then_some(())
        })
        .await;
        assert_eq!(kind(say(client, "me too").await), "turn_in_progress");
        let _: Value = client.call(Call::ChatStop(Nothing {})).await.unwrap();
    };
    let (turn, ()) = tokio::join!(say(client, "first"), both);
    assert!(turn.unwrap().interrupted);
    daemon.stop().await;
}

#[tokio::test]
async fn a_title_that_is_taken_is_refused_before_anything_begins() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let taken = home
        .pipe_into_hermesctl("hello\n", &["chat", "--title", TITLE])
        .end();
    assert_eq!(taken.code, 3, "{taken:?}");
    assert!(taken.stderr.contains("belongs to session"), "{taken:?}");
    let titled = home
        .pipe_into_hermesctl("hello\nsecond\n", &["--json", "chat", "--title", "Talk"])
        .end();
    assert_eq!(titled.code, 0, "{titled:?}");
    let lines: Vec<Value> = titled
        .stdout
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines[0]["session"]["title"], "Talk");
    assert_eq!(lines.len(), 3, "{titled:?}");
    assert!(
        lines[2]["reply"]
            .as_str()
            .unwrap()
            .contains("I remember 2 messages")
    );
    until("it has ended", || {
        let show = home
            .hermesctl(&["--json", "sessions", "show", "Talk"])
            .json();
        (show["end_reason"] == "cli_close").then_some(())
    });
}

#[tokio::test]
async fn whoever_opens_the_session_that_it_sits_at_stays_there_and_begins_nothing() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let wish = EventsSubscribe {
        topics: vec!["session".into()],
        session: None,
    };
    let _: Value = daemon
        .client
        .call(Call::EventsSubscribe(wish))
        .await
        .unwrap();
    for _ in 0..2 {
        let opened = open(&daemon.client, Some(SESSION)).await.unwrap();
        assert_eq!(opened.session.id, SESSION);
    }
    leave(&daemon.client).await;
    let mut told = Vec::new();
    while told.last() != Some(&"session.ended") {
        if let Some(News::Event(event)) = daemon.client.news().await {
            told.push(event.event.type_name());
        }
    }
    assert_eq!(told, ["session.started", "session.ended"]);
    daemon.stop().await;
}
