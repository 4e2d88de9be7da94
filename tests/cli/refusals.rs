//! Every reason to refuse a handoff: with a daemon and without one, in text and in JSON, and nothing is changed by it.

use hermesd::store::NewMessage;

use crate::support::{Home, Ran, SESSION, add_session, seed_session};

const OTHER: &str = "20260101_090000_bbbbbb";

/// What is asked for, and what the refusal has to say.
struct Case {
    /// Hermes' `.env` and our own file, which both programs read.
    dot_env: &'static str,
    toml: &'static str,
    arguments: Vec<String>,
    kind: &'static str,
    words: Vec<&'static str>,
    hint: &'static str,
}

impl Case {
    fn of(arguments: &[&str], kind: &'static str, words: &[&'static str]) -> Case {
        Case {
            dot_env: "",
            toml: "",
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            kind,
            words: words.to_vec(),
            hint: "hermesctl platforms",
        }
    }

    /// Both ways to ask, each in text and in JSON.
    async fn check(self) {
        let home = Home::new();
        seed_session(&home).await;
        add_session(&home, OTHER, "Other");
        let reply = vec![NewMessage::reply("Done.")];
        home.store().append(OTHER, reply).await.unwrap();
        home.write(".env", self.dot_env);
        home.write(".config/hermesd/hermesd.toml", self.toml);
        self.ask(&home);
        let _daemon = home.start();
        self.ask(&home);
    }

    fn ask(&self, home: &Home) {
        let mut arguments = vec!["handoff"];
        arguments.extend(self.arguments.iter().map(String::as_str));
        let text = home.hermesctl(&arguments);
        assert_eq!(text.code, 3, "{text:?}");
        assert_eq!(text.stdout, "", "{text:?}");
        assert!(text.stderr.starts_with("error: "), "{text:?}");
        assert!(text.stderr.contains("\nhint: "), "{text:?}");
        self.says_all(&text, &text.stderr);

        arguments.insert(0, "--json");
        let json = home.hermesctl(&arguments);
        assert_eq!(json.code, 3, "{json:?}");
        assert_eq!(json.stderr, "", "{json:?}");
        let error = &json.json()["error"];
        assert_eq!(error["kind"], self.kind, "{json:?}");
        self.says_all(
            &json,
            &format!(
                "{}\n{}",
                error["message"].as_str().unwrap(),
                error["hint"].as_str().unwrap()
            ),
        );
        unchanged(home);
    }

    fn says_all(&self, ran: &Ran, said: &str) {
        for word in self.words.iter().chain([&self.hint]) {
            assert!(said.contains(word), "{word:?} is missing: {ran:?}");
        }
        assert!(!said.contains("SECRET"), "{ran:?}");
    }
}

fn unchanged(home: &Home) {
    let touched: i64 = home
        .sqlite()
        .query_row(
            "SELECT (SELECT count(*) FROM hermesd_handoffs)
                  + (SELECT count(*) FROM sessions WHERE handoff_state IS NOT NULL OR handoff_platform IS NOT NULL)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(touched, 0, "a refused request changed something");
}

#[tokio::test]
async fn a_platform_that_does_not_exist() {
    Case::of(
        &["irc", "--session", SESSION],
        "unknown_platform",
        &["\"irc\"", "choose one of local, telegram"],
    )
    .check()
    .await;
}

#[tokio::test]
async fn a_platform_that_is_switched_off() {
    Case {
        dot_env: "HERMESD_PLATFORMS_LOCAL_ENABLED=false\n",
        ..Case::of(
            &["local", "--session", SESSION],
            "platform_off",
            &["switched off by platforms.local.enabled"],
        )
    }
    .check()
    .await;
}

#[tokio::test]
async fn a_platform_without_a_token() {
    Case::of(
        &["telegram", "--session", SESSION],
        "platform_off",
        &["Telegram is not set up yet. Run `hermesctl setup telegram` (about two minutes)"],
    )
    .check()
    .await;
}

#[tokio::test]
async fn a_platform_that_this_version_cannot_speak_to() {
    Case {
        dot_env: "MATRIX_ACCESS_TOKEN=syt_SECRET\nMATRIX_HOMESERVER=https://m.example\nMATRIX_HOME_ROOM=!r:m.example\n",
        ..Case::of(
            &["matrix", "--session", SESSION],
            "platform_off",
            &["cannot speak to matrix yet"],
        )
    }
    .check()
    .await;
}

#[tokio::test]
async fn a_platform_without_a_home_channel() {
    Case {
        toml: "[platforms.local]\nhome_channel = \"\"\n",
        ..Case::of(
            &["local", "--session", SESSION],
            "no_home_channel",
            &["set platforms.local.home_channel"],
        )
    }
    .check()
    .await;
}

#[tokio::test]
async fn a_session_that_does_not_exist() {
    Case {
        hint: "hermesctl sessions",
        ..Case::of(
            &["local", "--session", "nobody's"],
            "unknown_session",
            &["\"nobody's\""],
        )
    }
    .check()
    .await;
}

#[tokio::test]
async fn the_beginning_of_several_ids() {
    Case {
        hint: "give more of the id",
        ..Case::of(
            &["local", "--session", "20260101"],
            "ambiguous_session",
            &[SESSION, OTHER, "Fix the parser, 4 messages"],
        )
    }
    .check()
    .await;
}

#[tokio::test]
async fn no_session_named_and_several_live_ones() {
    Case {
        hint: "--session",
        ..Case::of(
            &["local"],
            "ambiguous_session",
            &[
                "several terminal sessions",
                SESSION,
                OTHER,
                "Other, 1 message",
                "last active",
            ],
        )
    }
    .check()
    .await;
}

#[tokio::test]
async fn a_note_that_is_too_long() {
    let note = "é".repeat(4001);
    Case {
        hint: "shorten it",
        ..Case::of(
            &["local", "--session", SESSION, "--note", &note],
            "note_too_long",
            &["4000 characters"],
        )
    }
    .check()
    .await;
}

#[tokio::test]
async fn no_session_named_and_none_alive() {
    let home = Home::new();
    seed_session(&home).await;
    home.sqlite()
        .execute("UPDATE sessions SET ended_at = 1767258009.0", [])
        .unwrap();
    let ran = home.hermesctl(&["--json", "handoff", "local"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(ran.json()["error"]["kind"], "unknown_session");
    unchanged(&home);
}

#[tokio::test]
async fn a_session_whose_handoff_is_under_way() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:bound")]);
    assert_eq!(home.hermesctl(&["handoff", "local", "--no-wait"]).code, 0);
    home.until_paused();
    let ran = home.hermesctl(&["--json", "handoff", "local", "--session", SESSION]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let error = &ran.json()["error"];
    assert_eq!(error["kind"], "in_flight", "{ran:?}");
    assert!(
        error["message"].as_str().unwrap().contains("running"),
        "{ran:?}"
    );
    assert!(
        error["hint"].as_str().unwrap().contains("handoffs cancel"),
        "{ran:?}"
    );
    let all = home.hermesctl(&["--json", "handoffs"]).json();
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
}
