//! Who may speak to the bot, and how somebody is let in.

use std::os::unix::fs::PermissionsExt;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BEN, Person};
use crate::support::{Ran, acp};

/// Somebody says something in a private chat. Gives its number.
fn greets(bot: &Bot, person: &Person) -> i64 {
    let chat = bot.api.private(person);
    bot.api.says(chat, None, person, "hello");
    chat
}

/// The code that a chat has got.
fn code(bot: &Bot, chat: i64) -> String {
    let offer = "hermesctl pair approve ";
    let message = bot
        .api
        .until_message(chat, None, |m| m.text.contains(offer));
    let (_, code) = message.text.split_once(offer).unwrap();
    code.trim_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

fn approve(bot: &Bot, code: &str) -> Ran {
    bot.home.hermesctl(&["--json", "pair", "approve", code])
}

fn somebody(id: i64) -> Person {
    Person {
        id,
        name: "Nobody",
        username: None,
    }
}

/// Whether the person is answered, in a private chat where they may be.
fn is_answered(bot: &Bot, person: &Person) {
    let chat = greets(bot, person);
    bot.answered(chat, None, "hello");
    assert_eq!(bot.texts(chat).len(), 1);
}

#[test]
fn a_stranger_gets_one_code_is_let_in_with_it_and_can_be_put_out_again() {
    let bot = Bot::for_nobody("");
    let _daemon = bot.start();
    let chat = greets(&bot, &BEN);
    let code = code(&bot, chat);
    assert_eq!(code.len(), 8, "{code}");
    bot.api.says(chat, None, &BEN, "hello?");
    bot.api.until_polled();

    let listed = bot.home.hermesctl(&["pair"]).stdout;
    assert!(listed.contains("Ben") && listed.contains("waits for approval"));
    assert!(!listed.contains(&code), "only its owner knows it: {listed}");
    let spelt = format!("{}-{}", &code[..4], &code[4..]).to_ascii_lowercase();
    let approved = approve(&bot, &spelt);
    assert_eq!(approved.code, 0, "{approved:?}");
    assert_eq!(approved.json()["user"], BEN.id.to_string());
    bot.api
        .until_message(chat, None, |m| m.text.contains("You have access"));
    bot.api.says(chat, None, &BEN, "and now?");
    bot.answered(chat, None, "and now?");
    assert_eq!(bot.texts(chat).len(), 3, "{:?}", bot.texts(chat));
    let listed = bot.home.hermesctl(&["pair", "list"]).stdout;
    assert!(listed.contains("approved"), "{listed}");

    let id = BEN.id.to_string();
    let revoked = bot.home.hermesctl(&["pair", "revoke", "telegram", &id]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    bot.api.says(chat, None, &BEN, "still?");
    bot.api.until_message(chat, None, |m| {
        m.text.contains("approve") && !m.text.contains(&code)
    });
    assert!(!bot.texts(chat).concat().contains("still?"));
    let again = bot.home.hermesctl(&["pair", "revoke", "telegram", "1"]);
    assert_eq!(again.code, 3, "{again:?}");
}

#[test]
fn a_person_who_is_let_in_is_a_guest_and_the_terminal_says_so() {
    let bot = Bot::for_nobody("");
    let _daemon = bot.start();
    let code = code(&bot, greets(&bot, &BEN));
    let approved = bot.home.hermesctl(&["pair", "approve", &code]);
    assert_eq!(approved.code, 0, "{approved:?}");
    let remedy = format!("platforms.telegram.owner = \"{}\"", BEN.id);
    assert!(approved.stdout.contains(&remedy), "{approved:?}");
}

#[test]
fn a_code_that_is_wrong_used_or_old_lets_nobody_in() {
    let bot = Bot::for_nobody("");
    let _daemon = bot.start();
    let code = code(&bot, greets(&bot, &BEN));
    let wrong = bot.home.hermesctl(&["pair", "approve", "ABCD2345"]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert!(wrong.stderr.contains("writes to the bot again"));
    let an_hour_ago = "UPDATE hermesd_people SET asked_at = asked_at - 3601";
    bot.home.sqlite().execute(an_hour_ago, []).unwrap();
    let old = approve(&bot, &code);
    assert_eq!(old.code, 3, "{old:?}");

    let fresh = self::code(&bot, greets(&bot, &ADA));
    assert_eq!(approve(&bot, &fresh).code, 0);
    assert_eq!(approve(&bot, &fresh).code, 3, "used up");
}

#[test]
fn strangers_who_ask_keep_nobody_else_from_a_code() {
    let bot = Bot::for_nobody("");
    let _daemon = bot.start();
    let first = greets(&bot, &somebody(1001));
    let firsts = code(&bot, first);
    let crowd: Vec<i64> = (0..25).map(|n| greets(&bot, &somebody(2000 + n))).collect();
    for chat in &crowd {
        code(&bot, *chat);
    }
    // The oldest code made room, and its owner does not get another at once.
    let late = code(&bot, greets(&bot, &BEN));
    bot.api.says(first, None, &somebody(1001), "hello?");
    bot.api.until_polled();
    assert_eq!(approve(&bot, &firsts).code, 3);
    assert_eq!(bot.texts(first).len(), 1, "{:?}", bot.texts(first));
    let approved = approve(&bot, &late);
    assert_eq!(approved.json()["user"], BEN.id.to_string(), "{approved:?}");
    assert_eq!(approve(&bot, &code(&bot, crowd[24])).code, 0);
}

#[test]
fn people_whom_hermes_has_let_in_are_listed_and_can_be_put_out() {
    let bot = Bot::for_nobody("");
    let (ada, ben) = (ADA.id.to_string(), BEN.id.to_string());
    let files = [
        "platforms/pairing/telegram-approved.json",
        "pairing/telegram-approved.json",
    ];
    let both = format!(
        r#"{{"{ben}": {{"user_name": "Ben", "approved_at": 1.0, "more": [1]}}, "{ada}": {{"user_name": "Ada", "approved_at": 2.5}}}}"#
    );
    bot.home.write(files[0], &both);
    bot.home
        .write(files[1], &format!(r#"{{"{ben}": {{"approved_at": 3}}}}"#));
    let at = |file: &str| bot.home.path().join(file);
    std::fs::set_permissions(at(files[0]), std::fs::Permissions::from_mode(0o600)).unwrap();
    let _daemon = bot.start();
    is_answered(&bot, &BEN);
    let listed = bot.home.hermesctl(&["--json", "pair"]).json();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:?}");
    let of_ben = listed.iter().find(|p| p["user"] == ben.as_str()).unwrap();
    assert_eq!(of_ben["name"], "Ben");
    assert_eq!(of_ben["by"], "hermes");
    let revoked = bot.home.hermesctl(&["pair", "revoke", "telegram", &ben]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    bot.api.says(BEN.id, None, &BEN, "still?");
    code(&bot, BEN.id);
    // The others stay, with all that the file says of them.
    let left = std::fs::read_to_string(at(files[0])).unwrap();
    let left: serde_json::Value = serde_json::from_str(&left).unwrap();
    assert_eq!(left[&ada]["approved_at"], 2.5, "{left}");
    assert!(left.get(&ben).is_none(), "{left}");
    let mode = std::fs::metadata(at(files[0]))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    is_answered(&bot, &ADA);
    let again = bot.home.hermesctl(&["pair", "revoke", "telegram", "1"]);
    assert_eq!(again.code, 3, "{again:?}");
}

#[test]
fn strangers_in_groups_get_nothing_and_neither_do_they_where_they_are_ignored() {
    let (bot, ada) = Bot::of_ada("");
    let group = bot.api.group("Family");
    let _daemon = bot.start_with(&[("HERMESD_PLATFORMS_TELEGRAM_STRANGERS", "ignore")]);
    let private = greets(&bot, &BEN);
    bot.api.says(group, None, &BEN, "hello");
    bot.api.says(group, None, &BEN, "/status@hermes_test_bot");
    bot.api.until_polled();
    bot.asks(ada, None, "hello");
    bot.asks(group, None, "hello all");
    assert_eq!(bot.texts(group).len(), 1, "{:?}", bot.texts(group));
    assert!(bot.texts(private).is_empty());
}

#[test]
fn where_people_are_listed_strangers_get_no_code_unless_it_is_wanted() {
    let (bot, ada) = Bot::of_ada("");
    let daemon = bot.start();
    let private = greets(&bot, &BEN);
    bot.api.until_polled();
    bot.asks(ada, None, "hello");
    assert!(bot.texts(private).is_empty(), "{:?}", bot.texts(private));
    assert_eq!(
        bot.home.hermesctl(&["--json", "pair"]).json(),
        serde_json::json!([])
    );
    assert!(daemon.stop().success());

    let _daemon = bot.start_with(&[("HERMESD_CHATS_STRANGERS", "pair")]);
    code(&bot, greets(&bot, &BEN));
}

#[test]
fn people_and_chats_are_allowed_by_hermes_own_files() {
    let (ada, ben) = (ADA.id.to_string(), BEN.id.to_string());
    // A list in the YAML file; the environment would have the last word.
    let bot = Bot::for_nobody("");
    let path = bot.home.path().join("config.yaml");
    let yaml = std::fs::read_to_string(&path).unwrap();
    let yaml = format!("{yaml}telegram:\n  allow_from: [{ada}, \"{ben}\"]\n");
    bot.home.write("config.yaml", &yaml);
    let daemon = bot.start();
    is_answered(&bot, &ADA);
    is_answered(&bot, &BEN);
    drop(daemon);

    // Those whom Hermes itself has let in.
    let bot = Bot::for_nobody("");
    let approved = format!(r#"{{"{ben}": {{"user_name": "Ben", "approved_at": 1.0}}}}"#);
    bot.home
        .write("platforms/pairing/telegram-approved.json", &approved);
    let _daemon = bot.start();
    is_answered(&bot, &BEN);
    code(&bot, greets(&bot, &ADA));
}

#[test]
fn a_chat_can_be_open_to_all_and_so_can_the_bot() {
    let bot = Bot::for_nobody("");
    let (open, closed) = (bot.api.group("Open"), bot.api.group("Closed"));
    let env = format!("TELEGRAM_GROUP_ALLOWED_CHATS={open}");
    let daemon = bot.start_with(&[env.split_once('=').unwrap()]);
    bot.api.says(closed, None, &BEN, "hello");
    bot.api.says(open, None, &BEN, "hello");
    bot.answered(open, None, "hello");
    assert!(bot.texts(closed).is_empty());
    drop(daemon);

    let _daemon = bot.start_with(&[("TELEGRAM_ALLOW_ALL_USERS", "true")]);
    bot.api.says(closed, None, &BEN, "hello again");
    bot.answered(closed, None, "hello again");
    is_answered(&bot, &ADA);
}

#[test]
fn the_person_of_a_private_home_is_allowed() {
    let bot = Bot::for_nobody(&format!("TELEGRAM_HOME_CHANNEL={}\n", ADA.id));
    let _daemon = bot.start();
    is_answered(&bot, &ADA);
    code(&bot, greets(&bot, &BEN));
}

#[test]
fn a_strangers_press_of_a_button_counts_for_nothing() {
    let (bot, _) = Bot::of_ada("");
    let group = bot.api.group("Family");
    let _daemon = acp::start(&bot.home, "plain", &[]);
    bot.api.says(group, None, &ADA, "permission please");
    let question = bot
        .api
        .until_message(group, None, |m| !m.buttons.is_empty());
    bot.api.presses(group, question.id, &BEN, "Yes");
    bot.api.until_ended("answerCallbackQuery", 1);
    let told = bot.api.queries()[0].answer.clone().unwrap().0;
    assert_eq!(told, "This is not for you.");
    bot.api.presses(group, question.id, &ADA, "No");
    bot.api
        .until_message(group, None, |m| m.text.contains("the-reject_once"));
}
