//! A locked database and a full disk: work waits or says clearly why not, and nothing is lost.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hermesd::client::{Client, ClientError};
use hermesd::protocol::{Call, HandoffId, HandoffRequest, HandoffView};
use hermesd::store::StoreError;

use crate::support::{Home, SESSION, TITLE, eventually, seed_session, until};

fn wish() -> Call {
    Call::HandoffRequest(HandoffRequest {
        platform: "local".into(),
        session: Some(TITLE.into()),
        ..HandoffRequest::default()
    })
}

#[tokio::test]
async fn a_database_that_another_program_locks_is_waited_for() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    let client = daemon.client().await;
    let other = home.sqlite();
    other
        .execute_batch("BEGIN IMMEDIATE; UPDATE sessions SET cwd = '/x'")
        .unwrap();
    let request = client.call::<HandoffView>(wish());
    tokio::pin!(request);
    // Readers are not held up, and the request is not answered before its effect is committed.
    let listed = client.call::<serde_json::Value>(Call::SessionList(Default::default()));
    tokio::select! {
        biased;
        _ = &mut request => panic!("answered while the database was locked"),
        listed = listed => assert_eq!(listed.unwrap().as_array().unwrap().len(), 1),
    }
    other.execute_batch("COMMIT").unwrap();
    let handoff = request.await.unwrap();
    let ended: HandoffView = client
        .call(Call::HandoffWait(HandoffId { id: handoff.id }))
        .await
        .unwrap();
    assert_eq!(ended.state, "completed");
}

/// A daemon whose home is a file system of 1 MiB, in a mount namespace of its own. The test sees it through `/proc`.
struct SmallDisk {
    child: std::process::Child,
    seen: PathBuf,
}

