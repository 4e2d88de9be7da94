//! Rows of a transcript that are not a person's words: what people are shown of them, and what `/retry` takes for theirs.

use serde_json::Value;

use crate::store::open::home_of;
use crate::support::Home;

/// No handoff of this session is in flight.
const SESSION: &str = "20260106_090000_abcabc";
const TITLE: &str = "Stayed here";

/// The session with a note, with one that is for the model alone, and with one whose writer says so.
fn home_with_notes(file: &str) -> Home {
    let home = home_of(file);
    drop(home.store());
    home.sqlite()
        .execute_batch(&format!(
            "INSERT INTO messages (session_id, role, content, timestamp, active, display_kind, display_metadata)
             VALUES ('{SESSION}', 'user', 'switched to zebra', 2, 1, 'model_switch', NULL),
                    ('{SESSION}', 'user', 'secret giraffe', 2, 1, 'hidden', NULL),
                    ('{SESSION}', 'user', 'quiet okapi', 2, 1, 'internal_notification', '{{\"model_only\": true}}'),
                    ('{SESSION}', 'user', 'loud gnu', 2, 1, 'internal_notification', 'no JSON');"
        ))
        .unwrap();
    home
}

fn printed(home: &Home, arguments: &[&str]) -> String {
    let ran = home.hermesctl(arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout
}

#[test]
fn people_see_notes_as_notes_and_nothing_that_is_for_the_model_alone() {
    for file in ["hermes-0.20.5.db", "hermes-schema-30.db"] {
        let home = home_with_notes(file);
        for with_daemon in [false, true] {
            let _daemon = with_daemon.then(|| home.start());
            let transcript = printed(&home, &["sessions", "transcript", TITLE]);
            assert!(transcript.contains("note (model switch)"), "{transcript}");
            assert!(transcript.contains("loud gnu"), "{transcript}");
            assert!(
                !transcript.contains("giraffe") && !transcript.contains("okapi"),
                "{transcript}"
            );
            for (word, found) in [
                ("zebra", true),
                ("gnu", true),
                ("giraffe", false),
                ("okapi", false),
            ] {
                let hits = printed(&home, &["sessions", "search", word]);
                assert_eq!(
                    hits.contains(&format!(">>>{word}<<<")),
                    found,
                    "{word}: {hits}"
                );
                assert_eq!(hits.contains("note, "), found, "{word}: {hits}");
            }
            let export = printed(&home, &["sessions", "export", TITLE]);
            assert!(export.contains("## Note (model switch)"), "{export}");
            assert!(
                export.contains("giraffe") && export.contains("okapi"),
                "{export}"
            );
            let json: Value = home
                .hermesctl(&["--json", "sessions", "export", TITLE])
                .json();
            let hidden = json["messages"].as_array().unwrap().iter();
            assert_eq!(
                hidden.filter(|message| message["hidden"] == true).count(),
                2
            );
        }
    }
}

#[test]
fn what_is_tried_again_is_what_a_person_said() {
    let home = home_of("hermes-0.20.5.db");
    let _daemon = home.start();
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = home
        .pipe_into_hermesctl("/retry\n", &["--json", "attach", "local/1"])
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    let text = last["text"].as_str().unwrap();
    assert!(text.contains("Paint the fence."), "{text}");
    let live: i64 = home
        .sqlite()
        .query_row(
            "SELECT count(*) FROM messages WHERE session_id = ?1 AND active = 1 AND display_kind IS NOT NULL",
            [SESSION],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(live, 0, "the notice of the handoff came after those words");
}

#[test]
fn a_note_at_the_end_is_not_taken_for_a_turn_in_progress() {
    let home = home_with_notes("hermes-0.20.5.db");
    home.sqlite()
        .execute(
            "UPDATE messages SET timestamp = unixepoch('subsec') WHERE session_id = ?1",
            [SESSION],
        )
        .unwrap();
    let _daemon = home.start();
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
