//! A damaged full-text index refuses every message. Chats and terminals go on without it, and it can be built anew.

use nix::sys::signal::Signal;

use crate::agent::openai::one;
use crate::support::{Home, SESSION, TITLE, seed_session, until};

const INDEXES: [&str; 2] = ["messages_fts", "messages_fts_trigram"];

/// Overwrites the record that says of what the index is made.
fn damage(home: &Home, index: &str, block: &str) {
    let sql = format!("UPDATE {index}_data SET block = x'{block}' WHERE id = 10");
    assert_eq!(home.sqlite().execute(&sql, []).unwrap(), 1);
}

fn triggers(home: &Home) -> i64 {
    let sql =
        "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'messages_fts%'";
    one(home, sql)
}

#[tokio::test]
async fn chats_are_answered_without_the_index_and_it_can_be_built_anew() {
    // An index that cannot be read, and one that has forgotten what it holds.
    for (index, block) in INDEXES.into_iter().zip(["FFFFFFFFFFFFFFFF", "00"]) {
        let home = Home::new();
        seed_session(&home).await;
        damage(&home, index, block);
        let mut daemon = home.start();
        // A handoff, a message in the chat and one in a terminal.
        let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
        assert_eq!(ran.code, 0, "{index}: {ran:?}");
        assert_eq!(home.type_into("local/1", "Find the zebra\n").len(), 2);
        assert_eq!(home.talk(&[], "Another zebra\n").replies().len(), 1);
        let rows: i64 = one(
            &home,
            "SELECT count(*) FROM messages WHERE content LIKE '%zebra%' AND role = 'user'",
        );
        assert_eq!(rows, 2, "{index}");
        // Hermes' own remedy, said once.
        assert_eq!(triggers(&home), 0);
        for index in INDEXES {
            let check = format!("INSERT INTO {index}({index}) VALUES ('integrity-check')");
            home.sqlite().execute(&check, []).unwrap();
        }
        let stale: String = one(
            &home,
            "SELECT value FROM state_meta WHERE key = 'fts_stale'",
        );
        assert_eq!(stale, "1");
        let log = daemon.log();
        assert_eq!(
            log.matches("full-text index is damaged").count(),
            1,
            "{log}"
        );
        assert!(log.contains("hermesd --rebuild-index"), "{log}");
        let ran = home.hermesctl(&["doctor"]);
        assert!(ran.stdout.contains("hermesd --rebuild-index"), "{ran:?}");
        let found = home.hermesctl(&["--json", "sessions", "search", "zebra"]);
        assert!(found.stdout.contains(SESSION), "{found:?}");

        // Not beside a daemon.
        let ran = home.hermesd(&["--rebuild-index"]);
        assert_eq!(ran.code, 69, "{ran:?}");
        daemon.signal(Signal::SIGTERM);
        assert!(daemon.wait().success());
        let ran = home.hermesd(&["--rebuild-index"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(triggers(&home), 6);
        for index in INDEXES {
            let check = format!("INSERT INTO {index}({index}) VALUES ('integrity-check')");
            home.sqlite().execute(&check, []).unwrap();
            let sql = format!("SELECT count(*) FROM {index} WHERE {index} MATCH 'zebra'");
            assert!(one::<i64>(&home, &sql) >= 2);
        }
        let _daemon = home.start();
        home.talk(&[], "An okapi\n");
        until("new messages are in the index", || {
            let sql = "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'okapi'";
            (one::<i64>(&home, sql) >= 1).then_some(())
        });
    }
}
