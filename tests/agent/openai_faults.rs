//! An endpoint that is busy, broken, wrong or slow: what passes is tried again, what does not is told with what to do about it,
//! and nothing is left half done.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

use crate::agent::openai::{one, rows};
use crate::inbound::chats::spoken;
use crate::support::endpoint::{Endpoint, KEY, ReceivedRequest, ScriptedReply};
use crate::support::{Home, Ran, SESSION, TITLE, seed_session, until};

fn hand_off(home: &Home) -> Ran {
    home.hermesctl(&["handoff", "local", "--session", TITLE])
}

/// How long after a request the next one came.
fn gap(seen: &[ReceivedRequest], first: usize) -> Duration {
    let gap = seen[first].at.duration_until(seen[first + 1].at);
    gap.try_into().expect("requests in order")
}

/// What a failed handoff must leave as it was: the row but for how the handoff went, the bindings and what was said.
fn standing(home: &Home) -> (String, i64, Vec<String>) {
    let row = "SELECT json_array(source, session_key, chat_id, chat_type, thread_id, origin_json, model, ended_at, end_reason,
                                 message_count, tool_call_count, api_call_count, input_tokens, output_tokens)
               FROM sessions";
    let bindings = "SELECT count(*) FROM gateway_routing";
    (one(home, row), one(home, bindings), rows(home))
}

#[tokio::test]
async fn what_passes_is_tried_again_and_not_before_the_endpoint_wants_it() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    let after = Timestamp::now() + Duration::from_secs(2);
    let date = DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&after)
        .unwrap();
    let not_before = Timestamp::from_second(after.as_second()).unwrap();
    endpoint.then(ScriptedReply::come_back(429, &date));
    let talk = home.talk(&[], "hello\n");
    assert_eq!(talk.replies(), ["I was given 1 messages."]);
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].at >= not_before, "{} is before {date}", seen[1].at);

    let endpoint = Endpoint::start();
    let home = Home::new();
    let _daemon = endpoint.start_daemon(&home, &[]);
    for reply in [
        ScriptedReply::come_back(429, "1"),
        ScriptedReply::refuse(500),
        ScriptedReply::refuse(503),
        ScriptedReply::Disconnect,
    ] {
        endpoint.then(reply).then(ScriptedReply::Say("Here I am."));
    }
    let talk = home.talk(&[], "one\ntwo\nthree\nfour\n");
    assert_eq!(talk.replies(), ["Here I am."; 4]);
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 8);
    assert!(
        gap(&seen, 0) >= Duration::from_secs(1),
        "{:?}",
        gap(&seen, 0)
    );
    for first in [2, 4, 6] {
        assert_eq!(seen[first].body, seen[first + 1].body);
        assert!(gap(&seen, first) >= Duration::from_millis(300), "{first}");
    }
}

#[tokio::test]
async fn an_endpoint_that_never_comes_to_is_given_up() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    for _ in 0..5 {
        endpoint.then(ScriptedReply::come_back(429, "0"));
    }
    endpoint.then(ScriptedReply::come_back(503, "3600"));
    let talk = home.talk(&[], "one\ntwo\nthree\n");
    assert!(
        talk.error(0).contains("429") && talk.error(0).contains("5 tries"),
        "{talk:?}"
    );
    assert!(talk.error(1).contains("3600 s"), "{talk:?}");
    assert_eq!(endpoint.seen().len(), 7);
    assert_eq!(talk.replies()[2], "I was given 3 messages.");
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_named_in_the_log_alone() {
    let home = Home::new();
    let gone = Endpoint::start();
    let url = gone.url();
    let daemon = gone.start_daemon(&home, &[]);
    drop(gone);
    let talk = home.talk(&[], "hello\n");
    let error = talk.error(0);
    assert!(
        error.contains("Nothing answers at the model's address (connection refused, 5 tries)"),
        "{error}"
    );
    assert!(!error.contains("://"), "{error}");
    assert!(daemon.log().contains(&url));
}

#[tokio::test]
async fn a_chat_hears_the_status_and_the_reason_and_never_the_address() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let daemon = endpoint.start_daemon(&home, &[]);
    endpoint
        .then(ScriptedReply::Refuse {
            status: 402,
            retry_after: None,
            message: "no credit left",
        })
        .then(ScriptedReply::BreakDown("no credit left"));
    let told = home.type_into("local", "hello\nand now?\n");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("402 Payment Required"), "{told:?}");
    for told in &told {
        assert!(told.contains("no credit left"), "{told}");
        assert!(
            !told.contains("://") && !told.contains("127.0.0.1"),
            "{told}"
        );
    }
    assert!(daemon.log().contains(&endpoint.url()));
}

