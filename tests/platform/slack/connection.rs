//! Faults of Socket Mode, and what is said meanwhile, with the built binaries.

use std::time::Duration;

use crate::support::fake::{ScriptedFault, TlsFront};
use crate::support::slack::{ADA, APP_TOKEN, Reason, Standing, TOKEN};
use crate::support::slack_bot::SlackBot;
use crate::support::{seed_session, until};

#[tokio::test]
async fn words_around_a_lost_connection_are_answered_once() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    for words in ["after a drop", "after a second drop"] {
        bot.api.drops_connections();
        bot.api.replies(&bot.channel, &root, &ADA, words);
        bot.until_reply(&root, words);
    }
    bot.api.until_acknowledged();
    let answers = bot.api.bot_replies(&bot.channel, &root);
    assert_eq!(answers.len(), 3, "{answers:?}");
}

#[tokio::test]
async fn the_next_connection_is_open_before_the_last_one_is_left() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let _daemon = bot.start();
    let root = bot.thread();
    for (n, reason) in [Reason::Warning, Reason::RefreshRequested]
        .into_iter()
        .enumerate()
    {
        let before = bot.api.calls_of("socket").len();
        bot.api.asks_to_leave(reason);
        bot.api.until_calls("socket", before + 1);
        // Never none.
        until("the old connection is left", || {
            let open = bot.api.connections();
            assert!(open >= 1, "{reason:?}");
            let ended = bot.api.calls_of("socket").len() - open;
            (ended > n).then_some(())
        });
        let words = format!("after {reason:?}");
        bot.api.replies(&bot.channel, &root, &ADA, &words);
        bot.until_reply(&root, &words);
    }
    let answers = bot.api.bot_replies(&bot.channel, &root);
    assert_eq!(answers.len(), 3, "{answers:?}");
}

#[tokio::test]
async fn a_silent_connection_is_replaced() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    bot.api.pings_every(Duration::from_millis(100));
    bot.api.retries(Duration::from_secs(3), [Duration::ZERO; 3]);
    let _daemon = bot.start();
    let root = bot.thread();
    let before = bot.api.calls_of("socket").len();
    // They show how often Slack pings. The last of them has arrived before what follows it.
    bot.api.until_pinged(3);
    bot.api.replies(&bot.channel, &root, &ADA, "before");
    bot.until_reply(&root, "before");
    bot.api.silences_connections();
    bot.api.until_calls("socket", before + 1);
    bot.api.replies(&bot.channel, &root, &ADA, "still here?");
    bot.until_reply(&root, "still here?");
}

#[tokio::test]
async fn words_of_the_time_without_a_daemon_are_answered_in_order() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let daemon = bot.start();
    let root = bot.thread();
    bot.api.replies(&bot.channel, &root, &ADA, "first");
    bot.until_reply(&root, "first");
    let private = bot.api.direct(&ADA);
    let begun = bot.api.says(&private, &ADA, "hello");
    bot.api.until_bot_replies(&private, &begun, 1);
    daemon.kill();
    bot.api.until_quiet();
    // Slack tells nobody of these.
    bot.api.subscribes(&[]);
    bot.api.replies(&bot.channel, &root, &ADA, "second");
    bot.api.replies(&bot.channel, &root, &ADA, "third");
    let alone = bot.api.says(&private, &ADA, "fourth");
    let _daemon = bot.start();
    bot.until_reply(&root, "third");
    bot.api.until_bot_replies(&private, &alone, 1);
    let answers = bot.api.bot_replies(&bot.channel, &root);
    let place = |words: &str| {
        let mut found = answers
            .iter()
            .enumerate()
            .filter(|(_, m)| m.text.contains(words));
        let (place, _) = found.next().expect("an answer");
        assert!(found.next().is_none(), "{answers:?}");
        place
    };
    assert!(
        place("first") < place("second") && place("second") < place("third"),
        "{answers:?}"
    );
}

#[tokio::test]
async fn an_event_is_acknowledged_when_it_is_stored() {
    let bot = SlackBot::in_channel();
    seed_session(&bot.home).await;
    let daemon = bot.start();
    let root = bot.thread();
    bot.api.until_acknowledged();
    let acknowledged = bot.api.acknowledged().len();
    let sqlite = bot.home.sqlite();
    sqlite.execute_batch("BEGIN IMMEDIATE").unwrap();
    bot.api.replies(&bot.channel, &root, &ADA, "are you there?");
    // The store cannot be written for longer than Slack waits, so Slack sends the event again.
    until("Slack sends it again", || {
        let world = bot.api.world();
        world.sockets.has_repeats().then_some(())
    });
    assert_eq!(bot.api.acknowledged().len(), acknowledged);
    sqlite.execute_batch("ROLLBACK").unwrap();
    let answers = bot.until_reply(&root, "are you there?");
    bot.api.until_acknowledged();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let log = daemon.log();
    assert!(log.contains("acknowledged late"), "{log}");
}

