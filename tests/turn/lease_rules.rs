//! The rules of Hermes' turn lease, at the store: who holds a conversation, who is dead, what a lost lease means.

use hermesd::domain::TranscriptWriter;
use hermesd::store::{HeldBy, StoreError, TurnEnd, TurnLease};

use crate::inbound::chats::spoken;
use crate::store::open::home_of;
use crate::support::{Home, SESSION, seed_session};

/// A database with turn leases, in which nothing is under way.
pub fn leased_home() -> Home {
    let home = home_of("hermes-0.20.5.db");
    home.sqlite()
        .execute_batch(
            "DELETE FROM session_turn_leases;
             UPDATE sessions SET handoff_state = NULL, handoff_platform = NULL, handoff_error = NULL;",
        )
        .expect("rows");
    home
}

/// Another program holds the conversation for so many seconds from now on.
pub fn hold(home: &Home, conversation: &str, holder: &str, seconds: f64) {
    home.sqlite()
        .execute(
            "INSERT OR REPLACE INTO session_turn_leases VALUES (?1, ?2, unixepoch('subsec'), unixepoch('subsec') + ?3)",
            (conversation, holder, seconds),
        )
        .expect("a lease");
}

pub fn free(home: &Home) {
    home.sqlite()
        .execute("DELETE FROM session_turn_leases", [])
        .expect("no lease");
}

/// Key and holder of every lease.
pub fn leases(home: &Home) -> Vec<(String, String)> {
    let connection = home.sqlite();
    let mut statement = connection
        .prepare("SELECT conversation_id, holder FROM session_turn_leases")
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

/// The namespace of our process ids.
fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").unwrap().ino()
}

/// A process that lives, and is none of ours.
pub const ALIVE: i32 = 1;
/// A process that cannot be.
const DEAD: i32 = 4_194_303;

async fn begin(lease: &TurnLease) -> Result<(), StoreError> {
    let store = lease.store();
    let begun = store
        .begin_turn(SESSION, "Why?", lease.transcript_writer())
        .await;
    begun.map(|_| ())
}

fn held_by(outcome: Result<(), StoreError>) -> Option<HeldBy> {
    match outcome {
        Ok(()) => None,
        Err(StoreError::TurnHeld(by)) => Some(by),
        Err(other) => panic!("{other}"),
    }
}

fn answered() -> TurnEnd {
    TurnEnd::Answered("Because.".to_owned().into())
}

/// What stands in the transcript behind what the fixture has.
fn new(home: &Home, before: usize) -> Vec<String> {
    spoken(home, SESSION).split_off(before)
}

#[tokio::test]
async fn a_turn_holds_the_lease_from_its_words_to_its_answer() {
    let home = leased_home();
    let store = home.store();
    let lease = store.turn_lease(SESSION, "telegram", TranscriptWriter::Daemon);
    begin(&lease).await.unwrap();
    let [(key, holder)] = &leases(&home)[..] else {
        panic!("{:?}", leases(&home))
    };
    let (pid, namespace) = (std::process::id(), namespace());
    assert_eq!(key, SESSION);
    let begins = format!("pid={pid}:pidns={namespace}:turn={SESSION}:hermesd:");
    assert!(holder.starts_with(&begins), "{holder}");
    assert!(holder.ends_with(":platform=telegram"), "{holder}");
    lease.store().end_turn(SESSION, answered()).await.unwrap();
    assert_eq!(leases(&home), []);
}

#[tokio::test]
async fn a_turn_that_is_dropped_releases_its_lease() {
    let home = leased_home();
    let store = home.store();
    let lease = store.turn_lease(SESSION, "cli", TranscriptWriter::Daemon);
    begin(&lease).await.unwrap();
    assert_eq!(leases(&home).len(), 1);
    drop(lease);
    // The next write comes behind the release.
    store.create_session("cli", None, None).await.unwrap();
    assert_eq!(leases(&home), []);
}

