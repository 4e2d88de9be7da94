//! Mentions in channels and the threads that they open, replies, user names, and who is notified.

use crate::support::discord::permissions::CREATE_PUBLIC_THREADS;
use crate::support::discord::{ADA, BEN, BOT_ID, Discord, Id, Whom};
use crate::support::discord_bot::DiscordBot;
use crate::support::{Daemon, acp};

fn text_channel(api: &Discord, guild: Id) -> Id {
    api.text_channel(guild, "work")
}

fn start(bot: &DiscordBot) -> Daemon {
    let daemon = bot.home.start();
    bot.api.until_listening();
    daemon
}

fn mention(words: &str) -> String {
    format!("<@{BOT_ID}> {words}")
}

#[test]
fn a_mention_opens_a_thread_on_its_message_and_the_talk_goes_on_there() {
    let bot = DiscordBot::at_home(text_channel);
    let _daemon = start(&bot);
    let said = bot.api.says(bot.channel, &ADA, &mention("why is it red?"));
    let answer = bot
        .api
        .until_message(said, |m| m.content.contains("why is it red?"));
    assert_eq!(answer.reply_to, None, "the message is not in the thread");
    let threads = bot.api.threads(bot.channel);
    assert_eq!(threads[0].name, "why is it red?");
    bot.api.says(said, &ADA, "and green?");
    let answer = bot
        .api
        .until_message(said, |m| m.content.contains("and green?"));
    assert!(
        answer.content.contains("I remember 2 messages"),
        "{answer:?}"
    );
    let key: String = bot.look("SELECT DISTINCT session_key FROM hermesd_inbound");
    assert_eq!(key, format!("agent:main:discord:thread:{said}:{said}"));
    assert!(bot.api.messages_in(bot.channel).is_empty());
}

#[test]
fn a_repeated_mention_opens_one_thread_and_gets_one_answer() {
    let bot = DiscordBot::at_home(text_channel);
    let daemon = start(&bot);
    let said = bot.api.says(bot.channel, &ADA, &mention("once"));
    bot.api.until_message(said, |m| m.content.contains("once"));
    bot.api.repeat_last();
    daemon.kill();
    bot.api.repeat_last();
    let _daemon = start(&bot);
    bot.api.says(said, &ADA, "then");
    bot.api.until_message(said, |m| m.content.contains("then"));
    let answers = bot.api.messages_in(said);
    let once = answers.iter().filter(|m| m.content.contains("once"));
    assert_eq!(once.count(), 1, "{answers:?}");
}

#[test]
fn without_a_thread_the_mention_is_answered_in_the_channel() {
    for more in [
        "DISCORD_AUTO_THREAD=false\n",
        "DISCORD_NO_THREAD_CHANNELS=#work\n",
        "DISCORD_FREE_RESPONSE_CHANNELS=work\n",
        "",
    ] {
        let bot = DiscordBot::at_home(text_channel);
        bot.configure(more);
        if more.is_empty() {
            let whom = Whom::Member(BOT_ID);
            bot.api
                .overwrites(bot.channel, whom, 0, CREATE_PUBLIC_THREADS);
        }
        let _daemon = start(&bot);
        let said = bot.api.says(bot.channel, &ADA, &mention("here?"));
        let answer = bot
            .api
            .until_message(bot.channel, |m| m.content.contains("here?"));
        assert_eq!(answer.reply_to, Some(said), "{more}");
        assert!(bot.api.threads(bot.channel).is_empty(), "{more}");
    }
}

/// Without permission for threads, the handoff goes to the channel itself.
#[tokio::test]
async fn a_mention_continues_the_session_that_is_in_the_channel_itself() {
    use crate::support::discord::permissions::CREATE_PRIVATE_THREADS;
    let bot = DiscordBot::at_home(text_channel);
    crate::support::seed_session(&bot.home).await;
    let whom = Whom::Member(BOT_ID);
    let threads = CREATE_PUBLIC_THREADS | CREATE_PRIVATE_THREADS;
    bot.api.overwrites(bot.channel, whom, 0, threads);
    let _daemon = start(&bot);
    let words = ["handoff", "discord", "--session", crate::support::SESSION];
    let handed = bot.home.hermesctl(&words);
    assert_eq!(handed.code, 0, "{handed:?}");
    assert!(
        handed.stdout.contains("(Create Public Threads)"),
        "{handed:?}"
    );
    // Threads are possible again, and the session is in the channel.
    bot.api.overwrites(bot.channel, whom, 0, 0);
    bot.api.says(bot.channel, &ADA, &mention("and now?"));
    let answer = bot
        .api
        .until_message(bot.channel, |m| m.content.contains("and now?"));
    assert!(
        answer.content.contains("I remember 6 messages"),
        "{answer:?}"
    );
    assert!(bot.api.threads(bot.channel).is_empty());
}

