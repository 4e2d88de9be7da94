//! Finding the home channel: the person says /sethome in it. Where a daemon reads the bot's messages it hears that; where none
//! does, we listen ourselves.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;

use super::ask;
use super::file::File;
use crate::cli::CliError;
use crate::cli::output::Output;
use crate::client::Client;
use crate::platform::{InboundEvent, InboundMessage, Inbox, ListenContext, Platform};
use crate::protocol::{Call, Nothing, PairingCode, PersonView, PlatformView};
use crate::store::StoreError;

const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long a daemon may take to connect with what was written.
const CONNECTS: Duration = Duration::from_secs(30);

/// Keeps what is said to be the home.
struct Listening(mpsc::Sender<InboundMessage>);

#[async_trait]
impl Inbox for Listening {
    async fn accept(&self, incoming: InboundEvent) -> Result<(), StoreError> {
        if let InboundEvent::Message(said) = incoming
            && !said.facts.from_bot
            && said
                .own_words()
                .and_then(|words| words.split_whitespace().next())
                == Some("/sethome")
        {
            let _ = self.0.send(said).await;
        }
        Ok(())
    }
}

/// Listens until somebody says so whom the person at the terminal knows.
pub(super) async fn listen(
    platform: &dyn Platform,
    out: &Output,
) -> Result<InboundMessage, CliError> {
    platform.connect().await.map_err(failed)?;
    let (sender, mut said) = mpsc::channel(16);
    let line = ListenContext {
        inbox: Arc::new(Listening(sender)),
        alive: Box::new(|| {}),
    };
    let listening = platform.listen(&line);
    tokio::pin!(listening);
    loop {
        let said = tokio::select! {
            said = said.recv() => said,
            error = &mut listening => return Err(failed(error)),
        };
        let Some(said) = said else {
            return Err(CliError::Other("nobody listens any more".into()));
        };
        let name = said.source.user_name.as_deref().unwrap_or("somebody");
        let chat = said.source.chat_name.as_deref().unwrap_or("a chat");
        let id = said.source.user_id.as_deref().unwrap_or("unknown");
        if ask::yes(
            out,
            &format!("{name} (id {id}) says so in {chat}. Is that you?"),
        )
        .await?
        {
            return Ok(said);
        }
        out.line("Then it does not count. Waiting for another /sethome…")?;
    }
}

/// The daemon reads what was written and connects.
pub(super) async fn reload(client: &Client, platform: &str) -> Result<(), CliError> {
    let pid = i32::try_from(client.server().pid).unwrap_or_default();
    kill(Pid::from_raw(pid), Signal::SIGHUP).map_err(|error| CliError::Failed {
        message: format!("the daemon (process {pid}) could not be told to read its configuration: {error}"),
        hint: Some("`systemctl reload hermesd` does it, as root for the system's service; then run this again".into()),
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

fn failed(error: crate::platform::PlatformError) -> CliError {
    CliError::Failed {
        message: error.to_string(),
        hint: Some("what was written so far stays; run this again".into()),
    }
}
