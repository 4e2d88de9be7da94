//! Handoffs that meet a fault: everything is put back, the reason is told, and no other handoff notices.

use hermesd::platform::{Dedup, PlatformError};
use hermesd::protocol::{Call, HandoffId, HandoffRequest, HandoffView};
use serde_json::Value;

use crate::support::scripted::{InProcess, Mood, Scripted};
use crate::support::{Home, SESSION, eventually, picture, seed_session};

fn permanent(reason: &str) -> PlatformError {
    PlatformError::Permanent(reason.into())
}

fn transient(reason: &str) -> PlatformError {
    PlatformError::Transient {
        reason: reason.into(),
        retry_after: Some(std::time::Duration::from_millis(1)),
        unsure: false,
    }
}

/// Rows that this daemon cannot serve are left to others for a second.
const GRACE: [(&str, &str); 2] = [
    ("HERMESD_HANDOFF_POLL_INTERVAL", "100ms"),
    ("HERMESD_HANDOFF_PICKUP_TIMEOUT", "1s"),
];

#[tokio::test]
async fn a_failed_handoff_changes_nothing() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    let before = picture(&home);

    daemon
        .platform
        .threads
        .lock()
        .unwrap()
        .push_back(permanent("no right to open topics"));
    let failed = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(
        (failed.state.as_str(), failed.stage.as_deref()),
        ("failed", Some("homed"))
    );
    assert!(failed.error.unwrap().contains("no right to open topics"));
    assert_eq!(picture(&home), before);

    for (mood, reason) in [
        (Mood::Fail("the model is gone"), "the model is gone"),
        (Mood::Say("  \n "), "empty"),
    ] {
        daemon
            .agent
            .moods
            .lock()
            .unwrap()
            .insert(SESSION.into(), mood);
        let failed = daemon.hand_off("telegram", SESSION).await;
        assert_eq!(failed.stage.as_deref(), Some("bound"));
        assert!(failed.error.unwrap().contains(reason));
        assert_eq!(picture(&home), before);
    }
    daemon.agent.moods.lock().unwrap().clear();
    eventually("the notes of both failures", || async {
        (daemon.platform.sent.lock().unwrap().len() == 2).then_some(())
    })
    .await;

    daemon
        .platform
        .sends
        .lock()
        .unwrap()
        .push_back(permanent("the bot was thrown out"));
    let failed = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(failed.stage.as_deref(), Some("answered"));
    assert!(
        failed
            .error
            .as_ref()
            .unwrap()
            .contains("the bot was thrown out")
    );
    assert_eq!(picture(&home), before);
    // Whoever looks into the thread is told.
    let note = eventually("a note in the thread", || async {
        daemon.platform.sent.lock().unwrap().get(2).cloned()
    })
    .await;
    assert!(note.1.contains("failed") && note.0.ends_with(":failed:0"));

    // The session is usable: the same handoff again goes through.
    let retried: HandoffView = daemon
        .client
        .call(Call::HandoffRetry(HandoffId { id: failed.id }))
        .await
        .unwrap();
    assert_eq!(daemon.ended(retried.id).await.state, "completed");
    daemon.stop().await;
}

#[tokio::test]
async fn a_displaced_session_comes_back_when_the_handoff_fails() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let daemon = InProcess::start(&home, &[]).await;
    // The thread of handoff 2 is already on another session, as Hermes might have left it, with a key we do not know.
    let (other, key) = (
        store.create_session("telegram", None, None).await.unwrap(),
        "agent:main:telegram:dm:77:handoff-2",
    );
    let entry = format!(
        r#"{{"session_key":"{key}","session_id":"{other}","created_at":"x","updated_at":"x","unknown_key":[1]}}"#
    );
    home.sqlite()
        .execute(
            "INSERT INTO gateway_routing VALUES (?1, ?2, ?3, 1.0)",
            [
                home.path()
                    .canonicalize()
                    .unwrap()
                    .join("sessions")
                    .to_str()
                    .unwrap(),
                key,
                &entry,
            ],
        )
        .unwrap();
    assert_eq!(daemon.hand_off("local", SESSION).await.state, "completed");
    let before = picture(&home);

    daemon
        .agent
        .moods
        .lock()
        .unwrap()
        .insert(SESSION.into(), Mood::Fail("no"));
    let failed = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(
        (
            failed.id,
            failed.state.as_str(),
            failed.session_key.as_deref()
        ),
        (2, "failed", Some(key))
    );
    assert_eq!(picture(&home), before);

    daemon.agent.moods.lock().unwrap().clear();
    home.sqlite()
        .execute("UPDATE gateway_routing SET session_key = 'agent:main:telegram:dm:77:handoff-3' WHERE session_key = ?1", [key])
        .unwrap();
    let completed = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(completed.state, "completed");
    let (reason, kept): (String, String) = home
        .sqlite()
        .query_row(
            "SELECT end_reason, (SELECT entry_json FROM gateway_routing WHERE session_key LIKE '%handoff-3') FROM sessions WHERE id = ?1",
            [&other],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(reason, "session_switch");
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(
        (&kept["session_id"], &kept["unknown_key"][0]),
        (&Value::from(SESSION), &Value::from(1))
    );
    daemon.stop().await;
}

