//! `hermesctl setup discord` in scripts, and what doctor says about the permissions of the invitation.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::discord::permissions::{CREATE_PUBLIC_THREADS, MANAGE_THREADS, VIEW_CHANNEL};
use crate::support::discord::{ADA, APPLICATION_ID, BEN, BOT_ID, Discord, Id, TOKEN, Whom};
use crate::support::pty::Terminal;
use crate::support::{Home, Ran, SESSION, seed_session};

const FILE: &str = ".config/hermesd/hermesd.toml";
pub const BASE_URL: &str = "HERMESD_PLATFORMS_DISCORD_BASE_URL";
/// What hermesd asks for, as the invitation says it.
pub const INVITED: u64 =
    1 << 6 | 1 << 10 | 1 << 11 | 1 << 15 | 1 << 16 | 1 << 34 | 1 << 35 | 1 << 36 | 1 << 38;
const OPEN: &str = "POST /channels/{}/threads";
pub const WRONG: &str = "MTE5OTk5OTk5OTk5OTk5OTk5OQ.Gfake0.nobody-knows-this-one";

/// A bot that nobody has set up, on the server Workshop.
pub struct Fresh {
    pub home: Home,
    pub api: Discord,
    pub guild: Id,
    pub channel: Id,
    /// The file with the token.
    pub token: String,
}

pub fn fresh() -> Fresh {
    let (home, api) = (Home::new(), Discord::start());
    let guild = api.guild("Workshop");
    api.permits_bot(guild, INVITED);
    let channel = api.text_channel(guild, "work");
    home.write("token", &format!("{TOKEN}\n"));
    let token = home.path().join("token").display().to_string();
    Fresh {
        home,
        api,
        guild,
        channel,
        token,
    }
}

impl Fresh {
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_hermesctl"));
        command.env(BASE_URL, self.api.url()).args(arguments);
        command
    }

    pub fn script(&self, options: &[&str]) -> Ran {
        let setup = ["--json", "setup", "discord", "--no-input"];
        let mut command = self.command(&[&setup, options].concat());
        self.home.run(&mut command)
    }

    pub fn terminal(&self, options: &[&str]) -> Terminal {
        let command = self.command(&[&["setup", "discord"], options].concat());
        Terminal::of(command, 200, 100)
    }

    /// Up to the question for the owner, which is answered.
    pub fn terminal_of_ada(&self) -> Terminal {
        let terminal = self.terminal(&["--token-file", &self.token]);
        terminal.shows(&format!("Are you Ada (id {})? [Y/n]", ADA.id));
        terminal.press("\r");
        terminal
    }

    pub fn written(&self) -> String {
        std::fs::read_to_string(self.home.path().join(FILE)).unwrap_or_default()
    }

    pub fn link(&self) -> String {
        format!(
            "https://discord.com/oauth2/authorize?client_id={APPLICATION_ID}&scope=bot+applications.commands&permissions={INVITED}"
        )
    }

    /// How many threads were opened. None of them is left.
    pub fn trials(&self) -> usize {
        let world = self.api.world();
        let left = world.channels.values().filter(|c| c.thread.is_some());
        assert_eq!(left.count(), 0, "threads are left");
        drop(world);
        self.api.calls_of(OPEN).len()
    }
}

#[tokio::test]
async fn a_script_says_it_all_with_options() {
    let fresh = fresh();
    seed_session(&fresh.home).await;
    let (channel, owner) = (fresh.channel.to_string(), ADA.id.to_string());
    let options = [
        "--token-file",
        &fresh.token,
        "--home-channel",
        &channel,
        "--owner",
        &owner,
        "--allow",
        &BEN.id.to_string(),
    ];
    let ran = fresh.script(&options);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["bot"], "@hermes-test", "{ran:?}");
    assert_eq!(ran.json()["home_channel"], channel, "{ran:?}");
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN));
    assert_eq!(fresh.trials(), 1);
    let facts = fresh.home.path().join(FILE).metadata().unwrap();
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    assert_eq!(
        fresh.written(),
        format!(
            "[platforms.discord]\ntoken = \"{TOKEN}\"\nallowed_users = [\"{}\", \"{owner}\"]\nowner = \"{owner}\"\nhome_channel = \"{channel}\"\n",
            BEN.id
        )
    );
    let _daemon = fresh.home.start_with(&[(BASE_URL, &fresh.api.url())]);
    fresh.api.until_listening();
    let handed = fresh
        .home
        .hermesctl(&["handoff", "discord", "--session", SESSION]);
    assert_eq!(handed.code, 0, "{handed:?}");
    assert_eq!(fresh.api.threads(fresh.channel).len(), 1);
}

