//! Which session a message of Slack belongs to, with the built binaries.

use crate::support::fake::ScriptedFault;
use crate::support::slack::{ADA, BEN, Slack};
use crate::support::slack_bot::SlackBot;

fn bot(toml: &str) -> SlackBot {
    let bot = SlackBot::in_channel();
    bot.configure("", toml);
    bot
}

/// Waits for the answer to these words, anywhere in the channel.
fn until_answered(api: &Slack, channel: &str, words: &str) -> Option<String> {
    api.until(words, || {
        let mut messages = api.bot_messages(channel).into_iter();
        let answer = messages.find(|message| message.read().contains(words))?;
        Some(answer.thread_ts)
    })
}

fn keys(bot: &SlackBot) -> Vec<String> {
    let sqlite = bot.home.sqlite();
    let mut statement = sqlite
        .prepare("SELECT session_key FROM hermesd_inbound ORDER BY id")
        .unwrap();
    let keys = statement.query_map([], |row| row.get(0)).unwrap();
    keys.map(Result::unwrap).collect()
}

#[test]
fn a_mention_in_a_channel_begins_a_thread_and_a_message_without_one_does_not() {
    let bot = bot("");
    let _daemon = bot.start();
    let (channel, mention) = (&bot.channel, format!("<@{}>", bot.api.bot_user()));
    bot.api.says(channel, &ADA, "not for you");
    let root = bot.api.says(channel, &ADA, &format!("{mention} hello"));
    assert_eq!(
        until_answered(&bot.api, channel, "hello"),
        Some(root.clone())
    );
    // In its thread the bot needs no mention.
    bot.api.replies(channel, &root, &ADA, "more");
    assert_eq!(
        until_answered(&bot.api, channel, "more"),
        Some(root.clone())
    );
    bot.api.until_acknowledged();
    // The mention arrives as two events.
    assert_eq!(
        keys(&bot),
        vec![format!("agent:main:slack:group:{channel}:{root}"); 2]
    );
}

#[test]
fn threads_with_a_session_need_a_mention_where_that_is_set() {
    let bot = bot("thread_require_mention = true\n");
    let _daemon = bot.start();
    let (channel, mention) = (&bot.channel, format!("<@{}>", bot.api.bot_user()));
    let root = bot.api.says(channel, &ADA, &format!("{mention} hello"));
    until_answered(&bot.api, channel, "hello");
    bot.api.replies(channel, &root, &ADA, "to Ben");
    bot.api
        .replies(channel, &root, &ADA, &format!("{mention} to you"));
    until_answered(&bot.api, channel, "to you");
    assert_eq!(keys(&bot).len(), 2);
}

#[test]
fn without_threads_a_channel_and_a_private_chat_are_one_conversation() {
    let bot = bot("reply_in_thread = false\ndm_top_level_threads = false\n");
    let _daemon = bot.start();
    let (channel, mention) = (&bot.channel, format!("<@{}>", bot.api.bot_user()));
    bot.api.says(channel, &ADA, &format!("{mention} hello"));
    assert_eq!(until_answered(&bot.api, channel, "hello"), None);
    let private = bot.api.direct(&ADA);
    bot.api.says(&private, &ADA, "good morning");
    assert_eq!(until_answered(&bot.api, &private, "good morning"), None);
    bot.api.says(&private, &ADA, "good evening");
    assert_eq!(until_answered(&bot.api, &private, "good evening"), None);
    let private = format!("agent:main:slack:dm:{private}");
    assert_eq!(
        keys(&bot),
        [
            format!("agent:main:slack:group:{channel}:{}", ADA.id),
            private.clone(),
            private
        ]
    );
}

#[test]
fn a_private_chat_has_a_session_for_each_message_at_its_top() {
    let bot = bot("");
    let _daemon = bot.start();
    let private = bot.api.direct(&ADA);
    let first = bot.api.says(&private, &ADA, "one");
    assert_eq!(
        until_answered(&bot.api, &private, "one"),
        Some(first.clone())
    );
    let second = bot.api.says(&private, &ADA, "two");
    assert_eq!(
        until_answered(&bot.api, &private, "two"),
        Some(second.clone())
    );
    // A thread of the assistant begins with a note of Slack.
    let (assistant, root) = bot.api.opens_assistant(&ADA);
    bot.api.replies(&assistant, &root, &ADA, "three");
    assert_eq!(
        until_answered(&bot.api, &assistant, "three"),
        Some(root.clone())
    );
    bot.api.until("a title", || {
        (bot.api.extras(&assistant, &root).title == "three").then_some(())
    });
    let key = |ts: &str| format!("agent:main:slack:dm:{private}:{ts}");
    assert_eq!(keys(&bot), [key(&first), key(&second), key(&root)]);
}

/// The event of a mention does not say what the channel is.
#[test]
fn a_group_of_people_has_one_key_whichever_event_comes_first() {
    for events in [
        &["app_mention"][..],
        &["message.mpim"],
        &["message.mpim", "app_mention"],
    ] {
        let bot = bot("");
        bot.api.subscribes(events);
        let _daemon = bot.start();
        let group = bot.api.group_direct(&[ADA, BEN]);
        let mention = format!("<@{}>", bot.api.bot_user());
        // Slack does not say at once what the channel is.
        bot.api
            .then("conversations.info", ScriptedFault::too_many_requests(1));
        bot.api.says(&group, &ADA, "not for you");
        let root = bot.api.says(&group, &ADA, &format!("{mention} hello"));
        assert_eq!(
            until_answered(&bot.api, &group, "hello"),
            Some(root.clone())
        );
        bot.api.until_acknowledged();
        assert_eq!(
            keys(&bot),
            [format!("agent:main:slack:dm:{group}:{root}")],
            "{events:?}"
        );
    }
}

#[test]
fn a_stranger_in_a_group_of_people_gets_no_code() {
    let bot = bot("strangers = \"pair\"\n");
    let _daemon = bot.start();
    let group = bot.api.group_direct(&[ADA, BEN]);
    let mention = format!("<@{}>", bot.api.bot_user());
    bot.api.says(&group, &BEN, &format!("{mention} let me in"));
    bot.api.says(&group, &ADA, &format!("{mention} hello"));
    until_answered(&bot.api, &group, "hello");
    assert_eq!(bot.api.bot_messages(&group).len(), 1);
    let private = bot.api.direct(&BEN);
    bot.api.says(&private, &BEN, "let me in");
    let code = &bot.api.until_bot_messages(&private, 1)[0];
    assert!(code.text.contains("hermesctl pair approve"), "{code:?}");
}

#[test]
fn events_of_another_workspace_are_left_to_it() {
    use crate::support::slack::{CLEO, ChannelKind};
    let bot = bot("");
    bot.api.workspace("T07OTHER02", "Other", &[CLEO]);
    bot.configure("SLACK_ALLOW_ALL_USERS=true\n", "");
    let daemon = bot.start();
    let other = bot
        .api
        .channel_in("T07OTHER02", ChannelKind::Public, "other");
    bot.api.says(&other, &CLEO, "<@U07OTHER02BOT> hello");
    let private = bot.api.direct(&ADA);
    bot.api.says(&private, &ADA, "here");
    until_answered(&bot.api, &private, "here");
    bot.api.until_acknowledged();
    assert_eq!(keys(&bot).len(), 1);
    let log = daemon.log();
    assert!(log.contains("another workspace"), "{log}");
}
