//! Clients that are slow, silent, greedy or mad: each costs only itself, and somebody else hands off meanwhile.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{
    Home, SESSION, Wire, hello, request, seed_session, somebody_hands_off, until,
};

/// Makes the embedded agent stream thousands of events: it repeats what was said, a line at a time.
fn storm(wire: &mut Wire) {
    let said = wire.ask("local.say", json!({"text": "x\n".repeat(4000)}));
    until("the storm is over", || {
        let read = wire.ask("local.read", json!({"after": said["id"]}));
        (read[0]["author"] == "agent").then_some(())
    });
}

fn connections(wire: &mut Wire) -> u64 {
    wire.ask("status", json!({}))["connections"]
        .as_u64()
        .unwrap()
}

#[tokio::test]
async fn a_line_without_end_is_refused_and_closed_while_others_are_served() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let mut endless = Wire::greeted(&home.socket());
    endless.try_send(&vec![b'x'; 1 << 19]).unwrap();
    somebody_hands_off(&home);
    // The rest may find the door shut.
    let _ = endless.try_send(&vec![b'x'; 1 << 20]);
    let answer = endless.line().unwrap();
    assert_eq!(answer["error"]["code"], -32600);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("1048576"), "{message}");
    assert_eq!(endless.line(), None);
    somebody_hands_off(&home);
}

#[tokio::test]
async fn half_a_line_holds_nobody_up_and_may_still_be_finished() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let mut slow = Wire::greeted(&home.socket());
    let line = request(json!(1), "status", json!({}));
    let (first, rest) = line.split_at(20);
    slow.send(first);
    somebody_hands_off(&home);
    slow.send(rest);
    assert_eq!(slow.line().unwrap()["result"]["agent"], "echo");
}

#[tokio::test]
async fn binary_garbage_is_answered_with_errors_and_the_connection_survives() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let mut mad = Wire::connect(&home.socket());
    let garbage: Vec<u8> = (0..8192_u32)
        .map(|n| u8::try_from((n * 7919 + n * n / 3) % 256).unwrap())
        .collect();
    mad.try_send(&garbage).unwrap();
    mad.try_send(b"\n\xff\xfe\x00\n").unwrap();
    somebody_hands_off(&home);
    mad.send(&format!("{}\n", hello(5)));
    let mut errors = 0;
    let greeting = loop {
        let answer = mad.line().unwrap();
        if answer["id"] == 5 {
            break answer;
        }
        assert_eq!(answer["id"], Value::Null, "{answer}");
        assert_eq!(answer["error"]["code"], -32700, "{answer}");
        errors += 1;
    };
    assert_eq!(greeting["result"]["server"], "hermesd");
    assert!(errors >= 2, "{errors}");
}

#[tokio::test]
async fn a_subscriber_that_never_reads_is_dropped_after_the_write_timeout() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_CONTROL_WRITE_TIMEOUT", "1s")]);
    let mut deaf = Wire::greeted(&home.socket());
    deaf.ask("events.subscribe", json!({}));
    let mut good = Wire::greeted(&home.socket());
    storm(&mut good);
    good.hand_off();
    until("the deaf one is dropped", || {
        (connections(&mut good) == 1).then_some(())
    });
    // What lay in its buffer breaks off long before the end.
    let heard = deaf.rest();
    assert!(heard.contains("turn.delta"), "{heard}");
    assert!(!heard.contains("turn.ended"), "{heard}");
    good.hand_off();
}

#[tokio::test]
async fn a_slow_subscriber_is_told_how_much_it_missed_and_can_look_it_up() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_CONTROL_WRITE_TIMEOUT", "60s")]);
    let mut slow = Wire::greeted(&home.socket());
    slow.ask("events.subscribe", json!({}));
    let mut good = Wire::greeted(&home.socket());
    storm(&mut good);
    let id = good.hand_off();

    // Nothing else is lost: what it is told of as missed closes the gap exactly, however often it falls behind.
    let (mut before, mut missed) = (0, 0);
    let next = loop {
        let line = slow.line().unwrap();
        let params = &line["params"];
        match line["method"].as_str() {
            Some("event") if missed == 0 => before = params["seq"].as_u64().unwrap(),
            Some("event") => break params["seq"].as_u64().unwrap(),
            Some("events.missed") => missed += params["missed"].as_u64().unwrap(),
            _ => panic!("{line}"),
        }
    };
    assert_eq!(next, before + missed + 1);
    assert_eq!(
        slow.ask("handoff.show", json!({"id": id}))["state"],
        "completed"
    );
}

#[tokio::test]
async fn whoever_half_closes_while_it_waits_still_gets_its_answer() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_PAUSE_AT", "before:answered")]);
    let mut waiter = Wire::greeted(&home.socket());
    let wish = json!({"platform": "local", "session": SESSION});
    let id = waiter.ask("handoff.request", wish)["id"].clone();
    home.until_paused();
    waiter.send(&request(json!("w"), "handoff.wait", json!({"id": id})));
    waiter.half_close();
    let mut other = Wire::greeted(&home.socket());
    assert_eq!(
        other.ask("handoff.cancel", json!({"id": id}))["state"],
        "failed"
    );
    let answer = waiter.line().unwrap();
    assert_eq!(answer["id"], "w");
    assert_eq!(answer["result"]["state"], "failed", "{answer}");
    assert_eq!(answer["result"]["error"], "cancelled", "{answer}");
    assert_eq!(waiter.line(), None);
}

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_a_place_is_free_again_when_one_leaves() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_CONTROL_MAX_CONNECTIONS", "4")]);
    let mut places: Vec<Wire> = (0..4).map(|_| Wire::greeted(&home.socket())).collect();
    let mut fifth = Wire::connect(&home.socket());
    let refused = fifth.line().unwrap();
    assert_eq!(refused["error"]["code"], -32003);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("control.max_connections"), "{message}");
    assert_eq!(fifth.line(), None);
    places[0].hand_off();
    // hermesctl passes the reason on, however the refusal and its hello cross.
    for _ in 0..20 {
        let ran = home.hermesctl(&["status"]);
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.stderr.contains("too many connections"), "{ran:?}");
    }
    places.pop();
    Wire::greeted(&home.socket()).hand_off();
}

