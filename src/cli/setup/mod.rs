//! Invoked by `hermesctl setup`.
//!
//! Guides you from a new bot to the first handoff. Each step is saved before the next begins, so you can stop and
//! continue later.

mod ask;
mod file;
mod home;

use std::io::Read;
use std::path::Path;

use serde_json::json;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use super::CliError;
use super::backend::{Target, find_daemon};
use super::diagnose_process::{DiagnoseProcess, unexpected};
use super::output::{BOLD, GOOD, Output};
use crate::client::Client;
use crate::config::{self, Config, Overrides, paths};
use crate::platform;
use crate::protocol::{DiagnoseAnswer, DiagnoseRequest};
use file::File;

/// The platforms that this guide knows.
pub(super) const PLATFORMS: [&str; 1] = ["telegram"];
/// No token is longer than this.
const LONGEST_TOKEN: u64 = 4096;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It asks for missing values. With --no-input, the options must give all of them. There is no option for the token itself,\nbecause other users can see command lines.\n\nExamples:\n  hermesctl setup\n  hermesctl setup --token-file ~/token\n  pass telegram | hermesctl setup --no-input --token-file - --home-channel 123456 --allow 123456"
)]
pub struct SetupArgs {
    /// The platform to set up.
    #[arg(default_value = "telegram", value_parser = PLATFORMS)]
    pub platform: String,
    /// A file that holds the token of the bot, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<std::path::PathBuf>,
    /// The id of the chat that handoffs go to. Without it, the setup waits for a /sethome in that chat.
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub home_channel: Option<String>,
    /// The id of a person who may talk to the agent. You can repeat it.
    #[arg(long, value_name = "ID")]
    pub allow: Vec<String>,
    /// Remove the webhook of the bot, which receives all its messages. The program behind it gets no more messages.
    #[arg(long)]
    pub remove_webhook: bool,
    /// Enable and start the user service.
    #[arg(long)]
    pub enable: bool,
    /// Ask nothing.
    #[arg(long)]
    pub no_input: bool,
}

pub(super) async fn run(target: &Target, out: &Output, wish: SetupArgs) -> Result<(), CliError> {
    // Ctrl-C must restore the mode of the terminal, which dropping the future does.
    let interrupts = signal(SignalKind::interrupt());
    let mut interrupts = interrupts.map_err(|e| CliError::Other(e.to_string()))?;
    tokio::select! {
        outcome = guide(target, out, &wish) => outcome,
        _ = interrupts.recv() => Err(CliError::Failed {
            message: "interrupted".into(),
            hint: Some("the steps so far are saved: run it again to continue".into()),
        }),
    }
}

async fn guide(target: &Target, out: &Output, wish: &SetupArgs) -> Result<(), CliError> {
    let overrides = &target.overrides;
    let asks = !wish.no_input && ask::can_ask();
    let environment = config::environment(platform::schema())?;
    let home = config::home(overrides, &environment)?;
    let path = paths::file_to_write(overrides.config.as_deref(), &home, &environment);
    let path = path.ok_or_else(|| {
        refused(
            "no_place",
            "there is no directory for the configuration file",
            "name a file with --config",
        )
    })?;
    let mut file = File::open(path)?;
    let guide = Guide {
        out,
        platform: &wish.platform,
        unit: paths::unit_of(&home),
        asks,
    };
    let before = config::load(platform::schema(), overrides)?;

    let token = guide.token(&before, wish.token_file.as_deref()).await?;
    let (config, bot, mut process) = guide.checked(overrides, token.as_deref()).await?;
    if let Some(token) = &token {
        file.set(&wish.platform, "token", token);
        file.write()?;
        let path = file.path().display();
        out.line(match file.is_open_to_others() {
            true => format!("The token is in {path}, which all users can read: chmod o-r {path}"),
            false => format!("The token is in {path}, which other users cannot read."),
        })?;
    }
    if !wish.allow.is_empty() {
        file.add(&wish.platform, "allowed_users", &wish.allow);
        file.write()?;
    }
    guide.webhook(&mut process, wish.remove_webhook).await?;
    let daemon = find_daemon(&config, target.socket_is_explicit).await?;
    if let Some(client) = &daemon {
        home::reload(client, &wish.platform).await?;
    }
    let home = match &wish.home_channel {
        Some(id) => {
            file.set(&wish.platform, "home_channel", id);
            file.write()?;
            if let Some(client) = &daemon {
                home::reload(client, &wish.platform).await?;
            }
            Some(id.clone())
        }
        None if asks => Some(
            guide
                .home(process, &mut file, daemon.as_ref(), &bot)
                .await?,
        ),
        None => None,
    };
    let enabled = guide.service(wish.enable, daemon.is_some()).await?;
    out.value(&json!({
        "platform": wish.platform,
        "bot": bot,
        "config": file.path(),
        "home_channel": home,
        "service_enabled": enabled,
    }))?;
    out.line(out.styled(GOOD, "\nDone."))?;
    out.line(format!(
        "Try it:  hermesctl chat, then type /handoff {0}\nCheck it:  hermesctl doctor",
        wish.platform
    ))
}

