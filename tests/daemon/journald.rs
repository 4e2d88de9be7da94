//! What the built daemon writes to the journal: which fields, which ids, how important, and what never.

use hermesd::journal_ids;

use crate::support::bot::Bot;
use crate::support::journald::{Entry, Journald};
use crate::support::telegram::{ADA, BEN, ScriptedFault, TOKEN};
use crate::support::{Home, SESSION, TITLE, seed_session};

/// The fields that are there of those that can be asked for.
fn place(entry: &Entry) -> [Option<&str>; 5] {
    ["HANDOFF", "SESSION", "PLATFORM", "STAGE", "CHAT"]
        .map(|name| entry.get(&format!("HERMES_{name}")).map(String::as_str))
}

#[tokio::test]
async fn a_handoff_can_be_followed_by_its_fields() {
    let home = Home::new();
    seed_session(&home).await;
    let Some(journald) = Journald::at(&home) else {
        return;
    };
    let daemon = home.start_with(&journald.settings());
    let handoff = ["handoff", "local", "--session", TITLE, "--note", "fnord"];
    let ran = home.hermesctl(&handoff);
    assert_eq!(ran.code, 0, "{ran:?}");
    home.type_into("local/1", "hagbard\n");
    assert!(daemon.stop().success());
    let stopping = journald.until_told(journal_ids::STOPPING);
    assert_eq!(stopping["PRIORITY"], "5");

    let ready = journald.until_told(journal_ids::READY);
    assert_eq!(ready["SYSLOG_IDENTIFIER"], "hermesd");
    assert!(ready["MESSAGE"].contains(home.path().to_str().unwrap()));
    let up = journald.until_told(journal_ids::PLATFORM_UP);
    assert_eq!(place(&up), [None, None, Some("local"), None, None]);

    let requested = journald.until_told(journal_ids::HANDOFF_REQUESTED);
    let known = [Some("1"), Some(SESSION), Some("local")];
    assert_eq!(place(&requested)[..3], known);
    let entries = journald.entries();
    let stages: Vec<_> = entries
        .iter()
        .filter(|e| e["MESSAGE"].starts_with("handoff stage reached"))
        .inspect(|e| {
            assert_eq!(place(e)[..3], known);
            assert_eq!((place(e)[4], e["PRIORITY"].as_str()), (Some("home"), "6"));
        })
        .map(|e| e["HERMES_STAGE"].as_str())
        .collect();
    let all = [
        "claimed",
        "homed",
        "threaded",
        "bound",
        "answered",
        "delivered",
        "settled",
    ];
    assert_eq!(stages, all);
    let completed = journald.until_told(journal_ids::HANDOFF_COMPLETED);
    assert_eq!(place(&completed)[..3], known);
    assert_eq!(completed["PRIORITY"], "5");

    // What was said is nobody's business here.
    for entry in &entries {
        let all: String = entry.values().cloned().collect();
        for words in ["fnord", "hagbard", "off-by-one", "You said"] {
            assert!(!all.contains(words), "{entry:?}");
        }
    }
    assert_eq!(daemon_lines(&home), "", "all of it is in the journal");
}

/// What went to stderr instead.
fn daemon_lines(home: &Home) -> String {
    std::fs::read_to_string(home.path().join("test.log")).unwrap_or_default()
}

#[tokio::test]
async fn what_fails_says_where_and_is_an_error() {
    let home = Home::new();
    seed_session(&home).await;
    let Some(journald) = Journald::at(&home) else {
        return;
    };
    let agent = [
        ("HERMESD_AGENT_DEFAULT", "command"),
        ("HERMESD_AGENTS_COMMAND_COMMAND", "false"),
    ];
    let _daemon = home.start_with(&[journald.settings(), agent].concat());
    let ran = home.hermesctl(&["handoff", "local", "--session", SESSION]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let turn = journald.until_told(journal_ids::TURN_FAILED);
    let known = [Some("1"), Some(SESSION), Some("local"), Some("answered")];
    assert_eq!(place(&turn)[..4], known);
    assert!(turn["MESSAGE"].contains("agent=command"), "{turn:?}");
    let failed = journald.until_told(journal_ids::HANDOFF_FAILED);
    assert_eq!(place(&failed)[..3], known[..3]);
    assert_eq!(failed["PRIORITY"], "3");
    assert!(failed["MESSAGE"].contains("reason="), "{failed:?}");
}

#[tokio::test]
async fn a_handoff_that_a_killed_daemon_left_is_told_as_resumed() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:bound")]);
    let asked = home.hermesctl(&["handoff", "local", "--session", SESSION, "--no-wait"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    home.until_paused();
    daemon.kill();
    let Some(journald) = Journald::at(&home) else {
        return;
    };
    let _daemon = home.start_with(&journald.settings());
    let resumed = journald.until_told(journal_ids::HANDOFF_RESUMED);
    assert_eq!(
        place(&resumed)[..3],
        [Some("1"), Some(SESSION), Some("local")]
    );
    assert_eq!(resumed["PRIORITY"], "4");
    journald.until_told(journal_ids::HANDOFF_COMPLETED);
}

#[test]
fn somebody_unknown_is_told_of_and_the_token_never() {
    let bot = Bot::for_nobody("");
    let Some(journald) = Journald::at(&bot.home) else {
        return;
    };
    let level = [("HERMESD_LOG_LEVEL", "debug")];
    let _daemon = bot.start_with(&[journald.settings().as_slice(), &level].concat());
    let chat = bot.api.private(&BEN);
    bot.api.says(chat, None, &BEN, "hello");
    let asked = journald.until_told(journal_ids::PAIRING_ASKED);
    let chat = chat.to_string();
    assert_eq!(
        place(&asked),
        [None, None, Some("telegram"), None, Some(chat.as_str())]
    );
    assert_eq!(asked["PRIORITY"], "5");
    for entry in journald.entries() {
        assert!(!entry.values().any(|v| v.contains(TOKEN)), "{entry:?}");
    }
}

#[test]
fn replies_that_are_lost_or_may_be_repeats_are_told_of() {
    let (bot, chat) = Bot::of_ada("");
    let Some(journald) = Journald::at(&bot.home) else {
        return;
    };
    // What an error is about is known at any level.
    let quiet = [
        ("HERMESD_LOG_LEVEL", "warn"),
        ("HERMESD_CHATS_STREAM", "false"),
    ];
    let _daemon = bot.start_with(&[journald.settings(), quiet].concat());
    let here = chat.to_string();
    bot.api.then("sendMessage", ScriptedFault::DisconnectBefore);
    bot.api.says(chat, None, &ADA, "one");
    let repeated = journald.until_told(journal_ids::REPLY_MAYBE_REPEATED);
    assert_eq!(
        place(&repeated)[2..],
        [Some("telegram"), None, Some(here.as_str())]
    );
    assert_eq!(repeated["PRIORITY"], "4");
    bot.api
        .until_message(chat, None, |m| m.text.contains("one"));
    let refusal = "Forbidden: bot was blocked by the user";
    bot.api
        .then("sendMessage", ScriptedFault::Refuse(403, refusal));
    bot.api.says(chat, None, &ADA, "two");
    let lost = journald.until_told(journal_ids::REPLY_NOT_DELIVERED);
    assert_eq!(
        (lost["PRIORITY"].as_str(), lost["HERMES_CHAT"].as_str()),
        ("3", here.as_str())
    );
    assert!(lost["HERMES_SESSION"].len() > 10, "{lost:?}");
    assert!(
        journald
            .entries()
            .iter()
            .all(|e| e["PRIORITY"].as_str() <= "4")
    );
}
