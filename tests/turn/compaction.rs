//! Turns during which Hermes compacts the conversation in place: all live rows become inactive, and a summary with copies of the
//! rows that are kept is appended. Taking a turn back must leave the summary and the copies alone.

use std::sync::atomic::Ordering;

use hermesd::domain::RequestedVia;
use hermesd::domain::TranscriptWriter;
use hermesd::platform::local;
use hermesd::store::{Answer, Claim, Store, TurnEnd, TurnStart};

use crate::support::scripted::{InProcess, Mood};
use crate::support::{Home, SESSION, TITLE, home_channel, no_thread, seed_session};

const SUMMARY: (&str, &str) = (
    "user",
    "[CONTEXT COMPACTION — REFERENCE ONLY] They fixed a parser.",
);
const KEPT: (&str, &str) = ("assistant", "An off-by-one.");

fn append(home: &Home, rows: &[(&str, &str)]) {
    for (role, content) in rows {
        home.sqlite()
            .execute(
                "INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?1, ?2, ?3, 1.0, 1)",
                [SESSION, role, content],
            )
            .expect("a row");
        home.sqlite()
            .execute_batch("UPDATE sessions SET message_count = COALESCE(message_count, 0) + 1")
            .expect("a count");
    }
}

/// What Hermes' `archive_and_compact` does to the rows and the counter.
fn compact(home: &Home, rows: &[(&str, &str)]) {
    home.sqlite()
        .execute_batch(
            "UPDATE messages SET active = 0, compacted = 1 WHERE active = 1;
             UPDATE sessions SET message_count = 0;",
        )
        .expect("archived rows");
    append(home, rows);
}

