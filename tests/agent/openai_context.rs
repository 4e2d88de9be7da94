//! A history that is longer than the model's context: what the endpoint gets of it, and what the person is told.

use serde_json::json;

use crate::agent::openai::{hand_off, rows, set, write};
use crate::support::endpoint::{Endpoint, KEY, MODEL};
use crate::support::{Home, SESSION, seed_session, until};

#[tokio::test]
async fn of_a_history_that_is_too_long_whole_exchanges_are_left_out_from_the_oldest() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    set(&home, "system_prompt = 'Be kind.'");
    for words in ["second", "third", "fourth"] {
        write(&home, "user", Some(words), None);
        write(&home, "assistant", Some(&words.repeat(130)), None);
    }
    let daemon = endpoint.start_daemon(&home, &[("HERMESD_AGENTS_OPENAI_CONTEXT", "1000")]);
    let before = rows(&home);
    hand_off(&home);
    let seen = &endpoint.seen()[0];
    let said = seen.messages();
    assert_eq!(
        seen.roles(),
        ["system", "user", "assistant", "user", "assistant", "user"],
        "{said:?}"
    );
    assert_eq!(
        (&said[0]["content"], &said[1]["content"]),
        (&json!("Be kind."), &json!("third"))
    );
    let words = "oldest messages left out";
    until(words, || daemon.log().contains(words).then_some(()));
    assert!(
        daemon.log().contains("messages=6"),
        "it says how many were left out"
    );
    assert_eq!(rows(&home)[..before.len()], before);
}

#[tokio::test]
async fn a_person_is_informed_once_when_the_model_does_not_see_all_of_the_history() {
    const NOTE: &str = "The model saw the last";
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    for words in ["second", "third", "fourth"] {
        write(&home, "user", Some(words), None);
        write(&home, "assistant", Some(&words.repeat(130)), None);
    }
    let copy = format!(
        "INSERT INTO sessions (id, source, started_at, message_count) VALUES ('other', 'cli', 1767258000.0, 100);
         INSERT INTO messages (session_id, role, content, timestamp)
         SELECT 'other', role, content, timestamp FROM messages WHERE session_id = '{SESSION}' AND content IS NOT NULL
            AND role <> 'tool' AND tool_calls IS NULL"
    );
    home.sqlite().execute_batch(&copy).unwrap();
    // Hermes' own setting counts.
    let model = format!(
        "default: {MODEL}, base_url: '{}', api_key: {KEY}",
        endpoint.url()
    );
    let config = format!("model: {{{model}, context_length: 1000}}\n");
    home.write("config.yaml", &config);
    let daemon = home.start_with(&[("HERMESD_AGENT_DEFAULT", "openai")]);
    hand_off(&home);
    let said = home.type_into("local/1", "And now?\n");
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].contains(NOTE) && !said[1].contains(NOTE),
        "{said:?}"
    );
    assert!(said[0].contains("of 10 messages"), "{said:?}");
    assert!(said[0].contains("of 1000 tokens"), "{said:?}");
    assert!(!rows(&home).iter().any(|row| row.contains(NOTE)));

    // In a terminal it stands behind the reply.
    let talk = home.talk(&["--resume", "other"], "One\nTwo\n");
    let notes: Vec<bool> = talk
        .turns
        .iter()
        .map(|turn| turn["note"].is_string())
        .collect();
    assert_eq!(notes, [true, false], "{talk:?}");
    // The next daemon does not know that they know, and people without JSON see it too.
    drop(daemon);
    let _daemon = home.start_with(&[("HERMESD_AGENT_DEFAULT", "openai")]);
    let ran = home
        .pipe_into_hermesctl("Three\n", &["chat", "--resume", "other"])
        .end();
    assert!(ran.stdout.contains(NOTE), "{ran:?}");
}