#[test]
fn a_strangers_mention_opens_no_thread() {
    let bot = DiscordBot::at_home(text_channel);
    let _daemon = start(&bot);
    bot.api.says(bot.channel, &BEN, &mention("let me in"));
    let said = bot.api.says(bot.channel, &ADA, &mention("me"));
    bot.api.until_message(said, |m| m.content.contains("me"));
    assert_eq!(bot.api.threads(bot.channel).len(), 1);
}

#[test]
fn answers_refer_to_their_message_as_far_as_the_setting_says() {
    for (mode, first) in [("first", true), ("off", false), ("all", true)] {
        let bot = DiscordBot::at_home(text_channel);
        bot.configure(&format!("DISCORD_REPLY_TO_MODE={mode}\n"));
        let _daemon = start(&bot);
        let chat = bot.api.direct(&ADA);
        let long = "many words ".repeat(250);
        let said = bot.api.says(chat, &ADA, &long[..1900]);
        bot.api
            .until_message(chat, |m| m.content.contains("I remember"));
        let answers = bot.api.messages_in(chat);
        assert!(answers.len() >= 2, "{answers:?}");
        let refers: Vec<bool> = answers.iter().map(|m| m.reply_to == Some(said)).collect();
        assert_eq!(refers[0], first, "{mode} {answers:?}");
        assert_eq!(refers[1], mode == "all", "{mode} {answers:?}");
        assert!(answers.iter().all(|m| m.notified.is_empty()), "{answers:?}");
    }
}

#[test]
fn a_question_in_a_thread_notifies_the_person_it_waits_for() {
    let bot = DiscordBot::at_home(text_channel);
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api.until_listening();
    let said = bot
        .api
        .says(bot.channel, &ADA, &mention("permission please"));
    let asked = bot.api.until_message(said, |m| !m.buttons.is_empty());
    assert_eq!(asked.notified, [format!("user {}", ADA.id)], "{asked:?}");
    bot.api.presses(said, asked.id, &ADA, "No");
    let ended = bot
        .api
        .until_message(said, |m| m.id == asked.id && m.buttons.is_empty());
    assert!(ended.disabled.contains(&"No".to_owned()), "{ended:?}");
}

#[test]
fn a_user_name_lets_its_person_in_and_a_display_name_no_one() {
    let bot = DiscordBot::at_home(text_channel);
    // Anyone can choose the name that is shown.
    let shown = BEN.name;
    let env = format!(
        "DISCORD_BOT_TOKEN={}\nDISCORD_ALLOWED_USERS=@Ada_Lovelace,{shown},<@5>\n",
        crate::support::discord::TOKEN
    );
    bot.home.write(".env", &env);
    let _daemon = start(&bot);
    bot.api.says(bot.channel, &BEN, &mention("I am Ben"));
    let said = bot.api.says(bot.channel, &ADA, &mention("I am Ada"));
    bot.api
        .until_message(said, |m| m.content.contains("I am Ada"));
    assert_eq!(bot.api.threads(bot.channel).len(), 1);
}

#[test]
fn a_chat_has_the_name_that_hermes_gives_it() {
    let bot = DiscordBot::at_home(text_channel);
    let _daemon = start(&bot);
    let thread = bot.api.opens_thread(bot.channel, &ADA, "Plans");
    bot.api.says(thread, &ADA, &mention("hello"));
    bot.api
        .until_message(thread, |m| m.content.contains("hello"));
    let origin: String = bot.look("SELECT entry_json FROM gateway_routing");
    assert!(origin.contains("Workshop / #work / Plans"), "{origin}");
}