#[tokio::test]
async fn only_live_holders_are_waited_for() {
    let (pid, namespace) = (std::process::id(), namespace());
    let (ours, elsewhere) = (
        format!("pidns={namespace}"),
        format!("pidns={}", namespace + 1),
    );
    let cases = [
        (format!("pid={ALIVE}:turn=t:platform=telegram"), 60.0, true),
        (format!("pid={ALIVE}:turn=t:platform=telegram"), -1.0, false),
        (format!("pid={ALIVE}:{ours}:turn=t"), 60.0, true),
        (format!("pid={DEAD}:{ours}:turn=t"), 60.0, false),
        // Hermes 0.20 does not say in which namespace that process was. Only the machine's own sees all of them.
        (format!("pid={DEAD}:turn=t"), 60.0, namespace != 0xEFFF_FFFC),
        (format!("pid={DEAD}:{elsewhere}:turn=t"), 60.0, true),
        ("somebody".to_owned(), 60.0, true),
        // What a daemon before us, or a turn of ours that broke off, has left.
        (format!("pid={pid}:{ours}:turn=t:hermesd:1"), 60.0, false),
        (format!("pid={pid}:{ours}:turn=t:1"), 60.0, true),
        (
            format!("pid={pid}:{elsewhere}:turn=t:hermesd:1"),
            60.0,
            true,
        ),
    ];
    for (holder, seconds, is_held) in cases {
        let home = leased_home();
        let store = home.store();
        hold(&home, SESSION, &holder, seconds);
        for transcript_writer in [TranscriptWriter::Agent, TranscriptWriter::Daemon] {
            let lease = store.turn_lease(SESSION, "cli", transcript_writer);
            let by = held_by(begin(&lease).await);
            assert_eq!(by.is_some(), is_held, "{holder} {transcript_writer:?}");
            if let Some(by) = by.filter(|_| holder.ends_with("telegram")) {
                assert_eq!(
                    (by.pid, by.platform.as_deref()),
                    (Some(1), Some("telegram"))
                );
            }
            if transcript_writer == TranscriptWriter::Daemon && !is_held {
                assert_ne!(leases(&home)[0].1, holder, "it is ours now");
            } else {
                assert_eq!(leases(&home)[0].1, holder, "it is left alone");
            }
        }
    }
}

