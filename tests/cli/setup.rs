//! `hermesctl setup`: from a fresh bot to the first handoff, by flags and by conversation.

use std::os::unix::fs::PermissionsExt;

use crate::support::bot::Bot;
use crate::support::pty::Terminal;
use crate::support::telegram::{ADA, TOKEN};
use crate::support::{Ran, SESSION, program, seed_session};

const FILE: &str = ".config/hermesd/hermesd.toml";

/// A home that knows only where the Bot API is, and a file with the token.
async fn fresh() -> (Bot, String) {
    let (bot, _) = Bot::of_ada("");
    bot.home.write(".env", "");
    bot.home.write("token", &format!("{TOKEN}\n"));
    seed_session(&bot.home).await;
    let token = bot.home.path().join("token").display().to_string();
    (bot, token)
}

fn written(bot: &Bot) -> String {
    std::fs::read_to_string(bot.home.path().join(FILE)).unwrap_or_default()
}

fn set_up(bot: &Bot, flags: &[&str]) -> Ran {
    let mut arguments = vec!["--json", "setup", "--no-input"];
    arguments.extend(flags);
    bot.home.hermesctl(&arguments)
}

#[tokio::test]
async fn a_script_says_it_all_with_flags() {
    let (bot, token) = fresh().await;
    let id = ADA.id.to_string();
    let ran = set_up(
        &bot,
        &[
            "--token-file",
            &token,
            "--home-channel",
            &id,
            "--allow",
            &id,
        ],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["bot"], "@hermes_test_bot", "{ran:?}");
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN));
    let mode = bot
        .home
        .path()
        .join(FILE)
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let _daemon = bot.start();
    let handed = bot
        .home
        .hermesctl(&["handoff", "telegram", "--session", SESSION]);
    assert_eq!(handed.code, 0, "{handed:?}");
    bot.api
        .until_message(ADA.id, None, |m| m.text.contains("I am here"));
}

#[tokio::test]
async fn a_script_names_the_owner() {
    let (bot, token) = fresh().await;
    let id = ADA.id.to_string();
    let ran = set_up(&bot, &["--token-file", &token, "--owner", &id]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let file = written(&bot);
    assert!(file.contains(&format!("owner = \"{id}\"\n")), "{file}");
    assert!(
        file.contains(&format!("allowed_users = [\"{id}\"]\n")),
        "{file}"
    );
}

#[tokio::test]
async fn a_token_that_is_wrong_or_missing_is_not_written() {
    let (bot, token) = fresh().await;
    let none = set_up(&bot, &[]);
    assert_eq!((none.code, written(&bot).as_str()), (3, ""), "{none:?}");
    bot.home
        .write("token", "4242424242:AAnobody-knows-this-one");
    let wrong = set_up(&bot, &["--token-file", &token]);
    assert_eq!((wrong.code, written(&bot).as_str()), (4, ""), "{wrong:?}");
    assert!(!wrong.stdout.contains("AAnobody"), "{wrong:?}");
}

#[tokio::test]
async fn a_person_is_led_from_the_token_to_the_home_channel() {
    let (bot, _) = fresh().await;
    let terminal = Terminal::open(&bot.home, &["setup"], 100, 40);
    terminal.shows("The token (it is not shown):");
    terminal.press(format!("{TOKEN}\r"));
    terminal.shows("Send /sethome there now.");
    bot.api.until_polled();
    bot.api.says(ADA.id, None, &ADA, "/sethome");
    terminal.shows("Is that you?");
    terminal.press("y\r");
    terminal.shows("Done.");
    assert!(!terminal.screen().contains("AAtest"), "the token was shown");
    bot.api
        .until_message(ADA.id, None, |m| m.text.contains("This is home now"));
    let file = written(&bot);
    for line in ["home_channel = ", "owner = ", "allowed_users = ["] {
        assert!(file.contains(line), "{file}");
    }
    let _daemon = bot.start();
    assert_eq!(bot.hand_off().code, 0);
}

#[tokio::test]
async fn beside_a_daemon_the_person_is_paired_and_the_daemon_hears_the_home() {
    let (bot, token) = fresh().await;
    let _daemon = bot.home.start();
    let arguments = ["setup", "--token-file", &token];
    let terminal = Terminal::open(&bot.home, &arguments, 100, 40);
    terminal.shows("Send /sethome there now.");
    bot.api.says(ADA.id, None, &ADA, "/sethome");
    let told = bot
        .api
        .until_message(ADA.id, None, |m| m.text.contains("pair approve"));
    let code = told.text.trim().rsplit(' ').next().unwrap().to_owned();
    terminal.press(format!("{code}\r"));
    terminal.shows("Now send /sethome again.");
    bot.api.says(ADA.id, None, &ADA, "/sethome");
    bot.api
        .until_message(ADA.id, None, |m| m.text.contains("This is home now"));
    terminal.press("\r");
    terminal.shows("Done.");
    assert!(written(&bot).contains("owner = "), "{}", written(&bot));
    assert_eq!(bot.standing()["owner"], ADA.id.to_string());
    assert_eq!(bot.hand_off().code, 0);
}

#[tokio::test]
async fn a_webhook_is_removed_by_an_explicit_yes_alone() {
    let (bot, token) = fresh().await;
    let id = ADA.id.to_string();
    bot.api.webhook("https://elsewhere.example/hook");
    // A script that does not ask for it leaves it.
    let arguments = [
        "setup",
        "--no-input",
        "--token-file",
        &token,
        "--home-channel",
        &id,
    ];
    let ran = bot.home.hermesctl(&arguments);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("elsewhere.example"), "{ran:?}");
    assert!(ran.stdout.contains("--remove-webhook"), "{ran:?}");
    for (answer, shown, removed) in [("\r", "It stays", 0), ("y\r", "It is removed", 1)] {
        let arguments = ["setup", "--token-file", &token, "--home-channel", &id];
        let terminal = Terminal::open(&bot.home, &arguments, 100, 40);
        terminal.shows("Remove it? [y/N]");
        terminal.press(answer);
        terminal.shows(shown);
        terminal.shows("Done.");
        assert_eq!(bot.api.calls_of("deleteWebhook").len(), removed);
    }
}

