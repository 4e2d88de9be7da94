//! The settings of six platforms in the files of a Hermes user: each value, and where it comes from.

use std::collections::BTreeMap;

use hermesd::config::{self, Overrides};
use hermesd::platform;
use serde_json::{Value, json};

use crate::config::sources::{in_force, setting};
use crate::support::Home;

const ENV: &str = "\
DISCORD_BOT_TOKEN=SECRET-discord
DISCORD_HOME_CHANNEL=100
DISCORD_HOME_CHANNEL_NAME=General
DISCORD_ALLOWED_USERS=42,ann
DISCORD_ALLOWED_ROLES=7
DISCORD_REQUIRE_MENTION=true
DISCORD_FREE_RESPONSE_CHANNELS=1
DISCORD_AUTO_THREAD=false
DISCORD_IGNORED_CHANNELS=8
SLACK_BOT_TOKEN=xoxb-SECRET
SLACK_APP_TOKEN=xapp-SECRET
SLACK_HOME_CHANNEL=C1
SLACK_ALLOWED_USERS=U1
SLACK_ALLOWED_CHANNELS=C1
SLACK_STRICT_MENTION=true
MATRIX_HOMESERVER=https://matrix.example.org
MATRIX_USER_ID=@bot:example.org
MATRIX_PASSWORD=SECRET-matrix
MATRIX_HOME_ROOM=!room:example.org
MATRIX_FREE_RESPONSE_ROOMS=!env:example.org
MATRIX_ALLOWED_ROOMS=!env:example.org
MATRIX_SESSION_SCOPE=room
SIGNAL_HTTP_URL=http://127.0.0.1:8080
SIGNAL_ACCOUNT=+15550001111
SIGNAL_HOME_CHANNEL=+15557654321
SIGNAL_GROUP_ALLOWED_USERS=*
WHATSAPP_ENABLED=true
WHATSAPP_HOME_CHANNEL=15551234567
WHATSAPP_MODE=bot
WHATSAPP_FREE_RESPONSE_CHATS=1@g.us
WHATSAPP_CLOUD_PHONE_NUMBER_ID=555
WHATSAPP_CLOUD_ACCESS_TOKEN=SECRET-cloud
WHATSAPP_CLOUD_APP_SECRET=SECRET-app
WHATSAPP_CLOUD_VERIFY_TOKEN=SECRET-verify
WHATSAPP_CLOUD_WEBHOOK_PORT=9000
";

const YAML: &str = "\
discord:
  require_mention: false
  free_response_channels: ''
  auto_thread: true
  allow_from: [9]
  no_thread_channels: [5, 6]
  reply_to_mode: off
slack:
  require_mention: false
  allowed_channels: C9
  strict_mention: false
  reply_in_thread: false
platforms:
  slack:
    extra: {allowed_channels: [C2], dm_top_level_threads_as_sessions: false}
  matrix:
    extra: {free_response_rooms: ['!extra:example.org'], device_id: DEV}
  signal:
    extra: {require_mention: true, http_url: 'http://other:1'}
  whatsapp:
    extra: {bridge_port: 3001, session_path: /srv/session}
  whatsapp_cloud:
    extra: {webhook_path: /hook}
matrix:
  allowed_users: ['@ann:example.org']
  allowed_rooms: ['!yaml:example.org']
  dm_mention_threads: true
whatsapp:
  reply_prefix: 'Bot: '
  dm_policy: allowlist
";

/// The line of `.env` that assigns this variable.
fn line(name: &str) -> usize {
    let assigns = |line: &str| line.starts_with(&format!("{name}="));
    1 + ENV.lines().position(assigns).expect("an assignment")
}

