//! Values that no column was declared for, as other programs may leave them: none of them costs more than itself.

use hermesd::domain::HandoffState;
use hermesd::store::{Pending, SessionFilter, SessionMatch};

use crate::support::scripted::InProcess;
use crate::support::{Home, SESSION, TITLE, eventually, seed_session};

/// Beside the seeded session: one with bytes and words where text and numbers belong, and two that nobody can name.
const ODD: &str = "
    INSERT INTO sessions (id, source, title, model, system_prompt, user_id, chat_id, model_config, started_at, message_count)
    VALUES ('odd', 'cli', x'ff41', CAST(x'42ff' AS TEXT), x'43', x'01', x'02', x'ff', '2026-01-01T09:00:00Z', 'many');
    INSERT INTO sessions (id, source, started_at) VALUES (NULL, 'cli', 1), (NULL, x'636c69', 'never');
    INSERT INTO messages (session_id, role, content, tool_calls, reasoning, timestamp)
    VALUES ('odd', 'user', x'68ff69', x'ff', 5, '2026-01-01 09:00:01+00:00'), ('odd', x'757365', 'a note', NULL, NULL, 'x'),
           ('odd', 'assistant', CAST(x'ff' AS TEXT), 7, x'ff', 3);";

async fn odd_home() -> Home {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite().execute_batch(ODD).unwrap();
    home
}

#[tokio::test]
async fn sessions_and_messages_with_odd_values_are_read_as_well_as_they_can_be() {
    let home = odd_home().await;
    let store = home.store();
    let filter = SessionFilter {
        limit: 100,
        ..SessionFilter::default()
    };
    let listed = store.list_sessions(filter).await.unwrap();
    let mut ids: Vec<&str> = listed.iter().map(|s| s.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [SESSION, "odd"]);
    assert_eq!(store.terminal_candidates().await.unwrap().len(), 2);
    let SessionMatch::One(found) = store.find_session(TITLE).unwrap() else {
        panic!("the ordinary one is found as ever");
    };
    assert_eq!(found.id, SESSION);

    let (odd, transcript) = store.briefing("odd", None).await.unwrap().unwrap();
    assert_eq!(
        (odd.title.as_deref(), odd.model.as_deref()),
        (Some("\u{fffd}A"), Some("B\u{fffd}"))
    );
    assert_eq!((odd.started_at, odd.message_count), (1_767_258_000.0, 0));
    let said: Vec<String> = transcript.messages.iter().map(|m| m.plain()).collect();
    assert_eq!(said, ["h\u{fffd}i", "\u{fffd}"]);
    assert_eq!(transcript.messages[0].timestamp, 1_767_258_001.0);
    assert_eq!(transcript.messages[0].reasoning.as_deref(), Some("5"));
}

#[tokio::test]
async fn odd_rows_do_not_hide_the_pending_ones_beside_them() {
    let home = odd_home().await;
    home.sqlite()
        .execute_batch(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local';
             UPDATE sessions SET handoff_platform = CAST('local' AS BLOB) WHERE id = 'odd'",
        )
        .unwrap();
    let store = home.store();
    let mut pending = store.pending_handoffs(2, |_| true).unwrap();
    pending.sort_by_key(|row| row.session_id.clone());
    let local = |id: &str| Pending {
        session_id: id.to_owned(),
        platform: "local".to_owned(),
        after_turn: false,
        foreign: true,
    };
    assert_eq!(pending, [local(SESSION), local("odd")]);
    let none = store
        .pending_handoffs(2, |row| row.platform != "local")
        .unwrap();
    assert_eq!(none, []);

    home.sqlite()
        .execute_batch("UPDATE sessions SET handoff_state = 'running'")
        .unwrap();
    assert_eq!(store.running_handoffs().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_session_with_odd_values_can_be_handed_off() {
    let home = odd_home().await;
    let daemon = InProcess::start(&home, &[]).await;
    home.sqlite()
        .execute_batch(
            "UPDATE sessions SET handoff_state = 'running' WHERE id IS NULL;
             UPDATE sessions SET handoff_state = 'pending', handoff_platform = CAST('local' AS BLOB), handoff_error = x'ff'
             WHERE id = 'odd'",
        )
        .unwrap();
    let store = home.store();
    eventually("the odd one ends", || async {
        let row = store.handoff_state("odd").await.unwrap().unwrap();
        assert_ne!(row.state, Some(HandoffState::Failed), "{row:?}");
        (row.state == Some(HandoffState::Completed)).then_some(())
    })
    .await;
    // And so can the ordinary one beside it.
    let ended = daemon.hand_off("local", SESSION).await;
    assert_eq!(ended.state, "completed");
    daemon.stop().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_reported_once() {
    let home = odd_home().await;
    home.sqlite()
        .execute_batch(
            "INSERT INTO sessions (id, source, started_at, handoff_state, handoff_platform)
             VALUES (CAST(x'6f6464ff6f6e6365' AS TEXT), 'cli', 1, 'pending', 'local')",
        )
        .unwrap();
    let settings = [("HERMESD_HANDOFF_POLL_INTERVAL", "100ms")];
    let daemon = InProcess::start(&home, &settings).await;
    let store = home.store();
    // Each of these takes a pass of the queue, which meets the odd row first.
    for _ in 0..3 {
        home.sqlite()
            .execute(
                "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local' WHERE id = ?1",
                [SESSION],
            )
            .unwrap();
        eventually("the ordinary one ends", || async {
            let row = store.handoff_state(SESSION).await.unwrap().unwrap();
            (row.state == Some(HandoffState::Completed)).then_some(())
        })
        .await;
    }
    let log = daemon.log.text();
    assert_eq!(log.matches("cannot be read").count(), 1, "{log}");
    daemon.stop().await;
}
