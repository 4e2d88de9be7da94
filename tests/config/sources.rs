//! `hermesd --check-config`: what is in force, where each value came from, and who beats whom.

use std::path::Path;

use serde_json::Value;

use crate::support::{Home, Ran};

/// The program with nothing in its environment but what is named here.
pub fn check(home: &Home, arguments: &[&str], environment: &[(&str, &str)]) -> Ran {
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
    command
        .arg("--check-config")
        .args(arguments)
        .envs(environment.iter().copied());
    home.run(&mut command)
}

pub fn in_force(home: &Home, environment: &[(&str, &str)]) -> Value {
    let ran = check(home, &["--json"], environment);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stderr, "", "{ran:?}");
    ran.json()
}

/// Value and origin of one setting.
pub fn setting(shown: &Value, key: &str) -> Option<(String, String)> {
    let settings = shown["settings"].as_array().unwrap();
    let row = settings.iter().find(|row| row["key"] == key)?;
    Some((
        row["value"].to_string(),
        row["from"].as_str().unwrap().to_owned(),
    ))
}

fn shown_path(path: &Path) -> String {
    path.canonicalize().unwrap().display().to_string()
}

const HOME_CHANNEL: &str = "platforms.telegram.home_channel";

#[test]
fn with_no_files_at_all_every_setting_has_its_default() {
    let home = Home::new();
    let shown = in_force(&home, &[]);
    assert_eq!(shown["home"].as_str(), home.path().to_str());
    assert_eq!(shown["socket"].as_str(), home.socket().to_str());
    let settings = shown["settings"].as_array().unwrap();
    assert!(settings.iter().all(|s| s["from"] == "default"), "{shown}");
    for (key, value) in [
        ("control.max_connections", "64"),
        ("handoff.parallel", "16"),
        ("handoff.watch", "true"),
        ("platforms.local.home_channel", "\"home\""),
        ("agent.default", "\"auto\""),
    ] {
        assert_eq!(setting(&shown, key).unwrap().0, value, "{key}");
    }
    assert_eq!(setting(&shown, HOME_CHANNEL), None);

    let text = check(&home, &[], &[]);
    assert_eq!(text.code, 0, "{text:?}");
    for row in settings {
        let key = row["key"].as_str().unwrap();
        let line = text.stdout.lines().find(|line| line.starts_with(key));
        assert!(line.is_some_and(|line| line.ends_with("default")), "{key}");
    }
    let made: Vec<_> = std::fs::read_dir(home.path()).unwrap().collect();
    assert!(made.is_empty(), "a look creates nothing: {made:?}");
}

#[test]
fn the_stronger_source_wins_and_the_origin_says_which_it_was() {
    let home = Home::new();
    let at = |name: &str| shown_path(&home.path().join(name));
    let expect = |environment: &[(&str, &str)], value: &str, from: &str| {
        let found = setting(&in_force(&home, environment), HOME_CHANNEL);
        assert_eq!(found, Some((format!("{value:?}"), from.to_owned())));
    };
    // From the weakest to the strongest, each on top of the ones before.
    home.write(
        "gateway.json",
        r#"{"platforms": {"telegram": {"home_channel": "json"}}}"#,
    );
    let key = "platforms.telegram.home_channel";
    expect(&[], "json", &format!("{}: {key}", at("gateway.json")));
    home.write(
        "config.yaml",
        "platforms:\n  telegram:\n    home_channel: yaml\n",
    );
    expect(&[], "yaml", &format!("{}: {key}", at("config.yaml")));
    home.write(
        "config.yaml",
        "TELEGRAM_HOME_CHANNEL: top\nplatforms:\n  telegram:\n    home_channel: yaml\n",
    );
    let top = format!("{}: TELEGRAM_HOME_CHANNEL", at("config.yaml"));
    expect(&[], "top", &top);
    let hermes = ("TELEGRAM_HOME_CHANNEL", "theirs");
    expect(&[hermes], "theirs", "environment TELEGRAM_HOME_CHANNEL");
    home.write(".env", "# ours\nTELEGRAM_HOME_CHANNEL=dotenv\n");
    expect(&[hermes], "dotenv", &format!("{}:2", at(".env")));
    home.write(
        ".config/hermesd/hermesd.toml",
        "[platforms.telegram]\n\nhome_channel = \"toml\"\n",
    );
    let toml = home.path().join(".config/hermesd/hermesd.toml");
    expect(&[hermes], "toml", &format!("{}:3", toml.display()));
    home.write("credentials/telegram.home_channel", "handed\n");
    let directory = home.path().join("credentials");
    let handed = ("CREDENTIALS_DIRECTORY", directory.to_str().unwrap());
    let file = directory.join("telegram.home_channel");
    expect(
        &[hermes, handed],
        "handed",
        &format!("credential {}", file.display()),
    );
    let own = ("HERMESD_PLATFORMS_TELEGRAM_HOME_CHANNEL", "ours");
    expect(
        &[hermes, own, handed],
        "ours",
        "environment HERMESD_PLATFORMS_TELEGRAM_HOME_CHANNEL",
    );
    // An empty variable is none.
    expect(
        &[("HERMESD_PLATFORMS_TELEGRAM_HOME_CHANNEL", "")],
        "toml",
        &format!("{}:3", toml.display()),
    );
}

