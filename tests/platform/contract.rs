//! The contract: what every platform does, whatever its vendor. A platform joins it with `contract!(Type)`, where `Type` implements
//! [`Contract`] around the fake server of its vendor.
//!
//! Each test drives the built daemon. It talks in the thread of a handoff, which every platform with threads has.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::support::bot::MARK;
use crate::support::fake::{FakeServer, Outcome, Place, ScriptedFault, Side, Vendor};
use crate::support::{Daemon, Home, SESSION, seed_session, until};

/// Who writes in a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The only person whom the configuration allows.
    Allowed,
    /// A member of the same chats whom no rule names.
    Stranger,
}

/// What the contract has to know about a platform.
pub trait Contract: Sized {
    const PLATFORM: &'static str;
    /// The vendor's method that sends a message.
    const SEND: &'static str;
    /// The vendor posts a message with the same key once, for long enough.
    const RECOGNISES_REPEATS: bool;
    type World: Vendor;

    /// Starts a server with a home channel that can have threads, and writes the configuration of a home for it.
    fn start() -> Self;

    fn home(&self) -> &Home;

    fn server(&self) -> &FakeServer<Self::World>;

    /// Waits until the daemon receives events.
    fn until_listening(&self);

    /// The threads that are open in the home channel.
    fn threads(&self) -> Vec<Place>;

    /// The chat around a thread.
    fn around(&self, thread: &Place) -> Place;

    fn says(&self, place: &Place, who: Speaker, text: &str);

    /// The vendor delivers its last event again.
    fn repeats_last_event(&self);

    fn deletes(&self, thread: &Place);

    /// The bot's messages there, as people read them.
    fn messages(&self, place: &Place) -> Vec<String>;

    /// The people and groups that a message of the bot has notified by name.
    fn notified(&self) -> Vec<String>;
}

/// A home with a session, the server, and what a test does with them.
struct Stage<C> {
    platform: C,
}

impl<C: Contract> Stage<C> {
    async fn set() -> Stage<C> {
        let platform = C::start();
        seed_session(platform.home()).await;
        Stage { platform }
    }

    fn start(&self) -> Daemon {
        let daemon = self.platform.home().start();
        self.platform.until_listening();
        daemon
    }

    fn look<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        let row = self
            .platform
            .home()
            .sqlite()
            .query_row(sql, [], |row| row.get(0));
        row.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    /// Hands the session off and returns its thread.
    fn hand_off(&self) -> Place {
        let words = ["handoff", C::PLATFORM, "--session", SESSION];
        let handed = self.platform.home().hermesctl(&words);
        assert_eq!(handed.code, 0, "{handed:?}");
        let threads = self.platform.threads();
        assert_eq!(threads.len(), 1, "{threads:?}");
        threads[0].clone()
    }

    fn says(&self, thread: &Place, text: &str) {
        self.platform.says(thread, Speaker::Allowed, text);
    }

    /// Waits for messages that contain these words, and returns them.
    fn until_answered(&self, place: &Place, words: &str) -> Vec<String> {
        self.platform.server().until(words, || {
            let mut messages = self.platform.messages(place);
            messages.retain(|text| text.contains(words));
            (!messages.is_empty()).then_some(messages)
        })
    }

    /// Waits until every message in the ledger has an outcome.
    fn until_all_sent(&self) {
        let open = "SELECT count(*) FROM hermesd_deliveries WHERE state IN ('pending', 'sending')";
        until("every message is sent", || {
            (self.look::<i64>(open) == 0).then_some(())
        });
    }

    /// The next message in the thread continues the session.
    fn goes_on(&self, thread: &Place) {
        self.says(thread, "and now?");
        let answers = self.until_answered(thread, "and now?");
        assert!(answers[0].contains("I remember 6 messages"), "{answers:?}");
    }
}

pub async fn the_thread_of_a_handoff_continues_the_session_under_one_key<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let _daemon = stage.start();
    let thread = stage.hand_off();
    let welcome = stage.platform.messages(&thread);
    assert_eq!(welcome.len(), 1, "{welcome:?}");
    stage.goes_on(&thread);
    let of_session = format!("SELECT session_key FROM sessions WHERE id = '{SESSION}'");
    let of_message = "SELECT session_key FROM hermesd_inbound";
    assert_eq!(
        stage.look::<String>(of_message),
        stage.look::<String>(&of_session)
    );
    assert_eq!(stage.look::<i64>("SELECT count(*) FROM sessions"), 1);
}