/// The live rows, and whether the counter says the same.
fn live(home: &Home) -> Vec<(String, String)> {
    let connection = home.sqlite();
    let mut statement = connection
        .prepare(
            "SELECT role, content FROM messages WHERE session_id = ?1 AND active = 1 ORDER BY id",
        )
        .unwrap();
    let rows: Vec<(String, String)> = statement
        .query_map([SESSION], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let count: i64 = connection
        .query_row(
            "SELECT message_count FROM sessions WHERE id = ?1",
            [SESSION],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(count, rows.len() as i64, "message_count: {rows:?}");
    rows
}

fn owned(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(role, text): &(&str, &str)| ((*role).to_owned(), (*text).to_owned());
    rows.iter().map(own).collect()
}

/// A daemon whose agent writes its rows itself and hangs in the turn of a handoff. Returns the handoff's id and notice.
async fn in_a_handoffs_turn(home: &Home) -> (InProcess, i64, String) {
    let daemon = InProcess::start(home, &[]).await;
    daemon.agent.writes.store(true, Ordering::Relaxed);
    daemon.set_mood(SESSION, Mood::Hang);
    let handoff = daemon.ask("telegram", SESSION).await;
    daemon.asked(1).await;
    let notice = notice(home);
    (daemon, handoff.id, notice)
}

fn notice(home: &Home) -> String {
    home.sqlite()
        .query_row("SELECT words FROM hermesd_turns", [], |row| row.get(0))
        .expect("a turn")
}

#[tokio::test]
async fn a_cancelled_handoff_takes_out_its_own_rows_and_leaves_the_compacted_history() {
    let home = Home::new();
    seed_session(&home).await;
    let (daemon, id, notice) = in_a_handoffs_turn(&home).await;
    compact(&home, &[SUMMARY, KEPT, ("user", &notice)]);
    append(&home, &[("assistant", "Let me look."), ("tool", "found")]);
    daemon.cancel(id).await;
    let ended = daemon.ended(id).await;
    assert_eq!(ended.error.as_deref(), Some("cancelled"));
    assert_eq!(live(&home), owned(&[SUMMARY, KEPT]));
    daemon.stop().await;
}

#[tokio::test]
async fn a_notice_that_went_into_the_summary_stays_and_the_person_learns_so() {
    let home = Home::new();
    seed_session(&home).await;
    // In a row of its own or in the same row as the summary: neither is the notice alone.
    for merged in [false, true] {
        let daemon = InProcess::start(&home, &[]).await;
        daemon.agent.writes.store(true, Ordering::Relaxed);
        daemon.set_mood(SESSION, Mood::Hang);
        let asking = home.spawn_hermesctl(&["handoff", "telegram", "--session", TITLE], &[]);
        daemon.asked(1).await;
        let both = format!("{}\n\n{}", notice(&home), SUMMARY.1);
        let rows = match merged {
            true => [KEPT, ("user", &both), ("tool", "found")],
            false => [KEPT, SUMMARY, ("tool", "found")],
        };
        compact(&home, &rows);
        let id = home.store().list_handoffs(None, true, 1).await.unwrap()[0].id;
        daemon.cancel(id).await;
        let ended = daemon.ended(id).await;
        let error = ended.error.unwrap();
        assert!(
            error.starts_with("cancelled; its notice stays in the transcript"),
            "{error}"
        );
        assert_eq!(live(&home), owned(&rows), "nothing is taken out");
        let ran = tokio::task::spawn_blocking(|| asking.end()).await.unwrap();
        assert!(
            ran.stderr.contains("its notice stays in the transcript"),
            "{ran:?}"
        );
        assert!(!ran.stderr.contains("everything is as before"), "{ran:?}");
        daemon.stop().await;
    }
}

#[tokio::test]
async fn an_older_notice_that_a_compaction_kept_is_not_taken_for_the_new_one() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    assert_eq!(
        daemon.hand_off("telegram", SESSION).await.state,
        "completed"
    );
    let store = home.store();
    let old = store.transcript(SESSION).await.unwrap().messages[4].plain();
    daemon.stop().await;
    let (daemon, id, _) = in_a_handoffs_turn(&home).await;
    let rows = [("user", old.as_str()), ("assistant", "I am here."), SUMMARY];
    compact(&home, &rows);
    daemon.cancel(id).await;
    daemon.ended(id).await;
    assert_eq!(live(&home), owned(&rows));
    daemon.stop().await;
}

#[tokio::test]
async fn what_a_killed_daemon_left_of_a_cancelled_handoffs_turn_is_taken_out_at_the_next_start() {
    let home = Home::new();
    seed_session(&home).await;
    let before = live(&home);
    let (daemon, id, notice) = in_a_handoffs_turn(&home).await;
    append(&home, &[("user", &notice), ("assistant", "Let me look.")]);
    // As if it were killed right behind the cancellation.
    daemon.cut_off().await;
    home.sqlite()
        .execute_batch("UPDATE hermesd_handoffs SET cancel_requested = 1")
        .unwrap();
    let daemon = InProcess::start(&home, &[]).await;
    daemon.agent.writes.store(true, Ordering::Relaxed);
    assert_eq!(daemon.ended(id).await.error.as_deref(), Some("cancelled"));
    assert_eq!(live(&home), before);
    daemon.stop().await;
}

/// A handoff up to its answer, whose rows we write.
async fn answered(store: &Store) -> Claim {
    let asked = store.request_handoff(SESSION, "local", None, RequestedVia::Socket, false);
    asked.await.unwrap();
    let claim = store.claim_handoff(SESSION, "owner", f64::MAX, home_channel);
    let claim = claim.await.unwrap().unwrap();
    store.record_thread(&claim, &no_thread()).await.unwrap();
    let source = local::source("home", None);
    store
        .record_binding(&claim, "a:key", &source)
        .await
        .unwrap();
    let answer = Answer {
        notice: "moved (1)".into(),
        reply: "here".to_owned().into(),
        deliveries: Vec::new(),
        transcript_writer: TranscriptWriter::Daemon,
    };
    store.record_answer(&claim, answer).await.unwrap();
    claim
}

#[tokio::test]
async fn a_rollback_takes_out_the_copies_that_a_later_compaction_made() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let claim = answered(&store).await;
    let said = [("user", "moved (1)"), ("assistant", "here")];
    let later = [("user", "thanks"), ("assistant", "Sure.")];
    compact(&home, &[&[SUMMARY, KEPT], &said[..], &later[..]].concat());
    store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
    assert_eq!(live(&home), owned(&[SUMMARY, KEPT, later[0], later[1]]));
    assert_eq!(row_error(&home), "no");
}