#[test]
fn a_token_that_is_wrong_or_missing_is_not_written() {
    let fresh = fresh();
    let none = fresh.script(&[]);
    assert_eq!((none.code, fresh.written().as_str()), (3, ""), "{none:?}");
    fresh.home.write("token", WRONG);
    let wrong = fresh.script(&["--token-file", &fresh.token]);
    assert_eq!((wrong.code, fresh.written().as_str()), (4, ""), "{wrong:?}");
    assert!(wrong.stdout.contains("developer portal"), "{wrong:?}");
    assert!(!wrong.stdout.contains("nobody-knows"), "{wrong:?}");
    assert!(!fresh.home.path().join(FILE).exists());
}

#[test]
fn a_home_or_an_owner_that_cannot_be_used_is_refused_and_nothing_is_written() {
    let fresh = fresh();
    let hidden = fresh.api.text_channel(fresh.guild, "hidden");
    fresh
        .api
        .overwrites(hidden, Whom::Member(BOT_ID), 0, VIEW_CHANNEL);
    let closed = fresh.api.text_channel(fresh.guild, "closed");
    let whom = Whom::Member(BOT_ID);
    fresh
        .api
        .overwrites(closed, whom, 0, CREATE_PUBLIC_THREADS | MANAGE_THREADS);
    let unseen = fresh.api.text_channel(fresh.guild, "unseen");
    let whom = Whom::Member(ADA.id);
    fresh.api.overwrites(unseen, whom, 0, VIEW_CHANNEL);
    let ada = ADA.id.to_string();
    for (home, owner, kind, words) in [
        ("42".to_owned(), &ada, "home", "unknown channel"),
        (hidden.to_string(), &ada, "home", "View Channel"),
        (
            closed.to_string(),
            &ada,
            "home",
            "in closed: Create Public Threads;",
        ),
        (unseen.to_string(), &ada, "home", "the owner"),
        (
            fresh.channel.to_string(),
            &BOT_ID.to_string(),
            "owner",
            "is not the id of a person",
        ),
        (
            fresh.channel.to_string(),
            &"43".to_owned(),
            "owner",
            "43 is not the id",
        ),
    ] {
        let options = ["--home-channel", &home, "--owner", owner];
        let ran = fresh.script(&[&["--token-file", &fresh.token], &options[..]].concat());
        assert_eq!(ran.code, 3, "{ran:?}");
        let error = &ran.json()["error"];
        assert_eq!(error["kind"], kind, "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
        assert!(!fresh.home.path().join(FILE).exists());
    }
    assert_eq!(fresh.trials(), 0);
}

#[test]
fn a_script_is_told_how_to_invite_the_bot_and_what_to_switch_on() {
    let fresh = fresh();
    fresh.api.kicks_bot(fresh.guild);
    let ran = fresh.script(&["--token-file", &fresh.token]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let error = &ran.json()["error"];
    assert_eq!(error["kind"], "no_server", "{error}");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains(&fresh.link()), "{hint}");
    fresh.api.portal(0);
    let ran = fresh.script(&["--token-file", &fresh.token]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let error = &ran.json()["error"];
    assert_eq!(error["kind"], "not_ready", "{error}");
    assert!(error["hint"].as_str().unwrap().contains("Privileged"));
    assert!(!fresh.home.path().join(FILE).exists());
}

#[test]
fn doctor_tells_what_a_handoff_needs_from_what_is_useful() {
    let fresh = fresh();
    let channel = fresh.channel.to_string();
    let options = ["--token-file", &fresh.token, "--home-channel", &channel];
    assert_eq!(fresh.script(&options).code, 0);
    let rights = || {
        let ran = fresh.home.run(&mut fresh.command(&["--json", "doctor"]));
        let found = ran.json()["findings"].as_array().unwrap().clone();
        let rights = found
            .into_iter()
            .filter(|f| f["what"] == "discord permissions");
        rights
            .map(|f| {
                let text = |field: &str| f[field].as_str().unwrap_or_default().to_owned();
                (text("grade"), text("detail"), text("remedy"))
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(rights().len(), 1);
    assert_eq!(rights()[0].0, "good");
    fresh.api.overwrites(
        fresh.channel,
        Whom::Member(BOT_ID),
        0,
        CREATE_PUBLIC_THREADS | MANAGE_THREADS,
    );
    let found = rights();
    assert_eq!(
        (found[0].0.as_str(), found[1].0.as_str()),
        ("bad", "doubtful")
    );
    assert!(found[0].1.ends_with(": Create Public Threads"), "{found:?}");
    assert!(found[1].1.contains(": Manage Threads ("), "{found:?}");
    assert!(found[0].2.contains(&fresh.link()), "{found:?}");
}