pub async fn a_repeated_event_is_accepted_once<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let daemon = stage.start();
    let thread = stage.hand_off();
    stage.says(&thread, "hello once");
    stage.platform.repeats_last_event();
    stage.says(&thread, "second");
    stage.until_answered(&thread, "second");
    stage.until_all_sent();
    daemon.kill();
    stage.platform.server().until_quiet();
    stage.platform.repeats_last_event();
    let _daemon = stage.start();
    stage.says(&thread, "third");
    stage.until_answered(&thread, "third");
    for words in ["hello once", "second", "third"] {
        let answers = stage.until_answered(&thread, words);
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
    let accepted = "SELECT count(*) FROM hermesd_inbound";
    assert_eq!(stage.look::<i64>(accepted), 3);
}

pub async fn a_send_without_an_answer_is_repeated_with_a_mark<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let _daemon = stage.start();
    let thread = stage.hand_off();
    let server = stage.platform.server();
    server.then(C::SEND, ScriptedFault::DisconnectAfter);
    stage.says(&thread, "are you sure?");
    stage.until_answered(&thread, "are you sure?");
    stage.until_all_sent();
    let answers = stage.until_answered(&thread, "are you sure?");
    let marked = answers.iter().filter(|text| text.contains(MARK)).count();
    match C::RECOGNISES_REPEATS {
        true => assert_eq!((answers.len(), marked), (1, 0), "{answers:?}"),
        false => assert_eq!((answers.len(), marked), (2, 1), "{answers:?}"),
    }
}

pub async fn a_send_that_did_not_arrive_is_repeated_without_a_mark<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let _daemon = stage.start();
    let thread = stage.hand_off();
    let server = stage.platform.server();
    server.then(C::SEND, ScriptedFault::too_many_requests(1));
    stage.says(&thread, "try again");
    stage.until_answered(&thread, "try again");
    stage.until_all_sent();
    let answers = stage.until_answered(&thread, "try again");
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(!answers[0].contains(MARK), "{answers:?}");
}

pub async fn the_time_to_wait_is_respected<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let _daemon = stage.start();
    let thread = stage.hand_off();
    let server = stage.platform.server();
    server.then(C::SEND, ScriptedFault::too_many_requests(2));
    stage.says(&thread, "not so fast");
    stage.until_answered(&thread, "not so fast");
    let sends = server.timeline().0.into_iter();
    let sends: Vec<_> = sends.filter(|call| call.method == C::SEND).collect();
    let is_refusal = |call: &_| matches!(call, Outcome::Refused(429, _));
    let refused = sends.iter().position(|call| is_refusal(&call.outcome));
    let refused = refused.expect("a refusal");
    let next = &sends[refused + 1];
    let pause = next.arrived - sends[refused].arrived;
    assert!(pause >= Duration::from_secs(2), "{pause:?}");
}

pub async fn the_reply_to_a_deleted_thread_goes_to_the_chat_around_it<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let _daemon = stage.start();
    let thread = stage.hand_off();
    let around = stage.platform.around(&thread);
    let server = stage.platform.server();
    let sent = server.calls_of(C::SEND).len();
    let held = Arc::new(Semaphore::new(0));
    server.then(C::SEND, ScriptedFault::HoldBefore(held.clone()));
    stage.says(&thread, "still there?");
    server.until_calls(C::SEND, sent + 1);
    stage.platform.deletes(&thread);
    held.add_permits(1);
    let answers = stage.until_answered(&around, "still there?");
    assert_eq!(answers.len(), 1, "{answers:?}");
    // The reply says it, or a note of its own if the vendor tells of the deletion.
    stage.until_answered(&around, "/resume");
    stage.until_all_sent();
    let told = stage.until_answered(&around, "/resume");
    assert_eq!(told.len(), 1, "{told:?}");
}

pub async fn a_stranger_gets_nothing<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let _daemon = stage.start();
    let thread = stage.hand_off();
    let before = stage.platform.messages(&thread).len();
    stage.platform.says(&thread, Speaker::Stranger, "let me in");
    // Events are accepted in order, so the stranger's is done once this one is answered.
    stage.goes_on(&thread);
    let messages = stage.platform.messages(&thread);
    assert_eq!(messages.len(), before + 1, "{messages:?}");
    for table in ["hermesd_inbound", "messages"] {
        let column = match table {
            "messages" => "content",
            _ => "text",
        };
        let stored = format!("SELECT count(*) FROM {table} WHERE {column} LIKE '%let me in%'");
        assert_eq!(stage.look::<i64>(&stored), 0, "{table}");
    }
}

