//! Which session a handoff means when nobody names one.

use hermesd::client::ClientError;
use hermesd::protocol::{Call, ChatOpen, HandoffRequest, HandoffView};
use serde_json::Value;

use crate::support::pty::Terminal;
use crate::support::scripted::InProcess;
use crate::support::{Home, SESSION, TITLE, add_session, seed_session};

const OTHER: &str = "20260101_090000_bbbbbb";

fn end(home: &Home, session: &str, hours_ago: f64) {
    home.sqlite()
        .execute(
            "UPDATE sessions SET ended_at = unixepoch('subsec') - ?2 * 3600, end_reason = 'cli_close' WHERE id = ?1",
            (session, hours_ago),
        )
        .expect("an end");
}

fn handed_off(home: &Home, environment: &[(&str, &str)]) -> String {
    let ran = home
        .spawn_hermesctl(&["--json", "handoff", "local"], environment)
        .end();
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()["session"]
        .as_str()
        .expect("a session")
        .to_owned()
}

#[tokio::test]
async fn the_environment_names_it() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, OTHER, "Other");
    let _daemon = home.start();
    let named = [("HERMES_SESSION_ID", OTHER)];
    assert_eq!(handed_off(&home, &named), OTHER);
}

#[tokio::test]
async fn among_live_ones_it_is_the_one_that_was_spoken_in_lately() {
    let home = Home::new();
    // The other one has been open since January, and nothing was said in it.
    seed_session(&home).await;
    add_session(&home, OTHER, "Other");
    let _daemon = home.start();
    assert_eq!(handed_off(&home, &[("HERMES_SESSION_ID", "")]), SESSION);
}

#[tokio::test]
async fn without_a_live_one_it_is_the_only_one_that_ended_lately() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, OTHER, "Other");
    end(&home, SESSION, 1.0);
    end(&home, OTHER, 48.0);
    let _daemon = home.start();
    assert_eq!(handed_off(&home, &[]), SESSION);
}

#[tokio::test]
async fn several_that_fit_are_listed_with_titles_and_ages_and_nothing_changes() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, OTHER, "Other");
    home.store()
        .append(OTHER, vec![hermesd::store::NewMessage::reply("Yes.")])
        .await
        .unwrap();
    end(&home, SESSION, 1.0);
    end(&home, OTHER, 2.0);
    let ran = home.hermesctl(&["handoff", "local"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    for words in [
        SESSION,
        TITLE,
        OTHER,
        "Other",
        "last active",
        " s ago",
        "--session",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
    }
    let none = home.hermesctl(&["--json", "handoffs"]).json();
    assert_eq!(none, Value::Array(Vec::new()));
}

#[tokio::test]
async fn the_session_of_the_askers_terminal_comes_before_all_others() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, OTHER, "Other");
    home.store()
        .append(OTHER, vec![hermesd::store::NewMessage::reply("Yes.")])
        .await
        .unwrap();
    let daemon = InProcess::start(&home, &[]).await;
    let open = ChatOpen {
        session: Some(OTHER.into()),
        tty: Some("/dev/pts/98".into()),
        ..ChatOpen::default()
    };
    let _: Value = daemon.client.call(Call::ChatOpen(open)).await.unwrap();
    let ask = |tty: &str| {
        let wish = HandoffRequest {
            platform: "telegram".into(),
            tty: Some(tty.to_owned()),
            ..HandoffRequest::default()
        };
        daemon
            .client
            .call::<HandoffView>(Call::HandoffRequest(wish))
    };
    let elsewhere = ask("/dev/pts/99").await;
    let Err(ClientError::Refused(error)) = elsewhere else {
        panic!("{elsewhere:?}")
    };
    assert_eq!(error.data.unwrap().kind, "ambiguous_session");
    let asked = ask("/dev/pts/98").await.unwrap();
    assert_eq!(asked.session, OTHER);
    daemon.ended(asked.id).await;
    daemon.stop().await;
}

