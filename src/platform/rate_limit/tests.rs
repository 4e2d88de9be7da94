//! Tests of the limiter with a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::{Instant, sleep, timeout};

use super::limiter::{CallNeeds, NoRoom, Permit, RateLimiter};
use super::{HoldScope, Limit, Priority};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn limiter() -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(Some(Limit::new(30, SECOND))))
}

fn unlimited() -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(None))
}

/// A message to a group that gets 20 a minute.
fn message(chat: &str, priority: Priority) -> CallNeeds<'_> {
    CallNeeds {
        chat,
        limit: Some(Limit::new(20, MINUTE)),
        counted: true,
        reserves_reply: false,
        reservation: None,
        priority,
    }
}

fn thread(chat: &str) -> CallNeeds<'_> {
    CallNeeds {
        reserves_reply: true,
        ..message(chat, Priority::HandoffThread)
    }
}

async fn permit(limiter: &Arc<RateLimiter>, needs: CallNeeds<'_>) -> Permit {
    limiter.acquire(needs).await.expect("room in the end")
}

/// So many messages at once. The calls take no time.
async fn send(limiter: &Arc<RateLimiter>, chat: &str, count: usize) {
    for _ in 0..count {
        drop(permit(limiter, message(chat, Priority::Reply)).await);
    }
}

/// Lets all tasks run as far as they can without the clock.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_allowance_goes_at_once_and_the_next_when_the_first_is_a_window_old() {
    let (limiter, start) = (limiter(), Instant::now());
    send(&limiter, "a", 20).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    send(&limiter, "a", 1).await;
    assert_eq!(start.elapsed(), MINUTE);
    // Another chat has its own allowance.
    send(&limiter, "b", 9).await;
    assert_eq!(start.elapsed(), MINUTE);
}

#[tokio::test(start_paused = true)]
async fn the_window_begins_with_the_end_of_the_call() {
    let (limiter, start) = (limiter(), Instant::now());
    send(&limiter, "a", 19).await;
    let slow = permit(&limiter, message("a", Priority::Reply)).await;
    let late = async {
        sleep(SECOND * 5).await;
        drop(slow);
    };
    tokio::join!(late, send(&limiter, "a", 20));
    assert_eq!(start.elapsed(), MINUTE + SECOND * 5);
}

#[tokio::test(start_paused = true)]
async fn all_chats_together_keep_to_the_overall_limit() {
    let (limiter, start) = (limiter(), Instant::now());
    for n in 0..91 {
        send(&limiter, &format!("chat {n}"), 1).await;
    }
    assert_eq!(start.elapsed(), SECOND * 3);
}

