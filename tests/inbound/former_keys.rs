//! Conversations under keys that no message of their chat has: those of Hermes' own handoffs, and of Slack before 0.19.1.

use hermesd::domain::{KeyRules, Source, former_keys, session_key};
use serde_json::{Value, json};

use crate::store::open::home_of;
use crate::support::Home;

/// A conversation that compression has split: its first row and its live one.
const ROOT: &str = "20260103_090000_cccccc";
pub const TIP: &str = "20260103_100000_dddddd";

fn one<T: rusqlite::types::FromSql>(home: &Home, sql: &str) -> T {
    home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// An entry that Hermes' own handoff has left under a key that no message has.
pub fn entry_of_hermes(home: &Home, scope: &str, key: &str, origin: &Value) {
    let entry = json!({"session_key": key, "session_id": TIP, "origin": origin, "unknown": 7});
    let c = home.sqlite();
    c.execute(
        "INSERT INTO gateway_routing (scope, session_key, entry_json, updated_at) VALUES (?1, ?2, ?3, 1)",
        [scope, key, &entry.to_string()],
    )
    .unwrap();
    c.execute(
        "UPDATE sessions SET session_key = ?1, source = ?2, handoff_state = 'completed' WHERE id = ?3",
        [key, origin["platform"].as_str().unwrap(), TIP],
    )
    .unwrap();
}

/// Hermes' name for a home's share of the routing table.
pub fn scope(home: &Home) -> String {
    let home = home.path().canonicalize().unwrap();
    home.join("sessions").display().to_string()
}

#[tokio::test]
async fn a_conversation_under_a_wrong_key_moves_to_the_right_one_once() {
    let rules = KeyRules {
        slack_workspace: true,
        ..KeyRules::default()
    };
    let said = |origin: Value| Source::from_origin(&origin).unwrap();
    let cases = [
        (
            "agent:main:telegram:thread:-1001:12",
            said(
                json!({"platform": "telegram", "chat_type": "group", "chat_id": "-1001", "thread_id": "12", "user_id": "42"}),
            ),
            "agent:main:telegram:group:-1001:12",
        ),
        (
            "agent:main:discord:thread:100:909",
            said(
                json!({"platform": "discord", "chat_type": "thread", "chat_id": "909", "thread_id": "909", "parent_chat_id": "100"}),
            ),
            "agent:main:discord:thread:909:909",
        ),
        (
            "agent:main:slack:thread:C1:17.1",
            said(
                json!({"platform": "slack", "chat_type": "group", "chat_id": "C1", "thread_id": "17.1", "scope_id": "T1"}),
            ),
            "agent:main:slack:group:T1:C1:17.1",
        ),
        (
            "agent:main:slack:group:C1:17.1",
            said(
                json!({"platform": "slack", "chat_type": "group", "chat_id": "C1", "thread_id": "17.1", "scope_id": "T1"}),
            ),
            "agent:main:slack:group:T1:C1:17.1",
        ),
        (
            "agent:main:matrix:dm:!r:x",
            said(
                json!({"platform": "matrix", "chat_type": "group", "chat_id": "!r:x", "thread_id": "$root"}),
            ),
            "agent:main:matrix:group:!r:x:$root",
        ),
    ];
    for (wrong, source, right) in cases {
        let home = home_of("hermes-0.20.5.db");
        let store = home.store();
        let origin = json!({"platform": source.platform, "chat_type": "thread", "scope_id": source.scope_id});
        entry_of_hermes(&home, &scope(&home), wrong, &origin);
        assert_eq!(session_key(&source, &rules), right);
        let former = former_keys(&source, &rules);
        let moved = store
            .adopt_conversation(right, &source, &former)
            .await
            .unwrap();
        assert_eq!(moved, Some((TIP.to_owned(), wrong.to_owned())), "{wrong}");
        assert_eq!(
            store.live_session(right).await.unwrap().as_deref(),
            Some(TIP)
        );
        assert_eq!(store.live_session(wrong).await.unwrap(), None, "{wrong}");
        for id in [ROOT, TIP] {
            let key = format!("SELECT session_key FROM sessions WHERE id = '{id}'");
            assert_eq!(one::<String>(&home, &key), right);
        }
        let unknown = format!(
            "SELECT json_extract(entry_json, '$.unknown') FROM gateway_routing WHERE session_key = '{right}'"
        );
        assert_eq!(one::<i64>(&home, &unknown), 7);
        let again = store
            .adopt_conversation(right, &source, &former)
            .await
            .unwrap();
        assert_eq!(again, None, "{wrong}: once");
    }
}

#[tokio::test]
async fn another_workspace_does_not_get_the_conversation() {
    let rules = KeyRules {
        slack_workspace: true,
        ..KeyRules::default()
    };
    let home = home_of("hermes-0.20.5.db");
    let store = home.store();
    let mut source = Source::from_origin(
        &json!({"platform": "slack", "chat_type": "group", "chat_id": "C1",
                                                 "thread_id": "17.1", "scope_id": "T2"}),
    )
    .unwrap();
    let (scope, legacy) = (scope(&home), "agent:main:slack:group:C1:17.1");
    let origin = json!({"platform": "slack", "chat_type": "group", "scope_id": "T1"});
    entry_of_hermes(&home, &scope, legacy, &origin);
    let former = former_keys(&source, &rules);
    let key = "agent:main:slack:group:T2:C1:17.1";
    assert_eq!(
        store
            .adopt_conversation(key, &source, &former)
            .await
            .unwrap(),
        None
    );
    source.scope_id = Some("T1".into());
    let key = "agent:main:slack:group:T1:C1:17.1";
    let moved = store
        .adopt_conversation(key, &source, &former)
        .await
        .unwrap();
    assert!(moved.is_some());
}