#[tokio::test]
async fn what_is_wrong_with_the_configuration_is_said_at_once() {
    let endpoint = Endpoint::start();
    let elsewhere = endpoint.url().replace("/v1", "/v2");
    for (setting, value, asked) in [
        ("API_KEY", "sk-other", 1),
        ("API_KEY", "no\nheader", 0),
        ("BASE_URL", &elsewhere, 1),
        ("MODEL", "other", 1),
    ] {
        let home = Home::new();
        let name = format!("HERMESD_AGENTS_OPENAI_{setting}");
        let _daemon = endpoint.start_daemon(&home, &[(&name, value)]);
        let before = endpoint.seen().len();
        let talk = home.talk(&[], "hello\n");
        assert_eq!(endpoint.seen().len(), before + asked, "tried once");
        let remedy = format!("agents.openai.{}", setting.to_lowercase());
        assert!(talk.error(0).contains(&remedy), "{talk:?}");
        assert_eq!(spoken(&home, &talk.session), ["user: hello"]);
        let told = home.type_into("local", "hello\n").remove(0);
        assert!(
            told.contains(&remedy) && told.contains("Say it again"),
            "{told}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_goes_wrong_on_the_way_is_no_answer() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    let cases = [
        (ScriptedReply::Finish("content_filter"), "filter", "I "),
        (ScriptedReply::Malformed, "invalid JSON", "I "),
        (
            ScriptedReply::BreakDown("The model is overloaded."),
            "overloaded",
            "I ",
        ),
        (ScriptedReply::Cut(2), "broke off", "I was "),
        (ScriptedReply::Say(""), "empty", ""),
        (ScriptedReply::Say(" \n"), "empty", " \n"),
    ];
    for (reply, _, _) in &cases {
        endpoint.then(reply.clone());
    }
    let talk = home.talk(&[], "a\nb\nc\nd\ne\nf\n");
    for (at, (reply, words, partial)) in cases.iter().enumerate() {
        assert!(talk.error(at).contains(words), "{reply:?}: {talk:?}");
        assert_eq!(talk.replies()[at], *partial, "{reply:?}: {talk:?}");
    }
    assert_eq!(endpoint.seen().len(), 6, "what has begun is not repeated");
    assert_eq!(
        spoken(&home, &talk.session),
        [
            "user: a",
            "assistant: I ",
            "user: b",
            "assistant: I ",
            "user: c",
            "assistant: I ",
            "user: d",
            "assistant: I was ",
            "user: e",
            "user: f"
        ]
    );
    let whole = "SELECT count(*) FROM messages WHERE finish_reason = 'stop'";
    assert_eq!(one::<i64>(&home, whole), 0);
}

#[tokio::test]
async fn what_never_ends_is_cut_off() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    let _daemon = endpoint.start_daemon(&home, &[]);
    let cases = [
        (200, "text/event-stream", "longer than 1 MiB"),
        (200, "application/json", "longer than 8 MiB"),
        (401, "text/html", "agents.openai.api_key"),
    ];
    for (status, kind, _) in cases {
        endpoint.then(ScriptedReply::Flood(status, kind));
    }
    let talk = home.talk(&[], "a\nb\nc\n");
    for (at, (_, kind, words)) in cases.into_iter().enumerate() {
        assert!(talk.error(at).contains(words), "{kind}: {talk:?}");
        assert!(talk.error(at).len() < 1000, "{kind}");
    }
    until("the endpoint is left alone", || {
        (endpoint.hung_up() == 3).then_some(())
    });
}

#[tokio::test]
async fn a_handoff_whose_answer_fails_changes_nothing_and_a_retry_completes_it() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    let _daemon = endpoint.start_daemon(&home, &[]);
    let before = standing(&home);
    let cases = [
        (ScriptedReply::refuse(401), "agents.openai.api_key"),
        (ScriptedReply::Finish("content_filter"), "filter"),
        (ScriptedReply::Malformed, "invalid JSON"),
        (ScriptedReply::Cut(2), "broke off"),
        (ScriptedReply::Say(""), "empty"),
        (ScriptedReply::Say(" \n"), "empty"),
    ];
    for (at, (reply, words)) in cases.into_iter().enumerate() {
        endpoint.then(reply.clone());
        let ran = hand_off(&home);
        assert_eq!(ran.code, 4, "{reply:?}: {ran:?}");
        let retry = format!("hermesctl handoffs retry {}", at + 1);
        assert!(
            ran.stderr.contains(words) && ran.stderr.contains(&retry),
            "{reply:?}: {ran:?}"
        );
        assert_eq!(standing(&home), before, "{reply:?}");
        let row = home.hermesctl(&["--json", "sessions", "show", SESSION]);
        assert_eq!(row.json()["handoff_state"], "failed", "{reply:?}");
    }
    let ran = home.hermesctl(&["handoffs", "retry", "6"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        home.type_into("local/7", ""),
        ["I was given 5 messages."],
        "the failures left no trace in what it is shown"
    );
    assert_eq!(standing(&home).2.len(), 6);
}

