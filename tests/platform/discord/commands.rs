//! Native commands, and the buttons below their answers, with the built binaries.

use serde_json::Value;

use crate::support::discord::{ADA, BEN, Discord, Id, World};
use crate::support::discord_bot::DiscordBot;
use crate::support::{SESSION, TITLE, add_session, seed_session, until};

fn text_channel(api: &Discord, guild: Id) -> Id {
    api.text_channel(guild, "work")
}

/// Everyone sees the commands, not only administrators.
fn at_home() -> DiscordBot {
    let bot = DiscordBot::at_home(text_channel);
    set_commands(&bot, "everyone");
    bot
}

fn set_commands(bot: &DiscordBot, visible: &str) {
    let url = bot.api.url();
    let toml =
        format!("[platforms.discord]\nbase_url = \"{url}\"\nnative_commands = \"{visible}\"\n");
    bot.home.write(".config/hermesd/hermesd.toml", &toml);
}

fn until_registered(bot: &DiscordBot) {
    let has = |world: &World| world.commands.iter().any(|c| c.name == "help");
    bot.api
        .until("the commands", || has(&bot.api.world()).then_some(()));
    bot.api.until_listening();
}

fn calls(bot: &DiscordBot, method: &str) -> usize {
    bot.api.calls_of(method).len()
}

const REGISTER: &str = "POST /applications/{}/commands";

#[test]
fn commands_are_registered_once_and_those_of_others_stay() {
    let bot = DiscordBot::at_home(text_channel);
    bot.api.has_command("weather", "Shows the weather");
    let daemon = bot.home.start();
    until_registered(&bot);
    let registered = calls(&bot, REGISTER);
    assert!(registered >= 8, "{registered}");
    let names =
        |world: &World| -> Vec<String> { world.commands.iter().map(|c| c.name.clone()).collect() };
    let all = names(&bot.api.world());
    assert!(all.contains(&"weather".to_owned()) && all.contains(&"resume".to_owned()));
    let of_resume = |world: &World| -> Value {
        let mut commands = world.commands.iter();
        commands.find(|c| c.name == "resume").unwrap().value.clone()
    };
    let resume = of_resume(&bot.api.world());
    // Only administrators see it.
    assert_eq!(resume["default_member_permissions"], "0");
    assert_eq!(resume["options"][0]["name"], "name");
    daemon.kill();
    let _daemon = bot.home.start();
    let lists = calls(&bot, "GET /applications/{}/commands");
    bot.api
        .until_calls("GET /applications/{}/commands", lists.max(2));
    bot.api.until_listening();
    assert_eq!(calls(&bot, REGISTER), registered);
}

#[test]
fn commands_are_taken_back_when_they_are_switched_off() {
    let bot = at_home();
    bot.api.has_command("weather", "Shows the weather");
    let daemon = bot.home.start();
    until_registered(&bot);
    daemon.kill();
    set_commands(&bot, "off");
    let _daemon = bot.home.start();
    bot.api.until("the commands are gone", || {
        let world = bot.api.world();
        let names: Vec<&str> = world.commands.iter().map(|c| c.name.as_str()).collect();
        (names == ["weather"]).then_some(())
    });
}

#[tokio::test]
async fn a_native_command_is_confirmed_and_answered_in_place() {
    let bot = at_home();
    seed_session(&bot.home).await;
    let _daemon = bot.home.start();
    until_registered(&bot);
    let handed = bot
        .home
        .hermesctl(&["handoff", "discord", "--session", SESSION]);
    assert_eq!(handed.code, 0, "{handed:?}");
    let thread = bot.api.threads(bot.channel)[0].id;
    let before = bot.api.messages_in(thread).len();
    let run = bot.api.runs(thread, &ADA, "status", &[]);
    let answer = bot
        .api
        .until_message(thread, |m| m.content.contains(SESSION));
    assert_eq!(bot.api.interaction(run).answered, Some(5));
    let messages = bot.api.messages_in(thread);
    assert_eq!(messages.len(), before + 1, "{messages:?}");
    assert_eq!(answer.reply_to, None);
    let run = bot
        .api
        .runs(thread, &ADA, "title", &[("text", "A new name")]);
    bot.api
        .until_message(thread, |m| m.content.contains("A new name"));
    assert_eq!(bot.api.interaction(run).answered, Some(5));
    let named: String = bot.look("SELECT title FROM sessions");
    assert_eq!(named, "A new name");
    let stored: i64 =
        bot.look("SELECT count(*) FROM hermesd_inbound WHERE source LIKE '%interaction-%'");
    assert_eq!(stored, 0, "the credential of an interaction is in no row");
}