struct Guide<'a> {
    out: &'a Output,
    platform: &'a str,
    /// The name of the service, without its ending.
    unit: String,
    asks: bool,
}

impl Guide<'_> {
    /// The token to write. `None` keeps the present one.
    async fn token(
        &self,
        config: &Config,
        given: Option<&Path>,
    ) -> Result<Option<String>, CliError> {
        if let Some(path) = given {
            return read_token(path).map(Some);
        }
        let present = config
            .platform(self.platform)
            .is_some_and(|p| p.has_credentials());
        if !self.asks {
            return match present {
                true => Ok(None),
                false => Err(refused(
                    "no_token",
                    "there is no token yet",
                    "name its file with --token-file, or run this in a terminal",
                )),
            };
        }
        self.out.line(self.out.styled(BOLD, "The bot"))?;
        if !present {
            self.out.line("In Telegram, send /newbot to @BotFather. It asks for a name and gives you a token.")?;
        }
        let question = match present {
            true => "Another token, or Enter to keep the present one:",
            false => "The token (it is not shown):",
        };
        let token = ask::secret(self.out, question).await?;
        match (token.is_empty(), present) {
            (false, _) => Ok(Some(token)),
            (true, true) => Ok(None),
            (true, false) => Err(refused(
                "no_token",
                "there is no token",
                "run this again when you have one",
            )),
        }
    }

    /// Checks the token on the platform before anything is written.
    async fn checked(
        &self,
        overrides: &Overrides,
        token: Option<&str>,
    ) -> Result<(Config, String, DiagnoseProcess), CliError> {
        let mut process = DiagnoseProcess::start(overrides)?;
        let mut overrides = overrides.clone();
        if let Some(token) = token {
            overrides.values.extend([
                ("platforms.telegram.token", token.to_owned()),
                ("platforms.telegram.enabled", "true".to_owned()),
            ]);
        }
        let config = config::load(platform::schema(), &overrides)?;
        let settings = overrides.values.into_iter();
        let request = DiagnoseRequest::Open {
            platform: self.platform.to_owned(),
            settings: settings
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        };
        let DiagnoseAnswer::Platform {
            account, findings, ..
        } = process.ask(&request).await?
        else {
            return Err(unexpected());
        };
        match (account, findings.first()) {
            (Some(bot), Some(token)) if token.grade == "good" => {
                self.out.line(format!("It is the token of {bot}."))?;
                Ok((config, bot, process))
            }
            (_, found) => {
                let message = found.map_or("the check gave no result".into(), |f| f.detail.clone());
                Err(CliError::Failed {
                    message: format!("the token was not accepted: {message}"),
                    hint: Some(
                        "nothing was written: try again with the token from @BotFather".into(),
                    ),
                })
            }
        }
    }

    /// While a webhook is set, it receives all messages. It is removed only if the person confirms it.
    async fn webhook(&self, process: &mut DiagnoseProcess, remove: bool) -> Result<(), CliError> {
        let host = match process.ask(&DiagnoseRequest::Webhook).await? {
            DiagnoseAnswer::Webhook { host: Some(host) } => host,
            DiagnoseAnswer::Webhook { host: None } => return Ok(()),
            _ => return Err(unexpected()),
        };
        self.out.line(format!(
            "A webhook at {host} receives this bot's messages, so hermesd gets none.\n\
             If you remove it, the program behind it gets none."
        ))?;
        let remove = remove || (self.asks && ask::no(self.out, "Remove it?").await?);
        if !remove {
            let again = "run this again with --remove-webhook to remove it";
            return self.out.line(format!("It stays: {again}."));
        }
        process.ask(&DiagnoseRequest::RemoveWebhook).await?;
        self.out.line("It is removed.")
    }

    async fn home(
        &self,
        mut process: DiagnoseProcess,
        file: &mut File,
        daemon: Option<&Client>,
        bot: &str,
    ) -> Result<String, CliError> {
        self.out.line(self.out.styled(BOLD, "\nThe home channel"))?;
        self.out.line(format!(
            "Handoffs go to one chat: a private chat with {bot}, or a group with it (with topics, each handoff gets its own).\n\
             Send /sethome there now."
        ))?;
        if let Some(client) = daemon {
            // Only one program can receive the bot's messages: the daemon.
            drop(process);
            return home::through_daemon(client, self.platform, file, self.out).await;
        }
        let found = home::listen(&mut process, self.out).await?;
        let chat = found.chat;
        file.set(self.platform, "home_channel", &chat);
        if let Some(name) = &found.chat_name {
            file.set(self.platform, "home_channel_name", name);
        }
        if let Some(user) = &found.user {
            file.set(self.platform, "owner", user);
            file.add(self.platform, "allowed_users", std::slice::from_ref(user));
        }
        file.write()?;
        let reply = DiagnoseRequest::Reply {
            heard: found.heard,
            text: "This is home now. Sessions that are handed off come here.".into(),
        };
        if let Err(error) = process.ask(&reply).await {
            self.out
                .line(format!("(Cannot send a confirmation to the chat: {error})"))?;
        }
        self.out.line(format!("{chat} is the home channel."))?;
        Ok(chat)
    }

    /// Enables the user service if it is wanted. Returns whether it did.
    async fn service(&self, wanted: bool, daemon_runs: bool) -> Result<bool, CliError> {
        let (service, socket) = (
            format!("{}.service", self.unit),
            format!("{}.socket", self.unit),
        );
        let known = systemctl(&["cat", &service]).await;
        if !known {
            return match wanted {
                true => Err(CliError::Failed {
                    message: format!("cannot enable {service}: it is not installed for this user"),
                    hint: Some("install a package, or run contrib/install.sh: the rest of the setup is done".into()),
                }),
                false => Ok(false),
            };
        }
        let wanted = wanted
            || (self.asks
                && !daemon_runs
                && {
                    self.out.line(self.out.styled(BOLD, "\nThe service"))?;
                    self.out.line(
                    "As a user service, hermesd starts when you log in and ends when you log out. To keep it running while you are\n\
                      logged out, run `loginctl enable-linger`.",
                )?;
                    ask::yes(self.out, "Enable and start it?").await?
                });
        if wanted && !systemctl(&["enable", "--now", &socket, &service]).await {
            return Err(CliError::Failed {
                message: "cannot enable the service".into(),
                hint: Some(format!(
                    "see `systemctl --user status {}`: the rest of the setup is done",
                    self.unit
                )),
            });
        }
        Ok(wanted)
    }
}

fn read_token(path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read = match path.as_os_str().to_str() {
        Some("-") => std::io::stdin()
            .take(LONGEST_TOKEN)
            .read_to_string(&mut text),
        _ => std::fs::File::open(path)
            .and_then(|file| file.take(LONGEST_TOKEN).read_to_string(&mut text)),
    };
    let shown = path.display();
    read.map_err(|e| {
        refused(
            "no_token",
            &format!("cannot read {shown}: {e}"),
            "nothing was written",
        )
    })?;
    match text.trim() {
        "" => Err(refused(
            "no_token",
            &format!("{shown} is empty"),
            "nothing was written",
        )),
        token => Ok(token.to_owned()),
    }
}

fn refused(kind: &str, message: &str, hint: &str) -> CliError {
    CliError::Refused {
        message: message.into(),
        hint: Some(hint.into()),
        kind: kind.into(),
    }
}

async fn systemctl(arguments: &[&str]) -> bool {
    let mut command = Command::new("systemctl");
    command
        .arg("--user")
        .args(arguments)
        .stdin(std::process::Stdio::null());
    let output = command.output().await;
    output.is_ok_and(|output| output.status.success())
}