#[test]
fn a_refused_token_is_named_and_final() {
    for (standing, error) in [
        (Standing::Revoked, "token_revoked"),
        (Standing::Inactive, "account_inactive"),
    ] {
        let bot = SlackBot::in_channel();
        bot.api.app_token_stands(standing);
        let _daemon = bot.home.start();
        let why = bot.until_state("down");
        assert!(why.contains("xapp") && why.contains(error), "{why}");
        let bot = SlackBot::in_channel();
        bot.api.stands(crate::support::slack::TEAM, standing);
        let _daemon = bot.home.start();
        let why = bot.until_state("down");
        assert!(why.contains("xoxb") && why.contains(error), "{why}");
    }
}

#[test]
fn a_switched_off_socket_mode_is_final() {
    let bot = SlackBot::in_channel();
    let _daemon = bot.start();
    bot.api.asks_to_leave(Reason::LinkDisabled);
    let why = bot.until_state("down");
    assert!(
        why.contains("link_disabled") && why.contains("Socket Mode"),
        "{why}"
    );
}

#[test]
fn a_missing_or_misplaced_token_is_named() {
    for (env, setting) in [
        ("SLACK_BOT_TOKEN=xoxb-12345\n", "app_token"),
        (
            "SLACK_BOT_TOKEN=xapp-12345\nSLACK_APP_TOKEN=xapp-12345\n",
            "slack.token",
        ),
        (
            "SLACK_BOT_TOKEN=xoxb-12345\nSLACK_APP_TOKEN=xoxb-12345\n",
            "app_token",
        ),
    ] {
        let bot = SlackBot::in_channel();
        bot.home.write(".env", env);
        let daemon = bot.home.start();
        let why = bot.until_state("off") + &daemon.log();
        assert!(why.contains(setting), "{env}: {why}");
        assert!(!why.contains("12345"), "{why}");
    }
}

#[tokio::test]
async fn a_server_that_names_slacks_own_socket_gets_no_ticket_there() {
    let bot = SlackBot::in_channel();
    bot.api.then(
        "apps.connections.open",
        ScriptedFault::Answer(crate::support::fake::Answer::json(
            200,
            &serde_json::json!({"ok": true, "url": "wss://wss-primary.slack.com/link/?ticket=SECRET"}),
        )),
    );
    let daemon = bot.home.start();
    let why = bot.until_state("down");
    assert!(why.contains("base_url"), "{why}");
    let log = daemon.log();
    assert!(!log.contains("SECRET"), "{log}");
}

/// A proxy with a certificate of a private authority, which the system's trust store has.
#[test]
fn the_api_and_the_socket_are_reached_through_tls() {
    let bot = SlackBot::in_channel();
    let front = TlsFront::start(&bot.api);
    bot.api.change(|world| world.url = front.url());
    let toml = format!("[platforms.slack]\nbase_url = \"{}/api\"\n", front.url());
    bot.home.write(".config/hermesd/hermesd.toml", &toml);
    bot.home.write("authority.pem", &front.authority);
    let store = bot.home.path().join("authority.pem").display().to_string();
    let _daemon = bot.home.start_with(&[("SSL_CERT_FILE", &store)]);
    bot.api.until_listening();
    let private = bot.api.direct(&ADA);
    let writing = bot.api.writes(&private, &ADA).text("hello");
    let root = writing.file("notes.txt", b"the notes").send();
    let answer = &bot.api.until_bot_replies(&private, &root, 1)[0];
    assert!(answer.text.contains("hello"), "{answer:?}");
    assert_eq!(bot.api.calls_of("file").len(), 1);
}

#[test]
fn of_several_workspaces_the_first_is_used_and_the_others_are_named() {
    let bot = SlackBot::in_channel();
    let env = format!(
        "SLACK_BOT_TOKEN={TOKEN},xoxb-SECOND\nSLACK_APP_TOKEN={APP_TOKEN}\nSLACK_ALLOWED_USERS={}\n",
        ADA.id
    );
    bot.home.write(".env", &env);
    bot.home.write("slack_tokens.json", "{}");
    let daemon = bot.start();
    let private = bot.api.direct(&ADA);
    let root = bot.api.says(&private, &ADA, "hello");
    bot.api.until_bot_replies(&private, &root, 1);
    let log = daemon.log();
    assert!(log.contains("lists several workspaces"), "{log}");
    assert!(log.contains("slack_tokens.json names more"), "{log}");
    for secret in [TOKEN, APP_TOKEN, "SECOND", "ticket"] {
        assert!(!log.contains(secret), "{secret}");
    }
}