#[tokio::test]
async fn a_stranger_is_refused_in_private_and_nothing_is_stored() {
    let bot = at_home();
    seed_session(&bot.home).await;
    let _daemon = bot.home.start();
    until_registered(&bot);
    let run = bot.api.runs(bot.channel, &BEN, "sessions", &[]);
    bot.api.until("an answer", || {
        bot.api.interaction(run).answered.is_some().then_some(())
    });
    let record = bot.api.interaction(run);
    assert_eq!(record.whispers, ["This is not for you."]);
    assert!(bot.api.messages_in(bot.channel).is_empty());
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM hermesd_inbound"), 0);
}

#[tokio::test]
async fn a_command_that_is_unknown_here_is_answered() {
    let bot = at_home();
    bot.api.has_command("weather", "Shows the weather");
    let _daemon = bot.home.start();
    until_registered(&bot);
    let chat = bot.api.direct(&ADA);
    bot.api.runs(chat, &ADA, "weather", &[]);
    bot.api
        .until_message(chat, |m| m.content.contains("no command /weather"));
}

#[tokio::test]
async fn a_session_is_chosen_by_button_and_the_buttons_are_disabled() {
    let bot = at_home();
    seed_session(&bot.home).await;
    add_session(&bot.home, "second", "Another plan");
    let _daemon = bot.home.start();
    until_registered(&bot);
    let chat = bot.api.direct(&ADA);
    bot.api.runs(chat, &ADA, "resume", &[]);
    let asked = bot.api.until_message(chat, |m| !m.buttons.is_empty());
    let press = bot.api.presses(chat, asked.id, &ADA, TITLE);
    bot.api
        .until_message(chat, |m| m.content.contains("is here now"));
    let settled = bot
        .api
        .until_message(chat, |m| m.id == asked.id && m.buttons.is_empty());
    assert!(settled.disabled.contains(&TITLE.to_owned()), "{settled:?}");
    assert_eq!(bot.api.interaction(press).answered, Some(6));
    bot.api.says(chat, &ADA, "and now?");
    let answer = bot
        .api
        .until_message(chat, |m| m.content.contains("and now?"));
    assert!(answer.content.contains("I remember"), "{answer:?}");
}

#[tokio::test]
async fn retry_and_stop_confirm_what_they_do() {
    let bot = at_home();
    let _daemon = bot.home.start();
    until_registered(&bot);
    let chat = bot.api.direct(&ADA);
    bot.api.says(chat, &ADA, "hello");
    bot.api.until_message(chat, |m| m.content.contains("hello"));
    let run = bot.api.runs(chat, &ADA, "retry", &[]);
    bot.api.until("a second answer", || {
        let answers = bot.api.messages_in(chat).into_iter();
        (answers.filter(|m| m.content.contains("hello")).count() == 2).then_some(())
    });
    let record = bot.api.interaction(run);
    assert_eq!((record.answered, record.whispers.len()), (Some(4), 1));
    bot.api.runs(chat, &ADA, "stop", &[]);
    bot.api
        .until_message(chat, |m| m.content.contains("nothing to stop"));
}

/// A daemon that dies between the confirmation and the answer answers with a message of its own.
#[tokio::test]
async fn a_command_survives_a_kill() {
    use crate::support::fake::ScriptedFault;
    let bot = at_home();
    seed_session(&bot.home).await;
    let daemon = bot.home.start();
    until_registered(&bot);
    let chat = bot.api.direct(&ADA);
    let held = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    const ANSWER: &str = "PATCH /webhooks/{}/{}/messages/@original";
    bot.api
        .then(ANSWER, ScriptedFault::HoldBefore(held.clone()));
    bot.api.runs(chat, &ADA, "help", &[]);
    bot.api.until_calls(ANSWER, 1);
    daemon.kill();
    held.add_permits(1);
    bot.api.until_quiet();
    let _daemon = bot.home.start();
    until("the answer", || {
        let answers = bot.api.messages_in(chat).into_iter();
        let count = answers.filter(|m| m.content.contains("/resume")).count();
        (count >= 1).then_some(())
    });
}
