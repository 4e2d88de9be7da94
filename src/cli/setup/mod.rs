//! Invoked by `hermesctl setup`.
//!
//! Guides you from a new bot to the first handoff. On a terminal, each step is saved before the next begins, so you can
//! stop and continue later. Without one, nothing is written before all of it is checked.

pub(super) mod ask;
mod file;
mod home;
mod listed_home;
mod owner;
mod qr;
mod server;
mod service;
mod token;
mod webhook;

use clap::builder::PossibleValuesParser;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::CliError;
use super::backend::{Target, find_daemon};
use super::output::{GOOD, Output};
use crate::config::{self, PlatformDescriptor, paths};
use crate::platform;
use crate::protocol::PersonChoice;
use file::File;
use token::SignedIn;

/// The platforms that this guide knows: those that have an adapter, and sign in with tokens.
pub(super) fn platforms() -> Vec<&'static str> {
    let known = platform::DESCRIPTORS.iter().filter(|descriptor| {
        let sets = descriptor.credentials;
        platform::has_adapter(descriptor.name) && sets.first().is_some_and(|set| !set.is_empty())
    });
    known.map(|descriptor| descriptor.name).collect()
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "It asks for missing values. With --no-input, the options must give all of them. There is no option for the token itself,\nbecause other users can see command lines.\n\nExamples:\n  hermesctl setup\n  hermesctl setup discord\n  hermesctl setup --token-file ~/token\n  pass telegram | hermesctl setup --no-input --token-file - --home-channel 123456 --allow 123456"
)]
pub struct SetupArgs {
    /// The platform to set up.
    #[arg(default_value = "telegram", value_parser = PossibleValuesParser::new(platforms()))]
    pub platform: String,
    /// A file that holds the token of the bot, or `-` for standard input. If the platform has several tokens, repeat it
    /// in the order in which the setup asks for them.
    #[arg(long, value_name = "FILE")]
    pub token_file: Vec<std::path::PathBuf>,
    /// Print the definition of the app for the platform's site, and end.
    #[arg(long)]
    pub manifest: bool,
    /// The id of the chat that handoffs go to. Without it, you choose from a list, or the setup waits for a /sethome in
    /// that chat.
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    pub home_channel: Option<String>,
    /// The id of the person who owns the bot. That person may talk to the agent too.
    #[arg(long, value_name = "ID")]
    pub owner: Option<String>,
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
    let name = wish.platform.as_str();
    let mut descriptors = platform::DESCRIPTORS.iter();
    let descriptor = descriptors.find(|descriptor| descriptor.name == name);
    let guide = Guide {
        out,
        descriptor: descriptor.ok_or_else(|| CliError::Other(format!("no platform {name}")))?,
        unit: paths::unit_of(&home),
        asks: !wish.no_input && ask::can_ask(),
    };

    if wish.manifest {
        return guide.print_manifest();
    }
    let SignedIn {
        tokens,
        config,
        bot,
        mut process,
    } = guide.sign_in(overrides, &wish.token_file).await?;
    for (setting, token) in &tokens {
        file.set(name, setting, token);
    }
    if !wish.allow.is_empty() {
        file.add(name, "allowed_users", &wish.allow);
    }
    guide.save(&mut file, !tokens.is_empty())?;
    guide.webhook(&mut process, wish.remove_webhook).await?;
    let can_connect = guide.clear_obstacles(&mut process).await?;
    let servers = guide.servers(&mut process, &bot).await?;

    let present = config.platform(name).and_then(|p| p.access.owner());
    let owner = match &wish.owner {
        Some(id) => Some(guide.named_owner(&mut process, id).await?),
        None if guide.asks && servers.is_some() => {
            guide.ask_for_owner(&mut process, present).await?
        }
        None => None,
    };
    if let Some(owner) = &owner {
        file.set(name, "owner", &owner.id);
        file.add(name, "allowed_users", std::slice::from_ref(&owner.id));
        guide.save(&mut file, false)?;
    }

    let daemon = find_daemon(&config, target.socket_is_explicit).await?;
    let mut reloads = daemon.is_some();
    let home = match (servers, &wish.home_channel) {
        (Some(servers), wanted) => {
            let present = present.map(|id| PersonChoice {
                id: id.to_owned(),
                name: id.to_owned(),
            });
            // A person who says no at the terminal has no owner.
            let owner = owner.or(present.filter(|_| !guide.asks));
            let home = guide
                .listed_home(&mut process, servers, wanted.as_deref(), owner.as_ref())
                .await?;
            if let Some(home) = &home {
                file.set_home(name, &home.chat, home.name.as_deref());
                let shown = home.name.as_ref().unwrap_or(&home.chat);
                out.line(format!("{shown} is the home channel."))?;
            }
            home.map(|home| home.chat)
        }
        (None, Some(id)) => {
            file.set(name, "home_channel", id);
            Some(id.clone())
        }
        (None, None) if guide.asks => {
            if let Some(client) = &daemon {
                home::reload(client, name).await?;
            }
            reloads = false;
            let home = guide.heard_home(process, &mut file, daemon.as_ref(), &bot);
            Some(home.await?)
        }
        (None, None) => None,
    };
    file.write()?;
    if !guide.asks && !tokens.is_empty() {
        guide.say_where(&file)?;
    }
    match &daemon {
        Some(client) if reloads && can_connect => home::reload(client, name).await?,
        Some(client) if reloads => home::signal_reload(client)?,
        _ => {}
    }
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
        "Try it:  hermesctl chat, then type /handoff {name}\nCheck it:  hermesctl doctor"
    ))
}

struct Guide<'a> {
    out: &'a Output,
    descriptor: &'static PlatformDescriptor,
    /// The name of the service, without its ending.
    unit: String,
    /// Whether a person at a terminal answers questions.
    asks: bool,
}

impl Guide<'_> {
    /// Saves a step of a person. A script is saved as a whole at its end.
    fn save(&self, file: &mut File, has_token: bool) -> Result<(), CliError> {
        if !self.asks {
            return Ok(());
        }
        file.write()?;
        match has_token {
            true => self.say_where(file),
            false => Ok(()),
        }
    }

    fn say_where(&self, file: &File) -> Result<(), CliError> {
        let path = file.path().display();
        self.out.line(match file.is_open_to_others() {
            true => format!("The token is in {path}, which all users can read: chmod o-r {path}"),
            false => format!("The token is in {path}, which other users cannot read."),
        })
    }
}

fn refused(kind: &str, message: &str, hint: &str) -> CliError {
    CliError::Refused {
        message: message.into(),
        hint: Some(hint.into()),
        kind: kind.into(),
    }
}
