//! Finds the home channel on platforms that list their chats, and tries it out before it is saved.

use super::{Guide, ask, server};
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::cli::output::{BOLD, Column};
use crate::protocol::{
    DiagnoseAnswer, DiagnoseRequest, HomeChoice, HomeTrialView, PersonChoice, ServerChoice,
};

const CHATS: [Column; 5] = [
    Column::whole(""),
    Column::text("CHAT"),
    Column::text("SERVER").goes(2),
    Column::whole("KIND").goes(1),
    Column::text("PERMISSIONS"),
];

/// A home that handoffs can go to.
pub(super) struct TriedHome {
    pub(super) chat: String,
    pub(super) name: Option<String>,
}

impl Guide<'_> {
    /// The home that is wanted. On a terminal, the person chooses another one if it cannot be used.
    pub(super) async fn listed_home(
        &self,
        process: &mut DiagnoseProcess,
        servers: Vec<ServerChoice>,
        wanted: Option<&str>,
        owner: Option<&PersonChoice>,
    ) -> Result<Option<TriedHome>, CliError> {
        if !self.asks && wanted.is_none() {
            return Ok(None);
        }
        if self.asks {
            self.out.line(self.out.styled(BOLD, "\nThe home channel"))?;
        }
        if let Some(chat) = wanted {
            let home = TriedHome {
                chat: chat.to_owned(),
                name: None,
            };
            match self.try_home(process, &home, owner).await {
                Ok(()) => return Ok(Some(home)),
                Err(error) if self.asks && can_choose_again(&error) => self.out.complain(&error)?,
                Err(error) => return Err(nothing_written(error)),
            }
        }
        self.choose(process, servers, owner).await.map(Some)
    }

    async fn choose(
        &self,
        process: &mut DiagnoseProcess,
        mut servers: Vec<ServerChoice>,
        owner: Option<&PersonChoice>,
    ) -> Result<TriedHome, CliError> {
        self.out
            .line("Handoffs go to one chat. Where it has threads, each handoff gets its own.")?;
        loop {
            if let Some(server) = self.server(&servers).await?
                && let Some(home) = self.chat(process, server, owner).await?
            {
                let home = TriedHome {
                    chat: home.chat,
                    name: Some(home.name),
                };
                match self.try_home(process, &home, owner).await {
                    Ok(()) => return Ok(home),
                    Err(error) if can_choose_again(&error) => self.out.complain(&error)?,
                    Err(error) => return Err(error),
                }
                self.out
                    .line("Choose another chat, or correct this one and choose it again.")?;
            }
            servers = server::list(process).await?.unwrap_or_default();
        }
    }

    /// The server to choose from. `None`: the person wants to see the list again.
    async fn server<'a>(
        &self,
        servers: &'a [ServerChoice],
    ) -> Result<Option<&'a ServerChoice>, CliError> {
        if let [only] = servers {
            return Ok(Some(only));
        }
        let rows = servers.iter().enumerate();
        let rows = rows.map(|(at, server)| vec![(at + 1).to_string(), server.name.clone()]);
        self.out.table(
            &[Column::whole(""), Column::text("SERVER")],
            &rows.collect::<Vec<_>>(),
        )?;
        let question = "The number of the server, or Enter to look again:";
        let chosen = ask::number(self.out, question, servers.len()).await?;
        Ok(chosen.and_then(|at| servers.get(at)))
    }

    /// A chat of the server. `None`: the person wants to see the list again.
    async fn chat(
        &self,
        process: &mut DiagnoseProcess,
        server: &ServerChoice,
        owner: Option<&PersonChoice>,
    ) -> Result<Option<HomeChoice>, CliError> {
        let request = DiagnoseRequest::Homes {
            server: server.id.clone(),
            owner: owner.cloned(),
        };
        let DiagnoseAnswer::Homes { mut homes } = process.ask(&request).await? else {
            return Err(unexpected());
        };
        let is_owner = |home: &HomeChoice| owner.is_some_and(|owner| owner.id == home.chat);
        let row = |(at, home): (usize, &HomeChoice)| {
            let server = match is_owner(home) {
                true => "",
                false => &server.name,
            };
            let missing = match home.missing.is_empty() {
                true => String::new(),
                false => format!("missing: {}", home.missing.join(", ")),
            };
            vec![
                (at + 1).to_string(),
                home.name.clone(),
                server.to_owned(),
                home.kind.clone(),
                missing,
            ]
        };
        let rows: Vec<Vec<String>> = homes.iter().enumerate().map(row).collect();
        if homes.iter().all(is_owner) {
            let name = &server.name;
            self.out.line(format!(
                "The bot sees no channel on {name} that can be the home: let it view one."
            ))?;
        }
        self.out.table(&CHATS, &rows)?;
        let question = "The number of the home channel, or Enter to look again:";
        let chosen = ask::number(self.out, question, homes.len()).await?;
        Ok(chosen.map(|at| homes.swap_remove(at)))
    }

    async fn try_home(
        &self,
        process: &mut DiagnoseProcess,
        home: &TriedHome,
        owner: Option<&PersonChoice>,
    ) -> Result<(), CliError> {
        let request = DiagnoseRequest::TryHome {
            chat: home.chat.clone(),
            name: home.name.clone(),
            owner: owner.map(|owner| owner.id.clone()),
        };
        let DiagnoseAnswer::HomeTried { trial } = process.ask(&request).await? else {
            return Err(unexpected());
        };
        self.out.line(match trial {
            HomeTrialView::ThreadDeleted => "A test thread was opened and deleted.".to_owned(),
            HomeTrialView::ThreadLeft { reason } => {
                format!("A test thread was opened, but not deleted: {reason}.")
            }
            HomeTrialView::Chat { reason } => {
                format!("The chat is open. Handoffs go to the chat itself: {reason}.")
            }
        })
    }
}

/// Whether another home may work.
fn can_choose_again(error: &CliError) -> bool {
    matches!(error, CliError::Refused { .. } | CliError::Failed { .. })
}

fn nothing_written(error: CliError) -> CliError {
    match error {
        CliError::Refused { message, kind, .. } => CliError::Refused {
            message,
            hint: Some(
                "nothing was written: choose another home channel, or correct this one".into(),
            ),
            kind,
        },
        error => error,
    }
}