#[tokio::test]
async fn the_first_row_of_a_compressed_conversation_is_the_key() {
    let home = leased_home();
    let store = home.store();
    let (first, second) = ("20260103_090000_cccccc", "20260103_100000_dddddd");
    let key = async |markers: &str| {
        home.sqlite()
            .execute(
                "UPDATE sessions SET model_config = ?2 WHERE id = ?1",
                [second, markers],
            )
            .unwrap();
        let lease = store.turn_lease(second, "cli", TranscriptWriter::Daemon);
        lease.take().await.unwrap();
        let key = leases(&home)[0].0.clone();
        drop(lease);
        store.create_session("cli", None, None).await.unwrap();
        key
    };
    assert_eq!(key("{}").await, first);
    assert_eq!(key("no JSON").await, first);
    for marker in ["_branched_from", "_delegate_from", "_reset_from"] {
        let of_parent = format!(r#"{{"{marker}": "{first}"}}"#);
        assert_eq!(key(&of_parent).await, second, "{marker}");
        // Compression copies the markers of the row before, which say nothing about this one.
        let inherited = format!(r#"{{"{marker}": "another"}}"#);
        assert_eq!(key(&inherited).await, first, "{marker}");
    }
}

#[tokio::test]
async fn a_lost_lease_writes_nothing_more() {
    let home = leased_home();
    let (store, before) = (home.store(), spoken(&home, SESSION).len());
    let lease = store.turn_lease(SESSION, "cli", TranscriptWriter::Daemon);
    begin(&lease).await.unwrap();
    hold(&home, SESSION, "pid=1:turn=other", 60.0);
    let store = lease.store();
    let partial = store.keep_partial(SESSION, "Bec".into()).await;
    assert!(matches!(partial, Err(StoreError::TurnLost)), "{partial:?}");
    lease.lost().await;
    let ended = store.end_turn(SESSION, answered()).await;
    assert!(matches!(ended, Err(StoreError::TurnLost)), "{ended:?}");
    assert_eq!(new(&home, before), ["user: Why?"]);
    drop((lease, store));
    // A start that finds it afterwards writes nothing of it either.
    let store = home.store();
    assert!(!store.end_left_turn(SESSION).await.unwrap());
    assert_eq!(leases(&home)[0].1, "pid=1:turn=other");
}

#[tokio::test]
async fn a_lease_that_expired_and_is_still_ours_goes_on() {
    let home = leased_home();
    let (store, before) = (home.store(), spoken(&home, SESSION).len());
    let lease = store.turn_lease(SESSION, "cli", TranscriptWriter::Daemon);
    begin(&lease).await.unwrap();
    home.sqlite()
        .execute("UPDATE session_turn_leases SET expires_at = 1.0", [])
        .unwrap();
    let store = lease.store();
    store.keep_partial(SESSION, "Bec".into()).await.unwrap();
    let expires: f64 = home
        .sqlite()
        .query_row(
            "SELECT expires_at - unixepoch() FROM session_turn_leases",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!((200.0..400.0).contains(&expires), "{expires}");
    store.end_turn(SESSION, answered()).await.unwrap();
    assert_eq!(new(&home, before), ["user: Why?", "assistant: Because."]);
}

#[tokio::test(start_paused = true)]
async fn a_running_turn_renews_its_lease_and_learns_that_it_is_lost() {
    let home = leased_home();
    let store = home.store();
    let lease = store.turn_lease(SESSION, "cli", TranscriptWriter::Daemon);
    begin(&lease).await.unwrap();
    home.sqlite()
        .execute("UPDATE session_turn_leases SET expires_at = 1.0", [])
        .unwrap();
    let lost = lease.lost();
    tokio::pin!(lost);
    // The clock of the test jumps from one renewal to the next.
    let renewed = async {
        loop {
            let sql = "SELECT expires_at > unixepoch() FROM session_turn_leases";
            let live: bool = home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap();
            if live {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = &mut lost => panic!("it is not lost"),
        () = renewed => {}
    }
    hold(&home, SESSION, "pid=1:turn=other", 60.0);
    lost.await;
}

#[tokio::test]
async fn what_a_dead_daemon_streamed_is_not_put_into_the_turn_of_another_program() {
    for goes_on in [false, true] {
        let home = leased_home();
        let (store, before) = (home.store(), spoken(&home, SESSION).len());
        let lease = store.turn_lease(SESSION, "cli", TranscriptWriter::Daemon);
        begin(&lease).await.unwrap();
        let turn = lease.store();
        turn.keep_partial(SESSION, "Bec".into()).await.unwrap();
        drop((lease, turn));
        store.create_session("cli", None, None).await.unwrap();
        if goes_on {
            hold(&home, SESSION, "pid=1:turn=other", 60.0);
        }
        assert!(store.end_left_turn(SESSION).await.unwrap());
        let rows = new(&home, before);
        let expected: &[&str] = match goes_on {
            true => &["user: Why?"],
            false => &["user: Why?", "assistant: Bec"],
        };
        assert_eq!(rows, expected);
    }
}

#[tokio::test]
async fn a_database_without_leases_goes_on_without_them() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    assert!(!store.has_turn_leases().unwrap());
    let lease = store.turn_lease(SESSION, "cli", TranscriptWriter::Daemon);
    begin(&lease).await.unwrap();
    lease.take().await.unwrap();
    assert_eq!(lease.held_by().unwrap(), None);
    lease.store().end_turn(SESSION, answered()).await.unwrap();
    assert_eq!(new(&home, 4), ["user: Why?", "assistant: Because."]);
}
