//! A session leaves its thread: for the terminal, and for a chat on another platform.

use crate::support::discord::{ADA, TOKEN};
use crate::support::discord_bot::DiscordBot;
use crate::support::telegram::{ADA as ADA_ON_TELEGRAM, BotApi, TOKEN as TELEGRAM_TOKEN};
use crate::support::{SESSION, TITLE, seed_session};

#[tokio::test]
async fn a_session_comes_home_and_its_thread_knows() {
    let bot = DiscordBot::in_text_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let thread = bot.hand_off_to_thread();
    bot.goes_on(thread, "said on the phone");
    let resumed = bot.home.hermesctl(&["--json", "resume"]).json();
    assert_eq!(resumed["came_from"], "discord", "{resumed}");
    assert_eq!(resumed["session"]["id"], SESSION);
    bot.answered(thread, "moved back to the terminal. Send /resume");
    let rows: i64 = bot.look("SELECT count(*) FROM messages");
    bot.api.says(thread, &ADA, "is anybody there?");
    let told = bot.answered(thread, "was not passed on");
    assert!(
        told.content.contains("moved back to the terminal"),
        "{told:?}"
    );
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM messages"), rows);
    // It comes back to where it was.
    bot.api.says(thread, &ADA, "/resume");
    bot.answered(thread, &format!("\"{TITLE}\" is here now"));
    bot.asks(thread, "hello again");
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM sessions"), 1);
    assert_eq!(bot.api.threads(bot.channel).len(), 1);
}

/// One home with a bot on Discord and one on Telegram. Both are Ada's.
fn on_both() -> (DiscordBot, BotApi, i64) {
    let bot = DiscordBot::in_text_channel();
    let telegram = BotApi::start();
    let chat = telegram.private(&ADA_ON_TELEGRAM);
    let env = format!(
        "DISCORD_BOT_TOKEN={TOKEN}\nDISCORD_ALLOWED_USERS={}\nDISCORD_HOME_CHANNEL={}\n\
         TELEGRAM_BOT_TOKEN={TELEGRAM_TOKEN}\nTELEGRAM_ALLOWED_USERS={}\nTELEGRAM_HOME_CHANNEL={chat}\n",
        ADA.id, bot.channel, ADA_ON_TELEGRAM.id
    );
    bot.home.write(".env", &env);
    let url = telegram.hermes_base_url();
    let yaml = format!("platforms:\n  telegram:\n    extra:\n      base_url: {url}\n");
    bot.home.write("config.yaml", &yaml);
    (bot, telegram, chat)
}

#[tokio::test]
async fn a_session_goes_from_discord_to_telegram_and_back() {
    let (bot, telegram, chat) = on_both();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    telegram.until_polled();
    let thread = bot.hand_off_to_thread();
    bot.goes_on(thread, "on discord");

    let words = format!("/resume {TITLE}");
    telegram.says(chat, None, &ADA_ON_TELEGRAM, &words);
    telegram.until_message(chat, None, |m| m.text.contains("is here now"));
    bot.answered(thread, "moved to telegram");
    telegram.says(chat, None, &ADA_ON_TELEGRAM, "on telegram");
    let answer = telegram.until_message(chat, None, |m| m.text.contains("on telegram"));
    assert!(answer.text.contains("I remember 8 messages"), "{answer:?}");
    bot.api.says(thread, &ADA, "and here?");
    let told = bot.answered(thread, "was not passed on");
    assert!(told.content.contains("moved to telegram"), "{told:?}");

    bot.api.says(thread, &ADA, "/resume");
    bot.answered(thread, &format!("\"{TITLE}\" is here now"));
    telegram.until_message(chat, None, |m| m.text.contains("moved to discord"));
    let answer = bot.asks(thread, "back again");
    assert!(
        answer.content.contains("I remember 10 messages"),
        "{answer:?}"
    );
    assert_eq!(bot.look::<i64>("SELECT count(*) FROM sessions"), 1);
    let key: String = bot.look("SELECT session_key FROM sessions");
    assert_eq!(key, format!("agent:main:discord:thread:{thread}:{thread}"));
}

#[tokio::test]
async fn a_session_goes_from_telegram_to_a_private_chat_on_discord() {
    let (bot, telegram, chat) = on_both();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    telegram.until_polled();
    let words = ["handoff", "telegram", "--session", SESSION];
    let handed = bot.home.hermesctl(&words);
    assert_eq!(handed.code, 0, "{handed:?}");
    let private = bot.api.direct(&ADA);
    bot.api.says(private, &ADA, &format!("/resume {TITLE}"));
    bot.answered(private, "is here now");
    telegram.until_message(chat, None, |m| m.text.contains("moved to discord"));
    let answer = bot.asks(private, "and now?");
    assert!(
        answer.content.contains("I remember 6 messages"),
        "{answer:?}"
    );
}
