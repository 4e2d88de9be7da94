//! Metrics of the built daemon, over the socket and over HTTP, after some work whose numbers are known.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::support::bot::Bot;
use crate::support::prometheus::{self, Scrape};
use crate::support::telegram::{ADA, BEN};
use crate::support::{Home, SESSION, add_session, seed_session, until};

/// An address that nobody listens at.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn over_socket(home: &Home) -> Scrape {
    let ran = home.hermesctl(&["metrics"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    prometheus::read(&ran.stdout)
}

/// Status line, headers and body of an answer.
fn ask(address: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .set_read_timeout(Some(crate::support::PATIENCE))
        .expect("a timeout");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

fn get(address: &str) -> Scrape {
    let (head, body) = ask(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let length = format!("Content-Length: {}", body.len());
    assert!(head.contains(&length), "{head}");
    prometheus::read(&body)
}

#[tokio::test]
async fn what_was_done_is_counted() {
    let home = Home::new();
    seed_session(&home).await;
    add_session(&home, "20260101_090001_bbbbbb", "Other");
    let address = free_address();
    let settings = [
        ("HERMESD_METRICS_LISTEN", address.as_str()),
        ("HERMESD_AGENTS_COMMAND_COMMAND", "false"),
        ("HERMESD_HANDOFF_PICKUP_TIMEOUT", "1s"),
    ];
    let _daemon = home.start_with(&settings);
    let ran = home.hermesctl(&["handoff", "local", "--session", SESSION]);
    assert_eq!(ran.code, 0, "{ran:?}");
    home.type_into("local/1", "one\ntwo\n");
    // One whose agent fails, in a terminal and in its handoff.
    let broken = home.talk(&["--agent", "command"], "hello\n");
    assert!(!broken.error(0).is_empty());
    let failed = home.hermesctl(&["handoff", "local", "--session", &broken.session]);
    assert_eq!(failed.code, 4, "{failed:?}");
    // Another program's wish for a platform that nobody knows.
    let wish = "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'fax'
         WHERE id = '20260101_090001_bbbbbb'";
    home.sqlite().execute(wish, []).expect("a row");
    let failed = "hermesd_handoffs_total{platform=\"other\",outcome=\"failed\"}";
    until("it is turned away", || {
        (over_socket(&home).value(failed) == 1.0).then_some(())
    });

    // The fourth tells the thread that its handoff has failed.
    let sent = "hermesd_deliveries_total{platform=\"local\",outcome=\"sent\"}";
    until("the thread hears of the failure", || {
        (over_socket(&home).value(sent) == 4.0).then_some(())
    });
    for scrape in [over_socket(&home), get(&address)] {
        let expect = |series: &str, expected: f64| {
            assert_eq!(scrape.value(series), expected, "{series}: {scrape:#?}");
        };
        expect(
            "hermesd_handoffs_total{platform=\"local\",outcome=\"completed\"}",
            1.0,
        );
        expect(
            "hermesd_handoffs_total{platform=\"local\",outcome=\"failed\"}",
            1.0,
        );
        for (stage, times) in [("claimed", 2.0), ("bound", 2.0), ("settled", 1.0)] {
            expect(
                &format!(
                    "hermesd_handoff_stage_seconds_count{{platform=\"local\",stage=\"{stage}\"}}"
                ),
                times,
            );
        }
        expect(
            "hermesd_turns_total{agent=\"echo\",outcome=\"answered\"}",
            3.0,
        );
        expect(
            "hermesd_turns_total{agent=\"command\",outcome=\"failed\"}",
            2.0,
        );
        expect(
            "hermesd_turn_seconds_count{agent=\"echo\",outcome=\"answered\"}",
            3.0,
        );
        expect(
            "hermesd_inbound_messages_total{platform=\"local\",verdict=\"accepted\"}",
            2.0,
        );
        expect(sent, 4.0);
        expect(
            "hermesd_platform_state{platform=\"local\",state=\"up\"}",
            1.0,
        );
        expect(
            "hermesd_platform_state{platform=\"discord\",state=\"off\"}",
            1.0,
        );
        expect("hermesd_queue_depth{what=\"handoffs_pending\"}", 0.0);
        expect("hermesd_queue_depth{what=\"messages_waiting\"}", 0.0);
        let version = format!("hermesd_build_info{{version=\"{}\"}}", hermesd::VERSION);
        expect(&version, 1.0);
        let commits = scrape.value("hermesd_database_commit_seconds_count");
        assert!(commits > 10.0, "{scrape:#?}");
        assert_eq!(
            scrape.value("hermesd_database_group_jobs_count"),
            commits,
            "each group has one commit"
        );
        let started = scrape.value("hermesd_process_start_time_seconds");
        assert!(started > 1.7e9, "{started}");
        assert!(
            scrape.names().iter().all(|n| n.starts_with("hermesd_")),
            "{:?}",
            scrape.names()
        );
    }

    let json = home.hermesctl(&["--json", "metrics"]).json();
    let handoffs = &json["hermesd_handoffs_total"];
    assert_eq!(handoffs["type"], "counter");
    let completed = handoffs["samples"].as_array().expect("a list").iter();
    let completed = completed
        .filter(|s| s["labels"]["outcome"] == "completed")
        .map(|s| s["value"].as_f64());
    assert_eq!(completed.collect::<Vec<_>>(), [Some(1.0)]);
}

#[test]
fn messages_of_a_platform_are_counted_by_how_they_were_met() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start_with(&[("HERMESD_PLATFORMS_TELEGRAM_STRANGERS", "pair")]);
    bot.asks(chat, None, "hello");
    let strange = bot.api.private(&BEN);
    bot.api.says(strange, None, &BEN, "hello?");
    bot.api
        .until_message(strange, None, |m| m.text.contains("pair approve"));
    until("all is counted", || {
        let scrape = over_socket(&bot.home);
        let met = |verdict: &str| {
            scrape.value(&format!(
                "hermesd_inbound_messages_total{{platform=\"telegram\",verdict=\"{verdict}\"}}"
            ))
        };
        let sent = "hermesd_deliveries_total{platform=\"telegram\",outcome=\"sent\"}";
        let all = (met("accepted"), met("stranger"), scrape.value(sent));
        (all == (1.0, 1.0, 2.0)).then_some(())
    });
    let text = bot.home.hermesctl(&["metrics"]).stdout;
    for id in [ADA.id, BEN.id, chat] {
        assert!(!text.contains(&id.to_string()), "{id} in {text}");
    }
}

#[tokio::test]
async fn http_takes_one_request_and_survives_the_others() {
    let home = Home::new();
    let address = free_address();
    let daemon = home.start_with(&[("HERMESD_METRICS_LISTEN", &address)]);
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "405",
        ),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let (head, _) = ask(&address, request);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    }
    let (head, body) = ask(&address, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && body.is_empty(),
        "{head}"
    );
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n", "x".repeat(20_000));
    let (head, _) = ask(&address, &long);
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");

    // Those that say nothing keep nobody out for long, and no stop waits for them.
    let silent: Vec<_> = (0..8)
        .map(|_| TcpStream::connect(&address).expect("a connection"))
        .collect();
    until("there is room again", || {
        let mut stream = TcpStream::connect(&address).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.contains("hermesd_build_info").then_some(())
    });
    assert!(daemon.stop().success());
    drop(silent);
}