#[tokio::test]
async fn eighty_connections_at_once_are_all_served() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_CONTROL_MAX_CONNECTIONS", "100")]);
    let mut crowd: Vec<Wire> = (0..80).map(|_| Wire::greeted(&home.socket())).collect();
    somebody_hands_off(&home);
    for wire in &mut crowd {
        assert_eq!(wire.ask("handoff.list", json!({}))[0]["state"], "completed");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_subscriber_is_not() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[("HERMESD_CONTROL_IDLE_TIMEOUT", "200ms")]);
    let mut subscriber = Wire::greeted(&home.socket());
    subscriber.ask("events.subscribe", json!({"topics": ["handoff"]}));
    // Twice the time goes by for the subscriber; one that never said hello is closed too.
    assert_eq!(Wire::greeted(&home.socket()).line(), None);
    assert_eq!(Wire::connect(&home.socket()).line(), None);
    somebody_hands_off(&home);
    assert_eq!(
        subscriber.line().unwrap()["params"]["type"],
        "handoff.requested"
    );
}

#[tokio::test]
async fn whoever_waits_for_an_answer_is_not_idle() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start_with(&[
        ("HERMESD_CONTROL_IDLE_TIMEOUT", "200ms"),
        ("HERMESD_PAUSE_AT", "before:answered"),
    ]);
    let mut waiter = Wire::greeted(&home.socket());
    let wish = json!({"platform": "local", "session": SESSION});
    let id = waiter.ask("handoff.request", wish)["id"].clone();
    waiter.send(&request(json!("w"), "handoff.wait", json!({"id": id})));
    assert_eq!(Wire::greeted(&home.socket()).line(), None);
    assert_eq!(Wire::greeted(&home.socket()).line(), None);
    Wire::greeted(&home.socket()).ask("handoff.cancel", json!({"id": id}));
    assert_eq!(waiter.line().unwrap()["result"]["state"], "failed");
}

#[tokio::test]
async fn whoever_leaves_for_good_while_it_waits_frees_its_place_and_holds_up_no_stop() {
    let home = Home::new();
    seed_session(&home).await;
    let mut daemon = home.start_with(&[
        ("HERMESD_PAUSE_AT", "before:answered"),
        ("HERMESD_DAEMON_DRAIN_TIMEOUT", "10m"),
    ]);
    let mut waiter = Wire::greeted(&home.socket());
    let wish = json!({"platform": "local", "session": SESSION});
    let id = waiter.ask("handoff.request", wish)["id"].clone();
    home.until_paused();
    waiter.send(&request(json!("w"), "handoff.wait", json!({"id": id})));
    drop(waiter);
    let mut other = Wire::greeted(&home.socket());
    until("the place is free", || {
        (connections(&mut other) == 1).then_some(())
    });
    // One that is still there, half closed, is let go when the daemon stops.
    other.send(&request(json!("w"), "handoff.wait", json!({"id": id})));
    other.half_close();
    daemon.signal(Signal::SIGTERM);
    until("it stops", || {
        daemon.log().contains("stopping").then_some(())
    });
    // The handoff stands still for ever, and the second signal cuts it off. The client holds up nothing.
    daemon.signal(Signal::SIGINT);
    assert!(daemon.wait().success());
    assert_eq!(other.line(), None);
}

#[tokio::test]
async fn what_a_client_asked_for_is_done_though_it_leaves_at_once() {
    let home = Home::new();
    seed_session(&home).await;
    // Nobody finds the row but the one who is told of it.
    let _daemon = home.start_with(&[
        ("HERMESD_HANDOFF_POLL_INTERVAL", "0"),
        ("HERMESD_HANDOFF_WATCH", "false"),
    ]);
    // The request cannot be kept before its client is gone.
    let database = home.sqlite();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut hasty = Wire::greeted(&home.socket());
    let mut other = Wire::greeted(&home.socket());
    let wish = json!({"platform": "local", "session": SESSION});
    hasty.hear_no_more();
    hasty.send(&request(json!(1), "handoff.request", wish));
    // Its answer, which cannot be sent, is how the daemon notices.
    hasty.send(&request(json!(2), "platform.list", json!({})));
    drop(hasty);
    until("it is gone", || {
        (connections(&mut other) == 1).then_some(())
    });
    database.execute_batch("COMMIT").unwrap();
    let id = until("the handoff is requested", || {
        other.ask("handoff.list", json!({}))[0]["id"].as_i64()
    });
    let ended = other.ask("handoff.wait", json!({"id": id}));
    assert_eq!(ended["state"], "completed");
}