#[test]
fn a_flag_beats_the_environment() {
    let home = Home::new();
    let environment = [("HERMESD_CONTROL_SOCKET", "/run/a.sock")];
    assert_eq!(in_force(&home, &environment)["socket"], "/run/a.sock");
    let ran = check(&home, &["--json", "--socket", "/run/b.sock"], &environment);
    assert_eq!(ran.json()["socket"], "/run/b.sock", "{ran:?}");
    let found = setting(&ran.json(), "control.socket").unwrap();
    assert_eq!(found.1, "--socket");
}

#[test]
fn the_configuration_file_is_found_in_its_places_in_order() {
    let home = Home::new();
    let path = |name: &str| home.path().join(name).display().to_string();
    let level = |arguments: &[&str], environment: &[(&str, &str)]| {
        let ran = check(&home, &[&["--json"], arguments].concat(), environment);
        assert_eq!(ran.code, 0, "{ran:?}");
        setting(&ran.json(), "log.level").unwrap()
    };
    for (directory, word) in [
        (".config/hermesd", "home"),
        ("xdg/hermesd", "xdg"),
        ("unit", "unit"),
        ("named", "named"),
        ("flag", "flag"),
    ] {
        home.write(
            &format!("{directory}/hermesd.toml"),
            &format!("log.level = \"hermesd::{word}\"\n"),
        );
    }
    let (xdg, unit) = (path("xdg"), path("unit"));
    let named = path("named/hermesd.toml");
    let flag = path("flag/hermesd.toml");
    let expect = |word: &str, place: &str| (format!("\"hermesd::{word}\""), format!("{place}:1"));
    let home_place = path(".config/hermesd/hermesd.toml");
    assert_eq!(level(&[], &[]), expect("home", &home_place));
    let mut environment = vec![("XDG_CONFIG_HOME", xdg.as_str())];
    assert_eq!(
        level(&[], &environment),
        expect("xdg", &path("xdg/hermesd/hermesd.toml"))
    );
    environment.push(("CONFIGURATION_DIRECTORY", &unit));
    assert_eq!(
        level(&[], &environment),
        expect("unit", &path("unit/hermesd.toml"))
    );
    environment.push(("HERMESD_CONFIG", &named));
    assert_eq!(level(&[], &environment), expect("named", &named));
    assert_eq!(
        level(&["--config", &flag], &environment),
        expect("flag", &flag)
    );

    for missing in [
        check(&home, &["--config", "/nowhere/h.toml"], &[]),
        check(&home, &[], &[("HERMESD_CONFIG", "/nowhere/h.toml")]),
    ] {
        assert_eq!(missing.code, 78, "{missing:?}");
        assert!(missing.stderr.contains("/nowhere/h.toml"), "{missing:?}");
    }
}

