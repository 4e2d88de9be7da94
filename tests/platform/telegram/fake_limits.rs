//! The limits of the fake Telegram.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::platform::telegram::fake::{call, done};
use crate::support::telegram::{ADA, BEN, BotApi, RateLimit, RateLimiter, Rights, VendorLimits};

const GROUP: i64 = -1_001;
const SECOND: Duration = Duration::from_secs(1);

/// The limits of the vendor, and a message to a chat so many seconds after the start.
struct Clock {
    limiter: RateLimiter,
    start: Instant,
}

impl Clock {
    fn with(limits: VendorLimits) -> Clock {
        let mut limiter = RateLimiter::default();
        limiter.limits = limits;
        let start = Instant::now();
        Clock { limiter, start }
    }

    /// The seconds to wait, if it is refused.
    fn send(&mut self, chat: i64, at: f64) -> Option<u64> {
        let at = self.start + Duration::from_secs_f64(at);
        let admitted = self.limiter.admit(chat, chat > 0, at);
        admitted.err().map(|wait| wait.as_secs_f64().ceil() as u64)
    }

    fn send_many(&mut self, chat: i64, count: usize, at: f64) {
        for n in 0..count {
            assert_eq!(self.send(chat, at), None, "message {n} at {at}");
        }
    }
}

#[test]
fn a_group_gets_twenty_messages_in_any_minute() {
    let mut clock = Clock::with(VendorLimits::documented());
    clock.send_many(GROUP, 10, 0.0);
    clock.send_many(GROUP, 10, 30.0);
    // The first ten leave the window at 60 seconds.
    assert_eq!(clock.send(GROUP, 40.0), Some(20));
    assert_eq!(clock.send(GROUP - 1, 40.0), None, "another group");
    clock.send_many(GROUP, 10, 60.0);
    assert_eq!(clock.send(GROUP, 61.0), Some(29));
    clock.send_many(GROUP, 10, 90.0);
}

#[test]
fn a_private_chat_gets_one_message_a_second_and_short_bursts() {
    let mut clock = Clock::with(VendorLimits::documented());
    clock.send_many(1, 5, 0.0);
    assert_eq!(clock.send(1, 0.5), Some(5));
    assert_eq!(clock.send(2, 0.5), None, "another person");
    for second in 6..60 {
        assert_eq!(clock.send(1, f64::from(second)), None, "at {second}");
    }
}

#[test]
fn all_chats_together_get_thirty_messages_a_second() {
    let mut clock = Clock::with(VendorLimits::documented());
    for chat in 1..=30 {
        assert_eq!(clock.send(chat, 0.1), None, "chat {chat}");
    }
    assert_eq!(clock.send(31, 0.9), Some(1));
    assert_eq!(
        clock.send(31, 1.8),
        Some(1),
        "the ban lasts its whole second"
    );
    assert_eq!(clock.send(31, 1.9), None);
}

#[test]
fn a_call_during_a_ban_renews_it_or_leaves_it() {
    for renews in [false, true] {
        let limit = RateLimit::new(1, SECOND * 10);
        let limit = match renews {
            true => limit.renewing_bans(),
            false => limit,
        };
        let mut clock = Clock::with(VendorLimits {
            group: Some(limit),
            ..VendorLimits::default()
        });
        assert_eq!(clock.send(GROUP, 0.0), None);
        assert_eq!(clock.send(GROUP, 2.0), Some(8));
        assert_eq!(clock.send(GROUP, 6.0), Some(if renews { 8 } else { 4 }));
        // The ban ends at 10 seconds or, when renewed, at 14.
        assert_eq!(clock.send(GROUP, 10.0), renews.then_some(8));
        assert_eq!(clock.send(GROUP, 30.0), None);
    }
}

/// The status of a call.
async fn status(api: &BotApi, method: &str, params: Value) -> u16 {
    call(api, method, params).await.unwrap().0
}

/// Three messages to a chat in an hour, so that no test has to be fast.
fn three() -> Option<RateLimit> {
    Some(RateLimit::new(3, SECOND * 3600))
}

#[tokio::test]
async fn messages_edits_and_topics_share_the_limit_of_their_chat() {
    let api = BotApi::start();
    let forum = api.forum("Workshop", Rights::TopicsAdmin);
    api.enforce_limits(VendorLimits {
        group: three(),
        counts_topics: true,
        ..VendorLimits::default()
    });
    let topic = json!({"chat_id": forum, "name": "Handoff"});
    let thread = done(&api, "createForumTopic", topic).await["message_thread_id"].clone();
    let hello = json!({"chat_id": forum, "message_thread_id": thread, "text": "hello"});
    let sent = done(&api, "sendMessage", hello.clone()).await["message_id"].clone();
    let edit = |text: &str| json!({"chat_id": forum, "message_id": sent, "text": text});
    // A call that the vendor refuses for another reason does not count.
    assert_eq!(status(&api, "editMessageText", edit("hello")).await, 400);
    done(&api, "editMessageText", edit("bye")).await;

    let of_topic = json!({"chat_id": forum, "message_thread_id": thread});
    let refused = [
        ("sendMessage", hello),
        ("editMessageText", edit("again")),
        (
            "createForumTopic",
            json!({"chat_id": forum, "name": "Next"}),
        ),
        ("closeForumTopic", of_topic.clone()),
    ];
    for (method, params) in refused {
        let (status, body) = call(&api, method, params).await.unwrap();
        assert_eq!(status, 429, "{method}");
        let wait = body["parameters"]["retry_after"].as_u64().unwrap();
        assert!((1..=3600).contains(&wait), "{body}");
        let description = format!("Too Many Requests: retry after {wait}");
        assert_eq!(body["description"], description);
        assert_eq!(
            (&body["ok"], &body["error_code"]),
            (&json!(false), &json!(429))
        );
    }
    assert_eq!(api.topics(forum).len(), 1);
    assert!(!api.topics(forum)[0].closed);
    // What sends no message passes.
    let message = json!({"chat_id": forum, "message_id": sent});
    let typing = json!({"chat_id": forum, "action": "typing"});
    let passes = [
        ("setMessageReaction", message.clone()),
        ("sendChatAction", typing),
        ("deleteMessage", message),
        ("deleteForumTopic", of_topic),
        ("getMe", json!({})),
    ];
    for (method, params) in passes {
        assert_eq!(status(&api, method, params).await, 200, "{method}");
    }
}

#[tokio::test]
async fn each_chat_has_the_limit_of_its_kind_and_none_by_default() {
    let api = BotApi::start();
    let (ada, ben) = (api.private(&ADA), api.private(&BEN));
    let group = api.group("Friends");
    let to = |chat: i64| json!({"chat_id": chat, "text": "hello"});
    let send_four = async |chat: i64| {
        let mut last = 0;
        for _ in 0..4 {
            last = status(&api, "sendMessage", to(chat)).await;
        }
        last
    };
    for chat in [ada, group] {
        assert_eq!(send_four(chat).await, 200);
    }
    api.enforce_limits(VendorLimits {
        private_chat: three(),
        ..VendorLimits::default()
    });
    assert_eq!(status(&api, "sendMessage", to(ada)).await, 429);
    assert_eq!(send_four(ben).await, 429);
    assert_eq!(send_four(group).await, 200);
    api.enforce_limits(VendorLimits {
        overall: three(),
        ..VendorLimits::default()
    });
    assert_eq!(status(&api, "sendMessage", to(group)).await, 429);
    api.enforce_limits(VendorLimits::default());
    assert_eq!(send_four(ben).await, 200);
}
