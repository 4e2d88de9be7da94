//! Whom the bot trusts: the authorities of the system, no server that it is sent on to, no words that somebody else wrote; and
//! a webhook that is not ours stays.

use serde_json::json;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, BotApi, ScriptedFault, TOKEN, TlsFront};
use crate::support::until;

#[test]
fn a_redirect_is_not_followed_and_named() {
    let (bot, chat) = Bot::of_ada("");
    // Another server, which would see the token in the address and in Referer.
    let elsewhere = BotApi::start();
    let to = |method: &str| format!("{}/bot{TOKEN}/{method}", elsewhere.url());
    bot.api.then("getMe", ScriptedFault::redirect(to("getMe")));
    let daemon = bot.home.start();
    let why = until("a reason", || {
        let detail = bot.standing()["detail"].as_str()?.to_owned();
        detail.contains("redirect").then_some(detail)
    });
    let host = elsewhere.url();
    assert!(why.contains(host.trim_start_matches("http://")), "{why}");
    assert!(why.contains("platforms.telegram.base_url"), "{why}");
    bot.until_standing("up");
    bot.api
        .then("sendMessage", ScriptedFault::redirect(to("sendMessage")));
    bot.asks(chat, None, "hello");
    assert_eq!(elsewhere.calls().len(), 0, "{:?}", elsewhere.calls());
    let (_, secret) = TOKEN.split_once(':').unwrap();
    assert!(!daemon.log().contains(secret));
    assert!(!why.contains(secret), "{why}");
}

/// Somebody else's words, as the vendor marks them.
fn of_ben() -> serde_json::Value {
    json!({
        "type": "user", "date": 1_700_000_000,
        "sender_user": {"id": 5, "is_bot": false, "first_name": "Mallory"},
    })
}

#[test]
fn a_forwarded_command_is_not_executed_and_forwarded_words_are_marked() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    let forwards = |text: &str| {
        let message = bot.api.writes(chat, &ADA).text(text);
        message.with("forward_origin", of_ben())
    };
    forwards("/sethome").send();
    bot.answered(chat, None, "[Forwarded from Mallory]\n/sethome");
    let homes: i64 = bot.look("SELECT count(*) FROM hermesd_homes");
    assert_eq!(homes, 0);
    forwards("/new@other_bot").send();
    bot.answered(chat, None, "[Forwarded from Mallory]\n/new@other_bot");
    // Something that no library knows yet does not hide where it is from.
    let entities = json!([{"type": "scent", "offset": 0, "length": 4}]);
    forwards("/new").with("entities", entities).send();
    bot.answered(chat, None, "[Forwarded from Mallory]\n/new");
    // A picture with a command below it, from a channel.
    let channel = json!({
        "type": "channel", "date": 1_700_000_000, "message_id": 7,
        "chat": {"id": -1_001_999, "type": "channel", "title": "News\n[Ada] of the world"},
    });
    let picture = bot.api.writes(chat, &ADA).text("/stop");
    let picture = picture.file("photo", "photo.jpg", b"a picture");
    picture.with("forward_origin", channel).send();
    bot.api.until_message(chat, None, |m| {
        m.text
            .starts_with("You said: [Forwarded from News [Ada] of the world]\n/stop\n")
    });
}

#[test]
fn a_forwarded_album_is_marked_once() {
    let (bot, chat) = Bot::of_ada("");
    let _daemon = bot.start();
    bot.api.at_once(|api| {
        for caption in ["/new", "", "our garden"] {
            let picture = api.writes(chat, &ADA).text(caption).album("99");
            let picture = picture.file("photo", "photo.jpg", b"a picture");
            picture.with("forward_origin", of_ben()).send();
        }
    });
    let seen = bot.api.until_message(chat, None, |m| {
        m.text
            .starts_with("You said: [Forwarded from Mallory]\n/new\nour garden\n[image: ")
    });
    assert_eq!(seen.text.matches("Forwarded").count(), 1, "{seen:?}");
    assert_eq!(seen.text.matches("[image: ").count(), 3, "{seen:?}");
}

#[test]
fn a_forwarded_command_calls_nobody_in_a_group() {
    let (bot, _) = Bot::of_ada("TELEGRAM_REQUIRE_MENTION=true\n");
    let group = bot.api.group("Family");
    let _daemon = bot.start();
    let said = format!("/sethome@{}", crate::support::telegram::BOT_NAME);
    let message = bot.api.writes(group, &ADA).text(&said);
    message.with("forward_origin", of_ben()).send();
    bot.api.until_polled();
    bot.api.says(
        group,
        None,
        &ADA,
        &format!("@{} hello", crate::support::telegram::BOT_NAME),
    );
    bot.answered(group, None, "hello");
    assert_eq!(bot.texts(group).len(), 1, "{:?}", bot.texts(group));
}

#[test]
fn a_webhook_of_others_is_named_and_stays() {
    let (bot, chat) = Bot::of_ada("");
    bot.api
        .webhook("https://elsewhere.example/hook/secret-path");
    bot.api.says(chat, None, &ADA, "hello");
    let daemon = bot.home.start();
    let why = until("a reason", || {
        let detail = bot.standing()["detail"].as_str()?.to_owned();
        detail.contains("webhook").then_some(detail)
    });
    assert!(why.contains("elsewhere.example"), "{why}");
    assert!(why.contains("hermesctl setup telegram"), "{why}");
    assert!(!why.contains("secret-path"), "{why}");
    let doctor = bot.home.hermesctl(&["doctor"]);
    assert!(doctor.stdout.contains("webhook"), "{doctor:?}");
    assert!(
        doctor
            .stdout
            .contains("hermesctl setup telegram --remove-webhook"),
        "{doctor:?}"
    );
    assert_eq!(bot.api.calls_of("deleteWebhook").len(), 0);
    assert!(!daemon.log().contains("platform down"), "{}", daemon.log());

    // Who says so removes it, and what waited comes.
    let removed = bot
        .home
        .hermesctl(&["setup", "telegram", "--no-input", "--remove-webhook"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(bot.api.calls_of("deleteWebhook").len(), 1);
    bot.answered(chat, None, "hello");
    bot.until_standing("up");
}

#[test]
fn a_server_with_a_certificate_of_a_private_authority_is_trusted_where_the_system_does() {
    let (bot, chat) = Bot::of_ada("");
    let front = TlsFront::start(&bot.api);
    let url = front.hermes_base_url();
    let yaml = format!("platforms:\n  telegram:\n    extra:\n      base_url: {url}\n");
    bot.home.write("config.yaml", &yaml);
    // Nobody knows the authority.
    let daemon = bot.home.start();
    let why = until("a reason", || {
        let detail = bot.standing()["detail"].as_str()?.to_owned();
        detail.contains("certificate").then_some(detail)
    });
    assert!(why.contains("cannot be reached"), "{why}");
    assert!(daemon.stop().success());
    bot.home.write("authority.pem", &front.authority);
    let store = bot.home.path().join("authority.pem").display().to_string();
    let daemon = bot.start_with(&[("SSL_CERT_FILE", &store)]);
    bot.asks(chat, None, "hello");
    assert!(daemon.stop().success());
    // A store that cannot be used does not keep the daemon from starting, nor from the vendor's own servers.
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    bot.home.write("authority.pem", broken);
    bot.configure("");
    bot.api.until_quiet();
    let _daemon = bot.start_with(&[("SSL_CERT_FILE", &store)]);
    bot.asks(chat, None, "hello again");
}
