//! `kill -9` of a real daemon on either side of every call of a turn. Discord recognises a repeat, so there is one reply.

use crate::support::discord::{ADA, Id, SEND};
use crate::support::discord_bot::DiscordBot;
use crate::support::fake::Side;
use crate::support::{seed_session, until};

const PACE: (&str, &str) = ("HERMESD_AGENT_ECHO_PACE", "20ms");
const WORDS: usize = 170;

/// Long enough for its answer to be shown while it is written.
fn long() -> String {
    let words: Vec<String> = (0..WORDS).map(|n| format!("word{n}")).collect();
    words.join(" ")
}

fn sent(bot: &DiscordBot) -> i64 {
    bot.look("SELECT count(*) FROM hermesd_deliveries WHERE state = 'sent' AND send_key LIKE 'inbound:%'")
}

/// Says something in the thread of a handoff, kills the daemon at the nth call while it is answered, and starts another.
/// Gives the name of the call, if there was one, and what is wrong then.
async fn answer_killed_at(nth: usize, side: Side) -> (Option<String>, Vec<String>) {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let daemon = bot.start_with(&[PACE]);
    let thread = bot.hand_off_to_thread();
    bot.until_all_sent();
    let earlier = bot.api.calls().len();
    let held = bot.api.hold(nth, side);
    bot.api.says(thread, &ADA, &long());
    let reached = until("the call, or the answer", || {
        let reached = held.reached();
        (reached || sent(&bot) == 1).then_some(reached)
    });
    let calls = bot.api.calls().split_off(earlier).into_iter();
    let mut calls = calls.filter(|call| call.method != "gateway");
    let call = calls.nth(nth).filter(|_| reached).map(|call| call.method);
    daemon.kill();
    bot.api.until_quiet();
    held.let_go();
    let _daemon = bot.start();
    until("the answer is sent", || (sent(&bot) == 1).then_some(()));
    (call, faults(&bot, thread))
}

/// What is not as after a turn that nothing has disturbed.
fn faults(bot: &DiscordBot, thread: Id) -> Vec<String> {
    let mut faults = Vec::new();
    for (sql, count) in [
        ("SELECT count(*) FROM sessions", 1),
        ("SELECT count(*) FROM hermesd_inbound", 1),
        ("SELECT count(*) FROM messages WHERE active = 1", 8),
    ] {
        let found = bot.look::<i64>(sql);
        if found != count {
            faults.push(format!("{sql}: {found}"));
        }
    }
    let whole = format!("You said: {}\n(I remember 6 messages", long());
    let is_whole = |text: &&String| text.starts_with(&whole);
    if bot.answers(thread).iter().filter(is_whole).count() != 1 {
        faults.push("there is no plain reply".to_owned());
    }
    let others = bot.texts(thread).split_off(1).into_iter();
    let shown = others.map(|text| format!("{} … {}", head(&text), tail(&text)));
    let shown: Vec<String> = shown.collect();
    if shown.len() != 1 {
        faults.push(format!("{} messages: {shown:?}", shown.len()));
    }
    faults
}

fn head(text: &str) -> String {
    text.chars().take(30).collect()
}

fn tail(text: &str) -> String {
    let count = text.chars().count();
    text.chars().skip(count.saturating_sub(20)).collect()
}

/// Kills at every call for which `counts` is true.
pub async fn survives_a_kill_at_every_call(side: Side, counts: fn(&str) -> bool) {
    let mut all = Vec::new();
    for nth in 0.. {
        let (call, faults) = answer_killed_at(nth, side).await;
        let Some(call) = call else { break };
        all.push((nth, call, faults));
    }
    assert!(all.len() >= 4, "{all:?}");
    all.retain(|(_, call, faults)| counts(call) && !faults.is_empty());
    assert!(all.is_empty(), "{side:?}: {all:#?}");
}

/// The first message of a turn is what is written so far.
fn is_not_first_draft(call: &str) -> bool {
    call != SEND
}

#[tokio::test]
async fn a_turn_survives_a_kill_before_every_call() {
    survives_a_kill_at_every_call(Side::Before, is_not_first_draft).await;
}

#[tokio::test]
async fn a_turn_survives_a_kill_after_every_call() {
    survives_a_kill_at_every_call(Side::After, is_not_first_draft).await;
}

/// Without a draft, the reply itself is the first message.
async fn whole_answer_killed_at(nth: usize, side: Side) -> bool {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let daemon = bot.start();
    bot.until_settled();
    let private = bot.api.direct(&ADA);
    let held = bot.api.hold(nth, side);
    bot.api.says(private, &ADA, "hello");
    let reached = until("the call, or the answer", || {
        let reached = held.reached();
        (reached || sent(&bot) == 1).then_some(reached)
    });
    daemon.kill();
    bot.api.until_quiet();
    held.let_go();
    let _daemon = bot.start();
    bot.asks(private, "and more");
    bot.until_all_sent();
    let texts = bot.texts(private);
    assert_eq!(texts.len(), 2, "{side:?} {nth}: {texts:?}");
    assert!(texts[0].starts_with("You said: hello\n"), "{texts:?}");
    reached
}

#[tokio::test]
async fn a_reply_that_does_not_stream_survives_a_kill_at_every_call() {
    for side in [Side::Before, Side::After] {
        let mut calls = 0;
        while whole_answer_killed_at(calls, side).await {
            calls += 1;
        }
        assert!(calls >= 1, "the reply is sent");
    }
}
