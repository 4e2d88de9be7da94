//! The session keys that state.db gets, in chats of every kind and with either setting of Hermes' two.

use crate::support::discord::{ADA, ChannelKind, Id};
use crate::support::discord_bot::DiscordBot;
use crate::support::{SESSION, seed_session};

/// Hermes' settings, and whether the key of a channel and of a thread then names the person.
const RULES: [(&str, bool, bool); 4] = [
    ("", true, false),
    ("group_sessions_per_user: false\n", false, false),
    ("thread_sessions_per_user: true\n", true, true),
    (
        "group_sessions_per_user: false\nthread_sessions_per_user: true\n",
        false,
        false,
    ),
];

fn key(kind: &str, ids: &[Id], names_person: bool) -> String {
    let ids = ids.iter().map(|id| format!(":{id}")).collect::<String>();
    let person = match names_person {
        true => format!(":{}", ADA.id),
        false => String::new(),
    };
    format!("agent:main:discord:{kind}{ids}{person}")
}

/// The keys of the session that was handed off: in its row, and in the routing that Hermes reads.
fn handed_off(bot: &DiscordBot) -> String {
    let of_session = format!("SELECT session_key FROM sessions WHERE id = '{SESSION}'");
    let key: String = bot.look(&of_session);
    assert_eq!(
        bot.look::<String>("SELECT session_key FROM gateway_routing"),
        key
    );
    key
}

/// The key of the last message that was accepted.
fn last(bot: &DiscordBot) -> String {
    bot.look("SELECT session_key FROM hermesd_inbound ORDER BY id DESC LIMIT 1")
}

#[tokio::test]
async fn a_thread_a_channel_and_a_private_chat_have_the_keys_of_hermes() {
    for (yaml, by_person, by_person_in_thread) in RULES {
        let bot = DiscordBot::in_text_channel();
        seed_session(&bot.home).await;
        bot.home.write("config.yaml", yaml);
        let _daemon = bot.start_with(&[("DISCORD_AUTO_THREAD", "false")]);
        let thread = bot.hand_off_to_thread();
        let in_thread = key("thread", &[thread, thread], by_person_in_thread);
        assert_eq!(handed_off(&bot), in_thread, "{yaml}");
        bot.goes_on(thread, "in the thread");
        assert_eq!(last(&bot), in_thread, "{yaml}");
        let called = DiscordBot::called("in the channel");
        bot.api.says(bot.channel, &ADA, &called);
        bot.answered(bot.channel, "in the channel");
        assert_eq!(
            last(&bot),
            key("group", &[bot.channel], by_person),
            "{yaml}"
        );
        let private = bot.api.direct(&ADA);
        bot.asks(private, "in private");
        assert_eq!(last(&bot), key("dm", &[private], false), "{yaml}");
    }
}

#[tokio::test]
async fn a_post_in_a_forum_has_the_key_of_a_thread() {
    for (yaml, _, by_person_in_thread) in RULES {
        let bot = DiscordBot::in_channel(ChannelKind::Forum);
        seed_session(&bot.home).await;
        bot.home.write("config.yaml", yaml);
        let _daemon = bot.start();
        let post = bot.hand_off_to_thread();
        let in_post = key("thread", &[post, post], by_person_in_thread);
        assert_eq!(handed_off(&bot), in_post, "{yaml}");
        bot.goes_on(post, "in the post");
        assert_eq!(last(&bot), in_post, "{yaml}");
    }
}
