//! What people may call a session, and what they pick from when they call it nothing.

use hermesd::domain::transcript::Role;
use hermesd::store::NewMessage;

use crate::support::pty::Terminal;
use crate::support::{Home, Ran, SESSION, TITLE, add_session, seed_session};

const OTHER: &str = "20260101_090000_bbbbbb";
const UNTITLED: &str = "20260102_090000_cccccc";
const WORDS: &str = "Can you find out why the tests of the parser hang on empty lines?";
const CALLED: &str = "Can you find out why the tests of the…";

async fn home() -> Home {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, OTHER, "Plan the trip");
    add_session(&home, UNTITLED, "");
    home.sqlite()
        .execute("UPDATE sessions SET title = NULL WHERE id = ?1", [UNTITLED])
        .unwrap();
    let said = vec![
        NewMessage::text(Role::User, WORDS),
        NewMessage::reply("Yes."),
    ];
    home.store().append(UNTITLED, said).await.unwrap();
    home
}

fn show(home: &Home, name: &str) -> Ran {
    home.hermesctl(&["--json", "sessions", "show", name])
}

#[tokio::test]
async fn a_part_that_only_one_session_has_is_enough() {
    let home = home().await;
    for served in [false, true] {
        let _daemon = served.then(|| home.start());
        for (name, id) in [
            (TITLE, SESSION),
            ("PARSER", SESSION),
            ("trip", OTHER),
            ("plan THE", OTHER),
            ("bbbbbb", OTHER),
            ("_bbbbbb", OTHER),
            ("the tests of", UNTITLED),
            // It was spoken in last.
            ("last", UNTITLED),
        ] {
            let ran = show(&home, name);
            assert_eq!(ran.code, 0, "{name}: {ran:?}");
            assert_eq!(ran.json()["id"], id, "{name}");
        }
        let many = show(&home, "the");
        assert_eq!(
            many.json()["error"]["kind"],
            "ambiguous_session",
            "{many:?}"
        );
        assert!(many.stdout.contains(CALLED), "{many:?}");
        let short = show(&home, "bbb");
        assert_eq!(
            short.json()["error"]["kind"],
            "unknown_session",
            "{short:?}"
        );
        let misspelt = show(&home, "parsre");
        assert_eq!(misspelt.code, 3, "{misspelt:?}");
        let message = format!("No session is called \"parsre\". Did you mean {TITLE:?}?");
        assert_eq!(misspelt.json()["error"]["message"], message.as_str());
        let nonsense = show(&home, "zzzzzz");
        assert_eq!(
            nonsense.json()["error"]["message"],
            "No session is called \"zzzzzz\"."
        );
    }
}

#[tokio::test]
async fn an_untitled_session_is_called_by_its_first_words() {
    let home = home().await;
    let list = home.hermesctl(&["sessions"]);
    assert!(list.stdout.contains(CALLED), "{list:?}");
    let json = home.hermesctl(&["--json", "sessions"]).json();
    let rows = json.as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == UNTITLED).unwrap();
    assert_eq!(row["first_words"], CALLED);
    assert_eq!(row["title"], serde_json::Value::Null);
    let _daemon = home.start();
    let ran = home.hermesctl(&["--json", "handoff", "local", "--session", UNTITLED]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["thread_title"], format!("Hermes — {CALLED}"));
}

#[tokio::test]
async fn a_session_is_picked_with_a_filter() {
    let home = home().await;
    let mut terminal = Terminal::open(&home, &["sessions", "show"], 80, 24);
    terminal.shows("Which session?");
    terminal.shows(TITLE);
    terminal.shows("Plan the trip");
    terminal.press("trip");
    terminal.shows("Which session? › trip");
    terminal.press("\r");
    assert_eq!(terminal.end(), 0);
    let screen = terminal.screen();
    assert!(screen.contains(&format!("id        {OTHER}")), "{screen}");
    assert!(terminal.look(|screen| !screen.hide_cursor()));

    for key in ["\x1b", "\x03"] {
        let mut terminal = Terminal::open(&home, &["sessions", "show"], 80, 24);
        terminal.shows("Plan the trip");
        terminal.press(key);
        let code = if key == "\x1b" { 3 } else { -1 };
        assert_eq!(terminal.end(), code, "{key:?}");
        assert!(!terminal.screen().contains("id        "));
        assert!(terminal.is_as_found());
        assert!(terminal.look(|screen| !screen.hide_cursor()), "{key:?}");
    }
}

#[tokio::test]
async fn nobody_is_asked_without_a_terminal_or_with_json() {
    let home = home().await;
    let ran = home.hermesctl(&["--json", "sessions", "show"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert_eq!(ran.json()["error"]["kind"], "usage");
    let ran = home.hermesctl(&["handoffs", "cancel"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr.contains("name a handoff by its number"),
        "{ran:?}"
    );
    let ran = home.hermesctl(&["handoffs", "show", "seven"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr.contains("a handoff is named by its number"),
        "{ran:?}"
    );
    let mut terminal = Terminal::open(&home, &["--json", "sessions", "show"], 80, 24);
    assert_eq!(terminal.end(), 2);
}

#[tokio::test]
async fn a_handoff_alone_takes_the_only_platform_and_asks_for_the_session() {
    let home = home().await;
    let _daemon = home.start();
    let mut terminal = Terminal::open(&home, &["handoff"], 100, 40);
    terminal.shows("platform local: no other is set up");
    terminal.shows("Which session?");
    terminal.shows(CALLED);
    terminal.press("parser");
    terminal.shows("Which session? › parser");
    terminal.press("\r");
    terminal.shows("The session is now on local");
    assert_eq!(terminal.end(), 0);
    let handoffs = home.hermesctl(&["--json", "handoffs"]).json();
    assert_eq!(handoffs[0]["session"], SESSION, "{handoffs}");
}

#[tokio::test]
async fn a_handoff_alone_says_what_it_took() {
    let home = Home::new();
    let nothing = {
        let _daemon = home.start();
        home.hermesctl(&["handoff"])
    };
    assert_eq!(nothing.code, 3, "{nothing:?}");
    assert!(
        nothing.stderr.contains("There is nothing to hand off yet."),
        "{nothing:?}"
    );
    seed_session(&home).await;
    let _daemon = home.start();
    let ran = home.hermesctl(&["handoff"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("platform local: no other is set up"),
        "{ran:?}"
    );
    assert!(
        ran.stdout.contains("it is the only recent session"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn ctrl_c_leaves_a_handoff_alone_and_says_what_goes_on() {
    let home = home().await;
    let words = [
        "handoff",
        "local",
        "--session",
        SESSION,
        "--pickup-timeout",
        "5m",
    ];
    let mut terminal = Terminal::open(&home, &words, 100, 20);
    // No daemon is there: the spinner comes, and tells the time.
    terminal.shows("waiting for a daemon, 1s");
    terminal.press("\x03");
    assert_eq!(terminal.end(), 130);
    let screen = terminal.screen();
    assert!(
        screen.contains("Handoff 1 waits until hermesd starts."),
        "{screen}"
    );
    assert!(screen.contains("hermesctl handoffs cancel 1"), "{screen}");
    let _daemon = home.start();
    let ended = home.hermesctl(&["handoffs", "show", "1"]);
    assert_eq!(ended.code, 0, "{ended:?}");
}
