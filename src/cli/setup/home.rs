//! Finds the home channel: the chat in which the person sends /sethome. A daemon receives it if one runs. Otherwise
//! `hermesd diagnose` listens.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::file::File;
use super::{Guide, ask};
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::cli::output::{BOLD, Output};
use crate::client::Client;
use crate::config::paths;
use crate::protocol::{
    Call, DiagnoseAnswer, DiagnoseRequest, Nothing, PairingCode, PersonView, PlatformView,
};

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The time that the daemon has to connect with the new settings.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A chat in which a person has sent /sethome.
struct FoundHome {
    /// The number of the chat in `DiagnoseRequest::Reply`.
    heard: usize,
    chat: String,
    chat_name: Option<String>,
    user: Option<String>,
}

impl Guide<'_> {
    /// The chat in which the person sends /sethome.
    pub(super) async fn heard_home(
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
            return through_daemon(client, self.descriptor.name, file, self.out).await;
        }
        let found = listen(&mut process, self.out).await?;
        let chat = found.chat;
        file.set(self.descriptor.name, "home_channel", &chat);
        if let Some(name) = &found.chat_name {
            file.set(self.descriptor.name, "home_channel_name", name);
        }
        if let Some(user) = &found.user {
            file.set(self.descriptor.name, "owner", user);
            file.add(
                self.descriptor.name,
                "allowed_users",
                std::slice::from_ref(user),
            );
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
}

/// Listens for /sethome until the person at the terminal confirms one.
async fn listen(process: &mut DiagnoseProcess, out: &Output) -> Result<FoundHome, CliError> {
    process.send(&DiagnoseRequest::Listen).await?;
    loop {
        let answer = process.answer().await.map_err(|error| CliError::Failed {
            message: error.to_string(),
            hint: Some("the steps before this one are saved: run it again to continue".into()),
        })?;
        let DiagnoseAnswer::Heard {
            heard,
            chat,
            chat_name,
            user,
            user_name,
        } = answer
        else {
            return Err(unexpected());
        };
        let question = format!(
            "{} (id {}) sent /sethome in {}. Is that you?",
            user_name.as_deref().unwrap_or("a person without a name"),
            user.as_deref().unwrap_or("unknown"),
            chat_name.as_deref().unwrap_or("a chat")
        );
        if ask::yes(out, &question).await? {
            return Ok(FoundHome {
                heard,
                chat,
                chat_name,
                user,
            });
        }
        out.line("Ignored. Waiting for another /sethome…")?;
    }
}

/// Lets the daemon reload the configuration.
pub(super) fn signal_reload(client: &Client) -> Result<(), CliError> {
    let pid = i32::try_from(client.server().pid).unwrap_or_default();
    kill(Pid::from_raw(pid), Signal::SIGHUP).map_err(|error| CliError::Failed {
        message: format!("cannot signal the daemon (process {pid}) to reload its configuration: {error}"),
        hint: Some(format!(
            "run `systemctl --user reload {}`, or `systemctl reload hermesd` as root for the system service, then run this again",
            paths::unit_of(Path::new(&client.server().home))
        )),
    })
}

/// Lets the daemon reload the configuration, and waits until the platform is up.
pub(super) async fn reload(client: &Client, platform: &str) -> Result<(), CliError> {
    signal_reload(client)?;
    let connected = async {
        loop {
            let now = platform_view(client, platform).await?;
            if now.state == "up" {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, connected).await {
        Ok(outcome) => outcome,
        Err(_) => Err(CliError::TimedOut {
            message: format!(
                "{platform} did not come up within {} s",
                CONNECT_TIMEOUT.as_secs()
            ),
            hint: Some("see `hermesctl platforms` and the daemon's log".into()),
        }),
    }
}

/// Waits until the daemon has received a /sethome. A person without access gets a code from the bot, and enters it
/// here. That person becomes the owner of the bot if it has none.
async fn through_daemon(
    client: &Client,
    platform: &str,
    file: &mut File,
    out: &Output,
) -> Result<String, CliError> {
    let before = platform_view(client, platform).await?.home_channel;
    loop {
        let code = ask::line(
            out,
            "If the bot sends you a code, type it here. Press Enter when the bot confirms the home channel:",
        )
        .await?;
        if !code.is_empty() {
            let call = Call::PairApprove(PairingCode { code });
            match client.call::<PersonView>(call).await {
                Ok(person) => {
                    set_owner(client, platform, file, &person.user).await?;
                    let name = person.name.unwrap_or(person.user);
                    out.line(format!(
                        "{name} may talk to the agent. Now send /sethome again."
                    ))?;
                }
                Err(error) => out.complain(&CliError::from(error))?,
            }
            continue;
        }
        let now = platform_view(client, platform).await?.home_channel;
        match now {
            Some(home) if Some(&home) != before.as_ref() => return Ok(home),
            Some(home) if ask::yes(out, &format!("It is still {home}. Keep it?")).await? => {
                return Ok(home);
            }
            _ => out.line(
                "No /sethome has arrived yet. Send it in the chat that becomes the home channel.",
            )?,
        }
    }
}

/// Makes the person the owner if there is none, and waits until the daemon knows.
async fn set_owner(
    client: &Client,
    platform: &str,
    file: &mut File,
    user: &str,
) -> Result<(), CliError> {
    if platform_view(client, platform).await?.owner.is_some() {
        return Ok(());
    }
    file.set(platform, "owner", user);
    file.write()?;
    reload(client, platform).await?;
    let known = async {
        while platform_view(client, platform).await?.owner.is_none() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    };
    match tokio::time::timeout(CONNECT_TIMEOUT, known).await {
        Ok(outcome) => outcome,
        Err(_) => Err(CliError::TimedOut {
            message: format!("the daemon does not know the owner of {platform} yet"),
            hint: Some("see the daemon's log and `hermesctl doctor`".into()),
        }),
    }
}

async fn platform_view(client: &Client, platform: &str) -> Result<PlatformView, CliError> {
    let all: Vec<PlatformView> = client.call(Call::PlatformList(Nothing {})).await?;
    let found = all.into_iter().find(|p| p.name == platform);
    found
        .ok_or_else(|| CliError::Other(format!("the daemon does not know the platform {platform}")))
}
