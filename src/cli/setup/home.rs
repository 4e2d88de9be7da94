//! Finding the home channel: the person says /sethome in it. Where a daemon reads the bot's messages it hears that; where none
//! does, `hermesd diagnose` listens.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ask;
use super::file::File;
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::cli::output::Output;
use crate::client::Client;
use crate::config::paths;
use crate::protocol::{
    Call, DiagnoseAnswer, DiagnoseRequest, Nothing, PairingCode, PersonView, PlatformView,
};

const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long a daemon may take to connect with what was written.
const CONNECTS: Duration = Duration::from_secs(30);

/// A chat in which a person has said /sethome.
pub(super) struct FoundHome {
    /// The number that a reply to the chat takes.
    pub(super) heard: usize,
    pub(super) chat: String,
    pub(super) chat_name: Option<String>,
    pub(super) user: Option<String>,
}

/// Listens until a person says /sethome whom the person at the terminal knows.
pub(super) async fn listen(
    process: &mut DiagnoseProcess,
    out: &Output,
) -> Result<FoundHome, CliError> {
    process.send(&DiagnoseRequest::Listen).await?;
    loop {
        let answer = process.answer().await.map_err(|error| CliError::Failed {
            message: error.to_string(),
            hint: Some("what was written so far stays; run this again".into()),
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
            "{} (id {}) says so in {}. Is that you?",
            user_name.as_deref().unwrap_or("somebody"),
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
        out.line("Then it does not count. Waiting for another /sethome…")?;
    }
}

/// The daemon reads what was written and connects.
pub(super) async fn reload(client: &Client, platform: &str) -> Result<(), CliError> {
    let pid = i32::try_from(client.server().pid).unwrap_or_default();
    kill(Pid::from_raw(pid), Signal::SIGHUP).map_err(|error| CliError::Failed {
        message: format!("the daemon (process {pid}) could not be told to read its configuration: {error}"),
        hint: Some(format!(
            "`systemctl --user reload {}` does it, or `systemctl reload hermesd` as root for the system's service; then run this again",
            paths::unit_of(Path::new(&client.server().home))
        )),
    })?;
    let connected = async {
        loop {
            let now = standing(client, platform).await?;
            if now.state == "up" {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    match tokio::time::timeout(CONNECTS, connected).await {
        Ok(outcome) => outcome,
        Err(_) => Err(CliError::TimedOut {
            message: format!("{platform} did not come up"),
            hint: Some("see `hermesctl platforms`, and the daemon's log".into()),
        }),
    }
}

/// Waits until the daemon has heard a /sethome. The person gets in with the code that the bot gives them, and owns the bot
/// from then on unless it has an owner.
pub(super) async fn through_daemon(
    client: &Client,
    platform: &str,
    file: &mut File,
    out: &Output,
) -> Result<String, CliError> {
    let before = standing(client, platform).await?.home_channel;
    loop {
        let code = ask::line(
            out,
            "If the bot gives you a code, type it here; press Enter when it says that this is home:",
        )
        .await?;
        if !code.is_empty() {
            let call = Call::PairApprove(PairingCode { code });
            match client.call::<PersonView>(call).await {
                Ok(person) => {
                    own(client, platform, file, &person.user).await?;
                    let name = person.name.unwrap_or(person.user);
                    out.line(format!(
                        "{name} may talk to the agent. Now say /sethome once more."
                    ))?;
                }
                Err(error) => out.complain(&CliError::from(error))?,
            }
            continue;
        }
        let now = standing(client, platform).await?.home_channel;
        match now {
            Some(home) if Some(&home) != before.as_ref() => return Ok(home),
            Some(home) if ask::yes(out, &format!("It is still {home}. Keep that?")).await? => {
                return Ok(home);
            }
            _ => out.line("Nothing was heard yet. Say /sethome in the chat that is to be home.")?,
        }
    }
}

/// Makes the person the owner where there is none, and waits until the daemon knows.
async fn own(client: &Client, platform: &str, file: &mut File, user: &str) -> Result<(), CliError> {
    if standing(client, platform).await?.owner.is_some() {
        return Ok(());
    }
    file.set(platform, "owner", user);
    file.write()?;
    reload(client, platform).await?;
    let known = async {
        while standing(client, platform).await?.owner.is_none() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    };
    match tokio::time::timeout(CONNECTS, known).await {
        Ok(outcome) => outcome,
        Err(_) => Err(CliError::TimedOut {
            message: format!("the daemon does not know the owner of {platform} yet"),
            hint: Some("see its log, and `hermesctl doctor`".into()),
        }),
    }
}

async fn standing(client: &Client, platform: &str) -> Result<PlatformView, CliError> {
    let all: Vec<PlatformView> = client.call(Call::PlatformList(Nothing {})).await?;
    let found = all.into_iter().find(|p| p.name == platform);
    found.ok_or_else(|| CliError::Other(format!("the daemon knows no {platform}")))
}
