//! Cases that are easy to miss. Each test says what a person would see.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::homes::{assert_refused, without};
use super::turn_kills::survives_a_kill_at_every_call;
use crate::support::discord::permissions::{CREATE_PUBLIC_THREADS, SEND_MESSAGES, VIEW_CHANNEL};
use crate::support::discord::sessions::STARTS;
use crate::support::discord::{ADA, BOT_ID, ChannelKind, Order, SEND, Whom};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::{ScriptedFault, Side};
use crate::support::{SESSION, seed_session, until};

const ADD_MEMBER: &str = "PUT /channels/{}/thread-members/{}";

#[tokio::test]
async fn a_forum_in_which_the_bot_cannot_post_is_named_with_the_permission() {
    let forum = DiscordBot::in_channel(ChannelKind::Forum);
    let bot = without(forum, SEND_MESSAGES).await;
    let _daemon = bot.start();
    assert_refused(&bot, &["50013", "missing permission"]);
}

#[tokio::test]
async fn a_voice_channel_that_its_owner_cannot_see_refuses_the_handoff() {
    let bot = without(DiscordBot::in_channel(ChannelKind::Voice), 0).await;
    bot.api
        .overwrites(bot.channel, Whom::Member(ADA.id), 0, VIEW_CHANNEL);
    let _daemon = bot.start();
    assert_refused(&bot, &["View Channel"]);
}

#[tokio::test]
async fn a_private_thread_as_home_without_its_owner_refuses_the_handoff() {
    let bot = DiscordBot::at_home(|api, guild| {
        let channel = api.text_channel(guild, "work");
        let thread = api.opens_private_thread(channel, &crate::support::discord::BEN, "secrets");
        api.says(
            thread,
            &crate::support::discord::BEN,
            &format!("<@{BOT_ID}> hello"),
        );
        thread
    });
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    assert_refused(&bot, &["owner"]);
}

/// The first words ever, so that no position is stored yet.
#[tokio::test]
async fn the_first_words_in_a_thread_are_heard_though_the_daemon_was_away() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    bot.until_all_sent();
    daemon.kill();
    bot.api.until_quiet();
    bot.api.forgets_sessions();
    bot.api.says(thread, &ADA, "are you there?");
    let _daemon = bot.start();
    bot.heard(thread, "are you there?");
}

#[tokio::test]
async fn the_first_words_in_a_thread_are_heard_though_the_session_was_lost() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    bot.api.orders(Order::Invalidate(false));
    bot.api.says(thread, &ADA, "are you there?");
    bot.heard(thread, "are you there?");
}

/// Discord allows one start in five seconds, and counts those that it refuses.
#[tokio::test]
async fn a_session_is_begun_anew_after_the_distance_that_discord_wants() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    bot.api
        .change(|world| world.gateway.between_starts = Duration::from_secs(5));
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    bot.asks(thread, "before");
    bot.api.orders(Order::Invalidate(false));
    bot.asks(thread, "after a lost session");
    let used = STARTS - bot.api.world().gateway.starts_left;
    assert_eq!(used, 2, "starts");
}

fn is_first_draft(call: &str) -> bool {
    call == SEND
}

#[tokio::test]
async fn a_turn_survives_a_kill_before_its_first_draft() {
    survives_a_kill_at_every_call(Side::Before, is_first_draft).await;
}

#[tokio::test]
async fn a_turn_survives_a_kill_after_its_first_draft() {
    survives_a_kill_at_every_call(Side::After, is_first_draft).await;
}

/// The thread tells who was brought in, so it is not without a message.
#[tokio::test]
async fn a_private_thread_of_a_killed_handoff_is_used_again() {
    let bot = without(DiscordBot::in_text_channel(), CREATE_PUBLIC_THREADS).await;
    let daemon = bot.start();
    bot.api.then(
        ADD_MEMBER,
        ScriptedFault::HoldAfter(Arc::new(Semaphore::new(0))),
    );
    let words = ["handoff", "discord", "--session", SESSION, "--no-wait"];
    assert_eq!(bot.home.hermesctl(&words).code, 0);
    bot.api.until_ended(ADD_MEMBER, 1);
    daemon.kill();
    bot.api.until_quiet();
    let _daemon = bot.start();
    until("the handoff ends", || {
        let state: String = bot.look("SELECT state FROM hermesd_handoffs");
        (state == "completed").then_some(())
    });
    let threads = bot.api.threads(bot.channel);
    assert_eq!(threads.len(), 1, "{threads:?}");
}

/// The message with which a thread begins belongs to it.
#[tokio::test]
async fn a_failed_handoff_leaves_no_message_in_the_channel() {
    let (bot, _daemon) =
        super::homes::failing(crate::support::discord::permissions::MANAGE_THREADS).await;
    let refusal = ScriptedFault::Refuse(403, "50013 Missing Permissions");
    bot.api.then("POST /channels/{}/threads", refusal);
    super::homes::fails(&bot, |_| ());
    until("the thread and its message are gone", || {
        let is_empty = bot.api.threads(bot.channel).is_empty();
        (is_empty && bot.texts(bot.channel).is_empty()).then_some(())
    });
}

/// Discord recognises the repeat, and says that the message is not there any more.
#[tokio::test]
async fn a_reply_that_somebody_deleted_is_not_taken_for_a_deleted_thread() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    bot.until_all_sent();
    let gate = Arc::new(Semaphore::new(0));
    bot.api
        .then(SEND, ScriptedFault::DisconnectAfter)
        .then(SEND, ScriptedFault::HoldBefore(gate.clone()));
    bot.api.says(thread, &ADA, "tell me a secret");
    let said = bot.answered(thread, "tell me a secret");
    bot.api.deletes_message(thread, said.id);
    gate.add_permits(1);
    bot.until_all_sent();
    bot.asks(thread, "and now?");
    assert_eq!(bot.texts(bot.channel), [""; 0], "not said to all");
}

#[tokio::test]
async fn a_mention_in_code_calls_nobody() {
    let bot = DiscordBot::in_text_channel();
    let _daemon = bot.start_with(&[("DISCORD_AUTO_THREAD", "false")]);
    let code = format!("a mention is written `<@{BOT_ID}>`");
    bot.api.says(bot.channel, &ADA, &code);
    bot.api
        .says(bot.channel, &ADA, &DiscordBot::called("hello"));
    bot.answered(bot.channel, "hello");
    assert_eq!(
        bot.texts(bot.channel).len(),
        1,
        "{:?}",
        bot.texts(bot.channel)
    );
}