impl SmallDisk {
    fn start(home: &Home) -> Option<SmallDisk> {
        let script = format!(
            "mount -t tmpfs -o size=1m,mode=700 small {0} && cp {0}.db {0}/state.db && exec {1}",
            home.path().display(),
            env!("CARGO_BIN_EXE_hermesd")
        );
        let mut command = home.with_own_mounts(&script)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().ok()?;
        let seen = PathBuf::from(format!(
            "/proc/{}/root{}",
            child.id(),
            home.path().display()
        ));
        Some(SmallDisk { child, seen })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_full_disk_is_named_and_nothing_is_lost() {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite()
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    let copy = PathBuf::from(format!("{}.db", home.path().display()));
    std::fs::copy(home.path().join("state.db"), &copy).unwrap();
    let Some(disk) = SmallDisk::start(&home) else {
        return;
    };
    let client = eventually("hermesd answers", || async {
        Client::connect(&disk.seen.join("control.sock")).await.ok()
    })
    .await;

    let ballast = disk.seen.join("ballast");
    let mut filler = std::fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut filler, &[7; 4096]).is_ok() {}
    while std::io::Write::write_all(&mut filler, &[7; 1]).is_ok() {}
    // Small writes may still fit into pages that the log has already; soon none do.
    let refused = eventually("the disk is full", || async {
        match client.call::<HandoffView>(wish()).await {
            Err(ClientError::Refused(error)) => Some(error),
            Ok(handoff) => {
                let _ = tokio::time::timeout(
                    Duration::from_millis(300),
                    client.call::<HandoffView>(Call::HandoffWait(HandoffId { id: handoff.id })),
                )
                .await;
                None
            }
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    assert!(
        refused.message.contains("disk is full") || refused.message.contains("already"),
        "{}",
        refused.message
    );

    std::fs::remove_file(&ballast).unwrap();
    drop(filler);
    // Whatever was under way goes on, and new requests go through.
    let ended = eventually("handoffs complete again", || async {
        let in_flight: Vec<HandoffView> = client
            .call(Call::HandoffList(Default::default()))
            .await
            .ok()?;
        match in_flight
            .iter()
            .find(|h| h.state == "pending" || h.state == "running")
        {
            Some(handoff) => client
                .call::<HandoffView>(Call::HandoffWait(HandoffId { id: handoff.id }))
                .await
                .ok(),
            None => {
                let handoff = client.call::<HandoffView>(wish()).await.ok()?;
                client
                    .call::<HandoffView>(Call::HandoffWait(HandoffId { id: handoff.id }))
                    .await
                    .ok()
            }
        }
    })
    .await;
    assert_eq!(
        (ended.state.as_str(), ended.session.as_str()),
        ("completed", SESSION)
    );
    let _ = std::fs::remove_file(copy);
}

#[tokio::test]
async fn a_store_that_is_closed_no_longer_waits_for_the_lock_of_another_program() {
    let home = Home::new();
    let store = home.store();
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Nobody waits for these any more. They are more than are committed together, so that each lot of them would wait
    // for the lock anew.
    for _ in 0..300 {
        let asked = store.create_session("cli", None, None);
        let _ = tokio::time::timeout(Duration::ZERO, asked).await;
    }
    let closing = std::thread::spawn(move || drop(store));
    until("the store is closed", || {
        closing.is_finished().then_some(())
    });
    other.execute_batch("COMMIT").unwrap();
}

/// As a backup is put back: beside the database first, then renamed over it.
fn put_back_a_backup(home: &Home) {
    let backup = home.path().join("backup.db");
    std::fs::copy(home.path().join("state.db"), &backup).unwrap();
    std::fs::rename(&backup, home.path().join("state.db")).unwrap();
}

#[tokio::test]
async fn a_database_that_is_replaced_is_not_opened_beside_the_one_that_was() {
    let home = Home::new();
    // Nothing has been read with it yet, so the first read has to connect.
    let store = home.store();
    put_back_a_backup(&home);
    let read = store.terminal_candidates().await;
    assert!(matches!(read, Err(StoreError::Replaced(_))), "{read:?}");
}

#[tokio::test]
async fn a_database_that_is_replaced_acknowledges_nothing() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    // The queue looks at the file so seldom that it does not find out first.
    let daemon = home.start_with(&[
        ("HERMESD_HANDOFF_POLL_INTERVAL", "1h"),
        ("HERMESD_HANDOFF_LEASE", "1h"),
    ]);
    let client = daemon.client().await;
    put_back_a_backup(&home);
    let made = store.create_session("cli", None, None).await;
    assert!(matches!(made, Err(StoreError::Replaced(_))), "{made:?}");
    match client.call::<HandoffView>(wish()).await {
        Err(ClientError::Refused(error)) if error.message.contains("another file") => {}
        // It has noticed by itself already, and ends.
        Err(ClientError::Refused(error)) if error.message.contains("is stopping") => {}
        Err(ClientError::Lost) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_database_that_is_locked_when_its_tables_are_made_is_waited_for() {
    let home = crate::store::open::home_of("hermesd-3.db");
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = home.hermesctl(&["sessions"]);
    assert!(
        refused.stderr.contains("locked by another program"),
        "{refused:?}"
    );
    let mut daemon = home.spawn(&[]);
    until("the daemon says that it waits", || {
        daemon.log().contains("start waits").then_some(())
    });
    other.execute_batch("COMMIT").unwrap();
    until("the daemon answers", || {
        assert!(daemon.child_lives(), "{}", daemon.log());
        std::os::unix::net::UnixStream::connect(home.socket()).ok()
    });
    assert!(daemon.stop().success());
}

#[test]
fn a_stop_while_the_start_waits_for_the_database_is_clean() {
    let home = crate::store::open::home_of("hermesd-3.db");
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let daemon = home.spawn(&[]);
    until("the daemon says that it waits", || {
        daemon.log().contains("start waits").then_some(())
    });
    assert!(daemon.stop().success());
    other.execute_batch("COMMIT").unwrap();
}

#[test]
fn a_database_that_is_replaced_ends_the_daemon_with_a_reason() {
    let home = Home::new();
    let mut daemon = home.start_with(&[("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")]);
    // Whatever it opens, it has opened.
    assert_eq!(home.hermesctl(&["status"]).code, 0);
    put_back_a_backup(&home);
    assert_eq!(daemon.wait().code(), Some(1));
    let last = daemon.log();
    let last = last.lines().last().unwrap();
    assert!(
        last.starts_with("error: ")
            && last.contains("state.db was replaced by another file")
            && last.contains("state.db-wal")
            && last.contains("state.db-shm"),
        "{last}"
    );
}