#[test]
fn every_setting_of_a_hermes_user_shows_its_value_and_its_origin() {
    let home = Home::new();
    home.write(".env", ENV);
    home.write("config.yaml", YAML);
    let shown = in_force(&home, &[]);
    assert!(!shown.to_string().contains("SECRET"), "{shown}");
    let secret = || json!("********");
    let (dotenv, yaml) = (home.path().join(".env"), home.path().join("config.yaml"));
    let expected: [(&str, Value, &str); 48] = [
        ("discord.token", secret(), "DISCORD_BOT_TOKEN"),
        ("discord.home_channel", json!("100"), "DISCORD_HOME_CHANNEL"),
        (
            "discord.home_channel_name",
            json!("General"),
            "DISCORD_HOME_CHANNEL_NAME",
        ),
        // The variable comes first, and the block only where it is unset.
        (
            "discord.allowed_users",
            json!(["42", "ann"]),
            "DISCORD_ALLOWED_USERS",
        ),
        (
            "discord.allowed_roles",
            json!(["7"]),
            "DISCORD_ALLOWED_ROLES",
        ),
        ("discord.auto_thread", json!(false), "DISCORD_AUTO_THREAD"),
        (
            "discord.ignored_chats",
            json!(["8"]),
            "DISCORD_IGNORED_CHANNELS",
        ),
        (
            "discord.no_thread_chats",
            json!(["5", "6"]),
            "yaml discord.no_thread_channels",
        ),
        (
            "discord.reply_to_mode",
            json!("off"),
            "yaml discord.reply_to_mode",
        ),
        // The block comes first, even an empty text.
        (
            "discord.require_mention",
            json!(false),
            "yaml discord.require_mention",
        ),
        (
            "discord.free_chats",
            json!([]),
            "yaml discord.free_response_channels",
        ),
        ("discord.thread_require_mention", json!(false), "default"),
        ("discord.allow_bots", json!("none"), "default"),
        ("slack.token", secret(), "SLACK_BOT_TOKEN"),
        ("slack.app_token", secret(), "SLACK_APP_TOKEN"),
        ("slack.home_channel", json!("C1"), "SLACK_HOME_CHANNEL"),
        ("slack.allowed_users", json!(["U1"]), "SLACK_ALLOWED_USERS"),
        (
            "slack.require_mention",
            json!(false),
            "yaml slack.require_mention",
        ),
        // `extra` comes before the variable, the block after it.
        (
            "slack.only_chats",
            json!(["C2"]),
            "yaml platforms.slack.extra.allowed_channels",
        ),
        (
            "slack.thread_require_mention",
            json!(true),
            "SLACK_STRICT_MENTION",
        ),
        (
            "slack.reply_in_thread",
            json!(false),
            "yaml slack.reply_in_thread",
        ),
        (
            "slack.dm_top_level_threads",
            json!(false),
            "yaml platforms.slack.extra.dm_top_level_threads_as_sessions",
        ),
        (
            "matrix.homeserver",
            json!("https://matrix.example.org"),
            "MATRIX_HOMESERVER",
        ),
        (
            "matrix.user_id",
            json!("@bot:example.org"),
            "MATRIX_USER_ID",
        ),
        ("matrix.password", secret(), "MATRIX_PASSWORD"),
        (
            "matrix.device_id",
            json!("DEV"),
            "yaml platforms.matrix.extra.device_id",
        ),
        (
            "matrix.home_channel",
            json!("!room:example.org"),
            "MATRIX_HOME_ROOM",
        ),
        (
            "matrix.allowed_users",
            json!(["@ann:example.org"]),
            "yaml matrix.allowed_users",
        ),
        (
            "matrix.free_chats",
            json!(["!extra:example.org"]),
            "yaml platforms.matrix.extra.free_response_rooms",
        ),
        (
            "matrix.only_chats",
            json!(["!env:example.org"]),
            "MATRIX_ALLOWED_ROOMS",
        ),
        ("matrix.auto_thread", json!(true), "default"),
        (
            "matrix.session_scope",
            json!("room"),
            "MATRIX_SESSION_SCOPE",
        ),
        (
            "matrix.dm_mention_threads",
            json!(true),
            "yaml matrix.dm_mention_threads",
        ),
        (
            "signal.http_url",
            json!("http://127.0.0.1:8080"),
            "SIGNAL_HTTP_URL",
        ),
        ("signal.account", json!("+15550001111"), "SIGNAL_ACCOUNT"),
        (
            "signal.home_channel",
            json!("+15557654321"),
            "SIGNAL_HOME_CHANNEL",
        ),
        ("signal.groups", json!(["*"]), "SIGNAL_GROUP_ALLOWED_USERS"),
        (
            "signal.require_mention",
            json!(true),
            "yaml platforms.signal.extra.require_mention",
        ),
        ("whatsapp.enabled", json!(true), "WHATSAPP_ENABLED"),
        ("whatsapp.mode", json!("bot"), "WHATSAPP_MODE"),
        (
            "whatsapp.dm_policy",
            json!("allowlist"),
            "yaml whatsapp.dm_policy",
        ),
        (
            "whatsapp.reply_prefix",
            json!("Bot: "),
            "yaml whatsapp.reply_prefix",
        ),
        (
            "whatsapp.bridge_port",
            json!(3001),
            "yaml platforms.whatsapp.extra.bridge_port",
        ),
        (
            "whatsapp.session_path",
            json!("/srv/session"),
            "yaml platforms.whatsapp.extra.session_path",
        ),
        (
            "whatsapp_cloud.phone_number_id",
            json!("555"),
            "WHATSAPP_CLOUD_PHONE_NUMBER_ID",
        ),
        (
            "whatsapp_cloud.app_secret",
            secret(),
            "WHATSAPP_CLOUD_APP_SECRET",
        ),
        (
            "whatsapp_cloud.webhook_port",
            json!(9000),
            "WHATSAPP_CLOUD_WEBHOOK_PORT",
        ),
        (
            "whatsapp_cloud.webhook_path",
            json!("/hook"),
            "yaml platforms.whatsapp_cloud.extra.webhook_path",
        ),
    ];
    for (key, value, from) in expected {
        let origin = match from.strip_prefix("yaml ") {
            Some(path) => format!("{}: {path}", yaml.display()),
            None if from == "default" => from.to_owned(),
            None => format!("{}:{}", dotenv.display(), line(from)),
        };
        let found = setting(&shown, &format!("platforms.{key}"));
        assert_eq!(found, Some((value.to_string(), origin)), "{key}");
    }
    // All six are on, and this version can speak to Discord and Slack alone.
    let warnings = shown["warnings"].as_array().expect("warnings");
    for name in ["matrix", "signal", "whatsapp", "whatsapp_cloud"] {
        let warns = |w: &Value| {
            let text = w.as_str().unwrap_or_default();
            text.starts_with(&format!("{name} is off: ")) && text.contains("cannot speak to")
        };
        assert!(warnings.iter().any(warns), "{name}: {warnings:?}");
    }
}

