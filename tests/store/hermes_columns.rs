//! What a Hermes of today expects of the rows that others write: asked of the file with its own questions, before a handoff,
//! after it and after the home-coming.

use hermesd::config::StoreOptions;
use hermesd::domain::RequestedVia;
use hermesd::domain::TranscriptWriter;
use hermesd::domain::transcript::Role;
use hermesd::platform::local;
use hermesd::store::{Answer, Claim, NewMessage, NewTerminalSession, OpenMode, Store};
use serde_json::{Value, json};

use crate::store::open::home_of;
use crate::support::{Home, home_channel, no_thread, seed_session};

/// The databases of Hermes 0.20 and 0.21.
const FILES: [&str; 3] = [
    "hermes-0.20.5.db",
    "hermes-0.19.0-upgraded-to-0.20.5.db",
    "hermes-schema-30.db",
];

/// A conversation that compression has split: its first row and its live one.
const ROOT: &str = "20260103_090000_cccccc";
const TIP: &str = "20260103_100000_dddddd";
const TITLE: &str = "Long work #2";
/// A session that the trigram index of the newest files leaves out.
const CRON: &str = "20260107_090000_c0c0c0";
const KEY: &str = "agent:main:local:dm:home:1";

fn one<T: rusqlite::types::FromSql>(home: &Home, sql: &str) -> T {
    home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The session that Hermes finds for a chat that has lost its entry. A completed handoff counts whatever its row's end.
fn recovered(home: &Home, key: &str, source: &str) -> Option<String> {
    let sql = "SELECT s.id FROM sessions s WHERE s.session_key = ?1 AND s.source = ?2
                 AND (s.ended_at IS NULL OR s.handoff_state = 'completed'
                      OR s.end_reason IN ('agent_close', 'ws_orphan_reap'))
                 AND NOT EXISTS (SELECT 1 FROM sessions b WHERE b.session_key = s.session_key AND b.source = s.source
                       AND b.end_reason IN ('session_reset', 'session_switch', 'idle', 'daily', 'suspended')
                       AND b.ended_at > COALESCE(s.last_activity_at, s.started_at))
               ORDER BY COALESCE(s.last_activity_at, s.started_at) DESC LIMIT 1";
    home.sqlite()
        .query_row(sql, [key, source], |row| row.get(0))
        .ok()
}

/// Every column of the conversation's rows, but for those that only tell how a handoff went.
fn rows(home: &Home) -> Vec<String> {
    let sql = "SELECT json_array(id, source, user_id, session_key, chat_id, chat_type, thread_id, display_name, origin_json,
                                 ended_at, end_reason, title, last_activity_at, message_count)
               FROM sessions ORDER BY id";
    let c = home.sqlite();
    let mut statement = c.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// A handoff of a session to the local chat, up to its answer.
async fn answered(store: &Store, session: &str, key: &str) -> Claim {
    store
        .request_handoff(session, "local", None, RequestedVia::Socket, false)
        .await
        .unwrap();
    let claim = store
        .claim_handoff(session, "owner", f64::MAX, home_channel)
        .await
        .unwrap()
        .unwrap();
    store.record_thread(&claim, &no_thread()).await.unwrap();
    let source = local::source("home", None);
    assert!(store.record_binding(&claim, key, &source).await.unwrap());
    let answer = Answer {
        notice: "moved".into(),
        reply: "here".to_owned().into(),
        deliveries: Vec::new(),
        transcript_writer: TranscriptWriter::Daemon,
    };
    store.record_answer(&claim, answer).await.unwrap();
    claim
}

#[tokio::test]
async fn hermes_finds_a_session_that_was_handed_off_and_not_one_that_came_home() {
    for file in FILES {
        let home = home_of(file);
        let _daemon = home.start();
        let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
        assert_eq!(ran.code, 0, "{file}: {ran:?}");
        for id in [ROOT, TIP] {
            let bound =
                format!("SELECT source || ' ' || session_key FROM sessions WHERE id = '{id}'");
            assert_eq!(
                one::<String>(&home, &bound),
                format!("local {KEY}"),
                "{file}: {id}"
            );
        }
        assert_eq!(
            recovered(&home, KEY, "local").as_deref(),
            Some(TIP),
            "{file}"
        );
        let notice = format!(
            "SELECT display_kind FROM messages WHERE session_id = '{TIP}' AND role = 'user' ORDER BY id DESC LIMIT 1"
        );
        assert_eq!(
            one::<String>(&home, &notice),
            "internal_notification",
            "{file}"
        );
        let active = format!("SELECT last_activity_at FROM sessions WHERE id = '{TIP}'");
        let bound_at: f64 = one(&home, &active);

        let said = home
            .pipe_into_hermesctl("and now?\n", &["attach", "local/1"])
            .end();
        assert_eq!(said.code, 0, "{file}: {said:?}");
        assert!(one::<f64>(&home, &active) > bound_at, "{file}");

        let resumed = home.hermesctl(&["--json", "resume"]).json();
        assert_eq!(resumed["session"]["id"], TIP, "{file}: {resumed}");
        for id in [ROOT, TIP] {
            let home_again = format!(
                "SELECT source = 'cli' AND COALESCE(session_key, user_id, chat_id, chat_type, thread_id, display_name, origin_json)
                        IS NULL FROM sessions WHERE id = '{id}'"
            );
            assert!(one::<bool>(&home, &home_again), "{file}: {id}");
        }
        assert_eq!(recovered(&home, KEY, "local"), None, "{file}");
        let entries = format!("SELECT count(*) FROM gateway_routing WHERE session_key = '{KEY}'");
        assert_eq!(one::<i64>(&home, &entries), 0, "{file}");
        let title = format!("SELECT title FROM sessions WHERE id = '{TIP}'");
        assert_eq!(one::<String>(&home, &title), TITLE, "{file}");
    }
}

#[tokio::test]
async fn a_failed_handoff_puts_every_row_of_the_conversation_back() {
    for file in FILES {
        let home = home_of(file);
        let store = home.store();
        let before = rows(&home);
        let claim = answered(&store, TIP, "a:key").await;
        let bound = format!("SELECT session_key FROM sessions WHERE id = '{ROOT}'");
        assert_eq!(one::<String>(&home, &bound), "a:key", "{file}");
        store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
        assert_eq!(rows(&home), before, "{file}");
    }
}

#[tokio::test]
async fn what_an_older_daemon_wrote_of_a_binding_is_still_put_back() {
    let home = home_of("hermes-0.20.5.db");
    let store = home.store();
    let before = rows(&home);
    let claim = answered(&store, "20260106_090000_abcabc", "a:key").await;
    home.sqlite()
        .execute(
            "UPDATE hermesd_handoffs SET displaced = json_remove(displaced, '$.rows')",
            [],
        )
        .unwrap();
    store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
    let without_activity = |rows: Vec<String>| -> Vec<Value> {
        let parse = |row: &String| serde_json::from_str::<Value>(row).unwrap();
        let mut rows: Vec<Value> = rows.iter().map(parse).collect();
        rows.iter_mut().for_each(|row| row[12] = Value::Null);
        rows
    };
    assert_eq!(without_activity(rows(&home)), without_activity(before));
}

#[tokio::test]
async fn in_an_older_file_the_rows_before_the_tip_stay_as_they_are() {
    let home = home_of("hermes-0.19.0.db");
    answered(&home.store(), TIP, "a:key").await;
    let root =
        format!("SELECT source || COALESCE(session_key, '') FROM sessions WHERE id = '{ROOT}'");
    assert_eq!(one::<String>(&home, &root), "cli");
}

#[tokio::test]
async fn a_boundary_of_a_chat_is_counted_once_and_never_taken_back() {
    let home = home_of("hermes-schema-30.db");
    let store = home.store();
    let source = local::source("home", None);
    let generation = || {
        home.sqlite()
            .query_row(
                "SELECT generation FROM conversation_generations WHERE source = 'local' AND session_key = 'a:key'",
                [],
                |row| row.get::<_, i64>(0),
            )
            .ok()
    };
    store.bind_fresh_session("a:key", &source).await.unwrap();
    assert_eq!(generation(), None);
    let claim = answered(&store, TIP, "a:key").await;
    assert_eq!(generation(), Some(1));
    store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
    assert_eq!(generation(), Some(1), "it never goes back");
    let (before, _) = store.start_anew("a:key", &source).await.unwrap();
    assert_eq!(generation(), Some(2));
    // A row that has ended already is no new boundary.
    let entry = json!({"session_id": before}).to_string();
    home.sqlite()
        .execute(
            "UPDATE gateway_routing SET entry_json = ?1 WHERE session_key = 'a:key'",
            [entry],
        )
        .unwrap();
    store.start_anew("a:key", &source).await.unwrap();
    assert_eq!(generation(), Some(2));
}

#[tokio::test]
async fn new_rows_name_their_profile_and_their_first_source() {
    let home = home_of("hermes-schema-30.db");
    let options = StoreOptions {
        profile: Some("work".into()),
        ..StoreOptions::default()
    };
    let store = Store::open(home.path(), OpenMode::Existing, &options).unwrap();
    let row = |id: &str| {
        one::<String>(
            &home,
            &format!(
                "SELECT profile_name || ' ' || created_source FROM sessions WHERE id = '{id}'"
            ),
        )
    };
    let chat = store
        .bind_fresh_session("a:key", &local::source("home", None))
        .await
        .unwrap();
    assert_eq!(row(&chat.session_id), "work local");
    store
        .create_terminal_session(NewTerminalSession {
            id: "t1".into(),
            ..NewTerminalSession::default()
        })
        .await
        .unwrap();
    assert_eq!(row("t1"), "work cli");
    let demo = home
        .store()
        .create_session("cli", None, None)
        .await
        .unwrap();
    assert_eq!(row(&demo), "default cli");
}

#[tokio::test]
async fn a_prompt_by_its_hash_reaches_the_agent() {
    for file in FILES {
        let home = home_of(file);
        let store = home.store();
        let told = store
            .briefing("20260101_090000_aaaaaa", None)
            .await
            .unwrap();
        let prompt = told.unwrap().0.system_prompt.unwrap_or_default();
        let kept: String = one(&home, "SELECT prompt FROM system_prompts LIMIT 1");
        assert_eq!(prompt, kept, "{file}");
        let own = "UPDATE sessions SET system_prompt = 'Be kind.', system_prompt_hash = NULL";
        home.sqlite().execute(own, []).unwrap();
        let told = store
            .briefing("20260101_090000_aaaaaa", None)
            .await
            .unwrap();
        assert_eq!(
            told.unwrap().0.system_prompt.as_deref(),
            Some("Be kind."),
            "{file}"
        );
    }
}

/// Whether the trigram index holds what it should, by SQLite's own check.
fn is_sound(home: &Home) {
    let check = "INSERT INTO messages_fts_trigram (messages_fts_trigram, rank) VALUES ('integrity-check', 1)";
    home.sqlite().execute(check, []).expect("a sound index");
}

#[tokio::test]
async fn a_cron_session_moves_with_its_rows_in_the_trigram_index() {
    let home = home_of("hermes-schema-30.db");
    let store = home.store();
    let found = || -> i64 {
        one(
            &home,
            "SELECT count(*) FROM messages_fts_trigram WHERE messages_fts_trigram MATCH '\"Nightly\"'",
        )
    };
    // Another SQLite made the fixture, and its index does not pass this one's check. So it is built anew first.
    let other = "DELETE FROM messages WHERE instr(content, char(0)) > 0";
    home.sqlite().execute(other, []).unwrap();
    let rebuild = "INSERT INTO messages_fts_trigram (messages_fts_trigram) VALUES ('rebuild')";
    home.sqlite().execute(rebuild, []).unwrap();
    is_sound(&home);
    assert_eq!(found(), 0);
    let claim = answered(&store, CRON, "a:key").await;
    is_sound(&home);
    assert_eq!(found(), 1);
    store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
    is_sound(&home);
    assert_eq!(found(), 0);
    let source: String = one(
        &home,
        &format!("SELECT source FROM sessions WHERE id = '{CRON}'"),
    );
    assert_eq!(source, "cron");

    let mut claim = answered(&store, CRON, "a:key").await;
    claim.sent = Some(Vec::new());
    store.complete_handoff(&claim).await.unwrap();
    store.take_home(CRON).await.unwrap();
    is_sound(&home);
    assert_eq!(found(), 1);
    home.sqlite()
        .execute("DELETE FROM messages WHERE session_id = ?1", [CRON])
        .expect("rows that go with their index");
    is_sound(&home);
}

#[tokio::test]
async fn an_entry_keeps_nothing_of_the_session_before() {
    let home = home_of("hermes-0.20.5.db");
    let store = home.store();
    let source = local::source("home", None);
    store.bind_fresh_session("a:key", &source).await.unwrap();
    let more = "UPDATE gateway_routing SET entry_json = json_set(entry_json, '$.active_turn_token', 't', '$.active_turn_started_at', 'x',
                  '$.prev_session_id', 'p', '$.model_override', json('{}'), '$.metadata', json('{\"a\":1}'), '$.resume_pending', json('true'),
                  '$.resume_later', 1, '$.suspended', json('true'), '$.unknown', 7) WHERE session_key = 'a:key'";
    home.sqlite().execute(more, []).unwrap();
    answered(&store, TIP, "a:key").await;
    let entry: String = one(
        &home,
        "SELECT entry_json FROM gateway_routing WHERE session_key = 'a:key'",
    );
    let entry: Value = serde_json::from_str(&entry).unwrap();
    for name in [
        "active_turn_token",
        "active_turn_started_at",
        "prev_session_id",
        "model_override",
        "metadata",
        "resume_later",
    ] {
        assert_eq!(entry.get(name), None, "{name}");
    }
    assert_eq!(entry["resume_pending"], false);
    assert_eq!(entry["suspended"], false);
    assert_eq!(entry["unknown"], 7);
}

