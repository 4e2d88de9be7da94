//! Brings the bot to a server: what a person has to switch on for it, and the invitation.

use std::time::Duration;

use super::{Guide, ask, qr, refused};
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::cli::output::{BAD, BOLD, FAINT};
use crate::protocol::{DiagnoseAnswer, DiagnoseRequest, ServerChoice};

/// The time between two looks whether the bot is on a server.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How many looks in a row may fail.
const FAILURES: usize = 5;

impl Guide<'_> {
    /// Waits until the person has changed on the platform what the bot needs. Returns whether the bot can connect: a
    /// person may skip it.
    pub(super) async fn clear_obstacles(
        &self,
        process: &mut DiagnoseProcess,
    ) -> Result<bool, CliError> {
        loop {
            let DiagnoseAnswer::Findings { findings } =
                process.ask(&DiagnoseRequest::Obstacles).await?
            else {
                return Err(unexpected());
            };
            let Some(first) = findings.first() else {
                return Ok(true);
            };
            if !self.asks {
                let remedy = first.remedy.as_deref().unwrap_or("try again");
                let hint = format!("nothing was written: {remedy}, then run this again");
                return Err(refused("not_ready", &first.detail, &hint));
            }
            for finding in &findings {
                self.out
                    .line(format!("{} {}", self.out.styled(BAD, "✗"), finding.detail))?;
                if let Some(remedy) = &finding.remedy {
                    self.out
                        .line(self.out.styled(FAINT, &format!("    → {remedy}")))?;
                }
            }
            let question = "Press Enter to check again, or type skip to do it later (the bot cannot connect until then):";
            if ask::line(self.out, question).await? == "skip" {
                return Ok(false);
            }
        }
    }

    /// The servers that the bot is on. `None`: a /sethome names the home. On a terminal, it waits until the bot is on
    /// one.
    pub(super) async fn servers(
        &self,
        process: &mut DiagnoseProcess,
        bot: &str,
    ) -> Result<Option<Vec<ServerChoice>>, CliError> {
        let Some(servers) = list(process).await? else {
            return Ok(None);
        };
        let link = match process.ask(&DiagnoseRequest::Invitation).await? {
            DiagnoseAnswer::Invitation { link } => link,
            _ => return Err(unexpected()),
        };
        if self.asks {
            self.out.line(self.out.styled(BOLD, "\nThe server"))?;
        }
        if !servers.is_empty() {
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            self.out
                .line(format!("{bot} is on {}.", names.join(", ")))?;
            if let Some(link) = link {
                self.out
                    .line(format!("This link invites it to another server:\n{link}"))?;
            }
            return Ok(Some(servers));
        }
        let link = link.unwrap_or_default();
        if !self.asks {
            return Err(refused(
                "no_server",
                &format!("{bot} is on no server yet"),
                &format!(
                    "nothing was written: open {link} and choose a server, then run this again"
                ),
            ));
        }
        self.out.line(format!(
            "{bot} is on no server yet. Open this link and choose a server:\n{link}"
        ))?;
        qr::print(self.out, &link)?;
        self.out
            .line("Waiting until it is there… Ctrl-C ends it.")?;
        let servers = until_invited(process).await?;
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        self.out
            .line(format!("{bot} is on {} now.", names.join(", ")))?;
        Ok(Some(servers))
    }
}

pub(super) async fn list(
    process: &mut DiagnoseProcess,
) -> Result<Option<Vec<ServerChoice>>, CliError> {
    match process.ask(&DiagnoseRequest::Servers).await? {
        DiagnoseAnswer::Servers { servers } => Ok(servers),
        _ => Err(unexpected()),
    }
}

async fn until_invited(process: &mut DiagnoseProcess) -> Result<Vec<ServerChoice>, CliError> {
    let mut failures = 0;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        match list(process).await {
            Ok(servers) => {
                failures = 0;
                let servers = servers.unwrap_or_default();
                if !servers.is_empty() {
                    return Ok(servers);
                }
            }
            // The network may fail while a person looks for their phone.
            Err(CliError::Failed { .. }) if failures < FAILURES => failures += 1,
            Err(error) => return Err(error),
        }
    }
}