#[tokio::test]
async fn who_breaks_off_gets_the_terminal_back_as_it_was() {
    let (bot, _) = fresh().await;
    let mut terminal = Terminal::open(&bot.home, &["setup"], 100, 40);
    terminal.shows("The token (it is not shown):");
    terminal.press([3]);
    assert_eq!(terminal.end(), 4);
    assert!(terminal.is_as_found());
    assert_eq!(written(&bot), "");
}

/// A service manager that knows the unit, and writes down what it is asked to do; `outcome` is how enabling ends.
fn with_service(bot: &Bot, arguments: &[&str], outcome: &str) -> std::process::Command {
    let script = format!(
        "case \"$*\" in *enable*) echo \"$*\" >> \"$OUT\"; exit {outcome};; *' cat '*) exit 0;; esac; exit 1"
    );
    let (systemctl, _) = program(&bot.home, "systemctl", &script);
    let directory = std::path::Path::new(&systemctl).parent().unwrap();
    let mut command = bot.home.command(env!("CARGO_BIN_EXE_hermesctl"));
    command.env("PATH", directory).args(arguments);
    command
}

fn asked_of_service(bot: &Bot) -> String {
    std::fs::read_to_string(bot.home.path().join("systemctl.out")).unwrap_or_default()
}

const ENABLED: &str = "--user enable --now hermesd.socket hermesd.service\n";

#[tokio::test]
async fn the_service_is_enabled_for_who_wants_it() {
    let (bot, token) = fresh().await;
    let id = ADA.id.to_string();
    let flags = ["--json", "setup", "--no-input", "--token-file", &token];
    let all = [&flags[..], &["--home-channel", &id, "--enable"]].concat();
    let ran = bot.home.run(&mut with_service(&bot, &all, "0"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["service_enabled"], true, "{ran:?}");
    assert_eq!(asked_of_service(&bot), ENABLED);
    let ran = bot.home.run(&mut with_service(&bot, &all, "1"));
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stdout.contains("cannot enable the service"), "{ran:?}");
}

#[tokio::test]
async fn a_person_is_offered_the_service_and_told_of_lingering() {
    let (bot, token) = fresh().await;
    let id = ADA.id.to_string();
    let arguments = ["setup", "--token-file", &token, "--home-channel", &id];
    let terminal = Terminal::of(with_service(&bot, &arguments, "0"), 130, 40);
    terminal.shows("loginctl enable-linger");
    terminal.shows("Enable and start it? [Y/n]");
    terminal.press("\r");
    terminal.shows("Done.");
    assert_eq!(asked_of_service(&bot), ENABLED);
}
