//! What becomes of messages to Telegram when it refuses, delays or loses them, and when there are many.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::support::bot::{Bot, MARK};
use crate::support::telegram::{ADA, BotMessage, Person, Rights, ScriptedFault};
use crate::support::{Daemon, SESSION, TITLE, picture, seed_session, until};

/// A bot whose home is a forum, and a session to hand off.
async fn forum() -> Bot {
    let bot = Bot::at_home(|api| api.forum("Work", Rights::TopicsAdmin));
    seed_session(&bot.home).await;
    bot
}

/// Hands off with one call of a method meeting this, and returns what then stands in the topic that is bound.
async fn handed_off_despite(method: &str, fault: ScriptedFault) -> (Bot, Vec<BotMessage>) {
    let bot = forum().await;
    let _daemon = bot.start();
    bot.api.then(method, fault);
    let handed = bot.hand_off();
    assert_eq!(handed.code, 0, "{handed:?}");
    let thread = bot.handoff(1)["thread"].as_str().unwrap().parse().unwrap();
    let welcomes = bot.api.messages_in(bot.chat, Some(thread));
    assert!(
        welcomes.iter().all(|m| m.text.contains("I am here")),
        "{welcomes:?}"
    );
    bot.goes_on(Some(thread), &ADA);
    (bot, welcomes)
}

#[tokio::test]
async fn a_handoff_whose_message_is_refused_fails_and_leaves_everything_as_it_was() {
    let bot = forum().await;
    let _daemon = bot.start();
    let before = picture(&bot.home);
    let kicked = "Forbidden: bot was kicked from the supergroup chat";
    bot.api
        .then("sendMessage", ScriptedFault::Refuse(403, kicked));
    let handed = bot.hand_off();
    assert_eq!(handed.code, 4, "{handed:?}");
    assert!(handed.stderr.contains("bot was kicked"), "{handed:?}");
    let handoff = bot.handoff(1);
    assert_eq!(handoff["state"], "failed", "{handoff}");
    assert_eq!(picture(&bot.home), before);
    // Who looks into the topic is told, and the session can be used and handed off.
    let first = Some(bot.api.topics(bot.chat)[0].thread);
    bot.api
        .until_message(bot.chat, first, |m| m.text.contains("failed"));
    let talk = bot.home.talk(&["--resume", SESSION], "still here?\n");
    assert!(talk.replies()[0].contains("I remember 4 messages"));
    let again = bot.hand_off();
    assert_eq!(again.code, 0, "{again:?}");
    let second = bot.api.topics(bot.chat)[1].thread;
    bot.api.until_message(bot.chat, Some(second), |m| {
        m.text.contains("6 messages") && !m.text.contains(MARK)
    });
}