#[tokio::test]
async fn a_hung_handoff_delays_no_other_and_can_be_cancelled() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let daemon = InProcess::start(&home, &[("HERMESD_HANDOFF_PARALLEL", "2")]).await;
    daemon
        .agent
        .moods
        .lock()
        .unwrap()
        .insert(SESSION.into(), Mood::Hang);
    let before = picture(&home);
    let hung = daemon.ask("telegram", SESSION).await;
    eventually("the agent hangs", || async {
        daemon
            .agent
            .asked
            .lock()
            .unwrap()
            .contains(&SESSION.to_owned())
            .then_some(())
    })
    .await;

    for _ in 0..5 {
        let other = store.create_session("cli", None, None).await.unwrap();
        assert_eq!(daemon.hand_off("telegram", &other).await.state, "completed");
        home.sqlite()
            .execute("DELETE FROM messages WHERE session_id = ?1", [&other])
            .unwrap();
        home.sqlite()
            .execute(
                "DELETE FROM gateway_routing WHERE entry_json LIKE ?1",
                [format!("%{other}%")],
            )
            .unwrap();
        home.sqlite()
            .execute("DELETE FROM sessions WHERE id = ?1", [&other])
            .unwrap();
    }

    // A second request for the same session is refused while the first runs.
    let wish = HandoffRequest {
        platform: "telegram".into(),
        session: Some(SESSION.into()),
        ..HandoffRequest::default()
    };
    assert!(
        daemon
            .client
            .call::<HandoffView>(Call::HandoffRequest(wish))
            .await
            .is_err()
    );

    let cancelled: HandoffView = daemon
        .client
        .call(Call::HandoffCancel(HandoffId { id: hung.id }))
        .await
        .unwrap();
    assert_eq!(
        (cancelled.state.as_str(), cancelled.error.as_deref()),
        ("failed", Some("cancelled"))
    );
    assert_eq!(picture(&home), before);
    daemon.stop().await;
}

#[tokio::test]
async fn an_agent_that_never_answers_times_out() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[("HERMESD_AGENT_TIMEOUT", "1s")]).await;
    daemon
        .agent
        .moods
        .lock()
        .unwrap()
        .insert(SESSION.into(), Mood::Hang);
    let failed = daemon.hand_off("telegram", SESSION).await;
    assert_eq!(failed.state, "failed");
    assert!(failed.error.unwrap().contains("agent.timeout"));
    daemon.stop().await;
}

#[tokio::test]
async fn sends_that_fail_for_a_while_are_tried_again_and_arrive_once() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &[]).await;
    daemon
        .platform
        .sends
        .lock()
        .unwrap()
        .extend([transient("502"), transient("429")]);
    assert_eq!(
        daemon.hand_off("telegram", SESSION).await.state,
        "completed"
    );
    assert_eq!(daemon.platform.sent.lock().unwrap().len(), 1);

    daemon
        .platform
        .sends
        .lock()
        .unwrap()
        .extend((0..20).map(|_| transient("down")));
    let other = home
        .store()
        .create_session("cli", None, None)
        .await
        .unwrap();
    let failed = daemon.hand_off("telegram", &other).await;
    assert!(failed.error.unwrap().contains("20 attempts"));
    daemon.stop().await;
}

