//! What people of a chat may do besides talking: commands by rank. Ben plays the attacker, whom the configuration never names.

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BEN, BotMessage, Person, Rights};
use crate::support::{SESSION, TITLE, seed_session};

const REFUSED: &str = "Only the owner of this bot";

/// Somebody gives a command, which is answered with these words.
fn says(bot: &Bot, (chat, topic): (i64, Option<i64>), who: &Person, text: &str, answer: &str) {
    let before = count(bot, chat, topic, answer);
    bot.api.says(chat, topic, who, text);
    bot.api.until_message(chat, topic, |_| {
        count(bot, chat, topic, answer) == before + 1
    });
}

fn count(bot: &Bot, chat: i64, topic: Option<i64>, words: &str) -> usize {
    let messages = bot.api.messages_in(chat, topic).into_iter();
    messages.filter(|m| m.text.contains(words)).count()
}

fn all_texts(bot: &Bot, chat: i64, topic: Option<i64>) -> String {
    let texts = bot.api.messages_in(chat, topic).into_iter();
    texts.map(|m| m.text).collect::<Vec<_>>().join("\n")
}

/// A group in which everybody may talk, and the daemon. Ada is the only allowed user.
async fn open_group(env: &[(&str, &str)]) -> (Bot, i64, i64, crate::support::Daemon) {
    let (bot, private) = Bot::of_ada("");
    seed_session(&bot.home).await;
    let group = bot.api.group("Family");
    let chats = group.to_string();
    let mut all = vec![("TELEGRAM_GROUP_ALLOWED_CHATS", chats.as_str())];
    all.extend(env);
    let daemon = bot.start_with(&all);
    (bot, private, group, daemon)
}

#[tokio::test]
async fn a_guest_cannot_see_or_take_sessions_nor_move_the_home() {
    let (bot, private) = Bot::of_ada("");
    seed_session(&bot.home).await;
    // Several, since a group is written to only so often in a minute.
    let groups = ["Family", "Friends", "Neighbours"].map(|name| bot.api.group(name));
    let chats = groups.map(|group| group.to_string()).join(",");
    let _daemon = bot.start_with(&[("TELEGRAM_GROUP_ALLOWED_CHATS", &chats)]);
    let [family, friends, neighbours] = groups.map(|group| (group, None));
    says(&bot, family, &BEN, "/sessions", REFUSED);
    says(&bot, family, &BEN, "/resume", REFUSED);
    says(&bot, family, &BEN, &format!("/resume {SESSION}"), REFUSED);
    says(&bot, family, &BEN, &format!("/resume {TITLE}"), REFUSED);
    says(&bot, friends, &BEN, "/resume@hermes_test_bot x", REFUSED);
    says(&bot, friends, &BEN, "/SETHOME", REFUSED);
    assert!(bot.standing()["home_channel"].is_null(), "no home was set");
    for group in groups {
        let told = all_texts(&bot, group, None);
        assert!(!told.contains(TITLE) && !told.contains(SESSION), "{told}");
    }

    // What a guest may do.
    says(&bot, friends, &BEN, "hello", "You said: hello");
    says(&bot, friends, &BEN, "/status", "Answered by echo");
    says(&bot, family, &BEN, "/help", "/status");
    says(&bot, friends, &BEN, "/stop", "nothing to stop");

    // The owner may do all of it, wherever they are.
    says(&bot, neighbours, &ADA, "/sessions", SESSION);
    says(&bot, neighbours, &ADA, "/sethome", "This is home now");
    says(&bot, (private, None), &ADA, "/sessions", SESSION);
    says(
        &bot,
        neighbours,
        &ADA,
        &format!("/resume {TITLE}"),
        "is here now",
    );
}

