//! What clients have under way at once is limited, so that none of them holds up the daemon or another client.

use serde_json::{Value, json};

use crate::support::{
    Home, SESSION, Wire, add_session, request, seed_session, somebody_hands_off, until,
};

const OTHERS: [&str; 2] = ["20260101_090001_bbbbbb", "20260101_090002_cccccc"];

/// Enough text for searches that take very long.
fn add_much_text(home: &Home) {
    let sql = "INSERT INTO messages (session_id, role, content, timestamp, active)
               WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
               SELECT ?1, 'assistant', replace(hex(zeroblob(500)), '00', 'xäx '), 1767258002.0, 1 FROM n";
    home.sqlite().execute(sql, [SESSION]).unwrap();
}

/// Found in no index, so that every message is looked at, once for each word but the last, which is in none.
fn slow_search(id: u64) -> String {
    let mut words = vec!["ä"; 900];
    words.push("ö");
    request(json!(id), "session.search", json!({"words": words}))
}

#[tokio::test]
async fn searches_of_one_client_hold_up_neither_others_nor_a_handoff() {
    let home = Home::new();
    seed_session(&home).await;
    add_much_text(&home);
    let _daemon = home.start();
    let mut greedy = Wire::greeted(&home.socket());
    for id in 0..8 {
        greedy.send(&slow_search(id));
    }
    let mut other = Wire::greeted(&home.socket());
    assert_eq!(other.ask("session.list", json!({}))[0]["id"], SESSION);
    somebody_hands_off(&home);
    // With the connection go its searches, those under way and those that wait.
    drop(greedy);
    until("the place is free", || {
        (other.ask("status", json!({}))["connections"] == 1).then_some(())
    });
    assert_eq!(other.ask("session.list", json!({}))[0]["id"], SESSION);
    somebody_hands_off(&home);
}

/// Seconds of processor time that a process has used.
fn processor_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<&str> = stat
        .rsplit_once(") ")
        .expect("a name")
        .1
        .split(' ')
        .collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    // Both in hundredths of a second on every Linux.
    (ticks(11) + ticks(12)) / 100.0
}

/// Ends a handoff as no event tells, and waits until a wait for it ends: the waits were looked at meanwhile.
fn end_silently(home: &Home, waiter: &mut Wire, id: &Value) {
    let sql =
        "UPDATE hermesd_handoffs SET state = 'failed', error = 'silently', ended_at = requested_at
               WHERE id = ?1";
    home.sqlite().execute(sql, [id.as_i64()]).unwrap();
    let ended = waiter.ask("handoff.wait", json!({"id": id}));
    assert_eq!(ended["error"], "silently", "{ended}");
}

#[tokio::test]
async fn thousands_of_waits_cost_next_to_nothing() {
    let home = Home::new();
    seed_session(&home).await;
    for (at, id) in OTHERS.iter().enumerate() {
        add_session(&home, id, &format!("Other {at}"));
    }
    let daemon = home.start_with(&[
        ("HERMESD_PAUSE_AT", "before:answered"),
        ("HERMESD_HANDOFF_POLL_INTERVAL", "0"),
        ("HERMESD_HANDOFF_WATCH", "false"),
        ("HERMESD_HANDOFF_LEASE", "1h"),
        // The answers are read one connection after the other.
        ("HERMESD_CONTROL_WRITE_TIMEOUT", "10m"),
    ]);
    let mut wire = Wire::greeted(&home.socket());
    let mut ask = |session: &str| {
        let wish = json!({"platform": "local", "session": session});
        wire.ask("handoff.request", wish)["id"].clone()
    };
    let (awaited, others) = (ask(SESSION), OTHERS.map(&mut ask));
    let mut crowd: Vec<Wire> = (0..16).map(|_| Wire::greeted(&home.socket())).collect();
    for wire in &mut crowd {
        for id in 0..1500 {
            let wait = json!({"id": awaited});
            wire.send(&request(json!(format!("w{id}")), "handoff.wait", wait));
        }
        // Answered behind them.
        wire.ask("platform.list", json!({}));
    }
    end_silently(&home, &mut wire, &others[0]);
    let before = processor_time(daemon.pid());
    end_silently(&home, &mut wire, &others[1]);
    let used = processor_time(daemon.pid()) - before;
    assert!(used < 0.5, "{used} s of processor time");
    // All of them are answered.
    wire.ask("handoff.cancel", json!({"id": awaited}));
    for wire in &mut crowd {
        for _ in 0..1500 {
            assert_eq!(wire.line().unwrap()["result"]["state"], "failed");
        }
    }
}