#[test]
fn the_home_is_the_first_that_is_named() {
    let home = Home::new();
    for name in ["flag", "variable", "state", "user/.hermes"] {
        std::fs::create_dir_all(home.path().join(name)).unwrap();
    }
    let path = |name: &str| home.path().join(name).display().to_string();
    let expect = |arguments: &[&str], environment: &[(&str, &str)], name: &str| {
        let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
        command
            .env_remove("HERMES_HOME")
            .args(["--check-config", "--json"])
            .args(arguments)
            .envs(environment.iter().copied());
        let ran = home.run(&mut command);
        let expected = shown_path(&home.path().join(name));
        assert_eq!(ran.json()["home"], expected, "{ran:?}");
    };
    let (flag, variable) = (path("flag"), path("variable"));
    let (states, user) = (format!("{}:/other", path("state")), path("user"));
    let mut environment = vec![("HOME", user.as_str())];
    expect(&[], &environment, "user/.hermes");
    environment.push(("STATE_DIRECTORY", &states));
    expect(&[], &environment, "state");
    environment.push(("HERMES_HOME", &variable));
    expect(&[], &environment, "variable");
    expect(&["--home", &flag], &environment, "flag");
    expect(
        &[],
        &[
            ("HOME", home.path().to_str().unwrap()),
            ("HERMES_HOME", "~/flag"),
        ],
        "flag",
    );

    let mut command = home.command(env!("CARGO_BIN_EXE_hermesd"));
    command
        .env_remove("HERMES_HOME")
        .env_remove("HOME")
        .arg("--check-config");
    let ran = home.run(&mut command);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.stderr.contains("--home"), "{ran:?}");
}

#[test]
fn the_socket_follows_the_runtime_directory() {
    let home = Home::new();
    let socket = |environment: &[(&str, &str)]| in_force(&home, environment)["socket"].clone();
    assert_eq!(socket(&[]).as_str(), home.socket().to_str());
    let session = ("XDG_RUNTIME_DIR", "/run/user/7");
    assert_eq!(socket(&[session]), "/run/user/7/hermesd/control.sock");
    let unit = ("RUNTIME_DIRECTORY", "/run/hermesd:/run/more");
    assert_eq!(socket(&[session, unit]), "/run/hermesd/control.sock");
}

#[test]
fn a_socket_path_that_the_kernel_would_not_take_is_refused_with_its_length() {
    let home = Home::new();
    let path = |length: usize| format!("/tmp/{}", "x".repeat(length - 5));
    assert_eq!(
        in_force(&home, &[("HERMESD_CONTROL_SOCKET", &path(107))])["socket"],
        path(107)
    );
    let ran = check(&home, &[], &[("HERMESD_CONTROL_SOCKET", &path(108))]);
    assert_eq!(ran.code, 78, "{ran:?}");
    for word in ["control.socket", &path(108), "108 bytes", "107"] {
        assert!(ran.stderr.contains(word), "{word}: {ran:?}");
    }
}

#[test]
fn a_credential_goes_by_any_name_of_its_setting() {
    let token = "platforms.telegram.token";
    for name in [
        token,
        "telegram.token",
        "TELEGRAM_BOT_TOKEN",
        "HERMESD_PLATFORMS_TELEGRAM_TOKEN",
        // As systemd names the files of a directory, and as a machine's credentials are told apart.
        "hermesd_telegram.token",
        "hermesd.TELEGRAM_BOT_TOKEN",
    ] {
        let home = Home::new();
        home.write(&format!("handed/{name}"), "SECRET\n");
        let directory = home.path().join("handed");
        let environment = [("CREDENTIALS_DIRECTORY", directory.to_str().unwrap())];
        let (value, from) = setting(&in_force(&home, &environment), token).expect(name);
        assert_eq!(value, "\"********\"", "{name}");
        assert_eq!(from, format!("credential {}/{name}", directory.display()));
    }
}

#[test]
fn credentials_that_say_nothing_count_for_nothing_and_unreadable_ones_are_named() {
    let home = Home::new();
    let directory = home.path().join("handed");
    let environment = [("CREDENTIALS_DIRECTORY", directory.to_str().unwrap())];
    // Not there at all, then empty, then not ours.
    in_force(&home, &environment);
    home.write("handed/telegram.token", " \n");
    home.write("handed/somebody.else", "SECRET");
    let shown = in_force(&home, &environment);
    assert_eq!(setting(&shown, "platforms.telegram.token"), None);
    assert!(!shown.to_string().contains("SECRET"));
    // What a setting does not take is refused without being shown where it is a secret.
    home.write("handed/handoff.parallel", "many");
    let ran = check(&home, &[], &environment);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.stderr.contains("handed/handoff.parallel"), "{ran:?}");
    std::fs::remove_file(directory.join("handoff.parallel")).unwrap();
    std::fs::write(directory.join("slack.token"), b"SECRET\xff").unwrap();
    let ran = check(&home, &[], &environment);
    assert_eq!(ran.code, 78, "{ran:?}");
    assert!(ran.stderr.contains("handed/slack.token"), "{ran:?}");
    assert!(!ran.stderr.contains("SECRET"), "{ran:?}");
}