#[test]
fn only_this_machine_may_ask_unless_somebody_says_otherwise() {
    let home = Home::new();
    let check = |settings: &[(&str, &str)]| {
        let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
        home.run(command.arg("--check-config").envs(settings.iter().copied()))
    };
    for (address, why) in [
        ("0.0.0.0:9464", "metrics.allow_remote"),
        ("[::]:9464", "metrics.allow_remote"),
        ("192.0.2.1:9464", "metrics.allow_remote"),
        ("localhost:9464", "is not an address"),
        ("9464", "is not an address"),
    ] {
        let ran = check(&[("HERMESD_METRICS_LISTEN", address)]);
        assert_eq!(ran.code, 78, "{address}: {ran:?}");
        assert!(ran.stderr.contains(why), "{ran:?}");
    }
    for settings in [
        &[("HERMESD_METRICS_LISTEN", "[::1]:9464")][..],
        &[
            ("HERMESD_METRICS_LISTEN", "0.0.0.0:9464"),
            ("HERMESD_METRICS_ALLOW_REMOTE", "true"),
        ],
    ] {
        assert_eq!(check(settings).code, 0, "{settings:?}");
    }
}

#[test]
fn an_address_that_is_taken_is_no_reason_not_to_serve() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let daemon = home.start_with(&[("HERMESD_METRICS_LISTEN", &address)]);
    assert_eq!(home.hermesctl(&["status"]).code, 0);
    let log = daemon.log();
    assert!(log.contains("metrics are not available over HTTP"), "{log}");
}

#[test]
fn the_metrics_listener_is_bound_before_the_daemon_is_ready() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let daemon = home.start_with(&[("HERMESD_METRICS_LISTEN", &address)]);
    // A bind that fails shows when it is tried: before the control socket exists.
    let log = until("both lines are in the log", || {
        let log = daemon.log();
        (log.contains("metrics are not available") && log.contains("hermesd is ready"))
            .then_some(log)
    });
    assert!(
        log.find("metrics are not available over HTTP") < log.find("hermesd is ready"),
        "{log}"
    );
}
