//! A gateway that fails in the middle of things, and words of the time without a daemon: each is answered once, in order.

use std::time::Duration;

use crate::support::discord::{ADA, Id, Order};
use crate::support::discord_bot::DiscordBot;
use crate::support::{seed_session, until};

/// Waits until the session that was handed off is in its thread, and nothing is on its way.
async fn in_thread(pace: &str) -> (DiscordBot, Id, crate::support::Daemon) {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let daemon = bot.start_with(&[("HERMESD_AGENT_ECHO_PACE", pace)]);
    let thread = bot.hand_off_to_thread();
    bot.until_all_sent();
    (bot, thread, daemon)
}

fn assert_in_order(texts: &[String], words: &[&str]) {
    assert_eq!(texts.len(), words.len(), "{texts:?}");
    for (text, words) in texts.iter().zip(words) {
        assert!(
            text.starts_with(&format!("You said: {words}\n")),
            "{texts:?}"
        );
    }
}

/// How the daemon stands, as hermesctl tells it.
fn until_standing(bot: &DiscordBot, words: &str) {
    until(words, || {
        let shown = bot.home.hermesctl(&["platforms"]).stdout;
        shown.contains(words).then_some(())
    });
}

#[tokio::test]
async fn a_gateway_that_fails_while_a_reply_streams_costs_no_word() {
    for order in [
        Order::Drop,
        Order::Reconnect,
        Order::Close(4000),
        Order::Invalidate(true),
        Order::Invalidate(false),
    ] {
        let (bot, thread, _daemon) = in_thread("20ms").await;
        let words = "word ".repeat(120).trim_end().to_owned();
        bot.api.says(thread, &ADA, &words);
        bot.api.until_message(thread, |m| m.content.ends_with('…'));
        bot.api.orders(order);
        bot.api.says(thread, &ADA, "and then?");
        bot.heard(thread, "and then?");
        bot.until_all_sent();
        assert_in_order(&bot.answers(thread), &[&words, "and then?"]);
        assert_eq!(
            bot.texts(thread).len(),
            3,
            "{order:?} {:?}",
            bot.texts(thread)
        );
    }
}

#[tokio::test]
async fn words_of_the_time_without_a_daemon_are_answered_once_in_thread_and_private_chat() {
    for forgets in [true, false] {
        let (bot, thread, daemon) = in_thread("0ms").await;
        let private = bot.api.direct(&ADA);
        bot.asks(private, "before");
        bot.asks(thread, "before");
        bot.until_all_sent();
        daemon.kill();
        bot.api.until_quiet();
        if forgets {
            bot.api.forgets_sessions();
        }
        for words in ["one", "two", "three"] {
            bot.api.says(thread, &ADA, words);
            bot.api.says(private, &ADA, words);
        }
        let _daemon = bot.start();
        for channel in [thread, private] {
            bot.heard(channel, "three");
            bot.asks(channel, "four");
        }
        bot.until_all_sent();
        for channel in [thread, private] {
            let all = ["before", "one", "two", "three", "four"];
            assert_in_order(&bot.answers(channel), &all);
        }
    }
}

#[tokio::test]
async fn words_that_have_waited_too_long_get_one_note() {
    let (bot, thread, daemon) = in_thread("0ms").await;
    let private = bot.api.direct(&ADA);
    for channel in [thread, private] {
        bot.asks(channel, "before");
    }
    bot.until_all_sent();
    assert!(daemon.stop().success());
    bot.api.until_quiet();
    for channel in [thread, private] {
        for (text, ago) in [("old", 50), ("older than that", 40)] {
            let old = bot.api.writes(channel, &ADA).text(text);
            old.ago(Duration::from_secs(ago)).send();
        }
        bot.api.says(channel, &ADA, "new");
    }
    let _daemon = bot.start_with(&[("HERMESD_CHATS_BACKLOG_AGE", "30s")]);
    for channel in [thread, private] {
        bot.heard(channel, "new");
        bot.until_all_sent();
        assert_in_order(&bot.answers(channel), &["before", "new"]);
        let notes = bot.texts(channel).concat();
        assert_eq!(notes.matches("Send them again").count(), 1, "{notes}");
    }
}

#[tokio::test]
async fn a_session_that_is_resumed_costs_no_start() {
    let (bot, thread, _daemon) = in_thread("0ms").await;
    bot.api.change(|world| world.gateway.starts_left = 0);
    for order in [Order::Drop, Order::Reconnect, Order::Close(4008)] {
        bot.api.orders(order);
        let words = format!("after {order:?}");
        bot.asks(thread, &words);
    }
    assert!(bot.api.world().token.is_some());
}

#[tokio::test]
async fn without_a_start_left_no_session_is_begun() {
    let (bot, _thread, _daemon) = in_thread("0ms").await;
    bot.api.change(|world| world.gateway.starts_left = 0);
    bot.api.orders(Order::Invalidate(false));
    until_standing(&bot, "no more sessions");
    assert!(bot.api.world().token.is_some(), "Discord would reset it");
    assert_eq!(bot.api.connections(), 0);
}

#[tokio::test]
async fn a_token_that_was_reset_is_named() {
    let (bot, _thread, _daemon) = in_thread("0ms").await;
    bot.api.change(|world| world.token = Some("another".into()));
    bot.api.orders(Order::Drop);
    until_standing(&bot, "does not know the bot's token");
}

#[tokio::test]
async fn more_words_than_a_page_has_are_all_heard_in_order() {
    let (bot, thread, daemon) = in_thread("0ms").await;
    bot.asks(thread, "before");
    bot.until_all_sent();
    daemon.kill();
    bot.api.until_quiet();
    bot.api.forgets_sessions();
    let words: Vec<String> = (0..230).map(|n| format!("word {n}")).collect();
    for words in &words {
        bot.api.says(thread, &ADA, words);
    }
    let _daemon = bot.start();
    until("the last is accepted", || {
        let count: i64 = bot.look("SELECT count(*) FROM hermesd_inbound");
        (count == 231).then_some(())
    });
    let texts =
        "SELECT group_concat(text, ',') FROM (SELECT text FROM hermesd_inbound ORDER BY id)";
    let texts: String = bot.look(texts);
    let wanted: Vec<String> = words.iter().map(|words| format!("[Ada] {words}")).collect();
    assert_eq!(texts, format!("[Ada] before,{}", wanted.join(",")));
}

#[tokio::test]
async fn a_session_is_resumed_where_discord_said_and_begun_where_all_begin() {
    let (bot, thread, _daemon) = in_thread("0ms").await;
    for (order, path) in [
        (Order::Drop, "/resume/"),
        (Order::Reconnect, "/resume/"),
        (Order::Invalidate(false), "/"),
    ] {
        bot.api.orders(order);
        bot.asks(thread, &format!("after {order:?}"));
        let last = bot.api.calls_of("gateway").pop().expect("a connection");
        assert_eq!(last.params["path"], path, "{order:?}");
    }
}
