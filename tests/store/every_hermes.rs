//! A day with the database of each recent Hermes: a handoff of a compressed conversation, words in the chat and at home, search,
//! a stop. Then what a Hermes expects to find, asked by SQL.

use rusqlite::types::FromSql;

use crate::store::open::home_of;
use crate::support::Home;

/// A conversation that was compressed once: its first row, and the live one.
const ROOT: &str = "20260103_090000_cccccc";
const TIP: &str = "20260103_100000_dddddd";
const KEY: &str = "agent:main:local:dm:home:1";

fn one<T: FromSql>(home: &Home, sql: &str) -> T {
    home.sqlite()
        .query_row(sql, [], |row| row.get(0))
        .unwrap_or_else(|error| panic!("{error}: {sql}"))
}

fn of_row<T: FromSql>(home: &Home, column: &str, id: &str) -> T {
    one(
        home,
        &format!("SELECT {column} FROM sessions WHERE id = '{id}'"),
    )
}

/// What nobody but Hermes changes in a file.
fn hermes_own(home: &Home) -> (i64, i64, String) {
    (
        one(home, "SELECT version FROM schema_version"),
        one(home, "PRAGMA application_id"),
        one(home, "PRAGMA journal_mode"),
    )
}

fn ran(home: &Home, arguments: &[&str]) -> String {
    let ran = home.hermesctl(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    ran.stdout
}

fn at_the_chat(home: &Home) {
    for id in [ROOT, TIP] {
        assert_eq!(of_row::<String>(home, "source", id), "local");
        assert_eq!(of_row::<String>(home, "session_key", id), KEY);
    }
    let is_ended = of_row::<Option<String>>(home, "end_reason", ROOT);
    assert_eq!(is_ended.as_deref(), Some("compression"));
    assert_eq!(of_row::<Option<f64>>(home, "ended_at", TIP), None);
    assert!(of_row::<f64>(home, "last_activity_at", TIP) > 1_700_000_000.0);
    let bound = format!(
        "SELECT json_extract(entry_json, '$.session_id') FROM gateway_routing WHERE session_key = '{KEY}'"
    );
    assert_eq!(one::<String>(home, &bound), TIP);
    // The words that came before the last ones.
    let notice = format!(
        "SELECT display_kind FROM messages WHERE session_id = '{TIP}' AND role = 'user' ORDER BY id DESC LIMIT 1 OFFSET 1"
    );
    let kind: Option<String> = one(home, &notice);
    assert_eq!(kind.as_deref(), Some("internal_notification"));
}

fn at_home(home: &Home) {
    for id in [ROOT, TIP] {
        assert_eq!(of_row::<String>(home, "source", id), "cli");
        for column in [
            "session_key",
            "chat_id",
            "chat_type",
            "thread_id",
            "origin_json",
        ] {
            assert_eq!(of_row::<Option<String>>(home, column, id), None, "{column}");
        }
    }
    let entries = format!("SELECT count(*) FROM gateway_routing WHERE session_key = '{KEY}'");
    assert_eq!(one::<i64>(home, &entries), 0);
}

/// The indexes that hold just what the messages hold.
fn sound_indexes(home: &Home) -> Vec<&'static str> {
    let is_sound = |index: &&str| {
        let check = format!("INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)");
        home.sqlite().execute(&check, []).is_ok()
    };
    let indexes = ["messages_fts", "messages_fts_trigram"];
    indexes.into_iter().filter(is_sound).collect()
}

fn is_sound(home: &Home) {
    let counted = of_row::<i64>(home, "message_count", TIP);
    let live = format!("SELECT count(*) FROM messages WHERE session_id = '{TIP}' AND active = 1");
    assert_eq!(counted, one::<i64>(home, &live));
    assert_eq!(
        one::<i64>(home, "SELECT count(*) FROM session_turn_leases"),
        0
    );
    assert_eq!(
        one::<i64>(home, "SELECT count(*) FROM messages WHERE active IS NULL"),
        0
    );
    let found = home.hermesctl(&["doctor"]).stdout;
    assert!(found.contains("state.db is sound"), "{found}");
}

#[test]
fn a_day_with_the_database_of_each_recent_hermes() {
    for fixture in [
        "hermes-0.19.0-upgraded-to-0.20.5.db",
        "hermes-0.20.5.db",
        "hermes-0.20.5-delete.db",
        "hermes-schema-30.db",
        "hermes-schema-30-cjk.db",
    ] {
        let home = home_of(fixture);
        let before = (hermes_own(&home), sound_indexes(&home));
        let daemon = home.start();
        // Any id of a conversation means its live end.
        ran(&home, &["handoff", "local", "--session", ROOT]);
        let talk =
            home.pipe_into_hermesctl("Which steps are left, zanzibar?\n", &["attach", "local/1"]);
        assert_eq!(talk.end().code, 0, "{fixture}");
        at_the_chat(&home);
        assert!(
            ran(&home, &["sessions", "search", "zanzibar"]).contains(TIP),
            "{fixture}"
        );
        ran(&home, &["sessions", "rename", TIP, "Quiet work"]);
        assert_eq!(of_row::<String>(&home, "title_source", TIP), "user");

        ran(&home, &["resume", TIP]);
        at_home(&home);
        let talk = home.pipe_into_hermesctl("Back at the desk.\n", &["chat", "--resume", TIP]);
        assert_eq!(talk.end().code, 0, "{fixture}");
        assert!(
            ran(&home, &["sessions", "search", "desk"]).contains(TIP),
            "{fixture}"
        );
        assert!(daemon.stop().success(), "{fixture}");
        is_sound(&home);
        assert_eq!(
            (hermes_own(&home), sound_indexes(&home)),
            before,
            "{fixture}"
        );
        assert!(home.path().join(".clean_shutdown").exists(), "{fixture}");
    }
}
