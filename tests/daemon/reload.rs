//! SIGHUP: the configuration is read anew, and nothing that is under way is dropped for it.

use std::os::unix::net::UnixDatagram;

use nix::sys::signal::Signal;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, TOKEN};
use crate::support::{Daemon, Home, SESSION, Wire, seed_session, until};

/// Asks for a reload and waits for its end, which the log tells with these words.
fn reload(daemon: &Daemon, outcome: &str) {
    let before = daemon.log().matches(outcome).count();
    daemon.signal(Signal::SIGHUP);
    until("the reload ends", || {
        (daemon.log().matches(outcome).count() > before).then_some(())
    });
}

const READ: &str = "configuration reloaded";

#[tokio::test]
async fn a_platform_comes_and_goes_and_another_person_is_let_in() {
    let bot = Bot::at_home(|api| api.private(&ADA));
    seed_session(&bot.home).await;
    bot.home.write(".env", "");
    let daemon = bot.home.start();
    assert_eq!(bot.standing()["state"], "off");

    let with = |more: &str| {
        let env = format!("TELEGRAM_BOT_TOKEN={TOKEN}\n{more}");
        bot.home.write(".env", &env);
        reload(&daemon, READ);
    };
    with("");
    bot.until_standing("up");
    bot.api.until_polled();
    bot.api.says(ADA.id, None, &ADA, "may I?");
    bot.api
        .until_message(ADA.id, None, |m| m.text.contains("hermesctl pair approve"));

    let polls = bot.api.calls_of("getMe").len();
    with(&format!(
        "TELEGRAM_ALLOWED_USERS={0}\nTELEGRAM_HOME_CHANNEL={0}\n",
        ADA.id
    ));
    bot.api.says(ADA.id, None, &ADA, "and now?");
    bot.answered(ADA.id, None, "and now?");
    assert_eq!(
        bot.api.calls_of("getMe").len(),
        polls,
        "it was not connected anew for that"
    );
    let handed = bot.hand_off();
    assert_eq!(handed.code, 0, "{handed:?}");

    bot.home.write(".env", "");
    reload(&daemon, READ);
    assert_eq!(bot.standing()["state"], "off");
}

#[tokio::test]
async fn a_wrong_configuration_changes_nothing_and_what_needs_a_start_is_named() {
    let home = Home::new();
    seed_session(&home).await;
    let toml = ".config/hermesd/hermesd.toml";
    let daemon = home.start();
    home.write(toml, "[handoff]\nparalel = 3\n");
    reload(&daemon, "configuration is wrong, nothing was changed");
    assert!(
        daemon.log().contains("did you mean handoff.parallel?"),
        "{}",
        daemon.log()
    );

    home.write(toml, "[handoff]\nparallel = 3\n[log]\nlevel = \"debug\"\n");
    reload(&daemon, READ);
    let log = daemon.log();
    assert!(
        log.contains("needs a restart") && log.contains("handoff.parallel"),
        "{log}"
    );
    let ran = home.hermesctl(&["handoff", "local", "--session", SESSION]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(daemon.log().contains("DEBUG"), "the level is another now");
}

#[tokio::test]
async fn an_answer_that_is_being_written_is_finished_by_the_agent_that_began_it() {
    let (bot, chat) = Bot::of_ada("");
    let toml = ".config/hermesd/hermesd.toml";
    bot.home.write(toml, "[agent]\necho_pace = \"20ms\"\n");
    let daemon = bot.start();
    let words: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
    bot.api.says(chat, None, &ADA, &words.join(" "));
    bot.api.until_message(chat, None, |m| m.text.contains("w5"));

    let script = "echo another answers";
    let (command, _) = crate::support::program(&bot.home, "agent", script);
    let other =
        format!("[agent]\ndefault = \"command\"\n[agents.command]\ncommand = {command:?}\n");
    bot.home.write(toml, &other);
    reload(&daemon, READ);
    bot.answered(chat, None, &words.join(" "));
    bot.api.says(chat, None, &ADA, "who are you?");
    bot.api
        .until_message(chat, None, |m| m.text == "another answers");
}

#[test]
fn the_service_manager_hears_of_it() {
    let home = Home::new();
    let path = home.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager
        .set_read_timeout(Some(crate::support::PATIENCE))
        .expect("a timeout");
    let daemon = home.start_with(&[("NOTIFY_SOCKET", path.to_str().expect("a path"))]);
    let hears = |what: &str| {
        until(what, || {
            let mut buffer = [0; 4096];
            let length = manager.recv(&mut buffer).expect("news");
            let told = String::from_utf8_lossy(&buffer[..length]).into_owned();
            told.contains(what).then_some(told)
        })
    };
    hears("READY=1");
    daemon.signal(Signal::SIGHUP);
    let told = hears("RELOADING=1");
    assert!(told.contains("MONOTONIC_USEC="), "{told}");
    assert!(hears("READY=1").contains("STATUS=Ready, up: local"));
    home.write(".config/hermesd/hermesd.toml", "nonsense = 1\n");
    daemon.signal(Signal::SIGHUP);
    hears("RELOADING=1");
    assert!(hears("READY=1").contains("not reloaded"));
}

#[tokio::test]
async fn hermesctl_reloads_and_says_what_changed() {
    let home = Home::new();
    seed_session(&home).await;
    let file = ".config/hermesd/hermesd.toml";
    home.write(file, "[log]\nlevel = \"info\"\n");
    let daemon = home.start();
    let nothing = home.hermesctl(&["--json", "reload"]);
    assert_eq!(nothing.code, 0, "{nothing:?}");
    assert_eq!(
        nothing.json(),
        serde_json::json!({"changed": [], "restart": []})
    );

    home.write(file, "[log]\nlevel = \"debug\"\n[handoff]\nparallel = 3\n");
    let changed = home.hermesctl(&["reload"]);
    assert_eq!(changed.code, 0, "{changed:?}");
    assert_eq!(
        changed.stdout,
        "The configuration is read. Changed:\n  handoff.parallel  (needs a restart)\n  log.level\n"
    );
    assert!(daemon.log().contains(READ));

    home.write(file, "[log]\nlevel = \"verbose\"\n");
    // hermesctl reads the same file, and need not ask the daemon.
    let wrong = home.hermesctl(&["--json", "reload"]);
    assert_eq!(wrong.code, 3, "{wrong:?}");
    assert_eq!(wrong.json()["error"]["kind"], "config", "{wrong:?}");
    let mut wire = Wire::greeted(&home.socket());
    let refused = wire.call("config.reload", serde_json::json!({}))["error"].clone();
    assert_eq!(refused["data"]["kind"], "config", "{refused}");
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("not \"verbose\""),
        "{refused}"
    );
}

#[tokio::test]
async fn an_error_notices_a_file_that_was_not_read() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let ask = || home.hermesctl(&["handoff", "telegram", "--session", SESSION]);
    let before = ask();
    assert!(!before.stderr.contains("has not been read"), "{before:?}");
    home.write(".config/hermesd/hermesd.toml", "[handoff]\nparallel = 3\n");
    let after = ask();
    assert_eq!(after.code, 3, "{after:?}");
    let words = after
        .stderr
        .split("hint: hermesd.toml was changed at ")
        .nth(1);
    let words = words.unwrap_or_else(|| panic!("{after:?}"));
    assert!(
        words.ends_with(" and has not been read since: run `hermesctl reload`\n"),
        "{after:?}"
    );
    assert_eq!(home.hermesctl(&["reload"]).code, 0);
    let read = ask();
    assert!(!read.stderr.contains("has not been read"), "{read:?}");
}
