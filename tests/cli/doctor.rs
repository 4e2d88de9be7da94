//! `hermesctl doctor`: each fault is found, and named with its remedy.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, Rights, ScriptedFault};
use crate::support::{Home, Ran, program, seed_session};

/// What was found under this name, as `grade: detail → remedy`.
fn found(ran: &Ran, what: &str) -> Vec<String> {
    let report = ran.json();
    let all = report["findings"].as_array().expect("findings").iter();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    all.filter(|finding| finding["what"] == what)
        .map(|f| {
            format!(
                "{}: {} → {}",
                text(f, "grade"),
                text(f, "detail"),
                text(f, "remedy")
            )
        })
        .collect()
}

fn private(home: &Home) {
    let path = home.path().join(".env");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
}

#[tokio::test]
async fn a_house_in_order_is_well() {
    let bot = Bot::at_home(|api| api.forum("Work", Rights::TopicsAdmin));
    seed_session(&bot.home).await;
    private(&bot.home);
    let _daemon = bot.start();
    let ran = bot.home.hermesctl(&["--json", "doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["well"], true);
    let token = found(&ran, "telegram token").join("");
    assert!(token.contains("@hermes_test_bot"), "{token}");
    assert!(
        found(&ran, "telegram topics")[0].starts_with("good"),
        "{ran:?}"
    );
    assert!(found(&ran, "database")[0].contains("1 sessions"), "{ran:?}");
    assert!(!ran.stdout.contains("AAtest"), "no token is shown");

    let access = &found(&ran, "telegram access")[0];
    let owner = format!("good: the owner is {}, who alone may list", ADA.id);
    assert!(access.starts_with(&owner), "{access}");
    assert!(access.contains("Strangers get"), "{access}");

    bot.api.revoke_rights(bot.chat);
    let ran = bot.home.hermesctl(&["doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("who may manage topics"), "{ran:?}");
    assert!(ran.stdout.contains("Everything works, with "), "{ran:?}");
}

#[test]
fn a_wrong_configuration_is_named_and_ends_the_round() {
    let home = Home::new();
    home.write(".config/hermesd/hermesd.toml", "[handoff]\nparalel = 3\n");
    let ran = home.hermesctl(&["doctor"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.stdout.contains("did you mean handoff.parallel?"),
        "{ran:?}"
    );
}

#[test]
fn without_a_daemon_the_rest_is_looked_at_all_the_same() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    drop(bot.home.store());
    bot.api
        .then("getMe", ScriptedFault::Refuse(401, "Unauthorized"));
    let env = bot.home.path().join(".env");
    std::fs::set_permissions(env, std::fs::Permissions::from_mode(0o644)).expect("a mode");
    let ran = bot.home.hermesctl(&["--json", "doctor"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(found(&ran, "secrets")[0].contains("chmod 600"), "{ran:?}");
    assert!(
        found(&ran, "daemon")[0].starts_with("bad: none serves"),
        "{ran:?}"
    );
    assert!(
        found(&ran, "telegram token")[0].contains("@BotFather"),
        "{ran:?}"
    );
    let agent = &found(&ran, "agent")[0];
    assert!(agent.starts_with("doubtful: the agent is echo"), "{agent}");
}

#[test]
fn a_home_that_is_a_group_of_nobody_is_told_of() {
    let bot = Bot::at_home(|api| api.group("Team"));
    bot.home.write(
        ".env",
        &format!(
            "TELEGRAM_BOT_TOKEN={}\nTELEGRAM_HOME_CHANNEL={}\n",
            crate::support::telegram::TOKEN,
            bot.chat
        ),
    );
    private(&bot.home);
    drop(bot.home.store());
    let ran = bot.home.hermesctl(&["--json", "doctor"]);
    let home = found(&ran, "telegram home channel").join("\n");
    assert!(home.contains("platforms.telegram.owner"), "{home}");
    let access = &found(&ran, "telegram access")[0];
    assert!(
        access.starts_with("doubtful: no owner is known"),
        "{access}"
    );
    assert!(access.contains("set platforms.telegram.owner"), "{access}");
}

#[test]
fn a_unit_that_failed_and_a_gateway_beside_us_are_told_of() {
    let home = Home::new();
    drop(home.store());
    let (systemctl, _) = program(
        &home,
        "systemctl",
        "case \"$*\" in *--user*) exit 1;; esac\nprintf 'LoadState=loaded\\nActiveState=failed\\nUnitFileState=enabled\\nResult=exit-code\\n'",
    );
    let pid = std::process::id();
    let state = format!("{{\"gateway_state\": \"running\", \"pid\": {pid}}}");
    home.write("gateway_state.json", &state);
    let directory = std::path::Path::new(&systemctl)
        .parent()
        .expect("a directory");
    let mut command = home.command(env!("CARGO_BIN_EXE_hermesctl"));
    command.env("PATH", directory).args(["--json", "doctor"]);
    let ran = home.run(&mut command);
    assert_eq!(ran.code, 4, "{ran:?}");
    let unit = &found(&ran, "system unit")[0];
    assert!(unit.contains("journalctl --unit hermesd"), "{unit}");
    let gateway = &found(&ran, "Hermes gateway")[0];
    assert!(
        gateway.contains("hermes gateway stop") && gateway.contains(&pid.to_string()),
        "{gateway}"
    );
}

/// hermesctl in a directory of its own, with no hermesd next to it and none on PATH.
fn alone(home: &Home) -> std::process::Command {
    let directory = home.path().join("alone");
    std::fs::create_dir_all(&directory).expect("a directory");
    let program = directory.join("hermesctl");
    std::fs::copy(env!("CARGO_BIN_EXE_hermesctl"), &program).expect("a copy");
    let mut command = home.command(&program.display().to_string());
    command.env("PATH", &directory);
    command
}

#[test]
fn without_hermesd_the_remedy_is_to_install_it() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    drop(bot.home.store());
    let ran = bot.home.run(alone(&bot.home).args(["--json", "doctor"]));
    assert_eq!(ran.code, 4, "{ran:?}");
    let missing = &found(&ran, "platforms and agents")[0];
    assert!(missing.starts_with("bad: this needs hermesd"), "{missing}");
    assert!(missing.contains("→ install the package"), "{missing}");
    // What needs neither a platform nor an agent is looked at all the same.
    assert!(found(&ran, "database")[0].starts_with("good"), "{ran:?}");

    let ran = bot
        .home
        .run(alone(&bot.home).args(["--json", "setup", "--no-input"]));
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(ran.json()["error"]["kind"], "no_hermesd", "{ran:?}");
}

#[test]
fn hermesd_on_the_path_will_do() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    drop(bot.home.store());
    let hermesd = std::path::Path::new(env!("CARGO_BIN_EXE_hermesd"));
    let mut command = alone(&bot.home);
    command.env("PATH", hermesd.parent().expect("a directory"));
    let ran = bot.home.run(command.args(["--json", "doctor"]));
    let token = found(&ran, "telegram token").join("");
    assert!(token.contains("@hermes_test_bot"), "{ran:?}");
}

#[test]
fn a_missing_program_of_an_agent_is_found_with_and_without_a_daemon() {
    let home = Home::new();
    let toml = "agent.default = \"acp\"\nagents.acp.command = \"/nowhere/agent --acp\"\nagents.command.command = \"no-such-program\"\n";
    home.write(".config/hermesd/hermesd.toml", toml);
    let all = |ran: &Ran| {
        assert_eq!(ran.code, 4, "{ran:?}");
        let found = found(ran, "agent").join("\n");
        assert!(found.contains("/nowhere/agent does not exist"), "{found}");
        assert!(
            found.contains("no-such-program is not on the path"),
            "{found}"
        );
    };
    all(&home.hermesctl(&["--json", "doctor"]));
    drop(home.store());
    all(&home.hermesctl(&["--json", "doctor"]));
    let _daemon = home.start();
    all(&home.hermesctl(&["--json", "doctor"]));
}

#[test]
fn a_hook_that_cannot_start_is_found() {
    let home = Home::new();
    let (good, _) = program(&home, "good", "true");
    home.write("plain", "#!/bin/sh\n");
    let toml = format!(
        "[hooks]\non_turn_end = \"{good}\"\non_question = \"/nowhere/hook\"\non_session_end = \"{}/plain\"\n",
        home.path().display()
    );
    home.write(".config/hermesd/hermesd.toml", &toml);
    let ran = home.hermesctl(&["--json", "doctor"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let hooks = found(&ran, "hooks");
    assert_eq!(hooks.len(), 2, "{hooks:?}");
    assert!(
        hooks
            .iter()
            .any(|f| f.starts_with("bad: on_question: /nowhere/hook does not exist"))
    );
    assert!(
        hooks
            .iter()
            .any(|f| f.starts_with("bad: on_session_end:") && f.contains("is not executable"))
    );
}

#[test]
fn a_home_that_cannot_be_created_is_found() {
    let home = Home::new();
    home.write("file", "");
    let below = home.path().join("file/home").display().to_string();
    let ran = home.hermesctl(&["--json", "--home", &below, "doctor"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let found = found(&ran, "home").join("");
    assert!(found.contains("cannot be created"), "{found}");
    assert!(
        found.contains("is not a directory → choose another home"),
        "{found}"
    );
}

#[test]
fn a_full_disk_and_a_disk_that_cannot_be_written_are_found() {
    let home = Home::new();
    home.write("disk/keep", "");
    let disk = home.path().join("disk").display().to_string();
    let hermesctl = env!("CARGO_BIN_EXE_hermesctl");
    let doctor = format!("{hermesctl} --json --home {disk} doctor");
    for (options, what, words) in [
        (
            "size=4m",
            "disk",
            "bad: 4 MB free: soon no message can be stored",
        ),
        (
            "ro,size=500m",
            "home",
            "cannot be written: Read-only file system",
        ),
    ] {
        let script = format!("mount -t tmpfs -o {options} none {disk} && {doctor}");
        let Some(mut command) = home.with_own_mounts(&script) else {
            return;
        };
        let ran = home.run(&mut command);
        assert_eq!(ran.code, 4, "{ran:?}");
        let found = found(&ran, what).join("\n");
        assert!(found.contains(words), "{found}");
    }
}
