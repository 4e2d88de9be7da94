//! `hermesctl setup slack`: the definition of the app, both tokens, the channel, and its trial.

use std::process::Command;

use serde_json::Value;

use crate::support::pty::Terminal;
use crate::support::slack::{ADA, APP_TOKEN, Slack, TOKEN};
use crate::support::{Home, Ran, SESSION, seed_session};

const FILE: &str = ".config/hermesd/hermesd.toml";
const BASE_URL: &str = "HERMESD_PLATFORMS_SLACK_BASE_URL";
const WRONG: &str = "xapp-1-A0WRONG-1-nobody-knows-this-one";

/// An app that nobody has set up, in a workspace with the channels work (with the bot) and play.
struct Fresh {
    home: Home,
    api: Slack,
    work: String,
    play: String,
}

fn fresh() -> Fresh {
    let (home, api) = (Home::new(), Slack::start());
    let work = api.public_channel("work");
    let play = api.public_channel("play");
    api.removes_bot(&play);
    home.write("bot", &format!("{TOKEN}\n"));
    home.write("app", &format!("{APP_TOKEN}\n"));
    home.write("wrong", &format!("{WRONG}\n"));
    Fresh {
        home,
        api,
        work,
        play,
    }
}

impl Fresh {
    fn file(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_hermesctl"));
        command.env(BASE_URL, self.api.url()).args(arguments);
        command
    }

    /// Setup without questions, with these files for the tokens.
    fn script(&self, tokens: &[&str], options: &[&str]) -> Ran {
        let mut arguments = vec!["--json", "setup", "slack", "--no-input"];
        let files: Vec<String> = tokens.iter().map(|name| self.file(name)).collect();
        for file in &files {
            arguments.extend(["--token-file", file]);
        }
        arguments.extend(options);
        self.home.run(&mut self.command(&arguments))
    }

    fn written(&self) -> String {
        std::fs::read_to_string(self.home.path().join(FILE)).unwrap_or_default()
    }
}

#[tokio::test]
async fn a_script_says_it_all_and_the_first_handoff_works() {
    let fresh = fresh();
    seed_session(&fresh.home).await;
    let options = ["--home-channel", &fresh.work, "--owner", ADA.id];
    let ran = fresh.script(&["bot", "app"], &options);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["home_channel"], fresh.work, "{ran:?}");
    for secret in [TOKEN, APP_TOKEN] {
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret));
        assert!(fresh.written().contains(secret));
    }
    let trials = fresh.api.bot_messages(&fresh.work);
    assert!(trials.is_empty(), "the trial is taken away: {trials:?}");
    let _daemon = fresh.home.start_with(&[
        (BASE_URL, &fresh.api.url()),
        ("HERMESD_AGENT_DEFAULT", "echo"),
    ]);
    fresh.api.until_listening();
    let words = ["handoff", "slack", "--session", SESSION];
    let handed = fresh.home.hermesctl(&words);
    assert_eq!(handed.code, 0, "{handed:?}");
}

#[test]
fn a_wrong_token_is_named_and_nothing_is_written() {
    let fresh = fresh();
    let options = ["--home-channel", &fresh.work, "--owner", ADA.id];
    let ran = fresh.script(&["bot", "wrong"], &options);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stdout.contains("app-level token"), "{ran:?}");
    assert_eq!(fresh.written(), "");
    let ran = fresh.script(&["bot"], &options);
    assert!(ran.stdout.contains("no app-level token"), "{ran:?}");
    assert_eq!(fresh.written(), "");
}

#[test]
fn a_channel_without_the_bot_and_a_missing_scope_are_named() {
    let fresh = fresh();
    let options = ["--home-channel", &fresh.play, "--owner", ADA.id];
    let ran = fresh.script(&["bot", "app"], &options);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("/invite"), "{ran:?}");
    assert_eq!(fresh.written(), "");
    fresh.api.removes_scope("channels:history");
    let options = ["--home-channel", &fresh.work, "--owner", ADA.id];
    let ran = fresh.script(&["bot", "app"], &options);
    assert!(ran.stdout.contains("channels:history"), "{ran:?}");
    // Before anything is tried in the channel.
    assert_eq!(ran.json()["error"]["kind"], "not_ready", "{ran:?}");
    assert_eq!(fresh.written(), "");
}

#[test]
fn the_definition_of_the_app_is_printed_for_a_pipe() {
    let fresh = fresh();
    let printed = fresh
        .home
        .run(&mut fresh.command(&["setup", "slack", "--manifest"]));
    let manifest: Value = serde_json::from_str(&printed.stdout).expect("JSON to paste");
    assert_eq!(manifest["settings"]["socket_mode_enabled"], true);
    let refused = fresh
        .home
        .run(&mut fresh.command(&["setup", "telegram", "--manifest"]));
    assert!(
        refused.stderr.contains("needs no definition"),
        "{refused:?}"
    );
}

#[test]
fn the_dialogue_leads_from_the_definition_to_a_tried_channel() {
    let fresh = fresh();
    let terminal = Terminal::of(fresh.command(&["setup", "slack"]), 200, 200);
    terminal.shows("https://api.slack.com/apps?new_app=1&manifest_json=");
    terminal.shows("The bot token (xoxb-…)");
    terminal.press(format!("{TOKEN}\r"));
    terminal.shows("The app-level token (xapp-…)");
    terminal.press(format!("{WRONG}\r"));
    terminal.shows("Another bot token");
    terminal.press("\r");
    terminal.shows("Another app-level token");
    terminal.press(format!("{APP_TOKEN}\r"));
    terminal.shows("They are the tokens of");
    terminal.shows("Copy member ID");
    terminal.press(format!("{}\r", ADA.id));
    terminal.shows("Are you ");
    terminal.press("\r");
    terminal.shows("#work");
    terminal.shows("/invite");
    terminal.press("1\r");
    terminal.shows("#work is the home channel.");
    terminal.shows("Done.");
    let written = fresh.written();
    assert!(written.contains(&fresh.work), "{written}");
    assert!(
        written.contains(&format!("owner = \"{}\"", ADA.id)),
        "{written}"
    );
}

#[test]
fn doctor_names_each_missing_scope() {
    let bot = crate::support::slack_bot::SlackBot::in_channel();
    bot.api.removes_scope("files:write");
    let _daemon = bot.start();
    let shown = bot.home.hermesctl(&["doctor"]);
    assert!(
        shown
            .stdout
            .contains("files of the agent needs files:write"),
        "{shown:?}"
    );
}