#[tokio::test]
async fn a_send_that_is_put_off_waits_as_long_as_it_is_told_and_arrives_once() {
    let late = ScriptedFault::too_many_requests(1);
    let (bot, welcomes) = handed_off_despite("sendMessage", late).await;
    assert_eq!(welcomes.len(), 1, "{welcomes:?}");
    assert!(!welcomes[0].text.contains(MARK), "{welcomes:?}");
    let sends = bot.api.calls_of("sendMessage");
    assert!(sends[1].at - sends[0].at >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_send_that_meets_a_server_out_of_order_is_repeated_with_a_mark() {
    let (_, welcomes) = handed_off_despite("sendMessage", ScriptedFault::ProxyPage(502)).await;
    assert_eq!(welcomes.len(), 1, "{welcomes:?}");
    assert!(welcomes[0].text.starts_with(MARK), "{welcomes:?}");
}

#[tokio::test]
async fn a_send_that_was_cut_off_is_repeated_with_a_mark_whether_or_not_it_was_done() {
    for (fault, arrived) in [
        (ScriptedFault::DisconnectBefore, 1),
        (ScriptedFault::DisconnectAfter, 2),
    ] {
        let (_, welcomes) = handed_off_despite("sendMessage", fault).await;
        assert_eq!(welcomes.len(), arrived, "{welcomes:?}");
        let (last, first) = welcomes.split_last().unwrap();
        assert!(last.text.starts_with(MARK), "{last:?}");
        assert!(first.iter().all(|m| !m.text.contains(MARK)), "{first:?}");
    }
}

#[tokio::test]
async fn a_topic_that_was_opened_unheard_is_told_of_in_the_next() {
    let (bot, welcomes) =
        handed_off_despite("createForumTopic", ScriptedFault::DisconnectAfter).await;
    let topics = bot.api.topics(bot.chat);
    assert_eq!(topics.len(), 2, "{topics:?}");
    assert!(
        bot.api
            .messages_in(bot.chat, Some(topics[0].thread))
            .is_empty()
    );
    assert_eq!(welcomes.len(), 1, "{welcomes:?}");
    assert!(
        welcomes[0].text.contains("may be an empty one"),
        "{welcomes:?}"
    );
}

/// A session that was handed off, and its topic.
async fn in_topic() -> (Bot, Daemon, i64) {
    let bot = forum().await;
    let daemon = bot.start();
    assert_eq!(bot.hand_off().code, 0);
    let topic = bot.api.topics(bot.chat)[0].thread;
    (bot, daemon, topic)
}

/// Ada says these in a topic, which is deleted before the first of them is answered.
fn say_in_a_topic_that_goes(bot: &Bot, topic: i64, said: &[&str]) {
    let permits = Arc::new(Semaphore::new(0));
    bot.api
        .then("sendMessage", ScriptedFault::HoldBefore(permits.clone()));
    bot.api.at_once(|api| {
        for text in said {
            api.says(bot.chat, Some(topic), &ADA, text);
        }
    });
    bot.api.until_calls("sendMessage", 2);
    bot.api.until_polled();
    bot.api.delete_topic(bot.chat, topic);
    permits.add_permits(1);
}

#[tokio::test]
async fn the_answer_for_a_topic_that_was_deleted_comes_to_the_chat_which_can_go_on_with_it() {
    let (bot, _daemon, topic) = in_topic().await;
    say_in_a_topic_that_goes(&bot, topic, &["are you there?"]);
    let reply = bot
        .api
        .until_message(bot.chat, None, |m| m.text.contains("are you there?"));
    let resume = format!("/resume {TITLE}");
    assert!(
        reply.text.contains("is gone") && reply.text.contains(&resume),
        "{reply:?}"
    );
    assert!(!reply.text.contains(MARK), "{reply:?}");
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM gateway_routing"), 0);

    bot.api.says(bot.chat, None, &ADA, &resume);
    bot.api
        .until_message(bot.chat, None, |m| m.text.contains("is here now"));
    bot.api.says(bot.chat, None, &ADA, "and now?");
    let answer = bot
        .api
        .until_message(bot.chat, None, |m| m.text.contains("and now?"));
    assert!(answer.text.contains("I remember 8 messages"), "{answer:?}");
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[tokio::test]
async fn all_that_was_said_in_a_topic_before_it_was_deleted_is_answered_by_its_session() {
    let (bot, _daemon, topic) = in_topic().await;
    say_in_a_topic_that_goes(&bot, topic, &["first", "/title", "second"]);
    let until = |text: &str| {
        let reply = bot
            .api
            .until_message(bot.chat, None, |m| m.text.contains(text));
        assert!(
            reply.text.contains(&format!("/resume {TITLE}")),
            "{reply:?}"
        );
        reply
    };
    until("[Ada] first");
    until("This is \"Fix the parser\".");
    let last = until("[Ada] second");
    assert!(last.text.contains("I remember 8 messages"), "{last:?}");
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM gateway_routing"), 0);
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM sessions"), 1);
}

#[tokio::test]
async fn a_topic_that_is_gone_misses_no_farewell() {
    let (bot, _daemon, topic) = in_topic().await;
    bot.api.delete_topic(bot.chat, topic);
    let resumed = bot.home.hermesctl(&["resume", SESSION, "--no-chat"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    until("the farewell to be given up", || {
        let given_up: i64 =
            bot.look("SELECT count(*) FROM hermesd_deliveries WHERE state = 'failed'");
        (given_up == 1).then_some(())
    });
    let said = bot.api.messages_in(bot.chat, None);
    assert!(said.is_empty(), "{said:?}");
}

/// Everybody has an answer to each of their messages, in their order, and none that may be there twice.
fn assert_answered_once(bot: &Bot, people: &[Person], each: usize) {
    for person in people {
        let answers = bot.until_answered(person, each);
        assert_eq!(answers.len(), each, "{answers:?}");
        assert!(
            answers.iter().all(|m| !m.text.contains(MARK)),
            "{answers:?}"
        );
    }
}

const EVERYONE: (&str, &str) = ("HERMESD_PLATFORMS_TELEGRAM_ALLOW_EVERYONE", "true");

#[test]
fn two_hundred_chats_at_once_get_their_own_answers_in_their_own_order() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    let fast = ("HERMESD_PLATFORMS_TELEGRAM_MESSAGES_PER_SECOND", "1000");
    let _daemon = bot.start_with(&[EVERYONE, fast]);
    let people = Person::many(200);
    bot.all_talk(&people, 3);
    assert_answered_once(&bot, &people, 3);
    bot.until_all_sent(600);
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM sessions"), 200);
}

#[test]
fn a_burst_keeps_to_the_limits_of_the_vendor() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    bot.api.limit(30);
    bot.api.limit_chat(8, Duration::from_secs(4));
    let _daemon = bot.start_with(&[EVERYONE, ("HERMESD_TEST_RATES", "8/4000")]);
    let (people, talker) = (Person::many(60), ADA);
    bot.all_talk(std::slice::from_ref(&talker), 8);
    bot.all_talk(&people, 1);
    assert_answered_once(&bot, &people, 1);
    assert_answered_once(&bot, &[talker], 8);
    bot.until_all_sent(68);
    // None, on a machine that does not stall.
    let refused = bot.api.refused("sendMessage", 429).len();
    assert!(refused < 5, "{refused}");
}

#[test]
fn a_vendor_that_takes_less_than_we_thought_is_given_time_and_gets_everything_once() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    bot.api.limit(12);
    let _daemon = bot.start_with(&[EVERYONE, ("HERMESD_TEST_RATES", "5/5000")]);
    let people = Person::many(40);
    bot.all_talk(&people, 1);
    assert_answered_once(&bot, &people, 1);
    bot.until_all_sent(40);
    assert!(!bot.api.refused("sendMessage", 429).is_empty());
}