#[tokio::test]
async fn reopening_a_row_marks_the_conversations_that_began_at_its_reset() {
    let home = home_of("hermes-0.20.5.db");
    let store = home.store();
    home.sqlite()
        .execute_batch(
            "INSERT INTO sessions (id, source, session_key, started_at, ended_at, end_reason)
             VALUES ('p', 'telegram', 'k', 1, 2, 'session_reset');
             INSERT INTO sessions (id, source, session_key, parent_session_id, started_at, model_config)
             VALUES ('reset', 'telegram', 'k', 'p', 3, '{\"a\": 1}'), ('other', 'telegram', 'k2', 'p', 3, NULL),
                    ('marked', 'telegram', 'k', 'p', 3, '{\"_reset_from\": \"q\"}');",
        )
        .unwrap();
    store.open_terminal("p", None, None).await.unwrap();
    let mark = |id: &str| -> Option<String> {
        one(
            &home,
            &format!(
                "SELECT json_extract(model_config, '$._reset_from') FROM sessions WHERE id = '{id}'"
            ),
        )
    };
    assert_eq!(mark("reset").as_deref(), Some("p"));
    assert_eq!(mark("other"), None);
    assert_eq!(mark("marked").as_deref(), Some("q"));
    assert_eq!(
        one::<Option<String>>(&home, "SELECT end_reason FROM sessions WHERE id = 'p'"),
        None
    );
}