pub async fn the_words_of_an_agent_notify_no_one<C: Contract>() {
    let stage = Stage::<C>::set().await;
    let _daemon = stage.start();
    let thread = stage.hand_off();
    let words = "@everyone @here @channel @ada_lovelace @**ada_lovelace** <@42> <@&42> <!channel> <!here> \
                 [Ada](tg://user?id=42) @room the end";
    stage.says(&thread, words);
    stage.until_answered(&thread, "the end");
    stage.until_all_sent();
    assert_eq!(stage.platform.notified(), Vec::<String>::new());
}

/// Hands off, kills the daemon at the nth call, and starts another. Returns whether there was such a call.
async fn hand_off_killed_at<C: Contract>(nth: usize, side: Side) -> bool {
    let stage = Stage::<C>::set().await;
    let daemon = stage.start();
    let held = stage.platform.server().hold(nth, side);
    let words = ["handoff", C::PLATFORM, "--session", SESSION, "--no-wait"];
    let asked = stage.platform.home().hermesctl(&words);
    assert_eq!(asked.code, 0, "{asked:?}");
    let reached = until("the call, or the end", || {
        let state: String = stage.look("SELECT handoff_state FROM sessions");
        let reached = held.reached();
        (reached || state == "completed").then_some(reached)
    });
    daemon.kill();
    stage.platform.server().until_quiet();
    held.let_go();
    let _daemon = stage.start();
    assert_handed_off_once(&stage);
    reached
}

fn assert_handed_off_once<C: Contract>(stage: &Stage<C>) {
    let state = until("the handoff ends", || {
        let state: String = stage.look("SELECT state FROM hermesd_handoffs");
        matches!(state.as_str(), "completed" | "failed").then_some(state)
    });
    assert_eq!(state, "completed");
    for (sql, count) in [
        ("SELECT count(*) FROM sessions", 1),
        ("SELECT count(*) FROM gateway_routing", 1),
        ("SELECT count(*) FROM hermesd_handoffs", 1),
        ("SELECT count(*) FROM messages WHERE active = 1", 6),
        ("SELECT message_count FROM sessions", 6),
    ] {
        assert_eq!(stage.look::<i64>(sql), count, "{sql}");
    }
    let threads = stage.platform.threads();
    let is_empty = |thread: &&Place| stage.platform.messages(thread).is_empty();
    let (empty, used): (Vec<&Place>, Vec<&Place>) = threads.iter().partition(is_empty);
    assert_eq!(used.len(), 1, "{used:?}");
    assert!(empty.len() <= 1, "{empty:?}");
    let welcomes = stage.platform.messages(used[0]);
    let all = |words: &str| welcomes.iter().all(|text| text.contains(words));
    assert!(all("I am here"), "{welcomes:?}");
    let unmarked = welcomes.iter().filter(|text| !text.contains(MARK)).count();
    assert!(unmarked <= 1, "{welcomes:?}");
    if C::RECOGNISES_REPEATS {
        assert_eq!(welcomes.len(), 1, "{welcomes:?}");
    }
    if !empty.is_empty() {
        assert!(all("may be an empty one of the same name"), "{welcomes:?}");
    }
    stage.goes_on(used[0]);
}

pub async fn a_handoff_survives_a_kill_at_every_call<C: Contract>(side: Side) {
    let mut calls = 0;
    while hand_off_killed_at::<C>(calls, side).await {
        calls += 1;
    }
    assert!(calls >= 2, "a thread is opened, and a message is sent");
}

/// The tests of the contract for one platform.
macro_rules! contract {
    ($platform:ty) => {
        contract!(@tests $platform:
            the_thread_of_a_handoff_continues_the_session_under_one_key,
            a_repeated_event_is_accepted_once,
            a_send_without_an_answer_is_repeated_with_a_mark,
            a_send_that_did_not_arrive_is_repeated_without_a_mark,
            the_time_to_wait_is_respected,
            the_reply_to_a_deleted_thread_goes_to_the_chat_around_it,
            a_stranger_gets_nothing,
            the_words_of_an_agent_notify_no_one,
        );

        #[tokio::test]
        async fn a_handoff_survives_a_kill_before_every_call() {
            let side = $crate::support::fake::Side::Before;
            $crate::platform::contract::a_handoff_survives_a_kill_at_every_call::<$platform>(side).await;
        }

        #[tokio::test]
        async fn a_handoff_survives_a_kill_after_every_call() {
            let side = $crate::support::fake::Side::After;
            $crate::platform::contract::a_handoff_survives_a_kill_at_every_call::<$platform>(side).await;
        }
    };
    (@tests $platform:ty: $($name:ident,)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::platform::contract::$name::<$platform>().await;
            }
        )*
    };
}
pub(crate) use contract;
