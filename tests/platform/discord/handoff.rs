//! Handoffs to Discord and conversations in their threads, with the built binaries.

use std::time::Duration;

use crate::support::discord::permissions::{
    CREATE_PRIVATE_THREADS, CREATE_PUBLIC_THREADS, VIEW_CHANNEL,
};
use crate::support::discord::{ADA, BOT_ID, ChannelKind, Discord, Id, Order, SEND, Whom};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::{ScriptedFault, TlsFront};
use crate::support::{Daemon, Ran, SESSION, acp, seed_session};

fn text_channel(api: &Discord, guild: Id) -> Id {
    api.text_channel(guild, "work")
}

fn start(bot: &DiscordBot) -> Daemon {
    let daemon = bot.home.start();
    bot.api.until_listening();
    daemon
}

fn hand_off(bot: &DiscordBot) -> Ran {
    let words = ["handoff", "discord", "--session", SESSION];
    bot.home.hermesctl(&words)
}

/// The only thread of the home channel.
fn thread(bot: &DiscordBot) -> Id {
    let threads = bot.api.threads(bot.channel);
    assert_eq!(threads.len(), 1, "{threads:?}");
    threads[0].id
}

#[tokio::test]
async fn words_after_a_dropped_connection_are_answered_once() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    let _daemon = start(&bot);
    assert_eq!(hand_off(&bot).code, 0);
    let thread = thread(&bot);
    for (order, words) in [
        (Order::Drop, "after a drop"),
        (Order::Reconnect, "after a reconnect"),
        (Order::Close(4000), "after an error"),
        (Order::Invalidate(false), "after a lost session"),
    ] {
        bot.api.orders(order);
        bot.api.says(thread, &ADA, words);
        bot.api.until_message(thread, |m| m.content.contains(words));
    }
    let answers = bot.api.messages_in(thread);
    assert_eq!(answers.len(), 5, "{answers:?}");
}

#[tokio::test]
async fn words_of_the_time_without_a_daemon_are_answered_in_order() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    let daemon = start(&bot);
    assert_eq!(hand_off(&bot).code, 0);
    let thread = thread(&bot);
    bot.api.says(thread, &ADA, "first");
    bot.api
        .until_message(thread, |m| m.content.contains("first"));
    daemon.kill();
    bot.api.forgets_sessions();
    bot.api.says(thread, &ADA, "second");
    bot.api.says(thread, &ADA, "third");
    let _daemon = start(&bot);
    bot.api
        .until_message(thread, |m| m.content.contains("third"));
    let answers = bot.api.messages_in(thread);
    let of = |words: &str| {
        answers
            .iter()
            .filter(|m| m.content.contains(words))
            .map(|m| m.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of("first").len(), of("second").len(), of("third").len()),
        (1, 1, 1),
        "{answers:?}"
    );
    assert!(of("second") < of("third"), "{answers:?}");
}

#[tokio::test]
async fn a_connection_without_acknowledgements_is_replaced() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    bot.api
        .change(|world| world.gateway.heartbeat_interval = Duration::from_millis(200));
    let _daemon = start(&bot);
    assert_eq!(hand_off(&bot).code, 0);
    let calls = bot.api.calls_of("gateway").len();
    bot.api.acknowledges(false);
    bot.api.until_calls("gateway", calls + 1);
    bot.api.acknowledges(true);
    let thread = thread(&bot);
    bot.api.says(thread, &ADA, "still here?");
    bot.api
        .until_message(thread, |m| m.content.contains("still here?"));
}

#[tokio::test]
async fn a_forum_gets_a_post_with_a_tag() {
    let bot = DiscordBot::at_home(|api, guild| {
        let forum = api.channel(guild, ChannelKind::Forum, "plans");
        api.tag(forum, "session");
        api.requires_tags(forum);
        forum
    });
    seed_session(&bot.home).await;
    let _daemon = start(&bot);
    let handed = hand_off(&bot);
    assert_eq!(handed.code, 0, "{handed:?}");
    let post = thread(&bot);
    bot.api.says(post, &ADA, "and now?");
    bot.api
        .until_message(post, |m| m.content.contains("and now?"));
}

#[tokio::test]
async fn a_private_thread_has_its_owner_in_it() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    let whom = Whom::Member(BOT_ID);
    bot.api
        .overwrites(bot.channel, whom, 0, CREATE_PUBLIC_THREADS);
    let _daemon = start(&bot);
    let handed = hand_off(&bot);
    assert_eq!(handed.code, 0, "{handed:?}");
    let threads = bot.api.threads(bot.channel);
    assert!(threads[0].is_private, "{threads:?}");
    assert!(threads[0].members.contains(&ADA.id), "{threads:?}");
    let stray = bot.api.messages_in(bot.channel);
    assert!(stray.is_empty(), "{stray:?}");
}

#[tokio::test]
async fn without_threads_the_channel_itself_is_used_and_the_reason_recorded() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    let threads = CREATE_PUBLIC_THREADS | CREATE_PRIVATE_THREADS;
    bot.api
        .overwrites(bot.channel, Whom::Member(BOT_ID), 0, threads);
    let _daemon = start(&bot);
    let handed = hand_off(&bot);
    assert_eq!(handed.code, 0, "{handed:?}");
    assert!(handed.stdout.contains("50013"), "{handed:?}");
    let said = bot.api.messages_in(bot.channel);
    assert_eq!(said.len(), 1, "no stray message: {said:?}");
}