fn is_on(name: &str, env: &str, yaml: &str) -> bool {
    let home = Home::new();
    home.write(".env", env);
    home.write("config.yaml", yaml);
    let overrides = Overrides {
        home: Some(home.path().to_owned()),
        ..Overrides::default()
    };
    let config = config::load_with(platform::schema(), &overrides, &BTreeMap::new());
    let config = config.expect("a configuration");
    config.platform(name).expect("it").enabled
}

#[test]
fn each_platform_has_its_own_switch() {
    let signal = "platforms: {signal: {extra: {http_url: 'http://h:1', account: '+1555'}}}\n";
    for (name, env, yaml, on) in [
        ("signal", "SIGNAL_HTTP_URL=http://h:1\n", "", false),
        ("signal", "SIGNAL_ACCOUNT=+1555\n", "", false),
        (
            "signal",
            "SIGNAL_HTTP_URL=http://h:1\nSIGNAL_ACCOUNT=+1555\n",
            "",
            true,
        ),
        ("signal", "", signal, false),
        ("signal", "", "signal: {enabled: true}\n", true),
        ("matrix", "MATRIX_USER_ID=@b:h\n", "", false),
        ("matrix", "MATRIX_PASSWORD=secret\n", "", true),
        ("matrix", "MATRIX_ACCESS_TOKEN=secret\n", "", true),
        ("slack", "SLACK_APP_TOKEN=xapp-1\n", "", false),
        ("slack", "SLACK_BOT_TOKEN=xoxb-1\n", "", true),
        (
            "whatsapp_cloud",
            "WHATSAPP_CLOUD_ACCESS_TOKEN=secret\n",
            "",
            false,
        ),
        (
            "whatsapp_cloud",
            "WHATSAPP_CLOUD_ACCESS_TOKEN=secret\nWHATSAPP_CLOUD_PHONE_NUMBER_ID=5\n",
            "",
            true,
        ),
        ("whatsapp", "WHATSAPP_HOME_CHANNEL=1\n", "", false),
        ("whatsapp", "WHATSAPP_ENABLED=1\n", "", true),
    ] {
        assert_eq!(is_on(name, env, yaml), on, "{name} {env} {yaml}");
    }
}

#[test]
fn a_placeholder_in_any_secret_switches_the_platform_off() {
    let tokens = "SLACK_BOT_TOKEN=xoxb-1\nSLACK_APP_TOKEN=";
    assert!(is_on("slack", &format!("{tokens}xapp-1\n"), ""));
    assert!(!is_on("slack", &format!("{tokens}your-token\n"), ""));
}
