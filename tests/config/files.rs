//! The files themselves: our strict one, and Hermes' own, of which only a part is ours.

use crate::config::sources::{check, in_force, setting};
use crate::support::Home;

const TOML: &str = ".config/hermesd/hermesd.toml";

/// The faults that a file of ours has, each a line.
fn faults(text: &str) -> Vec<String> {
    let home = Home::new();
    home.write(TOML, text);
    let ran = check(&home, &[], &[]);
    assert_eq!(ran.code, 78, "{text} → {ran:?}");
    assert_eq!(ran.stdout, "", "{text} → {ran:?}");
    let place = home.path().join(TOML).display().to_string();
    let short = ran.stderr.replace(&place, "FILE");
    let short = short.strip_prefix("error: ").unwrap();
    short.lines().map(str::to_owned).collect()
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_one() {
    assert_eq!(
        faults("\n[control]\nmax_conections = 5\n"),
        ["FILE:3: unknown key control.max_conections; did you mean control.max_connections?"]
    );
    assert_eq!(
        faults("[platforms.telegramm]\nenabled = true\n"),
        ["FILE:1: unknown key platforms.telegramm; did you mean platforms.telegram?"]
    );
    assert_eq!(
        faults("weather = \"fine\"\n"),
        ["FILE:1: unknown key weather"]
    );
}

#[test]
fn a_value_of_the_wrong_kind_or_out_of_range_is_refused_with_what_is_expected() {
    for (text, fault) in [
        (
            "control.max_connections = \"5\"",
            "control.max_connections takes a whole number from 1 to 4096, not \"5\"",
        ),
        (
            "control.max_connections = 0",
            "control.max_connections takes a whole number from 1 to 4096, not 0",
        ),
        (
            "handoff.parallel = 2.5",
            "handoff.parallel takes a whole number from 1 to 1024, not a decimal number",
        ),
        (
            "handoff.watch = \"yes\"",
            "handoff.watch takes true or false, not \"yes\"",
        ),
        (
            "agent.default = \"gpt\"",
            "agent.default takes one of auto, hermes, openai, acp, command, echo, not \"gpt\"",
        ),
        (
            "handoff.lease = \"10ms\"",
            "handoff.lease takes a time of at least 1s, such as \"30s\" or \"5m\", not \"10ms\"",
        ),
        (
            "handoff.lease = \"soon\"",
            "handoff.lease takes a time of at least 1s, such as \"30s\" or \"5m\", not \"soon\"",
        ),
        (
            "control.idle_timeout = -1",
            "control.idle_timeout takes a time of at least 100ms, such as \"30s\" or \"5m\", or 0, not -1",
        ),
        (
            "control.socket = [1]",
            "control.socket takes text, not a list",
        ),
        (
            "[control.socket]\nx = 1",
            "control.socket takes text, not a section",
        ),
        ("log = \"debug\"", "log is a section: write [log]"),
        ("[[platforms]]", "platforms is a section: write [platforms]"),
    ] {
        assert_eq!(faults(text), [format!("FILE:1: {fault}")], "{text}");
    }
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_the_line() {
    for (text, line) in [
        ("[control]\nsocket = \n", 2),
        ("[control\n", 1),
        ("[log]\nlevel = \"a\"\n\nlevel = \"b\"\n", 4),
    ] {
        let found = faults(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(&format!("FILE:{line}: ")),
            "{text} → {found:?}"
        );
    }
}

#[test]
fn all_faults_are_told_at_once_from_every_source() {
    let home = Home::new();
    home.write(
        TOML,
        "[control]\nmax_conections = 5\nidle_timeout = true\n[handoff]\nparallel = 0\n",
    );
    home.write(".env", "\nHERMESD_HANDOFF_WATCH=perhaps\n");
    home.write("config.yaml", "group_sessions_per_user: 3\n");
    let ran = check(&home, &[], &[("HERMESD_LOG_TARGET", "printer")]);
    assert_eq!(ran.code, 78, "{ran:?}");
    for word in [
        "hermesd.toml:2: unknown key",
        "hermesd.toml:3: control.idle_timeout takes",
        "hermesd.toml:5: handoff.parallel takes",
        ".env:2: handoff.watch takes true or false, not \"perhaps\"",
        "config.yaml: group_sessions_per_user: sessions.group_per_user takes true or false, not 3",
        "environment HERMESD_LOG_TARGET: log.target takes one of auto, journal, stderr, not \"printer\"",
    ] {
        assert!(ran.stderr.contains(word), "{word} is missing: {ran:?}");
    }
    assert_eq!(ran.stderr.lines().count(), 6, "{ran:?}");

    // Neither program goes on with it, and nothing is created.
    let daemon = home.hermesd(&[]);
    assert_eq!(daemon.code, 78, "{daemon:?}");
    assert!(!home.path().join("state.db").exists());
    let client = home.hermesctl(&["--json", "sessions"]);
    assert_eq!(client.code, 3, "{client:?}");
    assert_eq!(client.json()["error"]["kind"], "config", "{client:?}");
}

#[test]
fn all_ways_to_write_a_toml_value_are_understood() {
    let home = Home::new();
    home.write(
        TOML,
        "handoff.lease = 45\nhandoff.orphan_grace = \"500ms\"\nhandoff.poll_interval = 0\n\
         control = { max_connections = 0x10, write_timeout = \"2m\" }\n\
         [platforms.telegram]\nenabled = false\nhome_channel = \"-100\"\n",
    );
    let shown = in_force(&home, &[]);
    for (key, value) in [
        ("handoff.lease", "\"45s\""),
        ("handoff.orphan_grace", "\"500ms\""),
        ("handoff.poll_interval", "\"0\""),
        ("control.max_connections", "16"),
        ("control.write_timeout", "\"2m\""),
        ("platforms.telegram.enabled", "false"),
        ("platforms.telegram.home_channel", "\"-100\""),
    ] {
        assert_eq!(setting(&shown, key).unwrap().0, value, "{key}");
    }
}

#[test]
fn hermes_own_configuration_is_read_past_all_that_is_not_ours() {
    let home = Home::new();
    home.write(
        "config.yaml",
        "---
# Hermes' own
model: {default: some/model, provider: auto, base_url: null, context_length: 1000000}
defaults: &defaults
  retries: 3
terminal:
  <<: *defaults
  timeout: 1.5
  env: [A, B]
compression: {enabled: true, threshold: 0.5}
toolsets: [web, terminal]
discord:
  channel_prompts:
    123456789012345678: \"Speak softly\"
    true: odd
quick_commands: {}
agent: {max_turns: 90, default: something-else}
log: nonsense for us
control: [1, 2]
group_sessions_per_user: no
display:
  notes: |
    several
    lines: of text
platforms:
  telegram:
    enabled: yes
    extra: {rich: [1, {deep: true}]}
  unheard_of: {enabled: maybe}
",
    );
    home.write(
        "gateway.json",
        r#"{"sessions_dir": "/x", "reset": [1, null], "platforms": {"slack": {"enabled": true, "extra": 1.5}}}"#,
    );
    let shown = in_force(&home, &[]);
    for (key, value) in [
        ("sessions.group_per_user", "false"),
        ("platforms.telegram.enabled", "true"),
        ("platforms.slack.enabled", "true"),
        ("agent.default", "\"auto\""),
        ("agents.openai.context", "1000000"),
        ("log.level", "\"info\""),
    ] {
        assert_eq!(setting(&shown, key).unwrap().0, value, "{key}");
    }
    // Hermes runs without a number that it cannot use.
    home.write("config.yaml", "model: {default: m, context_length: 256K}\n");
    let shown = in_force(&home, &[]);
    assert_eq!(
        setting(&shown, "agents.openai.context").unwrap().0,
        "128000"
    );
    for empty in ["", "\n# nothing\n", "---\n", "null\n"] {
        home.write("config.yaml", empty);
        in_force(&home, &[]);
    }
}

#[test]
fn a_wrong_value_of_a_key_that_we_use_is_refused_by_its_name() {
    for (file, text, fault) in [
        (
            "config.yaml",
            "platforms: {telegram: {enabled: maybe}}",
            "config.yaml: platforms.telegram.enabled: platforms.telegram.enabled takes true or false, not \"maybe\"",
        ),
        (
            "config.yaml",
            "platforms: {telegram: {home_channel: [1]}}",
            "config.yaml: platforms.telegram.home_channel: platforms.telegram.home_channel takes text, not a list",
        ),
        (
            "gateway.json",
            r#"{"thread_sessions_per_user": "x"}"#,
            "gateway.json: thread_sessions_per_user: sessions.thread_per_user takes true or false, not \"x\"",
        ),
        ("config.yaml", "a: 1\nb: [1\n", "config.yaml:"),
        ("gateway.json", "{\n\n\"a\": }", "gateway.json:3: "),
    ] {
        let home = Home::new();
        home.write(file, text);
        let ran = check(&home, &[], &[]);
        assert_eq!(ran.code, 78, "{text} → {ran:?}");
        assert!(ran.stderr.contains(fault), "{text} → {ran:?}");
    }
}

#[test]
fn a_home_channel_is_a_mapping_a_text_or_a_number() {
    let home = Home::new();
    home.write(
        "config.yaml",
        "platforms:
  telegram:
    home_channel: {platform: telegram, chat_id: -1001234567890, name: Family, thread_id: 7}
  discord:
    home_channel: \"42\"
  slack:
    home_channel: 43
  matrix:
    home_channel: \"!room:example.org\"
",
    );
    let shown = in_force(&home, &[]);
    for (key, value) in [
        ("telegram.home_channel", Some("\"-1001234567890\"")),
        ("telegram.home_channel_name", Some("\"Family\"")),
        ("telegram.home_channel_thread", Some("\"7\"")),
        ("discord.home_channel", Some("\"42\"")),
        ("discord.home_channel_name", None),
        ("slack.home_channel", Some("\"43\"")),
        ("matrix.home_channel", Some("\"!room:example.org\"")),
    ] {
        let found = setting(&shown, &format!("platforms.{key}")).map(|(value, _)| value);
        assert_eq!(found.as_deref(), value, "{key}");
    }
}

#[test]
fn what_is_nested_under_gateway_counts_unless_the_top_level_says_otherwise() {
    let home = Home::new();
    let nested = "gateway:
  group_sessions_per_user: false
  multiplex_profiles: true
  platforms:
    telegram: {enabled: true, home_channel: {chat_id: nested, name: Nested}}
    discord: {home_channel: {chat_id: nested}}
    slack: {home_channel: nested}
";
    let top = "group_sessions_per_user: true
platforms:
  telegram: {enabled: false}
  discord: {home_channel: top}
  slack: {home_channel: {chat_id: top}}
";
    let values = |text: &str| {
        home.write("config.yaml", text);
        let shown = in_force(&home, &[]);
        [
            "sessions.group_per_user",
            "sessions.multiplex_profiles",
            "platforms.telegram.enabled",
            "platforms.telegram.home_channel",
            "platforms.discord.home_channel",
            "platforms.slack.home_channel",
        ]
        .map(|key| setting(&shown, key).unwrap().0.replace('"', ""))
    };
    assert_eq!(
        values(nested),
        ["false", "true", "true", "nested", "nested", "nested"]
    );
    for text in [format!("{nested}{top}"), format!("{top}{nested}")] {
        assert_eq!(
            values(&text),
            ["true", "true", "false", "nested", "top", "top"]
        );
    }
}

#[test]
fn the_environment_file_is_read_as_a_shell_would() {
    let home = Home::new();
    for (line, value) in [
        ("TELEGRAM_HOME_CHANNEL=plain", Some("plain")),
        ("  export TELEGRAM_HOME_CHANNEL=exported", Some("exported")),
        ("TELEGRAM_HOME_CHANNEL = spaced # a note", Some("spaced")),
        ("TELEGRAM_HOME_CHANNEL='a # b' # a note", Some("a # b")),
        ("TELEGRAM_HOME_CHANNEL=\"a \\\"b\\\"\"", Some("a \\\"b\\\"")),
        ("TELEGRAM_HOME_CHANNEL=a#b", Some("a#b")),
        (
            "TELEGRAM_HOME_CHANNEL=one\nTELEGRAM_HOME_CHANNEL=two",
            Some("two"),
        ),
        ("TELEGRAM_HOME_CHANNEL=one\r\n", Some("one")),
        ("TELEGRAM_HOME_CHANNEL=", None),
        ("#TELEGRAM_HOME_CHANNEL=commented", None),
        (
            "XTELEGRAM_HOME_CHANNEL=other\nTELEGRAM_HOME_CHANNELS=other",
            None,
        ),
        ("nonsense\n=\n'\n[section]", None),
    ] {
        home.write(".env", line);
        let found = setting(&in_force(&home, &[]), "platforms.telegram.home_channel");
        let found = found.map(|(value, _)| value);
        assert_eq!(found, value.map(|v| format!("\"{v}\"")), "{line}");
    }
}

#[test]
fn a_level_of_the_log_that_does_not_exist_is_refused() {
    let home = Home::new();
    home.write(
        ".config/hermesd/hermesd.toml",
        "[log]\nlevel = \"verbose\"\n",
    );
    for ran in [
        home.hermesd(&["--check-config"]),
        home.hermesd(&["--rebuild-index"]),
    ] {
        assert_eq!(ran.code, 78, "{ran:?}");
        let words = "hermesd.toml:2: log.level takes one of error, warn, info, debug, trace, off, or a filter";
        assert!(ran.stderr.contains(words), "{ran:?}");
        assert!(ran.stderr.contains("not \"verbose\""), "{ran:?}");
    }
}
