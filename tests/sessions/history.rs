//! `hermesctl sessions search|export|rename`, with a daemon and without one.

use serde_json::Value;

use crate::support::{Home, Ran, SESSION, TITLE, add_session, seed_session};

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

/// Runs `check` on a home that a daemon serves, and on one that none does.
async fn both_ways(check: impl Fn(&Home)) {
    for served in [true, false] {
        let home = Home::new();
        seed_session(&home).await;
        add_session(&home, "20260101_100000_bbbbbb", "Another");
        let _daemon = served.then(|| home.start());
        check(&home);
    }
}

fn say(home: &Home, text: &str) -> i64 {
    let connection = home.sqlite();
    connection
        .execute(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?1, 'user', ?2, 1767258100.0)",
            [SESSION, text],
        )
        .unwrap();
    connection.last_insert_rowid()
}

fn found(home: &Home, words: &[&str]) -> Vec<i64> {
    let args = [&["--json", "sessions", "search"], words].concat();
    let hits = ok(home.hermesctl(&args)).json();
    let id = |hit: &Value| hit["message"].as_i64().unwrap();
    hits.as_array().unwrap().iter().map(id).collect()
}

#[tokio::test]
async fn words_phrases_and_beginnings_are_found() {
    both_ways(|home| {
        let german = say(home, "Die Zerlegungsmaschine läuft NOT (yet) \"quoted\"");
        let chinese = say(home, "请修复解析器的错误");
        let taken_back = say(home, "a secret that was rewound");
        home.sqlite()
            .execute("UPDATE messages SET active = 0 WHERE id = ?1", [taken_back])
            .unwrap();

        assert_eq!(found(home, &["parser", "fail"]), [1]);
        assert_eq!(found(home, &["off-by-one"]), [4]);
        assert_eq!(found(home, &["the parser"]), [1]);
        assert_eq!(found(home, &["parser the"]), [0i64; 0]);
        assert_eq!(found(home, &["pars*"]), [1]);
        assert_eq!(found(home, &["legungsmasch"]), [german]);
        assert_eq!(found(home, &["解析器"]), [chinese]);
        assert_eq!(found(home, &["修复"]), [chinese]);
        assert_eq!(found(home, &["rewound"]), [0i64; 0]);
        // Nothing in a word is taken for the language of the index.
        for odd in [
            "NOT",
            "(yet)",
            "\"quoted\"",
            "content:parser",
            "*",
            "AND OR",
        ] {
            found(home, &[odd]);
        }
        assert_eq!(found(home, &["NOT", "\"quoted\""]), [german]);

        let shown = ok(home.hermesctl(&["sessions", "search", "parser"])).stdout;
        assert!(
            shown.contains(TITLE) && shown.contains(">>>parser<<<"),
            "{shown}"
        );
        let nothing = ok(home.hermesctl(&["sessions", "search", "xylophone"])).stdout;
        assert_eq!(nothing, "Nothing found.\n");
    })
    .await;
}

#[tokio::test]
async fn a_session_is_exported_whole() {
    both_ways(|home| {
        // Longer than what crosses the socket in one piece.
        let long = "x".repeat(2 << 20);
        say(home, &long);
        let text = ok(home.hermesctl(&["sessions", "export", TITLE])).stdout;
        assert!(
            text.starts_with("# Fix the parser\n\n- session: "),
            "{}",
            &text[..200]
        );
        for piece in [
            "## You, ",
            "Why does the parser fail?",
            "Calls `run_tests`:\n\n```json\n{}\n```",
            "## Tool run_tests, ",
            "```\n1 failed\n```",
            "An off-by-one.",
            &long,
        ] {
            assert!(text.contains(piece), "{}", &piece[..piece.len().min(80)]);
        }
        let json = ok(home.hermesctl(&["sessions", "export", TITLE, "--format", "json"])).json();
        assert_eq!(json["session"]["id"], SESSION);
        assert_eq!(json["messages"].as_array().unwrap().len(), 5);
        assert_eq!(json["messages"][4]["content"], long.as_str());

        let file = home.path().join("export.md");
        let name = file.to_str().unwrap();
        let args = ["sessions", "export", TITLE, "--output", name];
        assert!(
            ok(home.hermesctl(&args))
                .stdout
                .starts_with("5 messages are in ")
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let again = home.hermesctl(&args);
        assert_eq!(again.code, 3, "what is there is not overwritten: {again:?}");
    })
    .await;
}

#[tokio::test]
async fn a_session_is_renamed_and_titles_stay_unique() {
    both_ways(|home| {
        let renamed = ok(home.hermesctl(&[
            "--json",
            "sessions",
            "rename",
            TITLE,
            "  New \u{202e} name\n",
        ]));
        assert_eq!(renamed.json()["title"], "New name");
        assert_eq!(renamed.json()["id"], SESSION);
        ok(home.hermesctl(&["sessions", "show", "New name"]));

        let taken = home.hermesctl(&["--json", "sessions", "rename", SESSION, "Another"]);
        assert_eq!(
            (taken.code, &taken.json()["error"]["kind"]),
            (3, &"title_taken".into())
        );
        let long = home.hermesctl(&["--json", "sessions", "rename", SESSION, &"a".repeat(101)]);
        assert_eq!(
            (long.code, &long.json()["error"]["kind"]),
            (3, &"title_too_long".into())
        );
        let unknown = home.hermesctl(&["sessions", "rename", "nobody", "x"]);
        assert_eq!(unknown.code, 3);
        assert_eq!(
            ok(home.hermesctl(&["--json", "sessions", "show", SESSION])).json()["title"],
            "New name"
        );

        let cleared = ok(home.hermesctl(&["sessions", "rename", SESSION, ""])).stdout;
        assert!(cleared.contains("no longer has a title"), "{cleared}");
    })
    .await;
}

#[tokio::test]
async fn a_title_moves_on_from_a_compressed_predecessor() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, "20260101_110000_cccccc", "Fix the parser #2");
    home.sqlite()
        .execute_batch(&format!(
            "UPDATE sessions SET ended_at = 1, end_reason = 'compression' WHERE id = '{SESSION}';
             UPDATE sessions SET parent_session_id = '{SESSION}' WHERE id = '20260101_110000_cccccc';"
        ))
        .unwrap();
    let renamed = ok(home.hermesctl(&["--json", "sessions", "rename", "20260101_110000", TITLE]));
    assert_eq!(renamed.json()["id"], "20260101_110000_cccccc");
    assert_eq!(renamed.json()["title"], TITLE);
}