#[test]
fn a_token_is_never_printed() {
    let home = Home::new();
    let quiet = |environment: &[(&str, &str)], from: &str| {
        for arguments in [&[][..], &["--json"]] {
            let ran = check(&home, arguments, environment);
            assert_eq!(ran.code, 0, "{ran:?}");
            assert!(ran.stdout.contains("********"), "{ran:?}");
            assert!(ran.stdout.contains(from), "{ran:?}");
            assert!(!ran.stdout.contains("SECRET"), "{ran:?}");
        }
    };
    home.write(
        "gateway.json",
        r#"{"platforms": {"slack": {"token": "SECRET"}}}"#,
    );
    quiet(&[], "gateway.json: platforms.slack.token");
    home.write("config.yaml", "platforms:\n  discord: {token: SECRET}\n");
    quiet(&[], "config.yaml: platforms.discord.token");
    home.write(".env", "MATRIX_ACCESS_TOKEN=\"SECRET\"\n");
    quiet(&[], ".env:1");
    let hermes = [("TELEGRAM_BOT_TOKEN", "SECRET")];
    quiet(&hermes, "environment TELEGRAM_BOT_TOKEN");
    let toml = ".config/hermesd/hermesd.toml";
    home.write(toml, "[platforms.telegram]\ntoken = \"SECRET\"\n");
    quiet(&[], "hermesd.toml:2");
    home.write("handed/telegram.token", "SECRET");
    let handed = home.path().join("handed");
    quiet(
        &[("CREDENTIALS_DIRECTORY", handed.to_str().unwrap())],
        "handed/telegram.token",
    );
    let variable = [("HERMESD_PLATFORMS_TELEGRAM_TOKEN", "SECRET")];
    quiet(&variable, "environment HERMESD_PLATFORMS_TELEGRAM_TOKEN");

    // Nor in the log of a daemon that tells all it can.
    let mut daemon = home.start_with(&[("HERMESD_LOG_LEVEL", "trace"), variable[0]]);
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(daemon.wait().success());
    assert!(daemon.log().contains("hermesd is ready"));
    assert!(!daemon.log().contains("SECRET"));
}

#[test]
fn a_token_is_not_printed_by_the_message_about_a_fault_beside_it() {
    let toml = ".config/hermesd/hermesd.toml";
    for (file, text) in [
        (toml, "[platforms.telegram]\ntoken = SECRET\n"),
        (toml, "[platforms.telegram]\ntoken = \"SECRET\n"),
        (toml, "[platforms.telegram]\ntoken = [\"SECRET\"]\n"),
        (toml, "[platforms.telegram]\ntokn = \"SECRET\"\n"),
        (toml, "[platforms]\ntelegram = \"SECRET\"\n"),
        (
            "config.yaml",
            "platforms:\n  telegram:\n    token: SECRET\n   x\n",
        ),
        (
            "config.yaml",
            "platforms:\n  telegram:\n    token: \"SECRET\n",
        ),
        ("config.yaml", "platforms: {telegram: {token: [SECRET]}}\n"),
        (
            "gateway.json",
            "{\"platforms\": {\"telegram\": {\"token\": \"SECRET}",
        ),
        (
            "gateway.json",
            r#"{"platforms": {"telegram": {"token": ["SECRET"]}}}"#,
        ),
    ] {
        let home = Home::new();
        home.write(file, text);
        let ran = check(&home, &[], &[]);
        assert_eq!(ran.code, 78, "{text} → {ran:?}");
        assert!(ran.stderr.contains(file), "{text} → {ran:?}");
        assert!(!ran.stderr.contains("SECRET"), "{text} → {ran:?}");
    }
}