#[tokio::test]
async fn a_guests_press_takes_no_session_and_leaves_the_owners_buttons() {
    let (bot, _, group, _daemon) = open_group(&[]).await;
    bot.api.says(group, None, &ADA, "/resume");
    let list = bot
        .api
        .until_message(group, None, |m| m.text.contains("Which one?"));
    bot.api.presses(group, list.id, &BEN, TITLE);
    bot.api.until_ended("answerCallbackQuery", 1);
    let told = bot.api.queries()[0].answer.clone().unwrap().0;
    assert!(told.contains(REFUSED), "{told}");
    bot.api.presses(group, list.id, &ADA, TITLE);
    bot.api
        .until_message(group, None, |m| m.text.contains("is here now, with its 4"));
    assert_eq!(count(&bot, group, None, "is here now"), 1);
}

#[tokio::test]
async fn a_conversation_that_people_share_is_the_owners_to_end_and_a_persons_own_is_theirs() {
    let (bot, _) = Bot::of_ada("");
    let forum = bot.api.forum("Work", Rights::Member);
    let topic = Some(bot.api.opens_topic(forum, &ADA, "Plans"));
    let open = bot.api.group("Open");
    let chats = format!("{forum},{open}");
    let _daemon = bot.start_with(&[("TELEGRAM_GROUP_ALLOWED_CHATS", &chats)]);
    let shared = (forum, topic);
    says(&bot, shared, &ADA, "hello", "[Ada] hello");
    says(&bot, shared, &BEN, "/new", REFUSED);
    says(&bot, shared, &BEN, "/retry", REFUSED);
    says(&bot, shared, &BEN, "/title Mine", REFUSED);
    says(&bot, shared, &BEN, "/title", "no title");
    says(&bot, shared, &BEN, "me too", "I remember 2 messages");
    says(&bot, shared, &ADA, "/title Ours", "\"Ours\" now");
    says(&bot, shared, &ADA, "/new", "A new conversation");

    // In this group each person has a session of their own.
    let own = (open, None);
    says(&bot, own, &BEN, "hello", "You said: hello");
    says(&bot, own, &BEN, "/title Mine", "\"Mine\" now");
    says(&bot, own, &BEN, "/new", "A new conversation");
}

#[tokio::test]
async fn a_guest_stops_the_answer_to_themselves_and_no_other() {
    let (bot, _) = Bot::of_ada("");
    let forum = bot.api.forum("Work", Rights::Member);
    let topic = Some(bot.api.opens_topic(forum, &ADA, "Plans"));
    let chats = forum.to_string();
    let _daemon = bot.start_with(&[
        ("TELEGRAM_GROUP_ALLOWED_CHATS", &chats),
        ("HERMESD_AGENT_ECHO_PACE", "30ms"),
    ]);
    let begins = |who: &Person| -> BotMessage {
        let starts = format!("You said: [{}] word", who.name);
        bot.api.says(forum, topic, who, &"word ".repeat(600));
        let begun = |m: &BotMessage| m.text.starts_with(&starts) && !m.text.contains("(stopped)");
        bot.api.until_message(forum, topic, begun)
    };
    let here = (forum, topic);
    let long = begins(&ADA);
    says(&bot, here, &BEN, "/stop", "You may not stop it");
    let shown = bot.api.messages_in(forum, topic);
    let still = shown.iter().find(|m| m.id == long.id).unwrap();
    assert!(!still.text.contains("(stopped)"), "{still:?}");
    says(&bot, here, &ADA, "/stop", "Stopping.");
    bot.api
        .until_message(forum, topic, |m| m.text.ends_with("(stopped)"));
    begins(&BEN);
    says(&bot, here, &BEN, "/stop", "Stopping.");
}