#[tokio::test]
async fn nothing_is_appended_to_a_compressed_row() {
    let home = home_of("hermes-0.20.5.db");
    let words = vec![NewMessage::text(Role::User, "more")];
    home.store().append(ROOT, words).await.unwrap();
    let said: String = one(
        &home,
        "SELECT session_id FROM messages ORDER BY id DESC LIMIT 1",
    );
    assert_eq!(said, TIP);
}

#[tokio::test]
async fn a_program_that_went_away_ends_no_conversation() {
    let home = Home::new();
    seed_session(&home).await;
    let store = home.store();
    let source = local::source("home", None);
    let bound = store.bind_fresh_session("a:key", &source).await.unwrap();
    for reason in ["superseded_by_resume", "startup_orphan_reap"] {
        home.sqlite()
            .execute(
                "UPDATE sessions SET ended_at = 5, end_reason = ?2 WHERE id = ?1",
                [&bound.session_id, reason],
            )
            .unwrap();
        let claim = answered(&store, crate::support::SESSION, "a:key").await;
        let ended = |id: &str| {
            one::<String>(
                &home,
                &format!("SELECT end_reason FROM sessions WHERE id = '{id}'"),
            )
        };
        assert_eq!(ended(&bound.session_id), "session_switch");
        store.fail_handoff(&claim, "no", Vec::new()).await.unwrap();
        assert_eq!(ended(&bound.session_id), reason);
    }
}