#[tokio::test(start_paused = true)]
async fn urgent_calls_go_first_and_equal_ones_in_the_order_of_arrival() {
    let limiter = unlimited();
    // The places become free one after the other.
    for _ in 0..20 {
        send(&limiter, "a", 1).await;
        sleep(SECOND).await;
    }
    let order = Arc::new(Mutex::new(Vec::new()));
    let wanted = [
        (Priority::Question, 1),
        (Priority::Reply, 2),
        (Priority::HandoffThread, 3),
        (Priority::Reply, 4),
        (Priority::HandoffReply, 5),
        (Priority::HandoffThread, 6),
    ];
    let mut tasks = Vec::new();
    for (priority, number) in wanted {
        let (limiter, order) = (limiter.clone(), order.clone());
        tasks.push(tokio::spawn(async move {
            let permit = permit(&limiter, message("a", priority)).await;
            order.lock().unwrap().push(number);
            drop(permit);
        }));
        settle().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [5, 3, 6, 2, 4, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_chat_that_waits_keeps_no_other_waiting() {
    let (limiter, start) = (limiter(), Instant::now());
    send(&limiter, "busy", 20).await;
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move { send(&limiter, "busy", 1).await })
        })
        .collect();
    settle().await;
    send(&limiter, "quiet", 5).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    for task in waiting {
        task.await.unwrap();
    }
    assert_eq!(start.elapsed(), MINUTE * 3);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_gives_its_place_back() {
    let (limiter, start) = (limiter(), Instant::now());
    send(&limiter, "a", 20).await;
    let impatient = timeout(SECOND, permit(&limiter, thread("a"))).await;
    assert!(impatient.is_err());
    // All twenty places are free after the minute.
    send(&limiter, "a", 20).await;
    assert_eq!(start.elapsed(), MINUTE);
    // A call that was never made frees its place at once.
    sleep(MINUTE).await;
    for _ in 0..100 {
        permit(&limiter, thread("a")).await.give_back();
    }
    assert_eq!(start.elapsed(), MINUTE * 2);
}

#[tokio::test(start_paused = true)]
async fn fifty_threads_and_replies_use_the_fewest_windows() {
    let (limiter, start) = (limiter(), Instant::now());
    let mut tasks = Vec::new();
    for _ in 0..50 {
        let limiter = limiter.clone();
        tasks.push(tokio::spawn(async move {
            let opened = permit(&limiter, thread("a")).await;
            sleep(SECOND / 10).await;
            let reservation = opened.into_reservation();
            assert!(reservation.is_some());
            // The agent thinks.
            sleep(SECOND / 2).await;
            let asked = Instant::now();
            let needs = CallNeeds {
                reservation,
                ..message("a", Priority::HandoffReply)
            };
            drop(permit(&limiter, needs).await);
            assert!(asked.elapsed() < SECOND, "the reply waits for its chat");
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    // 100 calls of 20 a minute: the fifth window begins after four minutes and the time that the calls took.
    let windows = start.elapsed().as_secs() / 60 + 1;
    assert_eq!(windows, 5, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_lasts_one_window() {
    let (limiter, start) = (limiter(), Instant::now());
    let opened = permit(&limiter, thread("a")).await;
    let reservation = opened.into_reservation();
    send(&limiter, "a", 18).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    // The reserved place is not for others.
    let other = timeout(SECOND, send(&limiter, "a", 1)).await;
    assert!(other.is_err());
    // A long turn of the agent: by then the place is free for all.
    sleep(MINUTE).await;
    send(&limiter, "a", 20).await;
    let needs = CallNeeds {
        reservation,
        ..message("a", Priority::HandoffReply)
    };
    drop(permit(&limiter, needs).await);
    assert_eq!(start.elapsed(), MINUTE * 2 + SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_holds_its_chat_for_everyone_and_the_others_go_on() {
    let (limiter, start) = (limiter(), Instant::now());
    let refused = permit(&limiter, message("a", Priority::Reply)).await;
    refused.refused(SECOND * 7, HoldScope::Chat, true);
    send(&limiter, "b", 1).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    send(&limiter, "a", 1).await;
    assert_eq!(start.elapsed(), SECOND * 7);
    let refused = permit(&limiter, message("c", Priority::Reply)).await;
    refused.refused(SECOND * 3, HoldScope::Platform, true);
    send(&limiter, "b", 1).await;
    assert_eq!(start.elapsed(), SECOND * 10);
}

#[tokio::test(start_paused = true)]
async fn a_limit_shrinks_to_what_was_allowed_and_grows_back() {
    let limiter = limiter();
    sleep(MINUTE).await;
    let start = Instant::now();
    send(&limiter, "a", 11).await;
    let refused = permit(&limiter, message("a", Priority::Reply)).await;
    refused.refused(MINUTE, HoldScope::Chat, true);
    // Eleven were allowed, so eleven go out at once.
    send(&limiter, "a", 11).await;
    assert_eq!(start.elapsed(), MINUTE);
    send(&limiter, "a", 1).await;
    assert_eq!(start.elapsed(), MINUTE * 2);
    // One more in each window, up to the vendor's limit.
    sleep(MINUTE * 8).await;
    let before = start.elapsed();
    send(&limiter, "a", 20).await;
    assert_eq!(start.elapsed(), before);
    assert!(timeout(SECOND, send(&limiter, "a", 1)).await.is_err());
}

/// The vendor may count calls of an earlier process, which says nothing about the limit.
#[tokio::test(start_paused = true)]
async fn nothing_is_learned_in_the_first_window() {
    let (limiter, start) = (limiter(), Instant::now());
    let refused = permit(&limiter, message("a", Priority::Reply)).await;
    refused.refused(SECOND * 30, HoldScope::Chat, true);
    send(&limiter, "a", 20).await;
    assert_eq!(start.elapsed(), SECOND * 30);
}

#[tokio::test(start_paused = true)]
async fn previews_leave_room_for_replies_and_never_wait() {
    let (limiter, start) = (limiter(), Instant::now());
    for _ in 0..15 {
        drop(permit(&limiter, message("a", Priority::Preview)).await);
    }
    let dropped = limiter.acquire(message("a", Priority::Preview)).await;
    assert_eq!(
        dropped.err(),
        Some(NoRoom {
            retry_after: SECOND
        })
    );
    assert_eq!(start.elapsed(), Duration::ZERO);
    send(&limiter, "a", 5).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    let typing = CallNeeds {
        counted: false,
        ..message("a", Priority::Typing)
    };
    // It does not count, so it starts while nothing else waits.
    drop(permit(&limiter, typing).await);
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { send(&limiter, "a", 1).await }
    });
    settle().await;
    assert!(limiter.acquire(typing).await.is_err());
    assert_eq!(start.elapsed(), Duration::ZERO);
    waiting.await.unwrap();
}

#[derive(Debug, Clone)]
struct Step {
    chat: u8,
    priority: Priority,
    pause: u64,
    takes: u64,
    /// The caller gives up after this time if the call has not started.
    patience: Option<u64>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let priority = prop::sample::select(vec![
        Priority::HandoffReply,
        Priority::HandoffThread,
        Priority::Reply,
        Priority::Question,
    ]);
    let step = (
        0u8..3,
        priority,
        0u64..3000,
        0u64..2000,
        prop::option::of(0u64..20_000),
    );
    let step = step.prop_map(|(chat, priority, pause, takes, patience)| Step {
        chat,
        priority,
        pause,
        takes,
        patience,
    });
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The vendor may count a call at any time between its start and its end. No window has more than the limit, and
    /// all calls that do not give up are made.
    #[test]
    fn no_window_has_more_than_the_limit(steps in steps(), limit in 1u32..6) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let window = SECOND * 10;
        let calls = runtime.block_on(async {
            let (limiter, calls) = (unlimited(), Arc::new(Mutex::new(Vec::new())));
            let mut tasks = Vec::new();
            for step in steps.clone() {
                sleep(Duration::from_millis(step.pause)).await;
                let (limiter, calls) = (limiter.clone(), calls.clone());
                tasks.push(tokio::spawn(async move {
                    let chat = step.chat.to_string();
                    let needs = CallNeeds {
                        limit: Some(Limit::new(limit, window)),
                        ..message(&chat, step.priority)
                    };
                    let patience = step.patience.map_or(Duration::MAX, Duration::from_millis);
                    let Ok(permit) = timeout(patience, permit(&limiter, needs)).await else {
                        return;
                    };
                    let start = Instant::now();
                    sleep(Duration::from_millis(step.takes)).await;
                    calls.lock().unwrap().push((step.chat, start, Instant::now()));
                    drop(permit);
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            Arc::into_inner(calls).expect("no other task").into_inner().unwrap()
        });
        let patient = steps.iter().filter(|step| step.patience.is_none()).count();
        prop_assert!(calls.len() >= patient);
        for chat in 0..3 {
            let mut of_chat: Vec<_> = calls.iter().filter(|call| call.0 == chat).collect();
            of_chat.sort_by_key(|call| call.2);
            // A call starts when at most limit - 1 others are in progress or have ended within the window.
            for (_, start, _) in &of_chat {
                let others = of_chat
                    .iter()
                    .filter(|(_, began, ended)| began < start && *ended + window > *start);
                prop_assert!(others.count() < limit as usize);
            }
        }
    }
}
