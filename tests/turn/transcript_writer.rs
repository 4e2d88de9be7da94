//! Turns whose rows the agent writes itself: whatever it writes or leaves out, each message stands once.

use hermesd::domain::TranscriptWriter;
use hermesd::store::{Store, TurnEnd, TurnStart};

use crate::inbound::chats::spoken;
use crate::support::{Home, SESSION, seed_session};

/// What an agent does to the transcript behind our back.
fn agent_writes(home: &Home, rows: &[(&str, &str)]) {
    for (role, content) in rows {
        home.sqlite()
            .execute(
                "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?1, ?2, ?3, 1.0)",
                [SESSION, role, content],
            )
            .expect("a row");
    }
}

/// Writes all rows anew under other ids, as one does when it loads a session of its own.
fn agent_renumbers(home: &Home) {
    home.sqlite()
        .execute_batch(
            "CREATE TEMP TABLE kept AS SELECT * FROM messages;
             DELETE FROM messages;
             UPDATE kept SET id = id + 100;
             INSERT INTO messages SELECT * FROM kept;",
        )
        .expect("rows");
}

async fn begin(store: &Store) -> TurnStart {
    let begun = store
        .begin_turn(SESSION, "Why?", TranscriptWriter::Agent)
        .await;
    begun.expect("a turn")
}

/// What stands behind the four messages of the seed.
fn new(home: &Home) -> Vec<String> {
    spoken(home, SESSION).split_off(4)
}

#[tokio::test]
async fn only_what_the_agent_left_out_is_written() {
    let whole = [("user", "Why?"), ("assistant", "Because.")];
    for written in 0..=2 {
        for renumbered in [false, true] {
            let home = Home::new();
            seed_session(&home).await;
            let store = home.store();
            assert_eq!(begin(&store).await, TurnStart::Ask(None));
            assert_eq!(new(&home), [""; 0], "its words are the agent's to write");
            if renumbered {
                agent_renumbers(&home);
            }
            agent_writes(&home, &whole[..written]);
            let reply = "Because.".to_owned().into();
            let end = TurnEnd::Answered(reply);
            store.end_turn(SESSION, end.clone()).await.unwrap();
            let what = format!("{written} rows, renumbered: {renumbered}");
            assert_eq!(new(&home), ["user: Why?", "assistant: Because."], "{what}");
            store.end_turn(SESSION, end).await.unwrap();
            assert_eq!(new(&home).len(), 2, "a second end changes nothing");
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_kept_once_with_its_words() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    begin(&store).await;
    agent_writes(&home, &[("user", "Why?")]);
    let cut = TurnEnd::CutOff("Beca".into());
    store.end_turn(SESSION, cut).await.unwrap();
    assert_eq!(new(&home), ["user: Why?", "assistant: Beca"]);
}

#[tokio::test]
async fn a_daemon_that_takes_the_turn_up_learns_what_the_agent_wrote() {
    for (written, expected) in [
        (&[][..], TurnStart::Ask(None)),
        (&[("user", "Why?")][..], TurnStart::Asked(None)),
        (
            &[("user", "Why?"), ("assistant", "Because.")][..],
            TurnStart::Asked(Some("Because.".into())),
        ),
    ] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        begin(&store).await;
        agent_writes(&home, written);
        assert_eq!(begin(&store).await, expected);
        // Other words are another turn.
        let other = store
            .begin_turn(SESSION, "How?", TranscriptWriter::Agent)
            .await;
        assert_eq!(other.unwrap(), TurnStart::Ask(None));
    }
}

#[tokio::test]
async fn what_the_agent_wrote_of_a_failed_handoff_is_taken_back() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    begin(&store).await;
    agent_writes(&home, &[("user", "Why?"), ("assistant", "Because.")]);
    store.retract_turn(SESSION).await.unwrap();
    let live = store.transcript(SESSION).await.unwrap();
    assert_eq!(live.messages.len(), 4);
    assert_eq!(
        begin(&store).await,
        TurnStart::Ask(None),
        "it is asked again"
    );
}