/// Runs a script in a terminal of its own. `note` in it notes a session for that terminal, as Hermes does.
fn in_terminal(home: &Home, script: &str) -> Terminal {
    let note = r##"
        note() { # session, seconds ago, name of the terminal
            mkdir -p "$HERMES_HOME/terminal-sessions"
            printf '{"session_id": "%s", "cwd": "/", "ts": %s}' "$1" "$(($(date +%s) - $2))" \
                > "$HERMES_HOME/terminal-sessions/$3"
        }
        here="tty-$(tty | sed 's#^/##; s#/#-#g')"
    "##;
    let mut command = home.command("sh");
    command.env("CTL", env!("CARGO_BIN_EXE_hermesctl"));
    command.args(["-c", &format!("{note}\n{script}")]);
    Terminal::of(command, 140, 40)
}

/// Two sessions of which the first would be guessed.
async fn two_sessions(home: &Home) {
    seed_session(home).await;
    add_session(home, OTHER, "Other");
}

#[tokio::test]
async fn hermes_has_noted_it_for_the_terminal() {
    for with_daemon in [true, false] {
        let home = Home::new();
        two_sessions(&home).await;
        let _daemon = with_daemon.then(|| home.start());
        let script = format!("note {OTHER} 0 \"$here\"; \"$CTL\" handoff local --no-wait");
        let mut terminal = in_terminal(&home, &script);
        terminal.shows(&format!(
            "session {OTHER}: Hermes had it last in this terminal"
        ));
        assert_eq!(terminal.end(), 0);
    }
}

#[tokio::test]
async fn a_program_that_hermes_runs_with_pipes_is_in_the_terminal_of_hermes() {
    let home = Home::new();
    two_sessions(&home).await;
    let _daemon = home.start();
    let script = format!(
        "note {OTHER} 0 \"$here\"; \"$CTL\" handoff local --no-wait < /dev/null 2>&1 | cat"
    );
    let mut terminal = in_terminal(&home, &script);
    terminal.shows(&format!(
        "session {OTHER}: Hermes had it last in this terminal"
    ));
    assert_eq!(terminal.end(), 0);
}

#[tokio::test]
async fn a_pane_is_known_by_its_variable() {
    let home = Home::new();
    two_sessions(&home).await;
    let _daemon = home.start();
    home.write(
        "terminal-sessions/tmux_pane--7",
        &format!(
            "{{\"session_id\": \"{OTHER}\", \"cwd\": \"/\", \"ts\": {}}}",
            hermesd::clock::now()
        ),
    );
    assert_eq!(handed_off(&home, &[("TMUX_PANE", "%7")]), OTHER);
}

#[tokio::test]
async fn a_note_that_is_about_something_else_is_not_followed() {
    let notes = [
        format!("note {OTHER} 3600 \"$here\""), // Before this terminal was opened.
        "note gone 0 \"$here\"".to_owned(),
        format!("note {OTHER} 0 tty-dev-pts-999999"),
    ];
    for note in notes {
        let home = Home::new();
        two_sessions(&home).await;
        let _daemon = home.start();
        let mut terminal = in_terminal(&home, &format!("{note}; \"$CTL\" handoff local --no-wait"));
        terminal.shows(&format!(
            "session {SESSION}: it is the only recent session of a terminal"
        ));
        assert_eq!(terminal.end(), 0);
    }
    // Noted for this very terminal, but it ended two days ago.
    let home = Home::new();
    two_sessions(&home).await;
    end(&home, OTHER, 48.0);
    let _daemon = home.start();
    let script = format!("note {OTHER} 0 \"$here\"; \"$CTL\" handoff local --no-wait");
    let mut terminal = in_terminal(&home, &script);
    terminal.shows(&format!(
        "session {SESSION}: it is the only recent session of a terminal"
    ));
    assert_eq!(terminal.end(), 0);
}
