//! SIGHUP: the configuration is read anew, and nothing that is under way is dropped for it.

use std::os::unix::net::UnixDatagram;

use nix::sys::signal::Signal;

use crate::support::bot::Bot;
use crate::support::telegram::{ADA, TOKEN};
use crate::support::{Daemon, Home, SESSION, seed_session, until};

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
