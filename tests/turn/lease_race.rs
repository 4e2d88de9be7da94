//! Two programs take turns of one conversation as fast as they can, with random schedules. No two turns run at once, so each
//! question stands next to its answer.

use std::time::Duration;

use proptest::prelude::*;

use crate::inbound::chats::spoken;
use crate::support::{Home, SESSION, TITLE, Taker, eventually};
use crate::turn::lease_rules::{leased_home, leases};
use crate::turn::leases::{said_in, say_in};

/// What the two programs do, each in its own order.
#[derive(Debug, Clone)]
struct Schedule {
    /// Pause before each message to the daemon, in milliseconds.
    ours: Vec<u64>,
    /// Pause before each turn of the other program, and how long the turn lasts.
    theirs: Vec<(u64, u64)>,
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let ours = proptest::collection::vec(0..40u64, 2..6);
    let theirs = proptest::collection::vec((0..40u64, 0..30u64), 2..8);
    (ours, theirs).prop_map(|(ours, theirs)| Schedule { ours, theirs })
}

fn take_turns(home: &Home, theirs: Vec<(u64, u64)>) -> std::thread::JoinHandle<()> {
    let mut taker = Taker::start(home, SESSION);
    std::thread::spawn(move || {
        for (at, (pause, lasts)) in theirs.into_iter().enumerate() {
            std::thread::sleep(Duration::from_millis(pause));
            taker.order(&format!("turn {lasts} theirs {at}"));
        }
    })
}

async fn run(schedule: Schedule) {
    let home = leased_home();
    let daemon = home.start_with(&[("HERMESD_AGENT_ECHO_PACE", "2ms")]);
    let ran = home.hermesctl(&["handoff", "local", "--session", TITLE]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let client = daemon.client().await;
    let sql = "SELECT MAX(id) FROM hermesd_local_threads";
    let thread: i64 = home.sqlite().query_row(sql, [], |row| row.get(0)).unwrap();
    let before = spoken(&home, SESSION).len();
    let others = take_turns(&home, schedule.theirs.clone());
    for (at, pause) in schedule.ours.iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(*pause)).await;
        say_in(&client, thread, &format!("ours {at}")).await;
    }
    let turns = schedule.ours.len() + schedule.theirs.len();
    let rows = eventually("all turns have ended", || async {
        let rows = spoken(&home, SESSION).split_off(before);
        (rows.len() >= 2 * turns).then_some(rows)
    })
    .await;
    others.join().expect("turns of the other program");
    assert_eq!(rows.len(), 2 * turns, "{rows:?}");
    for pair in rows.chunks(2) {
        let words = pair[0].strip_prefix("user: ");
        let words = words.unwrap_or_else(|| panic!("{rows:?}"));
        let is_answer = pair[1].starts_with("assistant: ") && pair[1].contains(words);
        assert!(is_answer, "{words} has another answer: {rows:?}");
    }
    let last = format!("ours {}", schedule.ours.len() - 1);
    eventually("the last answer", || async {
        let said = said_in(&client, thread).await;
        said.iter().any(|s| s.contains(&last)).then_some(())
    })
    .await;
    assert_eq!(leases(&home), []);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn turns_of_two_programs_never_mix(schedule in schedule()) {
        tokio::runtime::Runtime::new().unwrap().block_on(run(schedule));
    }
}