#[tokio::test]
async fn a_handoff_that_its_owner_cannot_see_fails() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    bot.api
        .overwrites(bot.channel, Whom::Member(ADA.id), 0, VIEW_CHANNEL);
    let _daemon = start(&bot);
    let handed = hand_off(&bot);
    assert_eq!(handed.code, 4, "{handed:?}");
    assert!(handed.stderr.contains("View Channel"), "{handed:?}");
    assert!(bot.api.threads(bot.channel).is_empty());
}

#[tokio::test]
async fn the_id_of_a_person_as_home_opens_the_private_chat() {
    let bot = DiscordBot::at_home(|_, _| ADA.id);
    seed_session(&bot.home).await;
    let _daemon = start(&bot);
    let handed = hand_off(&bot);
    assert_eq!(handed.code, 0, "{handed:?}");
    let chat = bot.api.direct(&ADA);
    bot.api.says(chat, &ADA, "and now?");
    let answer = bot
        .api
        .until_message(chat, |m| m.content.contains("and now?"));
    assert!(
        answer.content.contains("I remember 6 messages"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_question_is_answered_by_the_press_of_a_button() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api.until_listening();
    let chat = bot.api.direct(&ADA);
    bot.api.says(chat, &ADA, "permission please");
    let asked = bot.api.until_message(chat, |m| !m.buttons.is_empty());
    let press = bot.api.presses(chat, asked.id, &ADA, "No");
    bot.api
        .until_message(chat, |m| m.content.contains("You chose the-reject"));
    assert!(bot.api.interaction(press).answered.is_some());
    bot.api
        .until_message(chat, |m| m.id == asked.id && m.buttons.is_empty());
}

#[tokio::test]
async fn a_missing_intent_is_named() {
    let bot = DiscordBot::at_home(text_channel);
    bot.api.portal(0);
    let _daemon = bot.home.start();
    crate::support::until("the platform is down", || {
        let shown = bot.home.hermesctl(&["platforms"]);
        shown
            .stdout
            .contains("Message Content Intent")
            .then_some(())
    });
}

#[tokio::test]
async fn doctor_names_each_missing_permission() {
    let bot = DiscordBot::at_home(text_channel);
    bot.api
        .overwrites(bot.channel, Whom::Member(BOT_ID), 0, CREATE_PUBLIC_THREADS);
    let _daemon = start(&bot);
    let shown = bot.home.hermesctl(&["doctor"]);
    assert!(shown.stdout.contains("Create Public Threads"), "{shown:?}");
    assert!(
        !shown.stdout.contains("Send Messages in Threads"),
        "{shown:?}"
    );
}

#[tokio::test]
async fn a_refused_send_keeps_the_reply_until_discord_takes_it() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    let _daemon = start(&bot);
    assert_eq!(hand_off(&bot).code, 0);
    let thread = thread(&bot);
    bot.api
        .then(SEND, ScriptedFault::Refuse(502, "Bad Gateway"));
    bot.api.says(thread, &ADA, "patience");
    bot.api
        .until_message(thread, |m| m.content.contains("patience"));
    let answers = bot.api.messages_in(thread).into_iter();
    assert_eq!(
        answers.filter(|m| m.content.contains("patience")).count(),
        1
    );
}

/// A proxy with a certificate of a private authority, which the system's trust store has.
#[test]
fn the_gateway_and_the_api_are_reached_through_tls() {
    let bot = DiscordBot::at_home(text_channel);
    let front = TlsFront::start(&bot.api);
    bot.api.change(|world| world.url = front.url());
    let toml = format!("[platforms.discord]\nbase_url = \"{}\"\n", front.url());
    bot.home.write(".config/hermesd/hermesd.toml", &toml);
    bot.home.write("authority.pem", &front.authority);
    let store = bot.home.path().join("authority.pem").display().to_string();
    let _daemon = bot.home.start_with(&[("SSL_CERT_FILE", &store)]);
    bot.api.until_listening();
    let chat = bot.api.direct(&ADA);
    bot.api.says(chat, &ADA, "hello");
    bot.api.until_message(chat, |m| m.content.contains("hello"));
}

#[tokio::test]
async fn a_deleted_message_that_waits_is_not_answered() {
    let bot = DiscordBot::at_home(text_channel);
    seed_session(&bot.home).await;
    let _daemon = start(&bot);
    assert_eq!(hand_off(&bot).code, 0);
    let thread = thread(&bot);
    let sent = bot.api.calls_of(SEND).len();
    let held = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    bot.api.then(SEND, ScriptedFault::HoldBefore(held.clone()));
    bot.api.says(thread, &ADA, "first");
    bot.api.until_calls(SEND, sent + 1);
    let taken_back = bot.api.says(thread, &ADA, "taken back");
    bot.api.deletes_message(thread, taken_back);
    bot.api.says(thread, &ADA, "third");
    let waits = "SELECT count(*) FROM hermesd_inbound WHERE text LIKE '%third%'";
    crate::support::until("it waits", || (bot.look::<i64>(waits) == 1).then_some(()));
    held.add_permits(1);
    bot.api
        .until_message(thread, |m| m.content.contains("third"));
    let answers = bot.api.messages_in(thread);
    let answered = answers.iter().any(|m| m.content.contains("taken back"));
    assert!(!answered, "{answers:?}");
}