#[tokio::test]
async fn an_interrupted_send_is_marked_where_the_platform_cannot_tell() {
    let home = Home::new();
    seed_session(&home).await;
    let platform = Scripted {
        dedup: Dedup::None,
        ..Scripted::default()
    };
    // The daemon died while a reply was on its way: the ledger says `sending`.
    let daemon = InProcess::start(&home, &[]).await;
    assert_eq!(
        daemon.hand_off("telegram", SESSION).await.state,
        "completed"
    );
    daemon.stop().await;
    home.sqlite()
        .execute_batch(
            "UPDATE hermesd_deliveries SET state = 'sending';
             UPDATE hermesd_handoffs SET state = 'running', stage = 'answered', ended_at = NULL, sent_ids = NULL;
             UPDATE sessions SET handoff_state = 'running';",
        )
        .unwrap();
    let daemon = InProcess::start_with(&home, &[], platform).await;
    assert_eq!(daemon.ended(1).await.state, "completed");
    let sent = daemon.platform.sent.lock().unwrap().clone();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].1.starts_with("(this may be a repeat)"), "{sent:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_platform_that_still_connects_is_waited_for_within_the_pickup_clock() {
    let home = Home::new();
    seed_session(&home).await;
    let platform = Scripted {
        connected: tokio::sync::Semaphore::new(0),
        ..Scripted::default()
    };
    let settings = [
        ("HERMESD_HANDOFF_POLL_INTERVAL", "100ms"),
        ("HERMESD_HANDOFF_PICKUP_TIMEOUT", "1s"),
    ];
    let daemon = InProcess::start_with(&home, &settings, platform).await;

    // Nobody connects: it fails with the reason, and others were not held up.
    let waiting = daemon.ask("telegram", SESSION).await;
    let other = home
        .store()
        .create_session("cli", None, None)
        .await
        .unwrap();
    assert_eq!(daemon.hand_off("local", &other).await.state, "completed");
    let failed = daemon.ended(waiting.id).await;
    assert_eq!(failed.state, "failed");
    assert!(failed.error.unwrap().contains("still connecting"));

    // It connects in time: the handoff goes through.
    let waiting = daemon.ask("telegram", SESSION).await;
    daemon.platform.connected.add_permits(1);
    assert_eq!(daemon.ended(waiting.id).await.state, "completed");
    daemon.stop().await;
}

#[tokio::test]
async fn foreign_rows_for_platforms_that_are_off_or_unknown_fail_when_no_other_daemon_takes_them() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = InProcess::start(&home, &GRACE).await;
    for (platform, reason) in [
        ("discord", "Discord is not set up yet"),
        ("carrier-pigeon", "no platform called"),
        ("", "no platform called"),
    ] {
        home.sqlite()
            .execute("UPDATE sessions SET handoff_state = 'pending', handoff_platform = ?1 WHERE id = ?2", [platform, SESSION])
            .unwrap();
        let error = eventually("the row fails", || async {
            let row = home.store().handoff_state(SESSION).await.unwrap().unwrap();
            (row.state == Some(hermesd::domain::HandoffState::Failed)).then_some(row.error)
        })
        .await;
        assert!(error.unwrap().contains(reason));
    }
    daemon.stop().await;
}

#[tokio::test]
async fn any_number_of_rows_that_cannot_run_are_turned_away_and_hide_none_that_can() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let daemon = InProcess::start(&home, &GRACE).await;
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // All older than the one behind them, and several times as many as are looked at together.
    for n in 0..300 {
        other
            .execute(
                "INSERT INTO sessions (id, source, started_at, handoff_state, handoff_platform)
                 VALUES ('old' || ?1, 'cli', ?1, 'pending', 'discord')",
                [n],
            )
            .unwrap();
    }
    other
        .execute("UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'telegram' WHERE id = ?1", [SESSION])
        .unwrap();
    other.execute_batch("COMMIT").unwrap();
    eventually("the one that can run has run", || async {
        let row = store.handoff_state(SESSION).await.unwrap().unwrap();
        (row.state == Some(hermesd::domain::HandoffState::Completed)).then_some(())
    })
    .await;
    eventually("the others fail", || async {
        let sql = "SELECT count(*) FROM sessions WHERE handoff_state = 'failed'";
        let failed: i64 = other.query_row(sql, [], |row| row.get(0)).unwrap();
        (failed == 300).then_some(())
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_failed_keeps_none_behind_it_from_being_looked_at() {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite()
        .execute_batch(
            "INSERT INTO sessions (id, source, started_at, handoff_state, handoff_platform)
             VALUES ('stuck', 'cli', 1, 'pending', 'discord'), ('lost', 'cli', 2, 'pending', 'discord');
             CREATE TRIGGER stuck BEFORE UPDATE OF handoff_state ON sessions WHEN old.id = 'stuck'
             BEGIN SELECT RAISE(ABORT, 'as the test wants it'); END;
             UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'telegram' WHERE id LIKE '2026%';",
        )
        .unwrap();
    // As requests of our own: they are failed without a grace.
    home.sqlite()
        .execute_batch(
            "INSERT INTO hermesd_handoffs (session_id, platform, via, state, requested_at)
             VALUES ('stuck', 'discord', 'direct', 'pending', 1.0), ('lost', 'discord', 'direct', 'pending', 1.0)",
        )
        .unwrap();
    let daemon = InProcess::start(&home, &GRACE).await;
    let store = home.store();
    for (session, wanted) in [
        (SESSION, hermesd::domain::HandoffState::Completed),
        ("lost", hermesd::domain::HandoffState::Failed),
    ] {
        eventually("a row behind it ends", || async {
            let row = store.handoff_state(session).await.unwrap().unwrap();
            (row.state == Some(wanted)).then_some(())
        })
        .await;
    }
    daemon.stop().await;
}
