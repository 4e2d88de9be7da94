//! Tests of the wrapped adapter with a paused clock.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout};

use super::{CountedCalls, Limit, RateLimited, Rates};
use crate::domain::{ChatType, HomeChannel, Source, ThreadOutcome};
use crate::platform::{Capabilities, Dedup, OutboundMessage, Platform, PlatformError};

const MINUTE: Duration = Duration::from_secs(60);

/// A platform with 20 calls a minute to a chat.
#[derive(Default)]
struct Slow {
    takes: Duration,
    counts_threads: bool,
    /// The vendor refuses the next call because of its rate.
    refuses: AtomicBool,
    calls: Mutex<Vec<&'static str>>,
}

impl Slow {
    async fn call(&self, name: &'static str) {
        self.calls.lock().unwrap().push(name);
        sleep(self.takes).await;
    }

    fn refusal(&self) -> Result<(), PlatformError> {
        match self.refuses.swap(false, Ordering::Relaxed) {
            true => Err(PlatformError::Transient {
                reason: "too many requests".into(),
                retry_after: Some(MINUTE),
                unsure: false,
            }),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Platform for Slow {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: true,
            send_dedup: Dedup::None,
            thread_dedup: Dedup::None,
            buttons: false,
            files: true,
        }
    }

    fn rates(&self) -> Rates {
        let limit = Some(Limit::new(20, MINUTE));
        Rates {
            group: limit,
            private_chat: limit,
            counted: CountedCalls {
                open_thread: self.counts_threads,
                edit: true,
                ..CountedCalls::default()
            },
            ..Rates::default()
        }
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        Ok(())
    }

    async fn open_thread(
        &self,
        _home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        self.call("open").await;
        self.refusal()?;
        Ok(ThreadOutcome::Thread {
            id: open_key.to_owned(),
            title: title.to_owned(),
            repeated: false,
            within: None,
        })
    }

    async fn delete_thread(&self, _destination: &Source) -> Result<(), PlatformError> {
        self.call("delete").await;
        Ok(())
    }

    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source {
        let mut source = Source::new("telegram", ChatType::Group, &home.chat_id);
        if let ThreadOutcome::Thread { id, .. } = opened {
            source.thread_id = Some(id.clone());
        }
        source
    }

    async fn send(
        &self,
        _to: &Source,
        _what: OutboundMessage<'_>,
        _send_key: &str,
    ) -> Result<String, PlatformError> {
        self.call("send").await;
        self.refusal()?;
        Ok("1".into())
    }
}

fn limited(takes: Duration) -> (Arc<Slow>, RateLimited) {
    let adapter = Arc::new(Slow {
        takes,
        counts_threads: true,
        ..Slow::default()
    });
    let limited = RateLimited::new(adapter.clone(), Arc::default());
    (adapter, limited)
}

fn home() -> HomeChannel {
    HomeChannel {
        chat_id: "-1".into(),
        name: None,
        thread_id: None,
        owner: None,
    }
}

fn chat() -> Source {
    Source::new("telegram", ChatType::Group, "-1")
}

/// A thread that was opened at home.
async fn opened(limited: &RateLimited, key: &str) -> Source {
    let _room = limited.reserve_thread(&home(), key).await;
    let opened = limited.open_thread(&home(), "title", key).await;
    limited.destination(&home(), &opened.expect("a thread"))
}

#[tokio::test(start_paused = true)]
async fn a_file_may_take_long_and_words_may_not() {
    let (_, slow) = limited(MINUTE * 10);
    let file = OutboundMessage {
        file: Some(Path::new("/nonexistent")),
        ..OutboundMessage::default()
    };
    assert!(slow.send(&chat(), file, "file").await.is_ok());
    let words = slow.send(&chat(), "words".into(), "words").await;
    let is_unsure = matches!(words, Err(PlatformError::Transient { unsure: true, .. }));
    assert!(is_unsure, "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_the_limits_is_no_part_of_the_call() {
    let (adapter, slow) = limited(MINUTE / 2);
    let start = Instant::now();
    let underway = AtomicBool::new(false);
    let what = OutboundMessage {
        underway: Some(&underway),
        ..OutboundMessage::from("words")
    };
    let to = chat();
    let many = async {
        for _ in 0..4 {
            let sends = (0..20).map(|_| slow.send(&to, "words".into(), "key"));
            let sends: Vec<_> = sends.collect();
            for send in futures_join(sends).await {
                send.expect("an id");
            }
        }
    };
    many.await;
    // The last ones have waited longer than a call may take.
    assert_eq!(start.elapsed(), MINUTE / 2 * 4 + MINUTE * 3);
    assert_eq!(adapter.calls.lock().unwrap().len(), 80);
    // `underway` is false while a message waits.
    assert!(
        timeout(MINUTE / 3, slow.send(&to, what, "key"))
            .await
            .is_err()
    );
    assert!(!underway.load(Ordering::Relaxed));
}

/// All of them at once.
async fn futures_join<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|context| {
        let mut open = false;
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => open = true,
                }
            }
        }
        match open {
            true => std::task::Poll::Pending,
            false => std::task::Poll::Ready(()),
        }
    })
    .await;
    futures
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn only_a_thread_without_messages_is_deleted() {
    let (adapter, limited) = limited(Duration::ZERO);
    let empty = opened(&limited, "empty").await;
    let used = opened(&limited, "used").await;
    limited
        .send(&used, "hello".into(), "key")
        .await
        .expect("an id");
    assert!(limited.delete_thread(&empty).await.is_ok());
    assert!(limited.delete_thread(&empty).await.is_err());
    assert!(limited.delete_thread(&used).await.is_err());
    let deleted = adapter
        .calls
        .lock()
        .unwrap()
        .iter()
        .filter(|c| **c == "delete")
        .count();
    assert_eq!(deleted, 1);
}

