//! `sessions/sessions.json`, the older home of the routing table: read for keys that the table lacks, kept in step where
//! it exists, never made.

use serde_json::{Value, json};

use crate::support::scripted::{InProcess, Mood};
use crate::support::{Home, SESSION, TITLE, eventually, seed_session};

const KEY: &str = "agent:main:local:dm:home:1";

fn mirror(home: &Home) -> Value {
    serde_json::from_str(
        &std::fs::read_to_string(home.path().join("sessions/sessions.json")).unwrap(),
    )
    .unwrap()
}

#[tokio::test]
async fn the_mirror_is_kept_in_step_and_keeps_what_is_not_ours() {
    let home = Home::new();
    seed_session(&home).await;
    let old = json!({"_README": "a note", "agent:main:telegram:dm:5": {"session_id": "x", "strange": true}});
    home.write("sessions/sessions.json", &old.to_string());
    let _daemon = home.start();
    assert_eq!(
        home.hermesctl(&["handoff", "local", "--session", TITLE])
            .code,
        0
    );
    let now = mirror(&home);
    assert_eq!(now[KEY]["session_id"], SESSION);
    assert_eq!(now[KEY]["origin"]["thread_id"], "1");
    assert_eq!(
        (&now["_README"], &now["agent:main:telegram:dm:5"]),
        (&old["_README"], &old["agent:main:telegram:dm:5"])
    );
    assert_eq!(
        now.as_object().unwrap().keys().next().unwrap(),
        "_README",
        "the order is kept"
    );
}

#[tokio::test]
async fn without_a_mirror_none_is_made() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    assert_eq!(
        home.hermesctl(&["handoff", "local", "--session", TITLE])
            .code,
        0
    );
    assert!(!home.path().join("sessions").exists());
}

#[tokio::test]
async fn a_binding_that_only_the_mirror_knows_is_displaced_and_comes_back() {
    let home = Home::new();
    seed_session(&home).await;
    let other = home
        .store()
        .create_session("local", None, None)
        .await
        .unwrap();
    let entry =
        json!({"session_key": KEY, "session_id": other, "created_at": "a", "updated_at": "b"});
    home.write("sessions/sessions.json", &json!({KEY: entry}).to_string());
    assert_eq!(
        home.store().bound_session(KEY).await.unwrap(),
        Some(other.clone())
    );

    let daemon = InProcess::start(&home, &[]).await;
    daemon
        .agent
        .moods
        .lock()
        .unwrap()
        .insert(SESSION.into(), Mood::Fail("no"));
    let failed = daemon.hand_off("local", TITLE).await;
    assert_eq!(failed.state, "failed");
    eventually("the old binding is back", || async {
        (mirror(&home)[KEY] == entry).then_some(())
    })
    .await;
    let ended: Option<f64> = home
        .sqlite()
        .query_row(
            "SELECT ended_at FROM sessions WHERE id = ?1",
            [&other],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(ended, None);
    daemon.stop().await;
}
