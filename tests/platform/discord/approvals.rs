//! An agent that asks before it acts, in a thread: its owner decides, and nobody else.

use crate::support::discord::{ADA, BEN, BotMessage, Id};
use crate::support::discord_bot::DiscordBot;
use crate::support::{Daemon, acp, seed_session, until};

/// A thread with the tests' own agent. Ben is a guest there, by his role.
async fn thread() -> (DiscordBot, Id, Daemon) {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let guild = bot.guild();
    let role = bot.api.role(guild, "Guests", 0);
    bot.api.gives_role(guild, BEN.id, role);
    let allowed = role.to_string();
    let daemon = acp::start(&bot.home, "plain", &[("DISCORD_ALLOWED_ROLES", &allowed)]);
    bot.api.until_listening();
    let thread = bot.hand_off_to_thread();
    (bot, thread, daemon)
}

fn asked(bot: &DiscordBot, thread: Id) -> BotMessage {
    bot.api.until_message(thread, |m| !m.buttons.is_empty())
}

/// Waits for what a press was answered with, which only the person sees.
fn whisper(bot: &DiscordBot, press: Id) -> String {
    until("an answer to the press", || {
        let record = bot.api.interaction(press);
        record.answered?;
        Some(record.whispers.concat())
    })
}

#[tokio::test]
async fn the_owner_decides_and_the_press_of_a_guest_is_refused() {
    let (bot, thread, _daemon) = thread().await;
    bot.api.says(thread, &ADA, "permission please");
    let question = asked(&bot, thread);
    assert!(question.content.contains("rm -rf"), "{question:?}");
    let of_guest = bot.api.presses(thread, question.id, &BEN, "Yes");
    let told = whisper(&bot, of_guest);
    assert_eq!(told, "This question is not for you.");
    assert_eq!(acp::outcomes(&bot.home).len(), 0);
    let of_owner = bot.api.presses(thread, question.id, &ADA, "Yes");
    bot.answered(thread, "You chose the-allow_once");
    bot.api.until_message(thread, |m| {
        m.id == question.id && m.buttons.is_empty() && m.content.ends_with("→ Yes")
    });
    whisper(&bot, of_owner);
    assert_eq!(acp::outcomes(&bot.home).len(), 1);
}

#[tokio::test]
async fn a_guest_does_not_approve_what_they_asked_for() {
    let (bot, thread, _daemon) = thread().await;
    bot.api.says(thread, &BEN, "permission please");
    let question = asked(&bot, thread);
    let own = bot.api.presses(thread, question.id, &BEN, "Yes");
    assert_eq!(whisper(&bot, own), "This question is not for you.");
    assert_eq!(acp::outcomes(&bot.home).len(), 0);
    bot.api.presses(thread, question.id, &ADA, "No");
    bot.answered(thread, "You chose the-reject_once");
}

#[tokio::test]
async fn a_press_on_a_question_that_is_closed_says_so() {
    let (bot, thread, _daemon) = thread().await;
    bot.api.says(thread, &ADA, "permission please");
    let question = asked(&bot, thread);
    let (_, key) = question.buttons[0][0].clone();
    // Another device still shows the buttons, so the press is on its way when the question is answered.
    bot.api.says(thread, &ADA, "3");
    bot.answered(thread, "You chose the-reject_once");
    let stale = bot.api.presses_with(thread, question.id, &ADA, &key);
    assert_eq!(whisper(&bot, stale), "That question is no longer open.");
    assert_eq!(acp::outcomes(&bot.home).len(), 1);
}