#[tokio::test(start_paused = true)]
async fn a_person_may_write_in_a_thread_before_the_call_that_opens_it_ends() {
    let (adapter, limited) = limited(Duration::from_secs(2));
    let early = Source {
        thread_id: Some("early".into()),
        ..chat()
    };
    let write = async {
        sleep(Duration::from_secs(1)).await;
        limited.thread_is_used(&early);
    };
    let (thread, ()) = tokio::join!(opened(&limited, "early"), write);
    assert_eq!(thread, early);
    assert!(limited.delete_thread(&thread).await.is_err());
    // Words in other threads, or before, change nothing.
    limited.thread_is_used(&Source {
        thread_id: Some("later".into()),
        ..chat()
    });
    let later = opened(&limited, "later").await;
    limited.delete_thread(&later).await.expect("a deletion");
    let calls = adapter.calls.lock().unwrap().clone();
    assert_eq!(calls, ["open", "open", "delete"]);
}

#[tokio::test(start_paused = true)]
async fn room_for_a_thread_that_is_not_opened_is_given_back() {
    let (_, limited) = limited(Duration::ZERO);
    let start = Instant::now();
    for _ in 0..100 {
        drop(limited.reserve_thread(&home(), "key").await);
    }
    for n in 0..10 {
        let thread = opened(&limited, &n.to_string()).await;
        limited
            .send(&thread, "hello".into(), "key")
            .await
            .expect("an id");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(
        timeout(MINUTE / 2, opened(&limited, "eleventh"))
            .await
            .is_err()
    );
}

/// How many threads with a reply can be opened at once.
async fn threads_at_once(limited: &RateLimited) -> usize {
    for n in 0.. {
        let key = n.to_string();
        let Ok(thread) = timeout(Duration::from_millis(1), opened(limited, &key)).await else {
            return n;
        };
        let sent = limited.send(&thread, "hello".into(), &key).await;
        sent.expect("an id");
    }
    0
}

#[tokio::test(start_paused = true)]
async fn threads_count_from_the_first_refusal_on() {
    let adapter = Arc::new(Slow::default());
    let limited = RateLimited::new(adapter.clone(), Arc::default());
    assert_eq!(threads_at_once(&limited).await, 20);
    sleep(MINUTE).await;
    adapter.refuses.store(true, Ordering::Relaxed);
    let refused = limited.open_thread(&home(), "title", "key").await;
    assert!(refused.is_err(), "{refused:?}");
    sleep(MINUTE).await;
    assert_eq!(threads_at_once(&limited).await, 10);
}

#[tokio::test(start_paused = true)]
async fn threads_count_after_a_message_was_refused_that_had_room() {
    let adapter = Arc::new(Slow::default());
    let limited = RateLimited::new(adapter.clone(), Arc::default());
    sleep(MINUTE).await;
    let thread = opened(&limited, "first").await;
    adapter.refuses.store(true, Ordering::Relaxed);
    let refused = limited.send(&thread, "hello".into(), "key").await;
    assert!(refused.is_err(), "{refused:?}");
    sleep(MINUTE).await;
    assert_eq!(threads_at_once(&limited).await, 10);
}

/// A default method of the trait that the wrapper does not pass on would silently do nothing.
#[test]
fn every_method_of_the_trait_is_passed_on() {
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim_start);
        let lines = lines.map(|line| line.strip_prefix("async ").unwrap_or(line));
        lines
            .filter_map(|line| line.strip_prefix("fn "))
            .filter_map(|line| Some(line.split(['(', '<']).next()?.to_owned()))
            .collect()
    };
    let read = |path: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/platform");
        std::fs::read_to_string(root.join(path)).expect("a source")
    };
    let all = read("mod.rs");
    let of_trait = all.split("pub trait Platform").nth(1).expect("the trait");
    let of_trait = of_trait.split("\n}\n").next().expect("its end");
    let limited = read("rate_limit/limited.rs");
    let passed_on = limited.split("impl Platform for RateLimited").nth(1);
    let passed_on = names(passed_on.expect("the implementation"));
    for name in names(of_trait) {
        assert!(passed_on.contains(&name), "{name} is not passed on");
    }
}