#[tokio::test]
async fn a_rollback_whose_rows_were_summarised_says_so() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let claim = answered(&store).await;
    compact(&home, &[SUMMARY, KEPT]);
    store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
    assert_eq!(live(&home), owned(&[SUMMARY, KEPT]));
    assert!(
        row_error(&home).starts_with("no; its notice stays"),
        "{}",
        row_error(&home)
    );
}

fn row_error(home: &Home) -> String {
    home.sqlite()
        .query_row("SELECT handoff_error FROM sessions", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn an_answer_is_kept_once_in_a_compacted_transcript() {
    let asked = ("user", "Why?");
    let reply = ("assistant", "Because.");
    for (rows, expected) in [
        // The agent wrote all of it.
        (
            vec![SUMMARY, KEPT, asked, reply],
            vec![SUMMARY, KEPT, asked, reply],
        ),
        // It did not come to write its answer: the last row is an older one.
        (
            vec![SUMMARY, asked, KEPT],
            vec![SUMMARY, asked, KEPT, reply],
        ),
        // It wrote nothing of this turn.
        (vec![SUMMARY, KEPT], vec![SUMMARY, KEPT, asked, reply]),
    ] {
        let home = Home::new();
        seed_session(&home).await;
        let store = home.store();
        let begun = store.begin_turn(SESSION, asked.1, TranscriptWriter::Agent);
        assert_eq!(begun.await.unwrap(), TurnStart::Ask(None));
        compact(&home, &rows);
        let end = TurnEnd::Answered("Because.".to_owned().into());
        store.end_turn(SESSION, end).await.unwrap();
        assert_eq!(live(&home), owned(&expected));
    }
}

#[tokio::test]
async fn an_older_answer_is_not_taken_for_one_that_a_killed_daemon_waited_for() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let begin = || store.begin_turn(SESSION, "Why?", TranscriptWriter::Agent);
    begin().await.unwrap();
    compact(&home, &[SUMMARY, KEPT]);
    assert_eq!(
        begin().await.unwrap(),
        TurnStart::Ask(None),
        "it was not asked"
    );
    append(&home, &[("user", "Why?")]);
    assert_eq!(begin().await.unwrap(), TurnStart::Asked(None));
    compact(&home, &[SUMMARY, KEPT]);
    assert_eq!(
        begin().await.unwrap(),
        TurnStart::Asked(None),
        "its words went into the summary"
    );
}

#[tokio::test]
async fn retry_takes_no_summary_out_of_a_chat() {
    let home = Home::new();
    let _daemon = home.start();
    home.type_into("local", "hello\n");
    let session: String = home
        .sqlite()
        .query_row("SELECT id FROM sessions", [], |row| row.get(0))
        .unwrap();
    let set = |rows: &[(&str, &str)]| {
        home.sqlite()
            .execute_batch("UPDATE messages SET active = 0, compacted = 1 WHERE active = 1")
            .unwrap();
        for (role, content) in rows {
            home.sqlite()
                .execute(
                    "INSERT INTO messages (session_id, role, content, timestamp, active) VALUES (?1, ?2, ?3, 1.0, 1)",
                    [&session, *role, *content],
                )
                .unwrap();
        }
    };
    let live = || -> i64 {
        let sql = "SELECT count(*) FROM messages WHERE active = 1";
        home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    // The words are in the summary, or stand before it: all behind them would go with them.
    for rows in [
        vec![SUMMARY, KEPT],
        vec![
            ("user", "hello"),
            (KEPT.0, SUMMARY.1),
            ("tool", "found"),
            KEPT,
        ],
    ] {
        set(&rows);
        let said = home.type_into("local", "/retry\n");
        assert!(
            said.last().unwrap().contains("nothing to try again"),
            "{said:?}"
        );
        assert_eq!(live(), rows.len() as i64);
    }
    // A copy of the words behind it can be tried again.
    set(&[SUMMARY, KEPT, ("user", "hello"), ("assistant", "Hm.")]);
    let said = home.type_into("local", "/retry\n");
    assert!(
        said.last().unwrap().starts_with("You said: hello"),
        "{said:?}"
    );
    assert_eq!(live(), 4);
}