#[tokio::test]
async fn people_let_in_by_pairing_or_a_star_are_guests() {
    for env in ["", "TELEGRAM_ALLOWED_USERS=*\n"] {
        let bot = Bot::for_nobody(env);
        seed_session(&bot.home).await;
        let ben = BEN.id.to_string();
        let approved = format!(r#"{{"{ben}": {{"user_name": "Ben", "approved_at": 1.0}}}}"#);
        bot.home
            .write("platforms/pairing/telegram-approved.json", &approved);
        let _daemon = bot.start();
        let private = (bot.api.private(&BEN), None);
        says(&bot, private, &BEN, "/sessions", REFUSED);
        // Nobody owns this bot yet: the answer says how.
        let remedy = format!("platforms.telegram.owner = \"{ben}\"");
        says(&bot, private, &BEN, "/sethome", &remedy);
        assert!(bot.standing()["home_channel"].is_null());
        says(&bot, private, &BEN, "hello", "You said: hello");
        says(&bot, private, &BEN, "/new", "A new conversation");
    }
}

#[tokio::test]
async fn allowed_users_have_the_owners_rights_when_they_are_trusted() {
    let both = format!("{},{}", ADA.id, BEN.id);
    let owner = ADA.id.to_string();
    let env = [
        ("HERMESD_PLATFORMS_TELEGRAM_ALLOWED_USERS", both.as_str()),
        ("HERMESD_PLATFORMS_TELEGRAM_OWNER", &owner),
    ];
    let (bot, _, _, daemon) = open_group(&env).await;
    let private = (bot.api.private(&BEN), None);
    says(&bot, private, &BEN, "/sessions", REFUSED);
    says(&bot, private, &BEN, "/sethome", REFUSED);
    assert!(daemon.stop().success());

    let mut env = env.to_vec();
    env.push(("HERMESD_PLATFORMS_TELEGRAM_TRUSTED", "allowed_users"));
    let _daemon = bot.start_with(&env);
    says(&bot, private, &BEN, "/sessions", SESSION);
}

#[tokio::test]
async fn the_owner_hears_of_a_new_home() {
    let both = format!("{},{}", ADA.id, BEN.id);
    let owner = ADA.id.to_string();
    let (bot, ada, group, daemon) = open_group(&[
        ("HERMESD_PLATFORMS_TELEGRAM_ALLOWED_USERS", &both),
        ("HERMESD_PLATFORMS_TELEGRAM_OWNER", &owner),
        ("HERMESD_PLATFORMS_TELEGRAM_TRUSTED", "allowed_users"),
    ])
    .await;
    // Ada has talked to the bot in private, so that it can write to her there.
    bot.asks(ada, None, "hello");
    let ben = (bot.api.private(&BEN), None);
    says(&bot, ben, &BEN, "/sethome", "This is home now");
    let note = bot
        .api
        .until_message(ada, None, |m| m.text.contains("handed off"));
    assert!(note.text.contains("Ben"), "{note:?}");
    assert!(note.text.contains(&BEN.id.to_string()), "{note:?}");
    assert!(note.text.contains("/sethome"), "{note:?}");
    // Her own choice is confirmed where she makes it, and in her private chat.
    says(&bot, (group, None), &ADA, "/sethome", "This is home now");
    bot.api
        .until_message(ada, None, |m| m.text.contains("Family"));
    says(&bot, (ada, None), &ADA, "/sethome", "This is home now");
    assert_eq!(count(&bot, ada, None, "handed off"), 2);
    assert!(daemon.stop().success());
}

#[tokio::test]
async fn the_old_home_hears_of_a_new_one_where_the_owner_has_no_private_chat() {
    let both = format!("{},{}", ADA.id, BEN.id);
    let bot = Bot::for_nobody("");
    let old = bot.api.group("Old home");
    let home = old.to_string();
    let _daemon = bot.start_with(&[
        ("HERMESD_PLATFORMS_TELEGRAM_ALLOWED_USERS", &both),
        ("HERMESD_PLATFORMS_TELEGRAM_HOME_CHANNEL", &home),
        ("HERMESD_PLATFORMS_TELEGRAM_TRUSTED", "allowed_users"),
    ]);
    let ben = (bot.api.private(&BEN), None);
    says(&bot, ben, &BEN, "/sethome", "This is home now");
    let note = bot
        .api
        .until_message(old, None, |m| m.text.contains("handed off"));
    assert!(note.text.contains("Ben"), "{note:?}");
}