#[tokio::test]
async fn each_clock_ends_a_turn_and_names_its_setting() {
    let cases = [
        ("agent.first_token_timeout", ScriptedReply::Hang, ""),
        (
            "agent.silence_timeout",
            ScriptedReply::FallSilent(2),
            "I was ",
        ),
        (
            "agent.timeout",
            ScriptedReply::FallSilent(3),
            "I was given ",
        ),
    ];
    for (setting, reply, partial) in cases {
        let (home, endpoint) = (Home::new(), Endpoint::start());
        let name = format!("HERMESD_{}", setting.to_uppercase().replace('.', "_"));
        let _daemon = endpoint.start_daemon(&home, &[(&name, "1s")]);
        endpoint.then(reply);
        let talk = home.talk(&[], "hello\n");
        let error = talk.error(0);
        assert!(
            error.contains("within 1 s") && error.ends_with(setting),
            "{error}"
        );
        // On a busy machine less may have come by then.
        assert!(partial.starts_with(talk.replies()[0]), "{talk:?}");
        until("the endpoint is left alone", || {
            (endpoint.hung_up() == 1).then_some(())
        });
    }
}

#[tokio::test]
async fn a_handoff_that_is_cancelled_hangs_up_on_the_endpoint() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    let _daemon = endpoint.start_daemon(&home, &[]);
    let before = standing(&home);
    endpoint.then(ScriptedReply::FallSilent(2));
    let waiting = home.spawn_hermesctl(&["handoff", "local", "--session", TITLE], &[]);
    until("the endpoint is asked", || {
        (endpoint.seen().len() == 1).then_some(())
    });
    let ran = home.hermesctl(&["handoffs", "cancel", "1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = waiting.end();
    assert!(ran.code == 4 && ran.stderr.contains("cancelled"), "{ran:?}");
    until("the endpoint is left alone", || {
        (endpoint.hung_up() == 1).then_some(())
    });
    assert_eq!(standing(&home), before);
}

#[tokio::test]
async fn a_handoff_whose_agent_is_too_slow_fails_with_all_put_back() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    let _daemon = endpoint.start_daemon(&home, &[("HERMESD_AGENT_SILENCE_TIMEOUT", "1s")]);
    let before = standing(&home);
    endpoint.then(ScriptedReply::FallSilent(2));
    let ran = hand_off(&home);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("agent.silence_timeout"), "{ran:?}");
    assert_eq!(standing(&home), before);
}

#[tokio::test]
async fn the_key_is_told_to_the_endpoint_alone() {
    let (home, endpoint) = (Home::new(), Endpoint::start());
    seed_session(&home).await;
    let daemon = endpoint.start_daemon(&home, &[("HERMESD_LOG_LEVEL", "trace")]);
    // One that says it back to whoever asks.
    let careless = ScriptedReply::Refuse {
        status: 403,
        retry_after: None,
        message: "sk-test-0123456789abcdef has no access, Bearer sk-test-0123456789abcdef",
    };
    endpoint
        .then(careless.clone())
        .then(careless)
        .then(ScriptedReply::BreakDown(
            "sk-test-0123456789abcdef has no access",
        ))
        .then(ScriptedReply::refuse(500));
    let mut check = home.command(env!("CARGO_BIN_EXE_hermesd"));
    check
        .args(["--check-config"])
        .env("HERMESD_AGENTS_OPENAI_API_KEY", KEY);
    let check = home.run(&mut check);
    assert!(check.stdout.contains("agents.openai.api_key"), "{check:?}");
    let mut outputs = vec![check];
    for arguments in [
        &["handoff", "local", "--session", TITLE][..],
        &["agents", "test", "openai"],
        &["--json", "agents", "test", "openai"],
        &["handoffs", "retry", "1"],
        &["--json", "agents"],
        &["--json", "handoffs"],
        &["sessions", "export", TITLE],
        &["attach", "local/1"],
        &["events"],
        &["status"],
    ] {
        outputs.push(home.hermesctl(arguments));
    }
    assert_eq!(endpoint.seen().len(), 5, "{outputs:?}");
    for ran in &outputs {
        assert!(!format!("{ran:?}").contains(KEY), "{ran:?}");
    }
    let log = daemon.log();
    assert!(log.contains("has no access"), "what it said is logged");
    assert!(!log.contains(KEY), "the key is in the log");
    daemon.stop();
    let database = std::fs::read(home.path().join("state.db")).unwrap();
    assert!(
        !String::from_utf8_lossy(&database).contains(KEY),
        "the key is in the database"
    );
}
